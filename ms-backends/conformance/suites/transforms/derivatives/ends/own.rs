//! Tests ends of domains without a row in the file.
//!
//! These are reductions, weights, functions of other frameworks, and numbers near the ends with powers that overflow or
//! vanish.

use super::super::compiled;
use super::column;
use ms::ops::{self, Reduction};
use ms::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// A NaN activation passes gradients on, so that a search for NaN gradients finds it.
#[test]
fn gradients_pass_through_nan() {
    let functions: [fn(&Tensor) -> Tensor; 2] = [|x| ops::relu(x), |x| ops::relu6(x)];
    for f in functions {
        let slope = |x: &Tensor| ms::grad(|x: &Tensor| f(x))(x);
        let x = column(DType::F32, &[NAN, -1.0, 0.0, 1.0]);
        for got in [slope(&x), compiled(&slope, &x)] {
            assert_eq!(got.to_vec::<f32>(), [1.0, 0.0, 0.0, 1.0]);
        }
    }
}

/// Over several axes, the first of equal elements in row-major order has the gradient, as in `max_pool`.
#[test]
fn adaptive_windows_of_equal_elements() {
    let slope = |x: &Tensor| ms::grad(|x: &Tensor| ops::adaptive_max_pool(x, &[1, 2]))(x);
    let x = Tensor::from_slice([1, 1, 2, 3], &[0.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    for got in [slope(&x), compiled(&slope, &x)] {
        assert_eq!(got.to_vec::<f64>(), [0.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
    }
}

/// For all reductions and weights, gradients of a saturated classifier are finite, and it continues to train.
#[test]
fn binary_cross_entropy_at_its_ends() {
    let (x, t) = (tensor![0.0, 1.0, 0.0, 1.0, 0.25], tensor![0.0, 1.0, 1.0, 0.0, 1.0]);
    let (weight, plain) = (tensor![1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 0.0, -1e12, 1e12, -4.0]);
    for (reduction, by) in
        [(Reduction::Mean, 5.0), (Reduction::Sum, 1.0), (Reduction::BatchMean, 5.0), (Reduction::None, 1.0)]
    {
        for weight in [None, Some(&weight)] {
            let f = |x: &Tensor| ops::binary_cross_entropy(x, &t, weight, reduction).sum(());
            let want = plain.iter().enumerate().map(|(at, it)| it * weight.map_or(1.0, |_| at as f64 + 1.0) / by);
            let gradient = |x: &Tensor| ms::grad(f)(x);
            for got in [gradient(&x), compiled(&gradient, &x)] {
                let pairs = got.cast(DType::F64).to_vec::<f64>().into_iter().zip(want.clone());
                pairs.for_each(|(got, want)| assert!((got - want).abs() <= 1e-6 * want.abs(), "{got}, not {want}"));
            }
        }
    }
    let one = tensor![1.0, 1.0, 1.0];
    let loss = |w: &Tensor| {
        ops::binary_cross_entropy(ops::sigmoid(w * tensor![20.0, 100.0, 0.0]), &one, None, Reduction::Mean)
    };
    for gradient in [ms::grad(loss)(&Tensor::scalar(1.0)), compiled(&|w| ms::grad(loss)(w), &Tensor::scalar(1.0))] {
        assert_eq!(gradient.item::<f32>(), 0.0);
    }
    let slope = ms::grad(loss)(&Tensor::scalar(-0.1)).item::<f32>();
    assert!(slope.is_finite() && slope < -10.0, "{slope}");
}

/// Distances of whole vectors have these values and gradients for the first vector.
#[test]
fn distances() {
    type Of = fn(&Tensor) -> Tensor;
    let cosine: Of = |x| ops::cosine_similarity(x, column(x.dtype(), &[3.0, 0.0]), -1, 1e-8);
    type Case<'a> = (&'a str, Of, [f64; 2], f64, [f64; 2]);
    let cases: &[Case<'_>] = &[
        ("norm 2", |x| x.norm(2.0, ()), [0.0, 0.0], 0.0, [0.0, 0.0]),
        ("norm 2", |x| x.norm(2.0, ()), [0.0, -2.0], 2.0, [0.0, -1.0]),
        ("norm 2", |x| x.norm(2.0, ()), [1e30, 0.0], 1e30, [1.0, 0.0]),
        ("norm 2", |x| x.norm(2.0, ()), [3e-40, 4e-40], 5e-40, [0.6, 0.8]),
        ("norm 2", |x| x.norm(2.0, ()), [INF, 1.0], INF, [NAN, 0.0]),
        ("norm 1", |x| x.norm(1.0, ()), [0.0, -2.0], 2.0, [0.0, -1.0]),
        ("norm 3", |x| x.norm(3.0, ()), [0.0, 2.0], 2.0, [0.0, 1.0]),
        ("norm 3", |x| x.norm(3.0, ()), [0.0, 0.0], 0.0, [0.0, 0.0]),
        ("norm 0.5", |x| x.norm(0.5, ()), [0.0, 4.0], 4.0, [0.0, 1.0]),
        ("norm -1", |x| x.norm(-1.0, ()), [0.0, 4.0], 0.0, [0.0, 0.0]),
        ("norm -1", |x| x.norm(-1.0, ()), [4.0, 4.0], 2.0, [0.25, 0.25]),
        ("norm inf", |x| x.norm(INF, ()), [-2.0, 2.0], 2.0, [-0.5, 0.5]),
        ("norm inf", |x| x.norm(INF, ()), [0.0, 0.0], 0.0, [0.0, 0.0]),
        ("std", |x| x.std((), 1), [5.0, 5.0], 0.0, [0.0, 0.0]),
        ("std", |x| x.std((), 0), [1.0, 5.0], 2.0, [-0.5, 0.5]),
        ("RMSELoss", |x| nn::RMSELoss.call(x, &column(x.dtype(), &[5.0, 1.0])), [5.0, 1.0], 0.0, [0.0, 0.0]),
        ("cosine_similarity", cosine, [2.0, 0.0], 1.0, [0.0, 0.0]),
        ("cosine_similarity", cosine, [0.0, 2.0], 0.0, [0.5, 0.0]),
        ("cosine_similarity", cosine, [0.0, 0.0], 0.0, [1e8, 0.0]),
        ("cosine_similarity", cosine, [3e38, 0.0], 1.0, [0.0, 0.0]),
        (
            "cosine_similarity of large ones",
            |x| ops::cosine_similarity(x, ops::stop_gradient(x), -1, 1e-8),
            [3e38, 0.0],
            1.0,
            [0.0, 0.0],
        ),
        ("logsumexp", |x| x.logsumexp(()), [-INF, 1.0], 1.0, [0.0, 1.0]),
        ("logsumexp", |x| x.logsumexp(()), [1e30, 1e30], 1e30, [0.5, 0.5]),
        ("logsumexp", |x| x.logsumexp(()), [-INF, -INF], -INF, [NAN, NAN]),
        ("softmax", |x| x.softmax(0).at(1), [-INF, 1.0], 1.0, [0.0, 0.0]),
        ("log_softmax", |x| x.log_softmax(0).at(1), [-INF, 1.0], 0.0, [0.0, 0.0]),
        ("cross_entropy", |x| ops::cross_entropy(x, tensor![1]), [-INF, 1.0], 0.0, [0.0, 0.0]),
        ("cross_entropy", |x| ops::cross_entropy(x, tensor![0]), [-INF, 1.0], INF, [-1.0, 1.0]),
        ("TripletMarginLoss", |x| triplet(x, 2.0), [1.0, 1.0], 0.0, [0.0, 0.0]),
        ("FocalLoss", |x| focal(x, 2.0), [200.0, 0.0], 0.0, [0.0, 0.0]),
        ("FocalLoss", |x| focal(x, 0.5), [200.0, 0.0], 0.0, [0.0, 0.0]),
        ("FocalLoss", |x| focal(x, 0.0), [0.0, 0.0], 2f64.ln(), [-0.5, 0.5]),
        ("MultiMarginLoss", |x| multi_margin(x, 0.5), [5.0, 1.0], 0.0, [0.0, 0.0]),
        ("MultiMarginLoss", |x| multi_margin(x, 2.0), [1.0, 1.0], 0.5, [-1.0, 1.0]),
    ];
    let mut wrong = Vec::new();
    for dtype in [DType::F64, DType::F32] {
        for (name, f, x, value, gradient) in cases {
            let at = column(dtype, x);
            let at = if name.contains("Loss") && *name != "RMSELoss" || *name == "cross_entropy" {
                at.reshape((1, 2))
            } else {
                at
            };
            let total = |x: &Tensor| f(x).sum(());
            for (way, got) in [
                ("eager", [total(&at).reshape((1,)), ms::grad(total)(&at)]),
                ("compiled", [compiled(&total, &at).reshape((1,)), compiled(&|x| ms::grad(total)(x), &at)]),
            ] {
                let got = got.map(|it| it.cast(DType::F64).to_vec::<f64>()).concat();
                let want = [*value, gradient[0], gradient[1]];
                let near = |(got, want): (&f64, &f64)| {
                    got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= 1e-5 * want.abs() + 1e-44
                };
                if !got.iter().zip(&want).all(near) {
                    wrong.push(format!("{name}, {dtype:?}, {way} at {x:?}: {got:?}, not {want:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn focal(x: &Tensor, gamma: f64) -> Tensor {
    nn::FocalLoss::new().gamma(gamma).call(x, &tensor![0])
}

fn multi_margin(x: &Tensor, p: f64) -> Tensor {
    nn::MultiMarginLoss::new().p(p).call(x, &tensor![0])
}

/// Computes the triplet loss of an anchor that equals the positive, farther from the negative than the margin.
fn triplet(x: &Tensor, p: f64) -> Tensor {
    nn::TripletMarginLoss::new().p(p).call(x, &ops::stop_gradient(x), &(ops::stop_gradient(x) + 9.0))
}
