//! Tests derivatives to the third order of smooth functions where their formulas change.
//!
//! The points are zero, equal operands, ones, and zeros of products. Each order is compared with differences of the
//! order before.

use super::compiled;
use ms::ops::{self, Derivative, Lowering, Reduction, Segment};
use ms::prelude::*;
use std::collections::BTreeSet;

/// A function of the rows of `[k, n]` that returns `[k, m]`.
type Function = fn(&Tensor) -> Tensor;

/// The operands of each row.
type Points = &'static [&'static [f64]];

const STEP: f64 = 1e-4;

/// The highest order of derivatives.
const ORDERS: usize = 3;

/// Zero, and other numbers that formulas may treat specially.
const NUMBERS: Points = &[&[0.0], &[1.0], &[-1.0], &[0.5]];
/// Equal operands, and pairs in which one or both are zero.
const PAIRS: Points = &[&[0.0, 0.0], &[1.5, 1.5], &[0.0, 1.0], &[-1.0, 0.0], &[-0.5, -0.5], &[1.0, -1.0]];
/// Pairs of logits and targets.
const TARGETS: Points = &[&[0.0, 0.0], &[0.0, 1.0], &[0.0, 0.25], &[1.0, 1.0], &[-1.0, -1.0]];
/// Zeros among the factors, and ties.
const VECTORS: Points = &[
    &[0.0, 2.0, 3.0, 0.5],
    &[2.0, 0.0, 0.0, 3.0],
    &[0.0, 0.0, 2.0, 0.0],
    &[0.0, 0.0, 0.0, 0.0],
    &[1.5, 1.5, 1.5, 0.5],
    &[-1.0, 0.0, -1.0, 2.0],
];
/// Vectors that are not zero.
const LONG: Points = &[&[0.0, 2.0, 3.0, 0.0], &[0.0, 0.0, -2.0, 0.0], &[1.5, 1.5, 1.5, 1.5], &[-1.0, 0.0, -1.0, 2.0]];
/// Pairs of vectors that are not zero.
const LONG_PAIRS: Points =
    &[&[0.0, 2.0, 0.0, 2.0], &[1.0, 0.0, 0.0, 1.0], &[1.5, 1.5, 1.5, 1.5], &[-1.0, 0.0, 0.0, -2.0]];

fn at(x: &Tensor, column: i64) -> Tensor {
    x.i((.., column))
}

/// Returns the first two columns, and the last two.
fn halves(x: &Tensor) -> [Tensor; 2] {
    [x.i((.., ..2)), x.i((.., 2..))]
}

fn scattered(x: &Tensor) -> Tensor {
    let rows = x.dim(0);
    let index = Tensor::zeros((rows, 3)).cast(DType::I64);
    ops::scatter_mul(x.i((.., ..2)), index, x.i((.., 1..)), 1)
}

