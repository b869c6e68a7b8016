//! Tests values and gradients at extreme arguments.

use super::{Function, compiled, wide};
use ms::ops::{self, Reduction};
use ms::{DType, Tensor, tensor};

const INF: f64 = f64::INFINITY;

/// A function of one number with arguments and values.
type Points<'a> = (&'a str, Function, &'a [(f64, f64)]);

/// A reduction of a vector, with arguments and values.
type Reductions<'a> = (&'a str, Function, &'a [(&'a [f64], &'a [f64])]);

/// Compares values with a relative tolerance. Zeros have a sign, and NaN equals NaN.
fn compare(what: &str, got: &Tensor, want: &[f64], tolerance: f64) {
    let got = wide(got);
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, &want) in got.iter().zip(want) {
        let same = got.is_nan() && want.is_nan() || *got == want && got.is_sign_negative() == want.is_sign_negative();
        let near = want != 0.0 && (got - want).abs() <= tolerance * want.abs();
        assert!(same || near, "{what}: {got:e}, not {want:e}");
    }
}

/// Compares a function of an f32 or f64 tensor with values, eagerly and compiled.
fn check(name: &str, f: impl Fn(&Tensor) -> Tensor, x: &Tensor, want: &[f64]) {
    let tolerance = if x.dtype() == DType::F64 { 1e-14 } else { 2e-6 };
    for (way, got) in [("eagerly", f(x)), ("compiled", compiled(&f, x))] {
        compare(&format!("{name} of {x}, {way}"), &got, want, tolerance);
    }
}

#[test]
fn elementwise_functions_at_extreme_arguments() {
    let nan = f64::NAN;
    // Each row has the function, arguments, and values. Subnormal results are exact.
    let table: &[Points<'_>] = &[
        (
            "log1p",
            |x| ops::log1p(x),
            &[
                (1e-30, 1e-30),
                (-1e-30, -1e-30),
                (-0.0, -0.0),
                (-1.0, -INF),
                (-2.0, nan),
                (1e30, 69.07755278982137),
                (INF, INF),
                (1e-10, 9.9999999995e-11),
            ],
        ),
        (
            "expm1",
            |x| ops::expm1(x),
            &[(1e-30, 1e-30), (-1e-10, -9.9999999995e-11), (-0.0, -0.0), (-1e4, -1.0), (1e4, INF), (-INF, -1.0)],
        ),
        (
            "tanh",
            |x| ops::tanh(x),
            &[(1e-30, 1e-30), (-1e-5, -9.999999999666667e-6), (-0.0, -0.0), (40.0, 1.0), (-INF, -1.0), (nan, nan)],
        ),
        (
            "sigmoid",
            |x| ops::sigmoid(x),
            &[(-80.0, 1.8048513878454153e-35), (-1e4, 0.0), (1e4, 1.0), (-INF, 0.0), (INF, 1.0), (0.0, 0.5)],
        ),
        (
            "logsigmoid",
            |x| ops::logsigmoid(x),
            &[(-1e30, -1e30), (-30.0, -30.000000000000094), (50.0, -1.928749847963918e-22), (1e4, 0.0)],
        ),
        (
            "softplus",
            |x| ops::softplus(x, 1.0, INF),
            &[(1e30, 1e30), (50.0, 50.0), (-50.0, 1.928749847963918e-22), (-1e4, 0.0), (0.0, std::f64::consts::LN_2)],
        ),
        (
            "gelu",
            |x| ops::gelu(x),
            &[(1e30, 1e30), (10.0, 10.0), (-1e-30, -5e-31), (-1e30, -0.0), (-5.0, -1.4332578593959731e-6)],
        ),
        (
            "gelu_tanh",
            |x| ops::gelu_tanh(x),
            &[(1e10, 1e10), (-1e10, -0.0), (-4.0, -7.024594819237266e-5), (-1e-30, -5e-31)],
        ),
        ("silu", |x| ops::silu(x), &[(-80.0, -1.4438811102763322e-33), (-1e4, -0.0), (1e30, 1e30)]),
        ("mish", |x| ops::mish(x), &[(-50.0, -9.643749239819589e-21), (-1e4, -0.0), (1e30, 1e30)]),
        ("erf", |x| ops::erf(x), &[(1e-30, 1.1283791670955126e-30), (9.0, 1.0), (-INF, -1.0), (-0.0, -0.0)]),
        ("erfc", |x| ops::erfc(x), &[(9.0, 4.13703174651381e-37), (-9.0, 2.0), (40.0, 0.0), (INF, 0.0)]),
        ("sinh", |x| ops::sinh(x), &[(1e-30, 1e-30), (-1e4, -INF), (-0.0, -0.0)]),
        ("asinh", |x| ops::asinh(x), &[(1e-30, 1e-30), (1e30, 69.77069997038131), (-INF, -INF)]),
        ("atanh", |x| ops::atanh(x), &[(1e-30, 1e-30), (1.0, INF), (-1.0, -INF), (1.5, nan)]),
        ("rsqrt", |x| ops::rsqrt(x), &[(0.0, INF), (INF, 0.0), (-1.0, nan), (1e-30, 1e15)]),
        ("elu", |x| ops::elu(x, 1.0), &[(-1e-30, -1e-30), (-1e4, -1.0), (1e30, 1e30)]),
        ("pow of 2", |x| ops::pow(2.0, x), &[(-1e4, 0.0), (1e4, INF), (-INF, 0.0), (0.0, 1.0), (nan, nan)]),
        ("pow with 3", |x| ops::pow(x, 3.0), &[(-0.0, -0.0), (-INF, -INF), (-2.0, -8.0), (1e-5, 1e-15)]),
    ];
    for (name, f, pairs) in table {
        for &(x, want) in *pairs {
            for dtype in [DType::F32, DType::F64] {
                check(name, f, &Tensor::from_slice((), &[x]).cast(dtype), &[want]);
            }
        }
    }
}

