//! Values and gradients at extreme arguments, eagerly and compiled; and how far functions are off,
//! against the bounds that `docs/numerics.md` states.

use ms::ops::reference::ReferenceDispatcher;
use ms::ops::{self, ERF, ERFC, OpDef, Reduction};
use ms::tensor::{Array, Attrs, Element, Literal, Scalar, bf16, f16, with_dispatcher};
use ms::{DType, Tensor, tensor};
use ms_core::session::{Compiled, Precision};
use ms_core::trace;
use std::collections::BTreeMap;
use std::rc::Rc;

const INF: f64 = f64::INFINITY;

type Function = fn(&Tensor) -> Tensor;

/// A function of one number with arguments and values.
type Points<'a> = (&'a str, Function, &'a [(f64, f64)]);

/// A function of a vector with arguments and values.
type Folds<'a> = (&'a str, Function, &'a [(&'a [f64], &'a [f64])]);

/// A function, and what it is held to.
type Held = (Function, fn(f64) -> f64);

/// Runs a function as a compiled graph.
fn compiled(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let graph = trace::build("f", &[x.ty()], |x| Ok(vec![f(&x[0])])).expect("the trace is valid");
    Compiled::new(&graph, Precision::Highest)
        .and_then(|it| it.run(std::slice::from_ref(x)))
        .expect("the graph runs")
        .remove(0)
}

fn wide(x: &Tensor) -> Vec<f64> {
    x.try_array().expect("an array").scalars().into_iter().map(|it| it.as_f64()).collect()
}

/// Holds values to others in proportion; zeros have a sign, and nan is nan.
fn compare(what: &str, got: &Tensor, want: &[f64], tolerance: f64) {
    let got = wide(got);
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, &want) in got.iter().zip(want) {
        let same = got.is_nan() && want.is_nan() || *got == want && got.is_sign_negative() == want.is_sign_negative();
        let near = want != 0.0 && (got - want).abs() <= tolerance * want.abs();
        assert!(same || near, "{what}: {got:e}, not {want:e}");
    }
}

/// Holds a function of an f32 or f64 to values, eagerly and compiled.
fn check(name: &str, f: impl Fn(&Tensor) -> Tensor, x: &Tensor, want: &[f64]) {
    let tolerance = if x.dtype() == DType::F64 { 1e-14 } else { 2e-6 };
    for (way, got) in [("eagerly", f(x)), ("compiled", compiled(&f, x))] {
        compare(&format!("{name} of {x}, {way}"), &got, want, tolerance);
    }
}

