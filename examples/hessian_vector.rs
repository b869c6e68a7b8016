//! Hessian-vector products without the Hessian: the directional derivative of the gradient. Power iteration uses them
//! to find the largest curvature.
//!
//! `cargo run --release --example hessian_vector`

use ms::prelude::*;

/// `x^T A x / 2 + sum(x^4) / 12`; the Hessian is `A + diag(x^2)`, with `A = diag(1, 2, 3) + 1`.
fn energy(x: &Tensor) -> Tensor {
    let quadratic = (tensor![1., 2., 3.] * x.square()).sum(()) + x.sum(()).square();
    0.5 * quadratic + x.square().square().sum(()) / 12.0
}

/// Computes the product of the Hessian at `x` and `v`.
#[jit]
fn product(x: &Tensor, v: &Tensor) -> Tensor {
    ms::jvp(ms::grad(energy))(x, v).1
}

fn main() {
    let x = tensor![1., 0., -1.];
    assert_eq!(product(&x, &tensor![1., 0., 0.]).to_vec::<f32>(), [3., 1., 1.]);
    assert_eq!(product(&x, &tensor![0., 0., 1.]).to_vec::<f32>(), [1., 1., 5.]);

    let (mut v, mut curvature) = (Tensor::ones([3]), Tensor::scalar(0.0));
    for _ in 0..100 {
        let w = product(&x, &v);
        curvature = w.norm(2.0, ());
        v = w / &curvature;
    }
    println!("largest curvature {curvature}, in the direction {v}");
    // The eigenvalues of the Hessian [[3, 1, 1], [1, 3, 1], [1, 1, 5]] are 2, 3 and 6.
    assert!((product(&x, &v) - &curvature * &v).abs().max(()).item::<f32>() < 1e-4);
    assert!((curvature.item::<f32>() - 6.0).abs() < 1e-4);
}