/// The functions, with the names of the ops that they check.
const FUNCTIONS: &[(&str, Function, Points)] = &[
    ("neg", |x| -x, NUMBERS),
    ("square", |x| ops::square(x), NUMBERS),
    ("exp", |x| ops::exp(x), NUMBERS),
    ("exp2", |x| ops::exp2(x), NUMBERS),
    ("expm1", |x| ops::expm1(x), NUMBERS),
    ("log", |x| ops::log(x), &[&[1.0], &[0.5]]),
    ("log2", |x| ops::log2(x), &[&[1.0], &[2.0]]),
    ("log10", |x| ops::log10(x), &[&[1.0]]),
    ("log1p", |x| ops::log1p(x), &[&[0.0], &[1.0]]),
    ("sqrt", |x| ops::sqrt(x), &[&[1.0]]),
    ("rsqrt", |x| ops::rsqrt(x), &[&[1.0]]),
    ("reciprocal", |x| ops::reciprocal(x), &[&[1.0], &[-1.0]]),
    ("sin", |x| ops::sin(x), NUMBERS),
    ("cos", |x| ops::cos(x), NUMBERS),
    ("tan", |x| ops::tan(x), NUMBERS),
    ("asin", |x| ops::asin(x), &[&[0.0], &[0.5]]),
    ("acos", |x| ops::acos(x), &[&[0.0], &[0.5]]),
    ("atan", |x| ops::atan(x), NUMBERS),
    ("sinh", |x| ops::sinh(x), NUMBERS),
    ("cosh", |x| ops::cosh(x), NUMBERS),
    ("tanh", |x| ops::tanh(x), NUMBERS),
    ("asinh", |x| ops::asinh(x), NUMBERS),
    ("acosh", |x| ops::acosh(x), &[&[2.0]]),
    ("atanh", |x| ops::atanh(x), &[&[0.0], &[0.5]]),
    ("erf", |x| ops::erf(x), NUMBERS),
    ("erfc", |x| ops::erfc(x), NUMBERS),
    ("sigmoid", |x| ops::sigmoid(x), NUMBERS),
    ("gelu", |x| ops::gelu(x), NUMBERS),
    ("gelu_tanh", |x| ops::gelu_tanh(x), NUMBERS),
    ("silu", |x| ops::silu(x), NUMBERS),
    ("softplus", |x| ops::softplus(x, 1.0, 20.0), NUMBERS),
    ("softplus of 2x", |x| ops::softplus(x, 2.0, 20.0), NUMBERS),
    ("logsigmoid", |x| ops::logsigmoid(x), NUMBERS),
    ("mish", |x| ops::mish(x), NUMBERS),
    ("pow 0", |x| ops::pow(x, 0.0), NUMBERS),
    ("pow 1", |x| ops::pow(x, 1.0), NUMBERS),
    ("pow 2", |x| ops::pow(x, 2.0), NUMBERS),
    ("pow 3", |x| ops::pow(x, 3.0), NUMBERS),
    ("pow of a tensor", |x| ops::pow(x, Tensor::scalar(1.0f64)), NUMBERS),
    ("pow", |x| ops::pow(at(x, 0), at(x, 1)), &[&[1.0, 0.0], &[1.0, 1.0], &[2.0, 0.0], &[0.5, 2.0]]),
    ("add", |x| at(x, 0) + at(x, 1), PAIRS),
    ("sub", |x| at(x, 0) - at(x, 1), PAIRS),
    ("mul", |x| at(x, 0) * at(x, 1), PAIRS),
    ("div", |x| at(x, 0) / at(x, 1), &[&[0.0, 1.0], &[1.5, 1.5], &[-1.0, -1.0]]),
    ("atan2", |x| ops::atan2(at(x, 0), at(x, 1)), &[&[0.0, 1.0], &[1.0, 0.0], &[1.0, 1.0], &[-1.0, 0.0]]),
    ("hypot", |x| ops::hypot(at(x, 0), at(x, 1)), &[&[0.0, 1.0], &[1.0, 0.0], &[1.0, 1.0], &[-1.0, 0.0]]),
    ("logaddexp", |x| ops::logaddexp(at(x, 0), at(x, 1)), PAIRS),
    ("lerp", |x| ops::lerp(at(x, 0), at(x, 1), 0.5), PAIRS),
    ("prod", |x| ops::prod(x, -1), VECTORS),
    ("cumprod", |x| ops::cumprod(x, 1), VECTORS),
    ("cumprod, exclusive", |x| ops::cumprod_of(x, 1, true, false), VECTORS),
    ("cumprod, reversed", |x| ops::cumprod_of(x, 1, false, true), VECTORS),
    ("cumprod, both", |x| ops::cumprod_of(x, 1, true, true), VECTORS),
    ("scatter_mul", scattered, VECTORS),
    ("segment", |x| ops::segment(ops::permute(x, [1, 0]), tensor![0, 0, 0, 1], 2, Segment::Prod).sum(0), VECTORS),
    ("sum", |x| ops::sum(x.square(), -1), VECTORS),
    ("cumsum", |x| ops::cumsum(x.square(), 1), VECTORS),
    ("mean", |x| ops::mean(x.square(), -1), VECTORS),
    ("var", |x| ops::var(x, -1, 1), VECTORS),
    ("std", |x| ops::std(x, -1, 0), &[&[0.0, 2.0, 3.0, 0.0], &[1.0, 1.0, 1.0, -1.0]]),
    ("norm 2", |x| ops::norm(x, 2.0, -1), LONG),
    ("norm 4", |x| ops::norm(x, 4.0, -1), LONG),
    ("logsumexp", |x| ops::logsumexp(x, -1), VECTORS),
    ("softmax", |x| ops::softmax(x, -1), VECTORS),
    ("log_softmax", |x| ops::log_softmax(x, -1), VECTORS),
    ("layer_norm", |x| ops::layer_norm(x, None, None, 1, 1e-1), VECTORS),
    ("rms_norm", |x| ops::rms_norm(x, Tensor::ones([4]), 1, 1e-1), VECTORS),
    ("matmul", |x| ops::matmul(x.i((.., ..2)).expand_dims(1), x.i((.., 2..)).expand_dims(2)).reshape((-1, 1)), VECTORS),
    (
        "cosine_similarity",
        |x| {
            let [a, b] = halves(x);
            ops::cosine_similarity(a, b, -1, 1e-8)
        },
        LONG_PAIRS,
    ),
    ("smooth_l1_loss", |x| ops::smooth_l1_loss(at(x, 0), at(x, 1), 1.5, Reduction::None), TARGETS),
    ("huber_loss", |x| ops::huber_loss(at(x, 0), at(x, 1), 2.0, Reduction::None), TARGETS),
    ("bce_with_logits", |x| ops::bce_with_logits(at(x, 0), at(x, 1), None, Reduction::None), TARGETS),
    (
        "binary_cross_entropy",
        |x| ops::binary_cross_entropy(at(x, 0), at(x, 1), None, Reduction::None),
        &[&[0.5, 0.5], &[0.25, 1.0], &[0.5, 0.0]],
    ),
    ("kl_div", |x| ops::kl_div(at(x, 0), at(x, 1), false, Reduction::None), &[&[0.0, 1.0], &[1.0, 1.0]]),
    ("kl_div of logarithms", |x| ops::kl_div(at(x, 0), at(x, 1), true, Reduction::None), TARGETS),
    ("SoftMarginLoss", |x| losses_of(nn::SoftMarginLoss::new(), x), TARGETS),
    ("MSELoss", |x| losses_of(nn::MSELoss::new(), x), TARGETS),
    ("PoissonNLLLoss", |x| losses_of(nn::PoissonNLLLoss::new(), x), TARGETS),
    (
        "GaussianNLLLoss",
        |x| nn::GaussianNLLLoss::new().reduction(Reduction::None).call(&at(x, 0), &at(x, 1), &at(x, 2)),
        &[&[0.0, 0.0, 1.0], &[1.0, 1.0, 0.5]],
    ),
    (
        "CosineEmbeddingLoss",
        |x| {
            let [a, b] = halves(x);
            let target = Tensor::ones([x.shape()[0]]);
            ops::cosine_embedding_loss(a, b, target, 0.0, Reduction::None)
        },
        LONG_PAIRS,
    ),
    ("cross_entropy", |x| cross_entropy(nn::CrossEntropyLoss::new(), x), VECTORS),
    ("cross_entropy, smoothed", |x| cross_entropy(nn::CrossEntropyLoss::new().label_smoothing(0.1), x), VECTORS),
    (
        "FocalLoss",
        |x| nn::FocalLoss::new().reduction(Reduction::None).call(x, &tensor![1].broadcast_to([x.shape()[0]])),
        VECTORS,
    ),
    (
        "DiceLoss",
        |x| {
            let [a, b] = halves(x);
            ms::vmap(|a: &Tensor, b: &Tensor| nn::DiceLoss::default().call(a, b))(&a, &b)
        },
        LONG_PAIRS,
    ),
];

