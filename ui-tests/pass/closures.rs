//! `ms::jit` on functions and closures that capture nothing.
use ms::prelude::*;

fn sum(x: &Tensor, y: &Tensor) -> Tensor {
    ops::add(x, y)
}

#[test]
fn main() {
    let x = Tensor::scalar(2.0);
    let (f, g) = (ms::jit(sum), ms::jit(|x: &Tensor| sum(x, &sum(x, x))));
    assert_eq!(f(&x, &x).item::<f32>(), 4.0);
    assert_eq!(g(&x).item::<f32>(), 6.0);
}