#[test]
fn elementwise_functions_at_extreme_arguments() {
    let nan = f64::NAN;
    // The function, arguments, and values; subnormal results are exact to their last place.
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
fn folds_at_extreme_arguments() {
    let nan = f64::NAN;
    let ln_2 = std::f64::consts::LN_2;
    let table: &[Folds<'_>] = &[
        (
            "logsumexp",
            |x| ops::logsumexp(x, (), false),
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
            |x| ops::norm(x, 2.0, (), false),
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
            |x| ops::norm(x, 3.0, 0, true),
            &[(&[1e20, 1e20], &[1.2599210498948732e20]), (&[1e-20, 0.0], &[1e-20]), (&[0.0, 0.0], &[0.0])],
        ),
        ("var", |x| ops::var(x, (), 0, false), &[(&[1e7, 1e7 + 2.0], &[1.0]), (&[3.0, 3.0], &[0.0])]),
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
        ("norm", |x| ops::norm(x, 2.0, (), false), &[3e30, 4e30], &[0.6, 0.8]),
        ("norm", |x| ops::norm(x, 2.0, (), false), &[3e-30, -4e-30], &[0.6, -0.8]),
        ("norm", |x| ops::norm(x, 2.0, (), false), &[0.0, 0.0], &[0.0, 0.0]),
        ("norm of order 3", |x| ops::norm(x, 3.0, (), false), &[0.0, 0.0], &[0.0, 0.0]),
        ("logsumexp", |x| ops::logsumexp(x, (), false), &[1000.0, 1000.0], &[0.5, 0.5]),
        ("logsumexp", |x| ops::logsumexp(x, (), false), &[f64::NEG_INFINITY, 3.0], &[0.0, 1.0]),
        ("softmax", |x| ops::softmax(x, 0).at(1), &[f64::NEG_INFINITY, 3.0], &[0.0, 0.0]),
        ("softplus", |x| ops::sum(ops::softplus(x, 1.0, 20.0), (), false), &[1e4, -1e4], &[1.0, 0.0]),
        ("softplus", |x| ops::sum(ops::softplus(x, 1.0, 1e9), (), false), &[1e4, 0.0], &[1.0, 0.5]),
        ("logsigmoid", |x| ops::sum(ops::logsigmoid(x), (), false), &[-1e4, 0.0], &[1.0, 0.5]),
        ("sigmoid", |x| ops::sum(ops::sigmoid(x), (), false), &[1e4, -1e4], &[0.0, 0.0]),
        ("tanh", |x| ops::sum(ops::tanh(x), (), false), &[1e4, 0.0], &[0.0, 1.0]),
        ("gelu", |x| ops::sum(ops::gelu(x), (), false), &[1e10, -1e10], &[1.0, 0.0]),
        ("gelu_tanh", |x| ops::sum(ops::gelu_tanh(x), (), false), &[1e5, -1e5], &[1.0, 0.0]),
        ("atan2", |x| ops::atan2(x.at(0), x.at(1)), &[3e30, 4e30], &[1.6e-31, -1.2e-31]),
        ("hypot", |x| ops::hypot(x.at(0), x.at(1)), &[3e30, 4e30], &[0.6, 0.8]),
    ];
    for (name, f, x, want) in table {
        for dtype in [DType::F32, DType::F64] {
            let gradient = |x: &Tensor| ms::grad(|x: &Tensor| ops::mul(f(x), 1.0))(x);
            let x = Tensor::from_slice([x.len()], x).cast(dtype);
            for (way, got) in [("eagerly", gradient(&x)), ("compiled", compiled(gradient, &x))] {
                // Whether a zero gradient is negative is of no use.
                let got = ops::select(got.eq(0.0), 0.0, &got);
                compare(&format!("gradient of {name} at {x}, {way}"), &got, want, 1e-5);
            }
        }
    }
}

/// The value of an op by its reference evaluation, in f64.
fn reference(def: &OpDef, x: f64) -> f64 {
    let results = (def.eval)(&Attrs::none(), &[&Array::from_slice(&[], &[x])]).expect("a float evaluates");
    results[0].scalars()[0].as_f64()
}

/// Exact near one and for large arguments, unlike the standard library's.
fn acosh(x: f64) -> f64 {
    let t = if x < 1.0 { f64::NAN } else { x - 1.0 };
    if x > 1e150 { x.ln() + std::f64::consts::LN_2 } else { (t + (t * t + 2.0 * t).sqrt()).ln_1p() }
}

/// Exact for negative arguments, unlike the standard library's.
fn atanh(x: f64) -> f64 {
    (0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p()).copysign(x)
}

/// Exact for large arguments, unlike the standard library's.
fn asinh(x: f64) -> f64 {
    if x.abs() > 1e150 { (x.abs().ln() + std::f64::consts::LN_2).copysign(x) } else { x.asinh() }
}

/// The functions of the table in `docs/numerics.md`, with what they are held to.
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

/// A row of the table: the name, the bounds in units of the last place for f32 and f64, and the
/// largest argument for which they hold.
fn stated() -> Vec<(&'static str, f64, f64, f64)> {
    let functions = include_str!("../../docs/numerics.md").split("\n## ").next().expect("a text has a beginning");
    let rows = functions.lines().filter(|it| it.starts_with("| `"));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{cell:?} of {line} is a number"));
        (cells[1].trim_matches('`'), number(cells[2]), number(cells[3]), number(cells[4]))
    };
    rows.map(row).collect()
}

