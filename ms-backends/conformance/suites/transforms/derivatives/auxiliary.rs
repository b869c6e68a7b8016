//! Tests auxiliary results: the second part of a pair is returned unchanged.

use super::{both, check};
use ms::All;
use ms::prelude::*;

/// Returns the cube, and auxiliary results: a product that depends on the argument, and integers.
fn cube_with_aux(x: &Tensor) -> (Tensor, (Tensor, Tensor)) {
    (x * x * x, (x * 2.0, x.gt(1.5).cast(DType::I64)))
}

fn vjp_with_aux(x: &Tensor) -> [Tensor; 4] {
    let (y, pull, (twice, above)) = ms::vjp(cube_with_aux).has_aux()(x);
    [y, pull(&Tensor::full([2, 2], 10.0)), twice, above.cast(DType::F32)]
}

fn jvp_with_aux(x: &Tensor) -> [Tensor; 4] {
    let (y, tangent, (twice, above)) = ms::jvp(cube_with_aux).has_aux()(x, &Tensor::full([2, 2], 10.0));
    [y, tangent, twice, above.cast(DType::F32)]
}

fn linearize_with_aux(x: &Tensor) -> [Tensor; 4] {
    let (y, push, (twice, above)) = ms::linearize(cube_with_aux).has_aux()(x);
    [y, push(&Tensor::full([2, 2], 10.0)), twice, above.cast(DType::F32)]
}

/// Returns a product, with the sum of the arguments as the auxiliary result.
fn product(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    (x * y, x + y)
}

#[test]
fn auxiliary_results_are_given_as_they_are() {
    let x = || super::matrix([1.0, 2.0, 3.0, 4.0]);
    let want: [[f32; 4]; 4] =
        [[1.0, 8.0, 27.0, 64.0], [30.0, 120.0, 270.0, 480.0], [2.0, 4.0, 6.0, 8.0], [0.0, 1.0, 1.0, 1.0]];
    let check = |name: &str, how: &str, got: [Tensor; 4]| {
        assert_eq!(got.map(|it| it.to_vec::<f32>()), want.map(|it| it.to_vec()), "{name}, {how}");
    };
    check("vjp", "eagerly", vjp_with_aux(&x()));
    check("vjp", "compiled", ms::jit(vjp_with_aux)(&x()));
    check("jvp", "eagerly", jvp_with_aux(&x()));
    check("jvp", "compiled", ms::jit(jvp_with_aux)(&x()));
    check("linearize", "eagerly", linearize_with_aux(&x()));
    check("linearize", "compiled", ms::jit(linearize_with_aux)(&x()));
}

#[test]
fn derivatives_go_through_auxiliary_results() {
    let x = || super::matrix([1.0, 2.0, 3.0, 4.0]);
    // The expected values are d/dx (2 x + 3 x^2 v) at v = 10.
    both!(
        "grad of vjp",
        |x| ms::grad(|x: &Tensor| {
            let [_, gradient, twice, _] = vjp_with_aux(x);
            gradient + twice
        })(x),
        x(),
        [62.0, 122.0, 182.0, 242.0]
    );
    both!(
        "grad of jvp",
        |x| ms::grad(|x: &Tensor| {
            let [_, tangent, twice, _] = jvp_with_aux(x);
            tangent + twice
        })(x),
        x(),
        [62.0, 122.0, 182.0, 242.0]
    );
    both!(
        "every lane",
        |x| ms::vmap(|x: &Tensor| {
            let (_, pull, aux) = ms::vjp(|x: &Tensor| (x * x, x * 3.0)).has_aux()(x);
            pull(&aux)
        })(x),
        x(),
        [6.0, 24.0, 54.0, 96.0]
    );
}

#[test]
fn the_selection_is_made_before_or_after() {
    let (x, y, one) = (Tensor::scalar(3.0f32), Tensor::scalar(5.0f32), Tensor::scalar(1.0f32));
    let of =
        |(value, (gx, gy), aux): (Tensor, (Tensor, Tensor), Tensor)| [value, gx, gy, aux].map(|it| it.item::<f32>());
    let (value, pull, aux) = ms::vjp(product).has_aux().wrt_all()(&x, &y);
    assert_eq!(of((value, pull(&one), aux)), [15.0, 5.0, 3.0, 8.0]);
    let (value, pull, aux) = ms::vjp(product).wrt(All).has_aux()(&x, &y);
    assert_eq!(of((value, pull(&one), aux)), [15.0, 5.0, 3.0, 8.0]);
    for (value, tangent, aux) in [
        ms::jvp(product).has_aux().wrt(All)(&x, &y, &(one.clone(), one.clone())),
        ms::jvp(product).wrt(All).has_aux()(&x, &y, &(one.clone(), one.clone())),
    ] {
        assert_eq!([value, tangent, aux].map(|it| it.item::<f32>()), [15.0, 8.0, 8.0]);
    }
}

#[test]
fn a_gradient_has_the_structure_of_the_first_part() {
    let (_, pull, _) = ms::vjp(product).has_aux()(&Tensor::scalar(3.0f32), &Tensor::scalar(5.0f32));
    let error = ms::catch(|| pull(&Tensor::ones([2]))).expect_err("of another shape");
    assert_eq!(error.code(), ms::Code::Shape);
}