#[test]
fn reductions_at_extreme_arguments() {
    let nan = f64::NAN;
    let ln_2 = std::f64::consts::LN_2;
    let table: &[Reductions<'_>] = &[
        (
            "logsumexp",
            |x| ops::logsumexp(x, ()),
            &[
                (&[1000.0, 1000.0], &[1000.0 + ln_2]),
                (&[-1000.0, -1000.0], &[-1000.0 + ln_2]),
                (&[INF, 0.0], &[INF]),
                (&[-INF, -INF], &[-INF]),
                (&[-INF, 3.0], &[3.0]),
                (&[3e38, 3e38], &[3e38]),
                (&[nan, 0.0], &[nan]),
            ],
        ),
        (
            "softmax",
            |x| ops::softmax(x, 0),
            &[
                (&[1000.0, 0.0], &[1.0, 0.0]),
                (&[3e38, 3e38], &[0.5, 0.5]),
                (&[-INF, 0.0], &[0.0, 1.0]),
                (&[-3e38, 3e38], &[0.0, 1.0]),
                (&[-1e4, -1e4], &[0.5, 0.5]),
                (&[nan, 0.0], &[nan, nan]),
            ],
        ),
        (
            "log_softmax",
            |x| ops::log_softmax(x, 0),
            &[(&[1000.0, 0.0], &[0.0, -1000.0]), (&[-INF, 0.0], &[-INF, 0.0]), (&[1e30, 0.0], &[0.0, -1e30])],
        ),
        (
            "norm",
            |x| ops::norm(x, 2.0, ()),
            &[
                (&[3e30, 4e30], &[5e30]),
                (&[-3e-30, 4e-30], &[5e-30]),
                (&[0.0, -0.0], &[0.0]),
                (&[INF, 1.0], &[INF]),
                (&[nan, 1.0], &[nan]),
                (&[1e-30, 1.0], &[1.0]),
            ],
        ),
        (
            "norm of order 3",
            |x| ops::norm(x, 3.0, ops::keepdims(0)),
            &[(&[1e20, 1e20], &[1.2599210498948732e20]), (&[1e-20, 0.0], &[1e-20]), (&[0.0, 0.0], &[0.0])],
        ),
        ("var", |x| ops::var(x, (), 0), &[(&[1e7, 1e7 + 2.0], &[1.0]), (&[3.0, 3.0], &[0.0])]),
        ("cosine", |x| ops::cosine_similarity(x, x, 0, 1e-8), &[(&[3e18, 4e18], &[1.0]), (&[0.0, 0.0], &[0.0])]),
        (
            "bce_with_logits",
            |x| ops::bce_with_logits(x, tensor![1.0, 0.0].cast(x.dtype()), None, Reduction::None),
            &[
                (&[1e4, 1e4], &[0.0, 1e4]),
                (&[-1e4, -1e4], &[1e4, 0.0]),
                (&[50.0, -50.0], &[1.928749847963918e-22, 1.928749847963918e-22]),
            ],
        ),
    ];
    for (name, f, pairs) in table {
        for (x, want) in *pairs {
            for dtype in [DType::F32, DType::F64] {
                check(name, f, &Tensor::from_slice([x.len()], x).cast(dtype), want);
            }
        }
    }
}

