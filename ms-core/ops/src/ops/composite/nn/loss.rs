//! Losses between tensors of one shape, and the reduction of the losses of elements.
//!
//! Losses do not broadcast: `[n, 1]` with a target `[n]` would give `n²` losses of unrelated pairs.

use super::activation::softplus_pair;
use crate::ops::core::rules::{Interval, check_broadcast, check_dims, check_interval};
use crate::ops::{
    bounded, clamp_min, exp, isinf, keepdims, log, log1p, mean, norm, over_size, select, sqrt, stop_gradient, sum,
};
use crate::tensor::{AsTensor, Dim, Tensor};
use ms_ir::error::{Result, called};

/// The reduction of the losses of examples.
///
/// ```
/// use ms_core::{ops, tensor};
/// use ops::Reduction;
/// let of = |reduction: Reduction| reduction.apply(&tensor![[1.0, 2.0], [3.0, 6.0]]).to_vec::<f32>();
/// assert_eq!([of(Reduction::Mean), of(Reduction::Sum), of(Reduction::BatchMean)], [[3.0], [12.0], [6.0]]);
/// assert_eq!(of(Reduction::None), [1.0, 2.0, 3.0, 6.0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// The mean.
    #[default]
    Mean,
    /// The sum.
    Sum,
    /// The sum, divided by the size of the first axis.
    BatchMean,
    /// No reduction.
    None,
}

impl Reduction {
    /// All reductions, indexed by their numbers in attributes.
    pub(super) const ALL: [Self; 4] = [Self::Mean, Self::Sum, Self::BatchMean, Self::None];

    /// Reduces the losses of examples or elements.
    #[track_caller]
    pub fn apply(self, losses: &Tensor) -> Tensor {
        match self {
            Self::Mean => mean(losses, ()),
            Self::Sum => sum(losses, ()),
            Self::BatchMean => over_size(&sum(losses, ()), losses.dims().first().copied().unwrap_or(Dim::new(1))),
            Self::None => losses.clone(),
        }
    }
}

/// Checks that the target has the shape of `x`.
fn check_target(op: &str, x: &Tensor, target: &Tensor) -> Result<()> {
    check_dims(op, "target", target, &x.dims()).map_err(|it| {
        let operands = [x, target].map(|it| it.ty().to_string());
        it.with_operands(operands).help("losses do not broadcast: `reshape` or `broadcast_to` says which elements meet")
    })
}

/// Returns the mean of `(x - target)²`.
///
/// # Panics
/// Raises [`Code::Shape`](crate::Code::Shape) unless both have the same shape, as do all losses between tensors of one
/// shape.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::mse_loss(tensor![1., 2.], tensor![3., 2.]).to_vec::<f32>(), [2.]);
/// ```
#[track_caller]
pub fn mse_loss(x: impl AsTensor, target: impl AsTensor) -> Tensor {
    let _called = called("mse_loss");
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    propagate_poison!(x, target);
    or_poison!(check_target("mse_loss", x, target));
    compute_wide!(x, target => mse_loss(x, target));
    let difference = x - target;
    Reduction::Mean.apply(&(&difference * &difference))
}

/// Returns the mean of `|x - target|`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::l1_loss(tensor![1., 2.], tensor![3., 2.]).to_vec::<f32>(), [1.]);
/// ```
#[track_caller]
pub fn l1_loss(x: impl AsTensor, target: impl AsTensor) -> Tensor {
    let _called = called("l1_loss");
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    propagate_poison!(x, target);
    or_poison!(check_target("l1_loss", x, target));
    compute_wide!(x, target => l1_loss(x, target));
    Reduction::Mean.apply(&(x - target).abs())
}

/// Returns `d² / (2 beta)` where the distance `d = |x - target|` is below `beta`, else `d - beta / 2` (Girshick 2015,
/// "Fast R-CNN", with `beta = 1`).
///
/// # Panics
/// Panics in the cases of [`mse_loss`], and raises [`Code::Argument`](crate::Code::Argument) for a `beta` that is
/// negative or not finite.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::smooth_l1_loss(tensor![0., 3.], tensor![1., 0.], 1., ops::Reduction::None).to_vec::<f32>(), [0.5, 2.5]);
/// ```
#[track_caller]
pub fn smooth_l1_loss(x: impl AsTensor, target: impl AsTensor, beta: f64, reduction: Reduction) -> Tensor {
    let _called = called("smooth_l1_loss");
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    propagate_poison!(x, target);
    or_poison!(check_target("smooth_l1_loss", x, target));
    or_poison!(check_interval("smooth_l1_loss", "beta", beta, &Interval::RATE));
    compute_wide!(x, target => smooth_l1_loss(x, target, beta, reduction));
    let difference = x - target;
    let distance = difference.abs();
    if beta == 0.0 {
        return reduction.apply(&distance);
    }
    // The square of an absolute value would have no second derivative at zero.
    let near = distance.lt(beta);
    let square = select(&near, difference, 0.0).square();
    let losses = select(near, square * (0.5 / beta), &distance - 0.5 * beta);
    reduction.apply(&losses)
}

