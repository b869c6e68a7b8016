//! Compares derivatives of both orders with differences, in both modes.

use super::{columns, t};
use ms::linalg::{cholesky, det, eigh, inv, lstsq, qr, slogdet, solve, solve_triangular, svd};
use ms::prelude::*;

/// Returns different numbers around zero.
fn numbers(shape: &[usize], seed: f64) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::from_slice(shape, &(0..count).map(|it| ((it as f64 + 1.0).powi(2) * 1.37 + seed).sin()).collect::<Vec<_>>())
}

/// Returns a number that depends on every element of the results in a different way.
fn weighted(results: &[Tensor]) -> Tensor {
    let terms = results.iter().enumerate().map(|(at, it)| (it * numbers(it.shape(), at as f64)).sum(()));
    terms.reduce(|a, b| a + b).expect("there is a result")
}

/// Computes the derivative of `f` along a direction by fourth-order differences.
fn difference(f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor, along: &Tensor) -> f64 {
    let step = 3e-4;
    let at = |by: f64| f(&(x + along * (by * step))).item::<f64>();
    (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * step)
}

fn check_number(what: &str, got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-7 * (1.0 + want.abs()), "{what}: {got}, not {want}");
}

fn check(what: &str, f: fn(&Tensor) -> Vec<Tensor>, x: &Tensor) {
    let value = move |x: &Tensor| weighted(&f(x));
    let slope = move |x: &Tensor| weighted(&[ms::grad(value)(x)]);
    for along in [numbers(x.shape(), 5.0), numbers(x.shape(), 6.0)] {
        let dot = |it: Tensor| (it * &along).sum(()).item::<f64>();
        let want = difference(&value, x, &along);
        check_number(&format!("{what}, gradient"), dot(ms::grad(value)(x)), want);
        check_number(&format!("{what}, tangent"), ms::jvp(value)(x, &along).1.item(), want);
        let want = difference(&slope, x, &along);
        check_number(&format!("{what}, second order"), dot(ms::grad(slope)(x)), want);
    }
    // Each result is also used alone, so that the others have no gradient.
    for at in 0..f(x).len() {
        let alone = move |x: &Tensor| weighted(&[f(x)[at].clone()]);
        let along = numbers(x.shape(), 7.0);
        let got = (ms::grad(alone)(x) * &along).sum(()).item::<f64>();
        check_number(&format!("{what}, result {at}"), got, difference(&alone, x, &along));
    }
}

fn definite(x: &Tensor) -> Tensor {
    let n = x.dim(-1);
    x.matmul(t(x)) + ops::eye_of(n, n, 0, DType::F64)
}

/// Returns square matrices that are far from singular.
fn regular(x: &Tensor) -> Tensor {
    x + ops::eye(3).cast(DType::F64) * 2.5
}

/// Returns two right-hand sides with one equation for each row.
fn sides(x: &Tensor) -> Tensor {
    numbers(&[x.shape()[x.rank() - 2], 2], 9.0)
}

#[test]
fn derivatives_agree_with_differences() {
    let (square, batch) = (numbers(&[3, 3], 0.3), numbers(&[2, 3, 3], 0.1));
    let (tall, wide) = (numbers(&[4, 2], 0.2), numbers(&[2, 4], 0.7));
    for x in [&square, &batch] {
        check("cholesky", |x| vec![cholesky(definite(x))], x);
        // This `cholesky` reads the mean with the transpose, so that its gradient is exact in every direction.
        check("cholesky of any matrix", |x| vec![cholesky(regular(&(x * 0.2)))], x);
        check("eigenvalues", |x| vec![eigh(x).0], x);
        check("eigenvectors", |x| vec![eigh(x).0, eigh(x).1.square()], x);
        check("inv", |x| vec![inv(regular(x))], x);
        check("det", |x| vec![det(regular(x)), slogdet(regular(x)).1], x);
        check("solve", |x| vec![solve(regular(x), sides(x)), solve(t(&regular(x)), x.square())], x);
        check("solve, one side", |x| vec![solve(regular(x), numbers(&[3], 1.0))], x);
        for (lower, transposed) in [(true, true), (true, false), (false, true), (false, false)] {
            let f: fn(&Tensor) -> Vec<Tensor> = match (lower, transposed) {
                (true, true) => |x| vec![solve_triangular(x + 2.0, x.sin(), true, true)],
                (true, false) => |x| vec![solve_triangular(x + 2.0, x.sin(), true, false)],
                (false, true) => |x| vec![solve_triangular(x + 2.0, x.sin(), false, true)],
                (false, false) => |x| vec![solve_triangular(x + 2.0, x.sin(), false, false)],
            };
            check(&format!("solve_triangular, {lower}, {transposed}"), f, x);
        }
    }
    for x in [&square, &batch, &tall, &wide] {
        check("qr", |x| vec![qr(x).0.square(), qr(x).1.square(), qr(x).0.matmul(qr(x).1.sin())], x);
        check("singular values", |x| vec![svd(x).1], x);
        let reconstructed = |x: &Tensor| {
            let (u, s, vt) = svd(x);
            vec![u.square(), s.clone(), vt.square(), columns(&u, &s.sqrt()).matmul(&vt)]
        };
        check("svd", reconstructed, x);
    }
    check("lstsq", |x| vec![lstsq(x, sides(x)), lstsq(x, x.sin())], &tall);
}

#[test]
fn values_alone_have_gradients_where_they_are_equal() {
    let eye = ops::eye(3).cast(DType::F64);
    let gradient = ms::grad(|x: &Tensor| svd(x).1)(&eye);
    assert!((gradient - &eye).abs().max(()).item::<f64>() < 1e-14);
    let gradient = ms::grad(|x: &Tensor| eigh(x).0)(&eye);
    assert!((gradient - &eye).abs().max(()).item::<f64>() < 1e-14);
}