/// The distance to the next number for numbers of the size of `x`: by bits of the fraction and the
/// exponent of the least one.
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

/// The largest error of results in units of the last place, and where it is; what is not finite must
/// agree, save that numbers next to infinity may round either way.
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

/// Numbers of all sizes and signs: bit patterns `step` apart.
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
            Tensor::from_array(Array::from_bytes(&[1 << 16], half, &bytes))
        }
    }
}

#[test]
fn functions_are_as_exact_as_stated() {
    let functions = functions();
    let stated = stated();
    assert!(stated.iter().map(|it| it.0).eq(functions.keys().copied()), "the table lists the functions in order");
    // Primes, so that all low bits occur; a hundred thousand numbers of each format.
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
fn every_f32_is_as_exact_as_stated() {
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

/// A tensor in another dtype, by every way there is.
fn casts(x: &Tensor, to: DType) -> [(&'static str, Tensor); 5] {
    let literal = Literal::from_array(x.array().expect("an array"));
    let by = |way| with_dispatcher(Rc::new(way), || x.cast(to));
    [
        ("eagerly", x.cast(to)),
        ("compiled", compiled(|x| x.cast(to), x)),
        ("as a constant", compiled(|_| ops::constant(&literal).cast(to), x)),
        ("by the op's meaning", by(ReferenceDispatcher::Eval)),
        ("by the kernel's body", by(ReferenceDispatcher::Lowered)),
    ]
}

/// Numbers of a 16-bit float, and those at and beside the middle between each and the next, with the
/// bits that they round to.
fn near_ties(infinity: u16, of: impl Fn(u16) -> f64) -> Vec<(f64, u16)> {
    let mut cases = Vec::new();
    for bits in 0..infinity {
        let low = of(bits);
        let step = if bits + 1 == infinity { low - of(bits - 1) } else { of(bits + 1) - low };
        let tie = low + step / 2.0;
        let near = tie as f32;
        assert_eq!(f64::from(near), tie, "f32 holds the middle");
        let positive = [
            (low, bits),
            (tie, bits + (bits & 1)),
            (tie.next_down(), bits),
            (tie.next_up(), bits + 1),
            (near.next_down().into(), bits),
            (near.next_up().into(), bits + 1),
        ];
        cases.extend(positive.into_iter().flat_map(|(x, bits)| [(x, bits), (-x, bits | 0x8000)]));
    }
    cases
}

/// Holds every way to convert to a 16-bit float to `of`, on the hard cases of every other dtype.
fn check_rounding<T: Element>(infinity: u16, of: impl Fn(u16) -> f64) {
    let to = T::DTYPE;
    let hold = |x: Tensor, want: Vec<u16>| {
        let bits = |it: Scalar| it.to_bits(to) as u16;
        for (way, got) in casts(&x, to) {
            let got = got.try_array().expect("an array").scalars();
            assert_eq!(got.len(), want.len());
            let wrong = got.iter().zip(&want).position(|(&got, &want)| bits(got) != want);
            if let Some(at) = wrong {
                let from = x.try_array().expect("an array").scalars()[at];
                panic!("{from} of {} to {to}, {way}: {}, not the bits {:#x}", x.dtype(), got[at], want[at]);
            }
        }
    };
    let cases = near_ties(infinity, of);
    for &(x, want) in &cases {
        assert_eq!(Scalar::Float(x).to_bits(to) as u16, want, "the scalar {x:e}");
    }
    hold(Tensor::from(cases.iter().map(|it| it.0).collect::<Vec<_>>()), cases.iter().map(|it| it.1).collect());
    let (x, want): (Vec<f32>, _) =
        cases.iter().filter(|it| f64::from(it.0 as f32) == it.0).map(|it| (it.0 as f32, it.1)).unzip();
    hold(Tensor::from(x), want);
    // Integers at the middle and beside it, which no f64 may hold.
    let ties = cases.iter().step_by(12).zip(cases.iter().skip(2).step_by(12)).map(|(low, tie)| (low.1, tie.1, tie.0));
    let mut integers = Vec::new();
    for (bits, even, tie) in ties.filter(|it| it.2 >= 4096.0 && it.2 < 2e19) {
        let tie = tie as i128;
        let positive = [(tie - 1, bits), (tie, even), (tie + 1, bits + 1)];
        integers.extend(positive.into_iter().flat_map(|(x, bits)| [(x, bits), (-x, bits | 0x8000)]));
    }
    macro_rules! hold_integers {
        ($($ty:ty)*) => {$(
            let held = integers.iter().filter_map(|it| <$ty>::try_from(it.0).ok().map(|x| (x, it.1)));
            let (x, want): (Vec<$ty>, Vec<u16>) = held.unzip();
            hold(Tensor::from(x), want);
        )*};
    }
    hold_integers! { i32 i64 u32 u64 }
}

#[test]
fn conversions_to_16_bits_round_once() {
    check_rounding::<f16>(0x7c00, |bits| f16::from_bits(bits).into());
    // The upper half of an f32.
    check_rounding::<bf16>(0x7f80, |bits| f32::from_bits(u32::from(bits) << 16).into());
}

/// Between the dtypes that Rust has, conversions are Rust's, which round once, saturate and wrap.
#[test]
fn conversions_are_those_of_rust() {
    macro_rules! to {
        ($x:expr, $from:ty: $($to:ty)*) => {{
            let x: &[$from] = $x;
            $(for (way, got) in casts(&Tensor::from(x), <$to>::DTYPE) {
                let (got, want) = (got.to_vec::<$to>(), x.iter().map(|&it| it as $to).collect::<Vec<_>>());
                let (got, want) = (format!("{got:?}"), format!("{want:?}"));
                assert_eq!(got, want, "{x:?} of {} to {}, {way}", <$from>::DTYPE, <$to>::DTYPE);
            })*
            for (way, got) in casts(&Tensor::from(x), DType::Bool) {
                let want: Vec<bool> = x.iter().map(|&it| it != (0 as $from)).collect();
                assert_eq!(got.to_vec::<bool>(), want, "{x:?} to bool, {way}");
            }
        }};
    }
    macro_rules! integers {
        ($($from:ty)*) => {$({
            // What lies beside powers of two and beside the middles of the floats between them.
            let mut all = vec![0, 1, <$from>::MIN, <$from>::MAX];
            for power in 0..<$from>::BITS - 1 {
                let one = 1 as $from;
                for bit in [0, 7, 8, 9, 23, 24, 25, 52, 53, 54].into_iter().filter(|&it| it <= power) {
                    let x = (one << power) | (one << (power - bit));
                    all.extend([x - 1, x, x | 1, (0 as $from).wrapping_sub(x)]);
                }
            }
            to!(&all, $from: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        })*};
    }
    macro_rules! floats {
        ($($from:ident)*) => {$({
            let mut all = vec![$from::NAN, $from::INFINITY, $from::MAX, $from::MIN_POSITIVE, 1e-42, 0.0, 0.5, 1.0 + $from::EPSILON];
            for power in [7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64, 65, 100] {
                let x = (2.0 as $from).powi(power);
                all.extend([x, x.next_down(), x.next_up(), x - 1.0, x - 0.5, x + 0.5, x + 44.0]);
            }
            all.extend(all.clone().into_iter().map(|it: $from| -it));
            to!(&all, $from: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        })*};
    }
    integers! { i8 i16 i32 i64 u8 u16 u32 u64 }
    floats! { f32 f64 }
}
