//! Tests derivatives that users define: `custom_jvp`, and `custom_vjp` by residuals.

use super::{both, check};
use ms::custom::{Type, Vjp};
use ms::prelude::*;
use ms::{Code, catch};

/// Computes `x³` with half its tangent.
fn half(x: &Tensor) -> Tensor {
    ms::custom_jvp(|x: &Tensor| x * x * x, |x: &Tensor, _: &Tensor, (dx,): &(Tensor,)| dx * x * x * 1.5)(x)
}

/// Computes `e^x`, with a tangent from its result.
fn exp(x: &Tensor) -> Tensor {
    ms::custom_jvp(|x: &Tensor| x.exp(), |_: &Tensor, y: &Tensor, (dx,): &(Tensor,)| dx * y)(x)
}

/// Computes `x @ w` times a captured factor, with a tangent that is ten times too large.
fn product(x: &Tensor, w: &Tensor, factor: &Tensor) -> Tensor {
    let tangent =
        |x: &Tensor, w: &Tensor, _: &Tensor, (dx, dw): &(Tensor, Tensor)| (dx.matmul(w) + x.matmul(dw)) * factor * 10.0;
    ms::custom_jvp(|x: &Tensor, w: &Tensor| x.matmul(w) * factor, tangent)(x, w)
}

/// Computes `sin x` with the gradient `2 cos x`. The cosine is a residual.
fn sine(x: &Tensor) -> Tensor {
    ms::custom_vjp_with_residuals(|x: &Tensor| (x.sin(), x.cos()), |cos: &Tensor, g: &Tensor| (g * cos * 2.0,))(x)
}

#[test]
fn tangents() {
    let x = || tensor![1.0, 2.0];
    both!("custom_jvp", half, x(), [1.0, 8.0]);
    both!("its tangent", |x| ms::jvp(half)(x, x).1, x(), [1.5, 12.0]);
    both!("its gradient", |x| ms::grad(half)(x), x(), [1.5, 6.0]);
    both!("its second one", |x| ms::grad(ms::grad(half))(x), x(), [3.0, 6.0]);
    both!("tangent of its gradient", |x| ms::jvp(ms::grad(half))(x, x).1, x(), [3.0, 12.0]);
    both!("vmap of its gradient", |x| ms::vmap(ms::grad(half))(x), x(), [1.5, 6.0]);
    both!("gradient of its vmap", |x| ms::grad(ms::vmap(half))(x), x(), [1.5, 6.0]);
    let e = 1f32.exp();
    both!("by its result", |x| ms::grad(ms::grad(exp))(x), tensor![1.0], [e]);
    both!("rows", |x| ms::jacrev(half)(x), x(), [1.5, 0.0, 0.0, 6.0]);
    both!("columns", |x| ms::jacfwd(half)(x), x(), [1.5, 0.0, 0.0, 6.0]);
    let by = |x: &Tensor| product(x, &tensor![[3.0], [4.0]], &tensor![2.0]);
    assert_eq!(by(&tensor![[1.0, 2.0]]).to_vec::<f32>(), [22.0]);
    assert_eq!(ms::grad(by)(&tensor![[1.0, 2.0]]).to_vec::<f32>(), [60.0, 80.0]);
    let of_weight = |w: &Tensor| product(&tensor![[1.0, 2.0]], w, &tensor![2.0]);
    assert_eq!(ms::grad(of_weight)(&tensor![[3.0], [4.0]]).to_vec::<f32>(), [20.0, 40.0]);
}

#[test]
fn residuals() {
    let x = || tensor![0.5, 1.0];
    let (sin, cos) = ([0.5f32.sin(), 1f32.sin()], [0.5f32.cos(), 1f32.cos()]);
    both!("residuals", sine, x(), sin);
    both!("its gradient", |x| ms::grad(sine)(x), x(), cos.map(|it| 2.0 * it));
    // The derivative of the residual is the derivative of the cosine.
    both!("its second one", |x| ms::grad(ms::grad(sine))(x), x(), sin.map(|it| -2.0 * it));
    both!("its tangent", |x| ms::jvp(sine)(x, x).1, x(), [cos[0], 2.0 * cos[1]]);
    both!("tangent of its gradient", |x| ms::jvp(ms::grad(sine))(x, x).1, x(), [-sin[0], -2.0 * sin[1]]);
    both!("vmap of its gradient", |x| ms::vmap(ms::grad(sine))(x), x(), cos.map(|it| 2.0 * it));
    both!("gradient of its vmap", |x| ms::grad(ms::vmap(sine))(x), x(), cos.map(|it| 2.0 * it));
    both!("with a residual", |x| ms::grad(|x: &Tensor| sine(x) * x)(x), tensor![0.0], [0.0]);
}

/// A cell with a custom derivative for its parameter.
#[cell]
struct Scaled {
    weight: Parameter,
}

#[cell]
impl Scaled {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * &self.weight
    }
}

#[test]
fn cells_are_arguments() {
    let net = Scaled { weight: Parameter::new(tensor![2.0, 3.0], "weight") };
    let by_residuals = |net: &Scaled, x: &Tensor| {
        let forward = |net: &Scaled, x: &Tensor| (net.call(x), (x.clone(), net.weight.value()));
        let backward = |(x, weight): &(Tensor, Tensor), g: &Tensor| {
            (ms::Gradients::new(Vec::new(), vec![g * x * 10.0]), g * weight)
        };
        ms::custom_vjp_with_residuals(forward, backward)(net, x).sum(())
    };
    let x = tensor![4.0, 5.0];
    let gradients = ms::grad(by_residuals)(&net, &x);
    assert_eq!(gradients.get(&net.weight).expect("it is trained").to_vec::<f32>(), [40.0, 50.0]);
    let by_tangent = |net: &Scaled, x: &Tensor| {
        let tangent = |net: &Scaled, x: &Tensor, _: &Tensor, (dnet, dx): &(ms::Gradients, Tensor)| {
            let dweight = dnet.get(&net.weight).expect("it is trained");
            dx * &net.weight + x * dweight * 10.0
        };
        ms::custom_jvp(|net: &Scaled, x: &Tensor| net.call(x), tangent)(net, x).sum(())
    };
    let gradients = ms::grad(by_tangent)(&net, &x);
    assert_eq!(gradients.get(&net.weight).expect("it is trained").to_vec::<f32>(), [40.0, 50.0]);
}

