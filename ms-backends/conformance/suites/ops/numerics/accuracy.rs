//! Compares the largest error of each function with the bounds that `docs/numerics.md` states.

use super::{Function, compiled, wide};
use ms::ops::{self, ERF, ERFC, OpDef};
use ms::tensor::{Array, Attrs};
use ms::{DType, Tensor};
use std::collections::BTreeMap;

/// A function, and its exact counterpart.
type Held = (Function, fn(f64) -> f64);

/// Evaluates an op by reference, in f64.
fn reference(def: &OpDef, x: f64) -> f64 {
    let results = (def.eval)(&Attrs::none(), &[&Array::from_slice(&[], &[x])]).expect("a float evaluates");
    results[0].on_host().expect("the elements are readable").scalars()[0].as_f64()
}

/// Computes acosh accurately near one and for large arguments, unlike the standard library.
fn acosh(x: f64) -> f64 {
    let t = if x < 1.0 { f64::NAN } else { x - 1.0 };
    if x > 1e150 { x.ln() + std::f64::consts::LN_2 } else { (t + (t * t + 2.0 * t).sqrt()).ln_1p() }
}

/// Computes atanh accurately for negative arguments, unlike the standard library.
fn atanh(x: f64) -> f64 {
    (0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p()).copysign(x)
}

/// Computes asinh accurately for large arguments, unlike the standard library.
fn asinh(x: f64) -> f64 {
    if x.abs() > 1e150 { (x.abs().ln() + std::f64::consts::LN_2).copysign(x) } else { x.asinh() }
}

/// Returns the functions of the table in `docs/numerics.md` with their exact counterparts.
fn functions() -> BTreeMap<&'static str, Held> {
    BTreeMap::from([
        ("acos", ((|x| ops::acos(x)) as Function, f64::acos as fn(f64) -> f64)),
        ("acosh", (|x| ops::acosh(x), acosh)),
        ("asin", (|x| ops::asin(x), f64::asin)),
        ("asinh", (|x| ops::asinh(x), asinh)),
        ("atan", (|x| ops::atan(x), f64::atan)),
        ("atanh", (|x| ops::atanh(x), atanh)),
        ("cos", (|x| ops::cos(x), f64::cos)),
        ("cosh", (|x| ops::cosh(x), f64::cosh)),
        ("erf", (|x| ops::erf(x), |x| reference(&ERF, x))),
        ("erfc", (|x| ops::erfc(x), |x| reference(&ERFC, x))),
        ("exp", (|x| ops::exp(x), f64::exp)),
        ("expm1", (|x| ops::expm1(x), f64::exp_m1)),
        ("log", (|x| ops::log(x), f64::ln)),
        ("log1p", (|x| ops::log1p(x), f64::ln_1p)),
        ("pow", (|x| ops::pow(x, 1.75), |x| x.powf(1.75))),
        ("rsqrt", (|x| ops::rsqrt(x), |x| 1.0 / x.sqrt())),
        (
            "sigmoid",
            (|x| ops::sigmoid(x), |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }),
        ),
        ("sin", (|x| ops::sin(x), f64::sin)),
        ("sinh", (|x| ops::sinh(x), f64::sinh)),
        ("tan", (|x| ops::tan(x), f64::tan)),
        ("tanh", (|x| ops::tanh(x), f64::tanh)),
    ])
}

/// Returns the rows of the table: the name, the bounds in ulp for f32 and f64, and the largest argument for which they
/// hold.
fn stated() -> Vec<(&'static str, f64, f64, f64)> {
    let functions = include_str!("../../pages/numerics.md").split("\n## ").next().expect("a text has a beginning");
    let rows = functions.lines().filter(|it| it.starts_with("| `"));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{cell:?} of {line} is a number"));
        (cells[1].trim_matches('`'), number(cells[2]), number(cells[3]), number(cells[4]))
    };
    rows.map(row).collect()
}

/// Returns the distance between adjacent numbers of the magnitude of `x`, for a format with this many fraction bits and
/// this smallest exponent.
fn last_place(x: f64, (bits, least): (i32, i32)) -> f64 {
    let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32 - bits).max(least) };
    2f64.powi(exponent.max(-1022)) * 2f64.powi((exponent + 1022).min(0))
}

fn format(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F16 => (10, -24),
        DType::BF16 => (7, -133),
        DType::F32 => (23, -149),
        _ => (52, -1074),
    }
}

