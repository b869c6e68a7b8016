//! Tests derivatives that users define: `custom_vjp`, `bprop`, `recompute` and `stop_gradient`.

use super::{both, check};
use ms::Context;
use ms::prelude::*;

/// Computes the square, with a gradient that is ten times the true one.
fn tenfold(x: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| x * x, |x: &Tensor, _: &Tensor, g: &Tensor| (g * x * 20.0,))(x)
}

fn kept_short(x: &Tensor) -> Tensor {
    ms::recompute(|x: &Tensor| (x * x).exp())(x)
}

#[test]
fn user_defined_derivatives() {
    let x = || tensor![1.0, 2.0];
    both!("custom_vjp", tenfold, x(), [1.0, 4.0]);
    both!("its gradient", |x| ms::grad(tenfold)(x), x(), [20.0, 40.0]);
    both!("its second one", |x| ms::grad(ms::grad(tenfold))(x), x(), [20.0, 20.0]);
    both!("its tangent", |x| ms::jvp(tenfold)(x, x).1, x(), [20.0, 80.0]);
    both!("vmap of its gradient", |x| ms::vmap(ms::grad(tenfold))(x), x(), [20.0, 40.0]);
    both!("gradient of its vmap", |x| ms::grad(ms::vmap(tenfold))(x), x(), [20.0, 40.0]);
    both!("stop_gradient", |x| ms::grad(|x: &Tensor| ops::stop_gradient(x) * x)(x), tensor![3.0], [3.0]);
    let (e, x) = (1f32.exp(), || tensor![1.0, 0.5]);
    let r = 0.25f32.exp();
    both!("recompute", kept_short, x(), [e, r]);
    both!("its gradient", |x| ms::grad(kept_short)(x), x(), [2.0 * e, r]);
    both!("its second one", |x| ms::grad(ms::grad(kept_short))(x), x(), [6.0 * e, 3.0 * r]);
    both!("its tangent", |x| ms::jvp(kept_short)(x, x).1, x(), [2.0 * e, 0.5 * r]);
    both!("vmap of its gradient", |x| ms::vmap(ms::grad(kept_short))(x), x(), [2.0 * e, r]);
    both!("gradient of its vmap", |x| ms::grad(ms::vmap(kept_short))(x), x(), [2.0 * e, r]);
}

/// Rounds, with the gradient of the identity.
fn straight_through(x: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| ops::round(x), |_: &Tensor, _: &Tensor, g: &Tensor| (g * 1.0,))(x)
}

/// Computes `x²` with the gradient `3 x`.
fn sq(x: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| x * x, |x: &Tensor, _: &Tensor, g: &Tensor| (g * x * 3.0,))(x)
}

/// Computes `exp x` with twice its gradient, from the result.
fn doubled_exp(x: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| x.exp(), |_: &Tensor, out: &Tensor, g: &Tensor| (g * out * 2.0,))(x)
}

/// Computes `sq`, with `sq` as the gradient.
fn of_sq(x: &Tensor) -> Tensor {
    ms::custom_vjp(sq, |x: &Tensor, _: &Tensor, g: &Tensor| (g * sq(x),))(x)
}

/// Computes `sq`, with a gradient that is itself computed by `grad`.
fn by_grad(x: &Tensor) -> Tensor {
    ms::custom_vjp(sq, |x: &Tensor, _: &Tensor, g: &Tensor| (g * ms::grad(sq)(x),))(x)
}

/// Computes `x y` with the gradients `2 y` and `3 x`.
fn product(x: &Tensor, y: &Tensor) -> Tensor {
    let backward = |x: &Tensor, y: &Tensor, _: &Tensor, g: &Tensor| (g * y * 2.0, g * x * 3.0);
    ms::custom_vjp(|x: &Tensor, y: &Tensor| x * y, backward)(x, y)
}

/// Computes `c x²` with the gradient `3 c x`. Both functions capture `c`.
fn scaled(x: &Tensor, c: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| x * x * c, |x: &Tensor, _: &Tensor, g: &Tensor| (g * x * c * 3.0,))(x)
}

/// The cell that corresponds to `sq`.
#[cell]
struct Sq;

#[cell]
impl Sq {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * x
    }

    fn bprop(&self, x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        (dout * x * 3.0,)
    }
}

/// Works like [`Sq`], traced once for all of its calls.
#[cell]
#[lazy_inline]
struct SharedSq;

#[cell]
impl SharedSq {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * x
    }

    fn bprop(&self, x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        (dout * x * 3.0,)
    }
}

fn second(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    ms::grad(ms::grad(|x: &Tensor| f(x)))(x)
}

/// Checks compiled functions at a number: their values, and their gradients. The gradients are of the compiled
/// function, inside another compiled function, and without compiling.
macro_rules! to_any_order {
    ($($name:ident($x:ident = $at:expr) $body:block gives $want:expr, $gradient:expr;)*) => {
        $(
            #[jit]
            fn $name($x: &Tensor) -> Tensor $body
        )*

        #[test]
        fn user_defined_derivatives_to_any_order() {
            $({
                let inside = ms::jit(|x: &Tensor| ms::grad(|x: &Tensor| $name(x))(x));
                for jit in [false, true] {
                    ms::with_context(Context { jit, ..ms::context() }, || {
                        let x = Tensor::scalar($at);
                        let got = [$name(&x), ms::grad(|x: &Tensor| $name(x))(&x), inside(&x)];
                        let got = got.map(|it| it.item::<f32>());
                        let want: [f32; 3] = [$want, $gradient, $gradient];
                        let close = got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 2e-5 * (1.0 + b.abs()));
                        assert!(close, "{}, compiled {jit}: {got:?}, not {want:?}", stringify!($name));
                    });
                }
            })*
        }
    };
}

