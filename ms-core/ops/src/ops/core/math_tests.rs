//! Tests of the functions' error bounds in units in the last place.

use crate::ops::core::reference::evaluate_body;
use crate::ops::{ERF, ERFC};
use crate::tensor::{Array, Attrs, DType, Scalar};
use ms_ir::body::{Expr, body};
use ms_ir::math::*;
use ms_ir::{KernelBuilder, Val};

/// Returns points of a range: half evenly spaced, half dense around zero.
fn points(low: f64, high: f64, count: usize) -> Vec<f64> {
    let even = (0..count).map(|i| low + (high - low) * (i as f64 + 0.37) / count as f64);
    let crowded = (0..count).map(|i| {
        let size = low.abs().max(high.abs()) * 2f64.powf(-60.0 * i as f64 / count as f64);
        if i % 2 == 0 { size } else { -size }
    });
    even.chain(crowded.filter(|it| (low..=high).contains(it))).collect()
}

/// Returns the unit in the last place of numbers of the magnitude of `x`.
fn last_place(x: f64, dtype: DType) -> f64 {
    let (bits, least) = if dtype == DType::F32 { (23, -149) } else { (52, -1074) };
    let exponent = if x == 0.0 { least } else { x.abs().log2().floor() as i32 - bits };
    2f64.powf(exponent.max(least) as f64)
}

fn array(points: &[f64], dtype: DType) -> Array {
    match dtype {
        DType::F32 => Array::from_slice(&[points.len()], &points.iter().map(|&it| it as f32).collect::<Vec<_>>()),
        _ => Array::from_slice(&[points.len()], points),
    }
}

fn evaluated<const N: usize>(
    formula: impl for<'s> Fn([Expr<'s>; N]) -> Expr<'s>,
    dtype: DType,
    inputs: [&Array; N],
) -> Vec<f64> {
    let result = evaluate_body(|builder, operands| body(builder, operands, formula), dtype, &inputs);
    result
        .expect("one shape")
        .on_host()
        .expect("the elements are readable")
        .scalars()
        .into_iter()
        .map(Scalar::as_f64)
        .collect()
}

/// Checks the error bounds of a function in units in the last place, in f32 and in f64.
#[track_caller]
fn check(
    name: &str,
    formula: impl for<'s> Fn(Expr<'s>) -> Expr<'s>,
    exact: impl Fn(f64) -> f64,
    (low, high): (f64, f64),
    bounds: (f64, f64),
) {
    for (dtype, bound) in [(DType::F32, bounds.0), (DType::F64, bounds.1)] {
        let x = array(&points(low, high, 4000), dtype);
        let got = evaluated(|[x]| formula(x), dtype, [&x]);
        let mut worst = (0.0, 0.0);
        for (x, got) in
            x.on_host().expect("the elements are readable").scalars().into_iter().map(Scalar::as_f64).zip(got)
        {
            let want = exact(x);
            let off = (got - want).abs() / last_place(want, dtype);
            if off > worst.0 {
                worst = (off, x);
            }
        }
        assert!(worst.0 <= bound, "{name} of {dtype} is off by {:.2} ulp at {}", worst.0, worst.1);
    }
}

/// Evaluates an op on one f64 by the reference.
fn reference(def: &crate::ops::OpDef, x: f64) -> f64 {
    let results = (def.eval)(&Attrs::none(), &[&Array::from_slice(&[], &[x])]).expect("a float evaluates");
    results[0].on_host().expect("the elements are readable").scalars()[0].as_f64()
}

