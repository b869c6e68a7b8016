//! Values and gradients of activations, losses and distances at the ends of their domains: at zero and one, at ties, at
//! infinities, subnormals and the largest numbers. The table of docs/numerics.md says which are nan.

use super::compiled;
use ms::ops::{self, Reduction};
use ms::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The largest number, the smallest positive one, and the largest one below one; and the relative tolerance.
fn limits(dtype: DType) -> ([f64; 3], f64) {
    match dtype {
        DType::F16 => ([65504.0, 2f64.powi(-24), 1.0 - 2f64.powi(-11)], 2e-3),
        DType::F32 => ([f32::MAX as f64, 2f64.powi(-149), 1.0 - 2f64.powi(-24)], 1e-6),
        _ => ([f64::MAX, f64::from_bits(1), 1.0 - f64::EPSILON / 2.0], 1e-13),
    }
}

/// The number in the dtype.
fn rounded(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => x as f32 as f64,
        DType::F64 => x,
        _ => Tensor::scalar(x).cast(dtype).cast(DType::F64).item(),
    }
}

fn column(dtype: DType, values: &[f64]) -> Tensor {
    Tensor::from_slice([values.len()], values).cast(dtype)
}

type Function<'a> = &'a dyn Fn(&Tensor) -> Tensor;