to_any_order! {
    straight_through_squared(x = 1.7) { second(|x| straight_through(x) * straight_through(x), x) } gives 2.0, 0.0;
    of_its_own_result(x = 0.7) { second(|x| sq(&sq(x)), x) } gives 17.64, 56.7;
    of_a_square(x = 0.7) { second(|x| sq(x) * sq(x), x) } gives 11.76, 37.8;
    first_of_a_square(x = 0.7) { ms::grad(|x: &Tensor| sq(x) * sq(x))(x) } gives 2.058, 11.76;
    third(x = 0.7) { ms::grad(|x: &Tensor| second(|x| sq(&sq(x)), x))(x) } gives 56.7, 81.0;
    by_the_result(x = 0.5) { second(doubled_exp, x) } gives 6.594_885, 13.189_77;
    inside_another_rule(x = 0.7) { second(of_sq, x) } gives 2.1, 3.0;
    gradient_as_a_rule(x = 0.7) { second(|x| by_grad(&by_grad(x)), x) } gives 17.64, 56.7;
    of_two_arguments(x = 0.7) { second(|x| product(x, x) * x, x) } gives 10.5, 15.0;
    with_a_captured_value(x = 0.7) {
        let c = x * 0.0 + 2.0;
        second(|x| scaled(x, &c) * scaled(x, &c), x)
    } gives 47.04, 151.2;
    with_a_captured_constant(x = 0.7) {
        let c = Tensor::scalar(2.0f32);
        second(|x| scaled(x, &c) * scaled(x, &c), x)
    } gives 47.04, 151.2;
    of_cells(x = 0.7) { second(|x| Sq.call(&Sq.call(x)), x) } gives 17.64, 56.7;
    of_shared_cells(x = 0.7) { second(|x| SharedSq.call(&SharedSq.call(x)), x) } gives 17.64, 56.7;
    recomputed(x = 0.7) { second(|x| ms::recompute(|x: &Tensor| sq(&sq(x)))(x), x) } gives 17.64, 56.7;
    in_an_arm(x = 0.7) {
        ms::grad(ms::grad(|x: &Tensor| if x > 0.0 { sq(&sq(x)) } else { x * 5.0 }))(x)
    } gives 17.64, 56.7;
    in_a_range(x = 0.7) {
        ms::grad(ms::grad(|x: &Tensor| {
            let mut y = x * 1.0;
            for _ in ms::range(0, 2) {
                y = sq(&y);
            }
            y
        }))(x)
    } gives 17.64, 56.7;
    in_a_loop_that_a_tensor_ends(x = 0.7) {
        ms::grad(ms::grad(|x: &Tensor| {
            let (mut y, mut i) = (x * 1.0, x * 0.0);
            while &i < 2.0 {
                y = sq(&y);
                i = i + 1.0;
            }
            y
        }))(x)
    } gives 17.64, 56.7;
    tangent(x = 0.7) { ms::jvp(|x: &Tensor| sq(x) * sq(x))(x, &Tensor::scalar(1.0f32)).1 } gives 2.058, 11.76;
    tangent_of_a_gradient(x = 0.7) {
        ms::jvp(ms::grad(|x: &Tensor| sq(x) * sq(x)))(x, &Tensor::scalar(1.0f32)).1
    } gives 11.76, 37.8;
    gradient_of_a_tangent(x = 0.7) {
        ms::grad(|x: &Tensor| ms::jvp(|x: &Tensor| sq(&sq(x)))(x, &Tensor::scalar(1.0f32)).1)(x)
    } gives 17.64, 56.7;
    tangent_of_a_tangent(x = 0.7) {
        let one = Tensor::scalar(1.0f32);
        ms::jvp(|x: &Tensor| ms::jvp(|x: &Tensor| sq(x) * sq(x))(x, &one).1)(x, &one).1
    } gives 11.76, 37.8;
    pulled_and_pushed(x = 0.7) {
        let one = Tensor::scalar(1.0f32);
        ms::linearize(|x: &Tensor| ms::vjp(sq)(x).1(&sq(x)))(x).1(&one)
    } gives 5.88, 18.9;
    hessians(x = 0.7) { ms::hessian(|x: &Tensor| sq(x) * sq(x))(x) } gives 11.76, 37.8;
    over_lanes(x = 0.7) {
        let f = |x: &Tensor| {
            let y = ms::vmap(sq)(&(x * tensor![1.0, 2.0]));
            (&y * &y).sum(())
        };
        second(f, x)
    } gives 199.92, 642.6;
    in_every_lane(x = 0.7) {
        let each = |x: &Tensor| ms::grad(ms::grad(|x: &Tensor| sq(x) * sq(x)))(x);
        ms::vmap(each)(&(x * tensor![1.0, 2.0])).sum(())
    } gives 11.76 * 5.0, 37.8 * 5.0;
    in_an_arm_of_a_lane(x = 0.7) {
        let each = |x: &Tensor| {
            ms::grad(ms::grad(|x: &Tensor| if x > 1.0 { sq(&sq(x)) } else { sq(x) * sq(x) }))(x)
        };
        ms::vmap(each)(&(x * tensor![1.0, 2.0])).sum(())
    } gives 11.76 + 36.0 * 1.96, 37.8 + 2.0 * 81.0 * 1.4;
}
