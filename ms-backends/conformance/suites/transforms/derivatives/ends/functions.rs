//! Lists the functions under the names of the file.

use super::Table;
use ms::ops::{self, CrossEntropy, PoolOptions, Reduction};
use ms::prelude::*;

const INF: f64 = f64::INFINITY;

fn at(x: &Tensor, column: i64) -> Tensor {
    x.i((.., column))
}

/// Returns a number in the dtype of `x`.
fn number(x: &Tensor, value: f64) -> Tensor {
    Tensor::scalar(value).cast(x.dtype())
}

pub const NUMBERS: Table = &[
    ("relu", |x| ops::relu(x)),
    ("relu6", |x| ops::relu6(x)),
    ("leaky_relu", |x| ops::leaky_relu(x, 0.25)),
    ("prelu", |x| nn::PReLU::new(1).call(x)),
    ("elu", |x| ops::elu(x, 1.0)),
    ("elu of 0.5", |x| ops::elu(x, 0.5)),
    ("celu of 2", |x| ops::celu(x, 2.0)),
    ("selu", |x| ops::selu(x)),
    ("sigmoid", |x| ops::sigmoid(x)),
    ("tanh", |x| ops::tanh(x)),
    ("softplus", |x| ops::softplus(x, 1.0, 20.0)),
    ("softplus of 2", |x| ops::softplus(x, 2.0, 20.0)),
    ("logsigmoid", |x| ops::logsigmoid(x)),
    ("silu", |x| ops::silu(x)),
    ("mish", |x| ops::mish(x)),
    ("gelu", |x| ops::gelu(x)),
    ("gelu_tanh", |x| ops::gelu_tanh(x)),
    ("hsigmoid", |x| ops::hsigmoid(x)),
    ("hswish", |x| ops::hswish(x)),
    ("softsign", |x| ops::softsign(x)),
    ("abs", |x| ops::abs(x)),
    ("sign", |x| ops::sign(x)),
    ("square", |x| ops::square(x)),
    ("sqrt", |x| ops::sqrt(x)),
    ("rsqrt", |x| ops::rsqrt(x)),
    ("reciprocal", |x| ops::reciprocal(x)),
    ("exp", |x| ops::exp(x)),
    ("exp2", |x| ops::exp2(x)),
    ("expm1", |x| ops::expm1(x)),
    ("log", |x| ops::log(x)),
    ("log2", |x| ops::log2(x)),
    ("log10", |x| ops::log10(x)),
    ("log1p", |x| ops::log1p(x)),
    ("sin", |x| ops::sin(x)),
    ("cos", |x| ops::cos(x)),
    ("tan", |x| ops::tan(x)),
    ("asin", |x| ops::asin(x)),
    ("acos", |x| ops::acos(x)),
    ("atan", |x| ops::atan(x)),
    ("sinh", |x| ops::sinh(x)),
    ("cosh", |x| ops::cosh(x)),
    ("asinh", |x| ops::asinh(x)),
    ("acosh", |x| ops::acosh(x)),
    ("atanh", |x| ops::atanh(x)),
    ("erf", |x| ops::erf(x)),
    ("erfc", |x| ops::erfc(x)),
    ("floor", |x| ops::floor(x)),
    ("round", |x| ops::round(x)),
    ("clamp", |x| ops::clamp(x, 0.0, 1.0)),
    ("clamp_min", |x| ops::clamp_min(x, 0.0)),
    ("clamp_max", |x| ops::clamp_max(x, 1.0)),
    ("pow 0", |x| ops::pow(x, 0.0)),
    ("pow 0.5", |x| ops::pow(x, 0.5)),
    ("pow 1", |x| ops::pow(x, 1.0)),
    ("pow 1.5", |x| ops::pow(x, 1.5)),
    ("pow 2", |x| ops::pow(x, 2.0)),
    ("pow 3", |x| ops::pow(x, 3.0)),
    ("pow -1", |x| ops::pow(x, -1.0)),
    ("pow of 0", |x| ops::pow(number(x, 0.0), x)),
    ("pow of 1", |x| ops::pow(number(x, 1.0), x)),
    ("pow of -1", |x| ops::pow(number(x, -1.0), x)),
];