#[test]
fn functions_stay_within_their_bounds() {
    // The f64 results of the standard library may be off by one unit.
    check("exp", exp, f64::exp, (-87.0, 88.0), (1.0, 2.0));
    check("expm1", expm1, f64::exp_m1, (-20.0, 88.0), (2.0, 3.0));
    check("log", log, f64::ln, (1e-30, 1e30), (1.0, 2.0));
    check("log near one", log, f64::ln, (0.5, 2.0), (1.0, 2.0));
    check("log1p", log1p, f64::ln_1p, (-0.999, 9.0), (2.0, 3.0));
    check("tanh", tanh, f64::tanh, (-10.0, 10.0), (2.0, 3.0));
    check("sigmoid", sigmoid, |x| 1.0 / (1.0 + (-x).exp()), (-80.0, 40.0), (2.0, 4.0));
    check("sinh", sinh, f64::sinh, (-80.0, 80.0), (2.0, 3.0));
    check("cosh", cosh, f64::cosh, (-80.0, 80.0), (2.0, 3.0));
    check("asinh", asinh, f64::asinh, (-1e6, 1e6), (3.0, 4.0));
    check("acosh", acosh, f64::acosh, (1.5, 1e6), (3.0, 4.0));
    check("sin", sin, f64::sin, (-100.0, 100.0), (1.5, 3.0));
    check("sin of large arguments", sin, f64::sin, (-1e6, 1e6), (1.5, 3.0));
    check("cos", cos, f64::cos, (-100.0, 100.0), (1.5, 3.0));
    check("tan", tan, f64::tan, (-100.0, 100.0), (3.0, 4.0));
    check("asin", asin, f64::asin, (-1.0, 1.0), (2.0, 3.0));
    check("acos", acos, f64::acos, (-1.0, 1.0), (2.0, 3.0));
    check("atan", atan, f64::atan, (-1e3, 1e3), (2.0, 3.0));
    let atanh_of = |x: f64| (0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p()).copysign(x);
    check("atanh", atanh, atanh_of, (-0.99, 0.99), (3.0, 5.0));
    check("erf", erf, |x| reference(&ERF, x), (-4.0, 4.0), (2.0, 4.0));
    check("erfc", erfc, |x| reference(&ERFC, x), (-4.0, 9.0), (4.0, 8.0));
}

/// Checks that exponentials of nonpositive arguments have the same bits as the general expansion.
#[test]
fn exponentials_of_negative_numbers_have_the_same_bits() {
    for (dtype, low) in [(DType::F32, -120.0), (DType::F64, -800.0)] {
        let mut all = points(low, 0.0, 40_000);
        all.extend([0.0, -0.0, f64::NEG_INFINITY, -1e-40]);
        let x = array(&all, dtype);
        let bits = |formula: for<'s> fn(Expr<'s>) -> Expr<'s>| {
            let values = evaluated(|[x]| formula(x), dtype, [&x]);
            values.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        assert!(bits(exp) == bits(exp_nonpositive), "{dtype}");
        let zeros = [105.0, 132.3, 132.5, 176.0, 176.2, 747.0, 1063.9, 1064.1, 1418.1, 1418.3, 1e9, f64::INFINITY];
        let zeros = array(&zeros.into_iter().filter(|it| *it > -0.87 * low).map(|it| -it).collect::<Vec<_>>(), dtype);
        for formula in [exp, exp_nonpositive] {
            let values = evaluated(|[x]| formula(x), dtype, [&zeros]);
            assert!(values.iter().all(|it| it.to_bits() == 0), "{dtype}: {values:?}");
        }
        let nan = array(&[f64::NAN], dtype);
        assert!(evaluated(|[x]| exp_nonpositive(x), dtype, [&nan])[0].is_nan());
    }
}