/// Returns `d² / 2` where the distance `d = |x - target|` is below `delta`, else `delta (d - delta / 2)` (Huber 1964).
///
/// # Panics
/// Panics in the cases of [`mse_loss`], and raises [`Code::Argument`](crate::Code::Argument) unless `delta` is positive
/// and finite.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::huber_loss(tensor![0., 3.], tensor![1., 0.], 2., ops::Reduction::None).to_vec::<f32>(), [0.5, 4.]);
/// ```
#[track_caller]
pub fn huber_loss(x: impl AsTensor, target: impl AsTensor, delta: f64, reduction: Reduction) -> Tensor {
    let _called = called("huber_loss");
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    propagate_poison!(x, target);
    or_poison!(check_target("huber_loss", x, target));
    or_poison!(check_interval("huber_loss", "delta", delta, &Interval::POSITIVE));
    compute_wide!(x, target => huber_loss(x, target, delta, reduction));
    let difference = x - target;
    let distance = difference.abs();
    let near = distance.lt(delta);
    let square = select(&near, difference, 0.0).square();
    let losses = select(near, square * 0.5, delta * (&distance - 0.5 * delta));
    reduction.apply(&losses)
}

/// Returns `-weight (target log x + (1 - target) log(1 - x))` for probabilities `x`. Logarithms are clamped to at least
/// -100, so that no loss is infinite. The gradient is `weight (x - target) / max(x (1 - x), 1e-12)`, which is finite at
/// zero and one. The weight broadcasts to the shape of `x`.
///
/// # Panics
/// Panics in the cases of [`mse_loss`], for a weight that does not broadcast, and for a probability below 0 or above 1.
/// The loss of NaN is NaN.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::binary_cross_entropy(tensor![1., 0.], tensor![1., 1.], None, ops::Reduction::None).to_vec::<f32>(), [0., 100.]);
/// ```
#[track_caller]
pub fn binary_cross_entropy(
    x: impl AsTensor,
    target: impl AsTensor,
    weight: Option<&Tensor>,
    reduction: Reduction,
) -> Tensor {
    let _called = called("binary_cross_entropy");
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    propagate_poison!(x, target);
    or_poison!(check_target("binary_cross_entropy", x, target));
    if let Some(weight) = weight {
        propagate_poison!(weight);
        or_poison!(check_broadcast("binary_cross_entropy", "weight", weight, &x.dims()));
    }
    compute_wide!(x, target; weight => binary_cross_entropy(x, target, weight, reduction));
    let x = &bounded(x, 1, "probabilities", "binary_cross_entropy");
    // The gradient is `(x - target) / max(x (1 - x), EPS)`. Near the ends a parabola supplies it, and its value
    // cancels.
    const EPS: f64 = 1e-12f32 as f64;
    let inside = (x * (1.0 - x)).ge(EPS);
    let own = select(&inside, x, stop_gradient(x));
    let at_least = |x: Tensor| clamp_min(x, -100.0);
    let losses = -(target * at_least(log(&own)) + (1.0 - target) * at_least(log1p(-own)));
    let near_end = select(inside, 0.0, (x - stop_gradient(target)).square() * (0.5 / EPS));
    let losses = losses + (&near_end - stop_gradient(&near_end));
    match weight {
        Some(weight) => reduction.apply(&(losses * weight)),
        None => reduction.apply(&losses),
    }
}

/// Returns [`binary_cross_entropy`] of `1 / (1 + e^-x)`, without overflow. `pos_weight` multiplies the loss of positive
/// targets, and broadcasts to the shape of `x`.
///
/// # Panics
/// Panics in the cases of [`mse_loss`], and for a weight that does not broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::bce_with_logits(tensor![50., -50.], tensor![0., 0.], None, ops::Reduction::Sum).to_vec::<f32>(), [50.]);
/// ```
#[track_caller]
pub fn bce_with_logits(
    x: impl AsTensor,
    target: impl AsTensor,
    pos_weight: Option<&Tensor>,
    reduction: Reduction,
) -> Tensor {
    let _called = called("bce_with_logits");
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    propagate_poison!(x, target);
    or_poison!(check_target("bce_with_logits", x, target));
    if let Some(weight) = pos_weight {
        propagate_poison!(weight);
        or_poison!(check_broadcast("bce_with_logits", "pos_weight", weight, &x.dims()));
    }
    compute_wide!(x, target; pos_weight => bce_with_logits(x, target, pos_weight, reduction));
    // Small losses are accurate because no difference cancels.
    let (negative, positive) = softplus_pair(x);
    // A weighted loss may be infinite where the target is zero, and `0 * inf` is NaN. So the weight multiplies the
    // target first.
    let of_positive = match pos_weight {
        Some(weight) => target * weight * positive,
        None => target * positive,
    };
    reduction.apply(&(of_positive + (1.0 - target) * negative))
}