pub const PAIRS: Table = &[
    ("add", |x| at(x, 0) + at(x, 1)),
    ("mul", |x| at(x, 0) * at(x, 1)),
    ("div", |x| at(x, 0) / at(x, 1)),
    ("maximum", |x| ops::maximum(at(x, 0), at(x, 1))),
    ("minimum", |x| ops::minimum(at(x, 0), at(x, 1))),
    ("hypot", |x| ops::hypot(at(x, 0), at(x, 1))),
    ("atan2", |x| ops::atan2(at(x, 0), at(x, 1))),
    ("logaddexp", |x| ops::logaddexp(at(x, 0), at(x, 1))),
    ("remainder", |x| ops::remainder(at(x, 0), at(x, 1))),
    ("fmod", |x| ops::fmod(at(x, 0), at(x, 1))),
    ("pow", |x| ops::pow(at(x, 0), at(x, 1))),
];

const NONE: Reduction = Reduction::None;

pub const LOSSES: Table = &[
    ("binary_cross_entropy", |x| ops::binary_cross_entropy(at(x, 0), at(x, 1), None, NONE)),
    ("bce_with_logits", |x| ops::bce_with_logits(at(x, 0), at(x, 1), None, NONE)),
    ("bce_with_logits, weighted", |x| ops::bce_with_logits(at(x, 0), at(x, 1), Some(&number(x, 3.0)), NONE)),
    ("kl_div", |x| ops::kl_div(at(x, 0), at(x, 1), false, NONE)),
    ("kl_div of logarithms", |x| ops::kl_div(at(x, 0), at(x, 1), true, NONE)),
    ("mse_loss", |x| nn::MSELoss::new().reduction(NONE).call(&at(x, 0), &at(x, 1))),
    ("l1_loss", |x| nn::L1Loss::new().reduction(NONE).call(&at(x, 0), &at(x, 1))),
    ("smooth_l1_loss", |x| ops::smooth_l1_loss(at(x, 0), at(x, 1), 0.5, NONE)),
    ("smooth_l1_loss of 0", |x| ops::smooth_l1_loss(at(x, 0), at(x, 1), 0.0, NONE)),
    ("huber_loss", |x| ops::huber_loss(at(x, 0), at(x, 1), 2.0, NONE)),
    ("SoftMarginLoss", |x| nn::SoftMarginLoss::new().reduction(NONE).call(&at(x, 0), &ops::stop_gradient(at(x, 1)))),
    ("HingeEmbeddingLoss", |x| {
        nn::HingeEmbeddingLoss::new().reduction(NONE).call(&at(x, 0), &ops::stop_gradient(at(x, 1)))
    }),
    ("PoissonNLLLoss", |x| nn::PoissonNLLLoss::new().reduction(NONE).call(&at(x, 0), &at(x, 1))),
    ("PoissonNLLLoss, full", |x| nn::PoissonNLLLoss::new().full(true).reduction(NONE).call(&at(x, 0), &at(x, 1))),
    ("PoissonNLLLoss of means", |x| {
        nn::PoissonNLLLoss::new().log_input(false).reduction(NONE).call(&at(x, 0), &at(x, 1))
    }),
    ("MarginRankingLoss", |x| {
        let target = ops::stop_gradient(at(x, 2));
        nn::MarginRankingLoss::new().margin(1.0).reduction(NONE).call(&at(x, 0), &at(x, 1), &target)
    }),
    ("GaussianNLLLoss", |x| nn::GaussianNLLLoss::new().reduction(NONE).call(&at(x, 0), &at(x, 1), &at(x, 2))),
    ("GaussianNLLLoss, full", |x| {
        nn::GaussianNLLLoss::new().full(true).reduction(NONE).call(&at(x, 0), &at(x, 1), &at(x, 2))
    }),
];

/// Repeats the class, or the list of classes, for each row.
fn classes(x: &Tensor, each: Tensor) -> Tensor {
    let shape = [&[x.dim(0)], &each.dims()[..]].concat();
    each.broadcast_to(shape)
}

fn cross_entropy(x: &Tensor, label_smoothing: f64) -> Tensor {
    CrossEntropy { reduction: NONE, label_smoothing, ..CrossEntropy::default() }.of(x, classes(x, Tensor::scalar(0)))
}