/// Compares a function on elements and its slope, eagerly, compiled, and in forward mode.
fn compare(
    name: &str,
    dtype: DType,
    f: Function<'_>,
    points: &[f64],
    want: &dyn Fn(usize, f64) -> [f64; 2],
) -> Vec<String> {
    let x = column(dtype, points);
    let slopes = |x: &Tensor| ms::grad(|x: &Tensor| f(x).sum(()))(x);
    let forward = ms::jvp(|x: &Tensor| f(x))(&x, &Tensor::ones_like(&x)).1;
    let numbers = |x: &Tensor| x.cast(DType::F64).to_vec::<f64>();
    let ways = [
        ("eager", [numbers(&f(&x)), numbers(&slopes(&x))]),
        ("compiled", [numbers(&compiled(f, &x)), numbers(&compiled(&slopes, &x))]),
        ("forward", [numbers(&f(&x)), numbers(&forward)]),
    ];
    let ([_, least, _], tolerance) = limits(dtype);
    let mut wrong = Vec::new();
    for (at, point) in numbers(&x).into_iter().enumerate() {
        let want = want(at, point).map(|it| rounded(it, dtype));
        for (way, got) in &ways {
            for (what, got, want) in [("value", got[0][at], want[0]), ("slope", got[1][at], want[1])] {
                // The other factor has a slope of zero, which forward mode multiplies by the infinity.
                let product = *way == "forward" && name == "hswish" && point.is_infinite();
                let near = product
                    || got == want
                    || got.is_nan() && want.is_nan()
                    || (got - want).abs() <= tolerance * want.abs().min(1e300) + 4.0 * least;
                if !near {
                    wrong.push(format!("{name}, {dtype:?}, {way}: {what} at {point:e} is {got:e}, not {want:e}"));
                }
            }
        }
    }
    wrong
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `x` times `share`, with its slope; `low` and `high` at infinities.
fn gated(x: f64, share: f64, slope: f64, low: [f64; 2], high: [f64; 2]) -> [f64; 2] {
    match x {
        f64::NEG_INFINITY => low,
        INF => high,
        _ => [x * share, slope],
    }
}

type Wanted = fn(f64) -> [f64; 2];
type Activation = (&'static str, fn(&Tensor) -> Tensor, Wanted);

/// Activations with their values and slopes.
const ACTIVATIONS: &[Activation] = &[
    ("relu", |x| ops::relu(x), |x| [x.max(0.0), f64::from(x > 0.0)]),
    ("relu6", |x| ops::relu6(x), |x| [x.clamp(0.0, 6.0), f64::from(0.0 < x && x < 6.0)]),
    ("leaky_relu", |x| ops::leaky_relu(x, 0.25), |x| if x > 0.0 { [x, 1.0] } else { [x * 0.25, 0.25] }),
    ("elu", |x| ops::elu(x, 1.0), |x| if x > 0.0 { [x, 1.0] } else { [x.exp_m1(), x.exp()] }),
    ("celu", |x| ops::celu(x, 2.0), |x| if x > 0.0 { [x, 1.0] } else { [2.0 * (x / 2.0).exp_m1(), (x / 2.0).exp()] }),
    (
        "selu",
        |x| ops::selu(x),
        |x| {
            let (scale, alpha) = (1.0507009873554805, 1.0507009873554805 * 1.6732632423543772);
            if x > 0.0 { [scale * x, scale] } else { [alpha * x.exp_m1(), alpha * x.exp()] }
        },
    ),
    ("sigmoid", |x| ops::sigmoid(x), |x| [sigmoid(x), sigmoid(x) * sigmoid(-x)]),
    ("tanh", |x| ops::tanh(x), |x| [x.tanh(), 1.0 - x.tanh().powi(2)]),
    ("softplus", |x| ops::softplus(x, 1.0, 20.0), |x| [softplus(x), sigmoid(x)]),
    ("logsigmoid", |x| ops::logsigmoid(x), |x| [-softplus(-x), sigmoid(-x)]),
    (
        "silu",
        |x| ops::silu(x),
        |x| {
            let s = sigmoid(x);
            gated(x, s, s + x * s * sigmoid(-x), [NAN, NAN], [INF, NAN])
        },
    ),
    (
        "mish",
        |x| ops::mish(x),
        |x| {
            let share = softplus(x).tanh();
            let slope = share + x * (1.0 - share * share) * sigmoid(x);
            gated(x, share, slope, [NAN, NAN], [INF, NAN])
        },
    ),
    (
        "gelu",
        |x| ops::gelu(x),
        |x| match x {
            _ if x.abs() < 0.5 => [x * 0.5, 0.5],
            1.0 => [0.8413447460685429, 1.0833154705876864],
            -1.0 => [-0.15865525393145707, -0.08331547058768632],
            _ => gated(x, f64::from(x > 0.0), f64::from(x > 0.0), [NAN, NAN], [INF, NAN]),
        },
    ),
    (
        "gelu_tanh",
        |x| ops::gelu_tanh(x),
        |x| {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let s = sigmoid(2.0 * root * (x + 0.044715 * x.powi(3)));
            let slope = if x.abs() > 100.0 { s } else { s + x * s * (1.0 - s) * 2.0 * root * (1.0 + 0.134145 * x * x) };
            gated(x, s, slope, [NAN, NAN], [INF, NAN])
        },
    ),
    (
        "hsigmoid",
        |x| ops::hsigmoid(x),
        |x| [(x + 3.0).clamp(0.0, 6.0) / 6.0, if x.abs() <= 3.0 { 1.0 / 6.0 } else { 0.0 }],
    ),
    (
        "hswish",
        |x| ops::hswish(x),
        |x| {
            let slope = if x.abs() <= 3.0 { (2.0 * x + 3.0) / 6.0 } else { f64::from(x > 0.0) };
            gated(x, (x + 3.0).clamp(0.0, 6.0) / 6.0, slope, [NAN, 0.0], [INF, 1.0])
        },
    ),
    (
        "softsign",
        |x| ops::softsign(x),
        |x| if x.is_infinite() { [NAN, NAN] } else { [x / (1.0 + x.abs()), (1.0 + x.abs()).powi(-2)] },
    ),
];

#[test]
fn activations() {
    let mut wrong = Vec::new();
    for dtype in [DType::F64, DType::F32, DType::F16] {
        let ([most, least, _], _) = limits(dtype);
        let points = [-INF, -most, -1.0, -least, -0.0, 0.0, least, 1.0, most, INF];
        for &(name, f, want) in ACTIVATIONS {
            wrong.extend(compare(name, dtype, &f, &points, &|_, x| want(x)));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Losses of an element and its target.
type Loss = fn(&Tensor, &Tensor) -> Tensor;

/// The elements that a loss takes, and its targets.
#[derive(Clone, Copy, PartialEq)]
enum Given {
    /// Probabilities and targets from zero to one.
    Probabilities,
    /// All numbers, and targets zero, one, and one half.
    Logits,
    /// Logarithms of probabilities, and probabilities.
    Logarithms,
    /// All numbers, and targets of minus one and one.
    Signs,
    /// All numbers, and targets among which are equal ones.
    Numbers,
}

impl Given {
    fn pairs(self, dtype: DType) -> [Vec<f64>; 2] {
        let ([most, least, below_one], _) = limits(dtype);
        let all = [-INF, -most, -1.0, -least, 0.0, least, 1.0, most, INF];
        let (x, targets): (&[f64], &[f64]) = match self {
            Self::Probabilities => (&[0.0, least, 1e-3, 0.5, below_one, 1.0], &[0.0, 0.5, 1.0]),
            Self::Logits => (&all, &[0.0, 0.5, 1.0]),
            Self::Logarithms => (&[-INF, -most, -1.0, -least, 0.0], &[0.0, 0.5, 1.0]),
            Self::Signs => (&all, &[-1.0, 1.0]),
            Self::Numbers => (&all, &[0.0, 1.0]),
        };
        let pairs = x.iter().flat_map(|&x| targets.iter().map(move |&it| (x, it)));
        let (x, targets) = pairs.unzip();
        [x, targets]
    }
}

fn of_distance(x: f64, target: f64, near: f64, slope: f64) -> [f64; 2] {
    let d = x - target;
    if d.abs() <= near {
        [0.5 * d * d * slope / near, d * slope / near]
    } else {
        [slope * (d.abs() - near / 2.0), slope * d.signum()]
    }
}

type LossCase = (&'static str, Given, Loss, fn(f64, f64) -> [f64; 2]);

/// Zero times an infinity is nan, also where the other factor is a constant.
const LOSSES: &[LossCase] = &[
    (
        "binary_cross_entropy",
        Given::Probabilities,
        |x, t| ops::binary_cross_entropy(x, t, None, Reduction::None),
        |x, t| {
            let [a, b] = [x.ln(), (-x).ln_1p()].map(|it| it.max(-100.0));
            [-(t * a + (1.0 - t) * b), (x - t) / (x * (1.0 - x)).max(1e-12)]
        },
    ),
    (
        "bce_with_logits",
        Given::Logits,
        |x, t| ops::bce_with_logits(x, t, None, Reduction::None),
        |x, t| [t * softplus(-x) + (1.0 - t) * softplus(x), sigmoid(x) - t],
    ),
    (
        "kl_div",
        Given::Logarithms,
        |x, t| ops::kl_div(x, t, false, Reduction::None),
        |x, t| if t == 0.0 { [0.0, 0.0] } else { [t * (t.ln() - x), -t] },
    ),
    (
        "mse_loss",
        Given::Numbers,
        |x, t| nn::MSELoss::new().reduction(Reduction::None).call(x, t),
        |x, t| [(x - t).powi(2), 2.0 * (x - t)],
    ),
    (
        "l1_loss",
        Given::Numbers,
        |x, t| nn::L1Loss::new().reduction(Reduction::None).call(x, t),
        |x, t| [(x - t).abs(), if x == t { 0.0 } else { (x - t).signum() }],
    ),
    (
        "smooth_l1_loss",
        Given::Numbers,
        |x, t| ops::smooth_l1_loss(x, t, 0.5, Reduction::None),
        |x, t| of_distance(x, t, 0.5, 1.0),
    ),
    (
        "huber_loss",
        Given::Numbers,
        |x, t| ops::huber_loss(x, t, 2.0, Reduction::None),
        |x, t| of_distance(x, t, 2.0, 2.0),
    ),
    (
        "SoftMarginLoss",
        Given::Signs,
        |x, t| nn::SoftMarginLoss::new().reduction(Reduction::None).call(x, t),
        |x, t| [softplus(-x * t), -t * sigmoid(-x * t)],
    ),
    (
        "HingeEmbeddingLoss",
        Given::Signs,
        |x, t| nn::HingeEmbeddingLoss::new().reduction(Reduction::None).call(x, t),
        |x, t| if t > 0.0 { [x, 1.0] } else { [(1.0 - x).max(0.0), if x <= 1.0 { -1.0 } else { 0.0 }] },
    ),
    (
        "MarginRankingLoss",
        Given::Signs,
        |x, t| nn::MarginRankingLoss::new().reduction(Reduction::None).call(x, &Tensor::zeros_like(x), t),
        |x, t| [(-t * x).max(0.0), if -t * x >= 0.0 { -t } else { 0.0 }],
    ),
    (
        "PoissonNLLLoss",
        Given::Numbers,
        |x, t| nn::PoissonNLLLoss::new().reduction(Reduction::None).call(x, t),
        |x, t| [x.exp() - t * x, x.exp() - t],
    ),
];

#[test]
fn losses() {
    let mut wrong = Vec::new();
    for dtype in [DType::F64, DType::F32, DType::F16] {
        for &(name, given, loss, want) in LOSSES {
            let [x, targets] = given.pairs(dtype);
            let target = column(dtype, &targets);
            // Cells of losses return f32 for narrow operands.
            let f = |x: &Tensor| loss(x, &target).cast(dtype);
            wrong.extend(compare(name, dtype, &f, &x, &|at, x| want(x, targets[at])));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// All reductions, and weights: gradients of a saturated classifier are finite, and it trains on.
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

/// Distances of whole vectors: value, and gradient for the first one.
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

/// An anchor that is the positive one, farther from the negative one than the margin.
fn triplet(x: &Tensor, p: f64) -> Tensor {
    nn::TripletMarginLoss::new().p(p).call(x, &ops::stop_gradient(x), &(ops::stop_gradient(x) + 9.0))
}