#[test]
fn powers_stay_within_their_bounds() {
    for (dtype, largest, bound) in [(DType::F32, 87.0, 1.0), (DType::F64, 700.0, 3.0)] {
        let bases: Vec<f64> = (1..4000).map(|i| 1.01f64.powi(i % 400 - 200) * (1.0 + i as f64 * 1e-5)).collect();
        let bases = array(&bases, dtype);
        let base = |i: usize| bases.on_host().expect("the elements are readable").scalars()[i].as_f64();
        let all = bases.on_host().expect("the elements are readable").scalars();
        let powers: Vec<f64> = (0..all.len())
            .map(|i| {
                let ln = all[i].as_f64().ln();
                largest * ((i * 7919 % 2001) as f64 / 1000.0 - 1.0) / ln.abs().max(0.01)
            })
            .collect();
        let powers = array(&powers, dtype);
        let got = evaluated(|[x, y]| pow(x, y), dtype, [&bases, &powers]);
        for (i, (power, got)) in
            powers.on_host().expect("the elements are readable").scalars().into_iter().zip(got).enumerate()
        {
            let want = all[i].as_f64().powf(power.as_f64());
            let off = (got - want).abs() / last_place(want, dtype);
            assert!(off <= bound, "{} to the power of {power} is off by {off:.2} ulp in {dtype}", base(i));
        }
    }
}

#[test]
fn powers_of_special_numbers() {
    use std::f64::consts::PI;
    const INF: f64 = f64::INFINITY;
    let values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, PI, -PI, 1e300, -1e-300, INF, -INF, f64::NAN];
    for dtype in [DType::F32, DType::F64] {
        let pairs = || values.iter().flat_map(|&x| values.iter().map(move |&y| (x, y)));
        let (x, y): (Vec<f64>, Vec<f64>) = pairs().unzip();
        let (x, y) = (array(&x, dtype), array(&y, dtype));
        let got = evaluated(|[x, y]| pow(x, y), dtype, [&x, &y]);
        for ((x, y), got) in x
            .on_host()
            .expect("the elements are readable")
            .scalars()
            .into_iter()
            .zip(y.on_host().expect("the elements are readable").scalars())
            .zip(got)
        {
            let (x, y) = (x.as_f64(), y.as_f64());
            let want = if dtype == DType::F32 { (x as f32).powf(y as f32) as f64 } else { x.powf(y) };
            let near = (got - want).abs() <= 4.0 * last_place(want, dtype);
            let same = got == want && got.is_sign_negative() == want.is_sign_negative();
            assert!(same || near || (got.is_nan() && want.is_nan()), "{x} to the power of {y}: {got}, not {want}");
        }
    }
}

#[test]
fn odd_functions_keep_the_sign_of_zero() {
    for dtype in [DType::F32, DType::F64] {
        let zero = array(&[-0.0], dtype);
        for function in [expm1, log1p, tanh, sinh, asinh, sin, tan, asin, atan, atanh] {
            let got = evaluated(|[x]| function(x), dtype, [&zero]);
            assert!(got[0] == 0.0 && got[0].is_sign_negative());
        }
    }
}

/// Checks that an expanded function has the bits of its formula.
#[test]
fn functions_are_their_formulas() {
    let points = [-3.5, -1.0, -0.3, -0.0, 0.2, 0.9, 1.0, 1.7, 40.0, f64::INFINITY, f64::NAN];
    let narrow: Vec<f32> = points.iter().map(|&it| it as f32).collect();
    for x in [Array::from_slice(&[points.len()], &narrow), Array::from_slice(&[points.len()], &points)] {
        for &math in Math::ALL {
            let computed = |expanded: bool| {
                let build = |builder: &mut KernelBuilder, operands: &[Val]| {
                    body(builder, operands, |[x]| {
                        // Instructions before the function shift the numbering of values.
                        let y = (math.arity() == 2).then(|| x * 0.5);
                        let value = match (expanded, y) {
                            (true, _) => formula(math, x, y),
                            (false, None) => x.math(math),
                            (false, Some(y)) => x.math2(math, y),
                        };
                        value + x
                    })
                };
                evaluate_body(build, x.dtype(), &[&x])
                    .expect("one shape")
                    .on_host()
                    .expect("the elements are readable")
                    .to_bytes()
            };
            assert_eq!(computed(false), computed(true), "{math:?} of {}", x.dtype());
        }
    }
}