fn multi_margin(x: &Tensor, p: f64) -> Tensor {
    nn::MultiMarginLoss::new().p(p).reduction(NONE).call(x, &classes(x, Tensor::scalar(0)))
}

/// Returns the options of windows over rows.
fn windows(kernel: usize) -> PoolOptions {
    PoolOptions::new(1, kernel).stride(1)
}

pub const ROWS: Table = &[
    ("norm -inf", |x| x.norm(-INF, -1)),
    ("norm -1", |x| x.norm(-1.0, -1)),
    ("norm 0", |x| x.norm(0.0, -1)),
    ("norm 0.5", |x| x.norm(0.5, -1)),
    ("norm 1", |x| x.norm(1.0, -1)),
    ("norm 1.5", |x| x.norm(1.5, -1)),
    ("norm 2", |x| x.norm(2.0, -1)),
    ("norm 3", |x| x.norm(3.0, -1)),
    ("norm inf", |x| x.norm(INF, -1)),
    ("sum", |x| x.sum(-1)),
    ("mean", |x| x.mean(-1)),
    ("prod", |x| x.prod(-1)),
    ("max", |x| x.max(-1)),
    ("min", |x| x.min(-1)),
    ("var", |x| x.var(-1, 1)),
    ("std", |x| x.std(-1, 1)),
    ("std of the whole", |x| x.std(-1, 0)),
    ("cumsum", |x| ops::cumsum(x, 1)),
    ("cumprod", |x| ops::cumprod(x, 1)),
    ("sort", |x| ops::sort(x, 1, false).0),
    ("logsumexp", |x| x.logsumexp(-1)),
    ("softmax", |x| x.softmax(1)),
    ("log_softmax", |x| x.log_softmax(1)),
    ("cross_entropy", |x| cross_entropy(x, 0.0)),
    ("cross_entropy, smoothed", |x| cross_entropy(x, 0.25)),
    ("cross_entropy of a distribution", |x| {
        let target = classes(x, tensor![0.5, 0.5, 0.0]).cast(x.dtype());
        CrossEntropy { reduction: NONE, ..CrossEntropy::default() }.of(x, target)
    }),
    ("nll_loss", |x| nn::NLLLoss::new().reduction(NONE).call(x, &classes(x, Tensor::scalar(0)))),
    ("layer_norm", |x| ops::layer_norm(x, None, None, 1, 1e-5)),
    ("rms_norm", |x| ops::rms_norm(x, Tensor::ones([3]).cast(x.dtype()), 1, 1e-5)),
    ("cosine_similarity", |x| ops::cosine_similarity(x, classes(x, tensor![3.0, 0.0, 0.0]).cast(x.dtype()), -1, 1e-8)),
    ("max_pool", |x| ops::max_pool(x.expand_dims(1), &windows(2))),
    ("max_pool, padded", |x| ops::max_pool(x.expand_dims(1), &windows(3).padding(1))),
    ("max_pool, all", |x| ops::max_pool(x.expand_dims(1), &windows(3))),
    ("avg_pool", |x| ops::avg_pool(x.expand_dims(1), &windows(2))),
    ("adaptive_max_pool", |x| ops::adaptive_max_pool(x.expand_dims(1), &[2])),
    ("MultiMarginLoss", |x| multi_margin(x, 1.0)),
    ("MultiMarginLoss of 2", |x| multi_margin(x, 2.0)),
    ("MultiLabelMarginLoss", |x| {
        nn::MultiLabelMarginLoss::new().reduction(NONE).call(x, &classes(x, tensor![0, 2, -1]))
    }),
    ("MultiLabelSoftMarginLoss", |x| {
        nn::MultiLabelSoftMarginLoss::new().reduction(NONE).call(x, &classes(x, tensor![1.0, 0.0, 1.0]).cast(x.dtype()))
    }),
    ("RMSELoss", |x| ms::vmap(|x: &Tensor| nn::RMSELoss.call(x, &Tensor::ones_like(x)))(x)),
    ("DiceLoss", |x| {
        let target = tensor![3.0, 0.0, 0.0].cast(x.dtype());
        ms::vmap(|x: &Tensor| nn::DiceLoss::default().call(x, &target))(x)
    }),
];