fn losses_of<L: Loss>(loss: L, x: &Tensor) -> Tensor {
    loss.losses(&at(x, 0), &at(x, 1))
}

/// A loss of pairs of elements.
trait Loss {
    fn losses(self, x: &Tensor, target: &Tensor) -> Tensor;
}

macro_rules! elementwise_losses {
    ($($name:ident),*) => {
        $(impl Loss for nn::$name {
            fn losses(self, x: &Tensor, target: &Tensor) -> Tensor {
                self.reduction(Reduction::None).call(x, target)
            }
        })*
    };
}

elementwise_losses!(SoftMarginLoss, MSELoss, PoissonNLLLoss);

fn cross_entropy(loss: nn::CrossEntropyLoss, x: &Tensor) -> Tensor {
    loss.reduction(Reduction::None).call(x, &tensor![1].broadcast_to([x.shape()[0]]))
}

/// Computes the derivative of this order along `direction` at each row. Each row moves by its own number in `along`.
fn derivative(f: Function, order: usize, rows: &Tensor, direction: &Tensor, along: &Tensor) -> Tensor {
    if order == 0 {
        let y = f(&(rows + along.expand_dims(-1) * direction)).reshape((rows.shape()[0], -1));
        let weights: Vec<f64> = (0..y.shape()[1]).map(|it| 0.5 + (it as f64 * 0.754_877_666).fract()).collect();
        return (&y * Tensor::from_slice([weights.len()], &weights)).sum(-1);
    }
    ms::grad(|along: &Tensor| derivative(f, order - 1, rows, direction, along).sum(()))(along)
}