/// Returns `target (log target - x)` for logarithms of probabilities `x`. `target` holds logarithms too if `log_target`
/// is set (Kullback and Leibler 1951).
///
/// # Panics
/// Panics in the cases of [`mse_loss`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::kl_div(tensor![0., -1.], tensor![1., 0.], false, ops::Reduction::Sum).to_vec::<f32>(), [0.]);
/// ```
#[track_caller]
pub fn kl_div(x: impl AsTensor, target: impl AsTensor, log_target: bool, reduction: Reduction) -> Tensor {
    let _called = called("kl_div");
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    propagate_poison!(x, target);
    or_poison!(check_target("kl_div", x, target));
    compute_wide!(x, target => kl_div(x, target, log_target, reduction));
    // Zero times the logarithm of zero is zero.
    if log_target {
        let none = isinf(target).logical_and(target.lt(0.0));
        return reduction.apply(&(exp(target) * select(none, 0.0, target - x)));
    }
    let none = target.eq(0.0);
    let x = select(isinf(x).logical_and(&none), 0.0, x);
    // The logarithm of the target has no derivative at zero.
    reduction.apply(&(select(none, 0.0, target * log(target)) - target * x))
}

/// Returns the cosine of the angle between `x` and `y` along an axis; norms are clamped to at least `eps`.
///
/// # Panics
/// Raises [`Code::Argument`](crate::Code::Argument) unless `eps` is positive and finite.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::cosine_similarity(tensor![1., 0.], tensor![0., 2.], 0, 1e-8).to_vec::<f32>(), [0.]);
/// ```
#[track_caller]
pub fn cosine_similarity(x: impl AsTensor, y: impl AsTensor, axis: isize, eps: f64) -> Tensor {
    let _called = called("cosine_similarity");
    let (x, y) = (&*x.as_tensor(), &*y.as_tensor());
    or_poison!(check_interval("cosine_similarity", "eps", eps, &Interval::POSITIVE));
    propagate_poison!(x, y);
    compute_wide!(x, y => cosine_similarity(x, y, axis, eps));
    // Products of large elements would overflow; quotients by the norm are at most one.
    let unit = |x: &Tensor| x / clamp_min(norm(x, 2.0, keepdims(axis)), eps);
    sum(unit(x) * unit(y), axis)
}

/// Returns the cosine embedding loss for rows of `x` and `y`. It is one minus their cosine where `target` is 1. Where
/// `target` is -1, it is the excess of their cosine over `margin`, or zero.
///
/// # Panics
/// Raises [`Code::Shape`](crate::Code::Shape) unless `x` and `y` have the same shape, and `target` has it without the
/// last axis. Raises [`Code::Argument`](crate::Code::Argument) for a margin that is not finite.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (x, y) = (tensor![[1., 0.]], tensor![[0., 1.]]);
/// let loss = ops::cosine_embedding_loss(&x, &y, tensor![1], 0., ops::Reduction::Mean);
/// assert_eq!(loss.item::<f32>(), 1.);
/// ```
#[track_caller]
pub fn cosine_embedding_loss(
    x: impl AsTensor,
    y: impl AsTensor,
    target: impl AsTensor,
    margin: f64,
    reduction: Reduction,
) -> Tensor {
    let _called = called("cosine_embedding_loss");
    const EPS: f64 = 1e-12f32 as f64;
    let (x, y, target) = (&*x.as_tensor(), &*y.as_tensor(), &*target.as_tensor());
    propagate_poison!(x, y, target);
    or_poison!(check_dims("cosine_embedding_loss", "y", y, &x.dims()));
    or_poison!(check_interval("cosine_embedding_loss", "margin", margin, &Interval::FINITE));
    let rows = x.dims();
    or_poison!(check_dims("cosine_embedding_loss", "target", target, rows.split_last().map_or(&[], |it| it.1)));
    compute_wide!(x, y => cosine_embedding_loss(x, y, target, margin, reduction));
    let squares = |x: &Tensor| sum(x.square(), -1) + EPS;
    let cosine = sum(x * y, -1) / sqrt(squares(x) * squares(y));
    let alike = target.gt(0);
    reduction.apply(&select(alike, 1.0 - &cosine, clamp_min(&cosine - margin, 0.0)))
}