/// Returns the largest error of results in ulp, and its argument. Values that are not finite must agree, except that
/// numbers next to infinity may round either way.
fn worst(name: &str, x: &Tensor, got: &Tensor, exact: fn(f64) -> f64, limit: f64) -> (f64, f64) {
    let dtype = x.dtype();
    let largest = match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => 3.3895313892515355e38,
        DType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    };
    let mut worst = (0.0, 0.0);
    for (x, got) in wide(x).into_iter().zip(wide(got)) {
        if x.abs() > limit {
            continue;
        }
        let want = exact(x);
        if want.is_nan() || got.is_nan() {
            assert!(want.is_nan() && got.is_nan(), "{name} of {x:e} in {dtype}: {got:e}, not {want:e}");
            continue;
        }
        if want.abs() > largest || got.is_infinite() {
            let edge = want.abs() >= largest * (1.0 - 2f64.powi(-format(dtype).0));
            assert!(edge && got.abs() >= largest, "{name} of {x:e} in {dtype}: {got:e}, not {want:e}");
            continue;
        }
        let off = (got - want).abs() / last_place(want, format(dtype));
        if off > worst.0 {
            worst = (off, x);
        }
    }
    worst
}

/// Returns numbers of all sizes and signs, with bit patterns that are `step` apart.
fn patterns(dtype: DType, step: u64) -> Tensor {
    match dtype {
        DType::F32 => {
            let bits = (0..=u32::MAX as u64).step_by(step as usize);
            let all: Vec<f32> = bits.map(|it| f32::from_bits(it as u32)).collect();
            Tensor::from_slice([all.len()], &all)
        }
        DType::F64 => {
            let count = u64::MAX / step;
            let all: Vec<f64> = (0..count).map(|it| f64::from_bits(it * step)).collect();
            Tensor::from_slice([all.len()], &all)
        }
        half => {
            let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            Tensor::placed(Array::from_bytes(&[1 << 16], half, &bytes)).expect("there is memory")
        }
    }
}

#[test]
fn functions_are_within_the_stated_bounds() {
    let functions = functions();
    let stated = stated();
    assert!(stated.iter().map(|it| it.0).eq(functions.keys().copied()), "the table lists the functions in order");
    // The steps are primes, so that all low bits occur. Each format has a hundred thousand numbers.
    let all = [patterns(DType::F32, 42_943), patterns(DType::F64, 184_467_440_737_129)];
    println!("{:10}{:>12}{:>12}", "function", "f32", "f64");
    for (name, f32_bound, f64_bound, limit) in stated {
        let (f, exact) = functions[name];
        let [single, double] = [&all[0], &all[1]].map(|x| worst(name, x, &compiled(f, x), exact, limit));
        println!("{name:10}{:12.3}{:12.3}", single.0, double.0);
        assert!(single.0 <= f32_bound, "{name} in f32 is {} ulp off at {:e}", single.0, single.1);
        assert!(double.0 <= f64_bound, "{name} in f64 is {} ulp off at {:e}", double.0, double.1);
    }
}

#[test]
fn functions_of_half_precision_are_rounded_once() {
    for dtype in [DType::F16, DType::BF16] {
        let x = patterns(dtype, 1);
        for ((name, (f, exact)), (.., limit)) in functions().into_iter().zip(stated()) {
            let (off, at) = worst(name, &x, &compiled(f, &x), exact, limit);
            assert!(off <= 0.51, "{name} in {dtype} is {off} ulp off at {at:e}");
        }
    }
}

#[test]
#[ignore = "takes minutes: every f32 there is"]
fn every_f32_is_within_the_stated_bounds() {
    let functions = functions();
    std::thread::scope(|scope| {
        for (name, f32_bound, _, limit) in stated() {
            let (f, exact) = functions[name];
            scope.spawn(move || {
                let mut all = (0.0, 0.0);
                for high in 0..1u32 << 12 {
                    let part: Vec<f32> = (0..1u32 << 20).map(|low| f32::from_bits(high << 20 | low)).collect();
                    let x = Tensor::from_slice([part.len()], &part);
                    let part = worst(name, &x, &f(&x), exact, limit);
                    all = if part.0 > all.0 { part } else { all };
                }
                println!("{name:10}{:12.4} at {:e}", all.0, all.1);
                assert!(all.0 <= f32_bound, "{name} is {} ulp off at {:e}", all.0, all.1);
            });
        }
    });
}