/// Returns the points, the directions, and the moves in rows. The moves are zero, forth and back.
fn rows(points: Points) -> [Tensor; 3] {
    let size = points[0].len();
    let directions: Vec<Vec<f64>> = match size {
        1 => vec![vec![1.0]],
        _ => {
            let unit = |axis: usize| (0..size).map(|it| f64::from(it == axis)).collect();
            let mixed = |seed: usize| (0..size).map(|it| ((it * 5 + seed * 3) % 7) as f64 / 4.0 - 0.7).collect();
            (0..size).map(unit).chain((1..4).map(mixed)).collect()
        }
    };
    let (mut all, mut along, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    for step in [0.0, STEP, -STEP] {
        for (point, direction) in points.iter().flat_map(|it| directions.iter().map(move |direction| (it, direction))) {
            all.extend_from_slice(point);
            along.extend_from_slice(direction);
            moves.push(step);
        }
    }
    [
        Tensor::from_slice([moves.len(), size], &all),
        Tensor::from_slice([moves.len(), size], &along),
        Tensor::from_slice([moves.len()], &moves),
    ]
}

/// Returns the derivatives of a function that disagree with differences of the order before.
fn differences(name: &str, f: Function, points: Points) -> Vec<String> {
    let [x, direction, moves] = rows(points);
    let all: Vec<Vec<f64>> = (0..=ORDERS).map(|it| derivative(f, it, &x, &direction, &moves).to_vec()).collect();
    let count = all[0].len() / 3;
    let mut wrong = Vec::new();
    let mut compare = |got: &[f64], order: usize, what: &str| {
        for row in 0..count {
            let before = &all[order - 1];
            let want = (before[count + row] - before[2 * count + row]) / (2.0 * STEP);
            let size = 1.0 + want.abs().max(before[row].abs());
            if (got[row] - want).abs() > 1e-6 * size || got[row].is_nan() {
                let directions = count / points.len();
                let at = points[row / directions];
                wrong.push(format!("{name}, derivative {order}{what} at {at:?}: {}, not {want}", got[row]));
            }
        }
    };
    for (order, got) in all.iter().enumerate().skip(1) {
        compare(got, order, "");
    }
    let last = |it: &Tensor| derivative(f, ORDERS, &x, &direction, it);
    compare(&compiled(&last, &moves).to_vec(), ORDERS, ", compiled");
    let ones = Tensor::ones_like(&moves);
    let forward = |order: usize| ms::jvp(|it: &Tensor| derivative(f, order, &x, &direction, it))(&moves, &ones).1;
    compare(&forward(1).to_vec(), 2, ", forward over reverse");
    compare(&forward(0).to_vec(), 1, ", forward");
    wrong
}

#[test]
fn derivatives_of_smooth_functions() {
    let wrong: Vec<String> = FUNCTIONS.iter().flat_map(|&(name, f, points)| differences(name, f, points)).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Ops that are not smooth somewhere, or that are not functions of numbers. Other tests cover them.
const OTHERS: &[&str] =
    &["abs", "maximum", "minimum", "relu", "remainder", "fmod", "select", "cast", "formula", "tensor_move"];

#[test]
fn every_op_on_elements_has_a_row() {
    let named: BTreeSet<&str> = FUNCTIONS.iter().map(|it| it.0).collect();
    let missing = ops::definitions().filter(|it| {
        let derived = matches!(ops::transform_rules(it).derivative, Derivative::Rule(_));
        let on_elements = matches!(it.lowering, Lowering::Map(_));
        derived && on_elements && !named.contains(it.name()) && !OTHERS.contains(&it.name())
    });
    let missing: Vec<&str> = missing.map(|it| it.name()).collect();
    assert!(missing.is_empty(), "without a row of FUNCTIONS: {missing:?}");
}

/// The first derivative of a function at a kink agrees with PyTorch's.
#[test]
fn kinks() {
    type Case = (&'static str, Function, f64, f64);
    let cases: &[Case] = &[
        ("elu", |x| ops::elu(x, 1.0), 0.0, 1.0),
        ("elu", |x| ops::elu(x, 0.5), 0.0, 0.5),
        ("celu", |x| ops::celu(x, 0.5), 0.0, 1.0),
        ("selu", |x| ops::selu(x), 0.0, 1.7580993408473766),
        ("relu", |x| ops::relu(x), 0.0, 0.0),
        ("relu6", |x| ops::relu6(x), 0.0, 0.0),
        ("relu6", |x| ops::relu6(x), 6.0, 0.0),
        ("leaky_relu", |x| ops::leaky_relu(x, 0.25), 0.0, 0.25),
        ("hsigmoid", |x| ops::hsigmoid(x), -3.0, 0.0),
        ("hsigmoid", |x| ops::hsigmoid(x), 3.0, 0.0),
        ("hswish", |x| ops::hswish(x), -3.0, 0.0),
        ("hswish", |x| ops::hswish(x), 3.0, 1.0),
        ("softsign", |x| ops::softsign(x), 0.0, 1.0),
        ("abs", |x| ops::abs(x), 0.0, 0.0),
        ("clamp", |x| ops::clamp(x, 0.0, 1.0), 0.0, 0.0),
        ("clamp", |x| ops::clamp(x, 0.0, 1.0), 1.0, 0.0),
        ("clamp_min", |x| ops::clamp_min(x, 1.0), 1.0, 0.0),
        ("clamp_min of a tensor", |x| ops::clamp_min(x, ops::stop_gradient(x)), 1.0, 0.5),
        ("clamp_max of a tensor", |x| ops::clamp_max(ops::stop_gradient(x), x), 1.0, 0.5),
        ("maximum", |x| ops::maximum(x, 2.0), 2.0, 0.5),
    ];
    for &(name, f, at, want) in cases {
        let x = Tensor::scalar(at).cast(DType::F64);
        assert_eq!(ms::grad(f)(&x).item::<f64>(), want, "{name} at {at}");
        assert_eq!(compiled(&|x| ms::grad(f)(x), &x).item::<f64>(), want, "{name} at {at}, compiled");
    }
}

#[test]
fn hessians_at_zeros_and_ties() {
    let hessian = |f: Function, x: Tensor| ms::hessian(f)(&x.cast(DType::F64)).to_vec::<f64>();
    let want = [0.0, 3.0, 2.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0];
    assert_eq!(hessian(|x| ops::prod(x, ()), tensor![0., 2., 3.]), want);
    let want = [0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 3.0, 0.0];
    assert_eq!(hessian(|x| ops::prod(x, ()), tensor![3., 0., 0.]), want);
    let want = [0.0, 4.0, 2.0, 4.0, 0.0, 0.0, 2.0, 0.0, 0.0];
    assert_eq!(hessian(|x| ops::cumprod(x, 0).sum(()), tensor![0., 2., 3.]), want);
    let want = [0.25, -0.25, -0.25, 0.25];
    assert_eq!(hessian(|x| ops::logaddexp(x.at(0), x.at(1)), tensor![2., 2.]), want);
}