fn columns(x: &Tensor, from: usize, to: usize) -> Tensor {
    x.i((.., from..to))
}

fn triplet(x: &Tensor, p: f64, swap: bool) -> Tensor {
    let [anchor, near, far] = [0, 2, 4].map(|it| columns(x, it, it + 2));
    nn::TripletMarginLoss::new().p(p).swap(swap).reduction(NONE).call(&anchor, &near, &far)
}

/// Uses no `eps`, so that points may coincide.
fn exact_triplet(x: &Tensor, p: f64) -> Tensor {
    let [anchor, near, far] = [0, 2, 4].map(|it| columns(x, it, it + 2));
    nn::TripletMarginLoss::new().p(p).eps(0.0).reduction(NONE).call(&anchor, &near, &far)
}

fn cosine_embedding(x: &Tensor, target: i64) -> Tensor {
    ops::cosine_embedding_loss(columns(x, 0, 2), columns(x, 2, 4), classes(x, Tensor::scalar(target)), 0.0, NONE)
}

/// Computes CTC for three steps of three classes.
fn ctc(x: &Tensor, labels: &[i64], zero_infinity: bool) -> Tensor {
    let rows = x.dim(0);
    let logs = ops::log_softmax(x.reshape((rows, 3, 3)).permute([1, 0, 2]), 2);
    let all = |it: i64| classes(x, Tensor::scalar(it));
    let labels = classes(x, Tensor::from_slice([labels.len()], labels));
    let count = labels.shape()[1] as i64;
    nn::CTCLoss::new().zero_infinity(zero_infinity).reduction(NONE).call(&logs, &labels, &all(3), &all(count))
}

pub const DISTANCES: Table = &[
    ("TripletMarginLoss of 0.5", |x| triplet(x, 0.5, false)),
    ("TripletMarginLoss of 1", |x| triplet(x, 1.0, false)),
    ("TripletMarginLoss of 1.5", |x| triplet(x, 1.5, false)),
    ("TripletMarginLoss of 2", |x| triplet(x, 2.0, false)),
    ("TripletMarginLoss of 3", |x| triplet(x, 3.0, false)),
    ("TripletMarginLoss of inf", |x| triplet(x, INF, false)),
    ("TripletMarginLoss of 0.5, swapped", |x| triplet(x, 0.5, true)),
    ("TripletMarginLoss of 1, swapped", |x| triplet(x, 1.0, true)),
    ("TripletMarginLoss of 1.5, swapped", |x| triplet(x, 1.5, true)),
    ("TripletMarginLoss of 2, swapped", |x| triplet(x, 2.0, true)),
    ("TripletMarginLoss of 3, swapped", |x| triplet(x, 3.0, true)),
    ("TripletMarginLoss of inf, swapped", |x| triplet(x, INF, true)),
    ("TripletMarginLoss of 0.5, exact", |x| exact_triplet(x, 0.5)),
    ("TripletMarginLoss of 1, exact", |x| exact_triplet(x, 1.0)),
    ("TripletMarginLoss of 1.5, exact", |x| exact_triplet(x, 1.5)),
    ("TripletMarginLoss of 2, exact", |x| exact_triplet(x, 2.0)),
    ("TripletMarginLoss of 3, exact", |x| exact_triplet(x, 3.0)),
    ("TripletMarginLoss of inf, exact", |x| exact_triplet(x, INF)),
    ("cosine_similarity of both", |x| ops::cosine_similarity(columns(x, 0, 2), columns(x, 2, 4), -1, 1e-8)),
    ("CosineEmbeddingLoss, alike", |x| cosine_embedding(x, 1)),
    ("CosineEmbeddingLoss, unlike", |x| cosine_embedding(x, -1)),
    ("CTCLoss", |x| ctc(x, &[1, 2], false)),
    ("CTCLoss of a pair", |x| ctc(x, &[1, 1], false)),
    ("CTCLoss without labels", |x| ctc(x, &[], false)),
    ("CTCLoss, too long", |x| ctc(x, &[1, 1, 2], false)),
    ("CTCLoss, without infinities", |x| ctc(x, &[1, 1, 2], true)),
];