#[test]
fn refusals() {
    let x = tensor![1.0, -2.0];
    type Case = (Code, &'static str, fn(&Tensor) -> Tensor);
    let cases: [Case; 6] = [
        (Code::CustomTangent, "not linear", |x| {
            ms::custom_jvp(|x: &Tensor| x * x, |_: &Tensor, _: &Tensor, (dx,): &(Tensor,)| dx * dx)(x)
        }),
        (Code::CustomTangent, "not linear", |x| {
            ms::custom_jvp(|x: &Tensor| x.abs(), |_: &Tensor, _: &Tensor, (dx,): &(Tensor,)| dx.abs())(x)
        }),
        (Code::CustomTangent, "not linear", |x| {
            ms::custom_jvp(|x: &Tensor| x * x, |x: &Tensor, _: &Tensor, (dx,): &(Tensor,)| dx * x + 1.0)(x)
        }),
        (Code::CustomTangent, "not linear", |x| {
            ms::custom_jvp(|x: &Tensor| x.abs(), |x: &Tensor, _: &Tensor, (dx,): &(Tensor,)| dx.sign() * x)(x)
        }),
        (Code::Shape, "the tangent of a result of f32[2] cannot be f32[]", |x| {
            ms::custom_jvp(|x: &Tensor| x * x, |_: &Tensor, _: &Tensor, (dx,): &(Tensor,)| dx.sum(()))(x)
        }),
        (Code::Shape, "custom_vjp", |x| {
            let backward = |_: &Tensor, g: &Tensor| (g.sum(()),);
            ms::custom_vjp_with_residuals(|x: &Tensor| (x * x, x.clone()), backward)(x)
        }),
    ];
    for (at, (code, words, f)) in cases.into_iter().enumerate() {
        let error = catch(|| ms::grad(|x: &Tensor| f(x))(&x)).expect_err("it is refused");
        let said = error.to_string();
        assert_eq!(error.code(), code, "case {at}: {said}");
        assert!(said.contains(words) && said.contains("custom_tangents.rs"), "case {at}: {said}");
    }
}

/// Forward mode transposes reverse-mode derivatives, which works only if they are linear.
#[test]
fn reverse_derivatives_without_a_transpose_are_refused_in_forward_mode() {
    ms::custom_op! {
        fn clipped_square(x: &Tensor) -> Tensor;

        fn types(x: &Type) -> Type {
            x.clone()
        }

        fn run(x: &[f32], y: &mut [f32]) {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x);
        }

        fn derivative(it: &Vjp<'_>) -> Tensor {
            (it.cotangent() * &it.inputs[0] * 2.0).clamp(-1.0, 1.0)
        }
    }
    type Case = fn(&Tensor) -> Tensor;
    let cases: [(Case, f32); 8] = [
        (
            |x| {
                ms::custom_vjp(
                    |x: &Tensor| x * x,
                    |x: &Tensor, _: &Tensor, g: &Tensor| ((x * g * 2.0).clamp(-1.0, 1.0),),
                )(x)
            },
            1.0,
        ),
        (
            |x| {
                let backward = |x: &Tensor, g: &Tensor| (x * g.abs(),);
                ms::custom_vjp_with_residuals(|x: &Tensor| (x * x, x.clone()), backward)(x)
            },
            3.0,
        ),
        (|x| ms::custom_vjp(|x: &Tensor| x * x, |x: &Tensor, _: &Tensor, g: &Tensor| (x * g * 2.0 + 1.0,))(x), 7.0),
        (|x| ms::custom_vjp(|x: &Tensor| x * x, |x: &Tensor, _: &Tensor, _: &Tensor| (x * 2.0,))(x), 6.0),
        (|x| ms::custom_vjp(|x: &Tensor| x * x, |x: &Tensor, _: &Tensor, g: &Tensor| (x * g.sign(),))(x), 3.0),
        (
            |x| {
                ms::custom_vjp(
                    |x: &Tensor| x * x,
                    |x: &Tensor, _: &Tensor, g: &Tensor| (x * ms::ops::stop_gradient(g),),
                )(x)
            },
            3.0,
        ),
        (
            |x| {
                ms::custom_vjp(
                    |x: &Tensor| x * x,
                    |x: &Tensor, _: &Tensor, g: &Tensor| (x * ms::ops::remainder(g, 0.75),),
                )(x)
            },
            0.75,
        ),
        (clipped_square, 1.0),
    ];
    let x = tensor![3.0];
    for (at, (f, gradient)) in cases.into_iter().enumerate() {
        assert_eq!(ms::grad(|x: &Tensor| f(x).sum(()))(&x).to_vec::<f32>(), [gradient], "case {at}");
        let error = catch(|| ms::jvp(|x: &Tensor| f(x))(&x, &tensor![1.0])).expect_err("it has no transpose");
        let said = error.to_string();
        assert_eq!(error.code(), Code::CustomTangent, "case {at}: {said}");
        assert!(said.contains("custom_tangents.rs"), "case {at}: {said}");
    }
}