#[test]
fn gradients_at_extreme_arguments() {
    let table: &[(&str, Function, &[f64], &[f64])] = &[
        ("norm", |x| ops::norm(x, 2.0, ()), &[3e30, 4e30], &[0.6, 0.8]),
        ("norm", |x| ops::norm(x, 2.0, ()), &[3e-30, -4e-30], &[0.6, -0.8]),
        ("norm", |x| ops::norm(x, 2.0, ()), &[0.0, 0.0], &[0.0, 0.0]),
        ("norm of order 3", |x| ops::norm(x, 3.0, ()), &[0.0, 0.0], &[0.0, 0.0]),
        ("logsumexp", |x| ops::logsumexp(x, ()), &[1000.0, 1000.0], &[0.5, 0.5]),
        ("logsumexp", |x| ops::logsumexp(x, ()), &[f64::NEG_INFINITY, 3.0], &[0.0, 1.0]),
        ("softmax", |x| ops::softmax(x, 0).at(1), &[f64::NEG_INFINITY, 3.0], &[0.0, 0.0]),
        ("softplus", |x| ops::sum(ops::softplus(x, 1.0, 20.0), ()), &[1e4, -1e4], &[1.0, 0.0]),
        ("softplus", |x| ops::sum(ops::softplus(x, 1.0, 1e9), ()), &[1e4, 0.0], &[1.0, 0.5]),
        ("logsigmoid", |x| ops::sum(ops::logsigmoid(x), ()), &[-1e4, 0.0], &[1.0, 0.5]),
        ("sigmoid", |x| ops::sum(ops::sigmoid(x), ()), &[1e4, -1e4], &[0.0, 0.0]),
        ("tanh", |x| ops::sum(ops::tanh(x), ()), &[1e4, 0.0], &[0.0, 1.0]),
        ("gelu", |x| ops::sum(ops::gelu(x), ()), &[1e10, -1e10], &[1.0, 0.0]),
        ("gelu_tanh", |x| ops::sum(ops::gelu_tanh(x), ()), &[1e5, -1e5], &[1.0, 0.0]),
        ("atan2", |x| ops::atan2(x.at(0), x.at(1)), &[3e30, 4e30], &[1.6e-31, -1.2e-31]),
        ("hypot", |x| ops::hypot(x.at(0), x.at(1)), &[3e30, 4e30], &[0.6, 0.8]),
    ];
    for (name, f, x, want) in table {
        for dtype in [DType::F32, DType::F64] {
            let gradient = |x: &Tensor| ms::grad(|x: &Tensor| ops::mul(f(x), 1.0))(x);
            let x = Tensor::from_slice([x.len()], x).cast(dtype);
            for (way, got) in [("eagerly", gradient(&x)), ("compiled", compiled(gradient, &x))] {
                // The sign of a zero gradient is not tested.
                let got = ops::select(got.eq(0.0), 0.0, &got);
                compare(&format!("gradient of {name} at {x}, {way}"), &got, want, 1e-5);
            }
        }
    }
}
