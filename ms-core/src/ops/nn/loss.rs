//! Losses between tensors of one shape, and what becomes of the losses of single elements.

use crate::ops::{clamp_min, exp, log, log1p, maximum, mean, norm, over_size, select, sqrt, sum};
use crate::tensor::{AsTensor, Dim, Tensor};

/// What becomes of the losses of the examples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum, divided by the size of the first axis.
    BatchMean,
    /// All of them.
    None,
}

impl Reduction {
    /// Reduces the losses of examples or elements.
    #[track_caller]
    pub fn apply(self, losses: &Tensor) -> Tensor {
        match self {
            Self::Mean => mean(losses, (), false),
            Self::Sum => sum(losses, (), false),
            Self::BatchMean => {
                over_size(&sum(losses, (), false), losses.dims().first().copied().unwrap_or(Dim::new(1)))
            }
            Self::None => losses.clone(),
        }
    }
}

/// The mean of `(x - target)²`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::mse_loss(tensor![1., 2.], tensor![3., 2.]).to_vec::<f32>(), [2.]);
/// ```
#[track_caller]
pub fn mse_loss(x: impl AsTensor, target: impl AsTensor) -> Tensor {
    let difference = &*x.as_tensor() - &*target.as_tensor();
    Reduction::Mean.apply(&(&difference * &difference))
}

/// The mean of `|x - target|`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::l1_loss(tensor![1., 2.], tensor![3., 2.]).to_vec::<f32>(), [1.]);
/// ```
#[track_caller]
pub fn l1_loss(x: impl AsTensor, target: impl AsTensor) -> Tensor {
    let difference = &*x.as_tensor() - &*target.as_tensor();
    Reduction::Mean.apply(&difference.abs())
}

/// `d² / (2 beta)` where the distance `d = |x - target|` is below `beta`, else `d - beta / 2`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::smooth_l1_loss(tensor![0., 3.], tensor![1., 0.], 1., ops::Reduction::None).to_vec::<f32>(), [0.5, 2.5]);
/// ```
#[track_caller]
pub fn smooth_l1_loss(x: impl AsTensor, target: impl AsTensor, beta: f64, reduction: Reduction) -> Tensor {
    let distance = (&*x.as_tensor() - &*target.as_tensor()).abs();
    let losses = select(distance.lt(beta), distance.square() * (0.5 / beta), &distance - 0.5 * beta);
    reduction.apply(&losses)
}

/// `d² / 2` where the distance `d = |x - target|` is at most `delta`, else
/// `delta (d - delta / 2)` (Huber 1964).
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::huber_loss(tensor![0., 3.], tensor![1., 0.], 2., ops::Reduction::None).to_vec::<f32>(), [0.5, 4.]);
/// ```
#[track_caller]
pub fn huber_loss(x: impl AsTensor, target: impl AsTensor, delta: f64, reduction: Reduction) -> Tensor {
    let distance = (&*x.as_tensor() - &*target.as_tensor()).abs();
    let losses = select(distance.le(delta), distance.square() * 0.5, delta * (&distance - 0.5 * delta));
    reduction.apply(&losses)
}

/// `-weight (target log x + (1 - target) log(1 - x))` of probabilities; logarithms are at least
/// -100, so that no loss is infinite.
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
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    let log_at_least = |x: Tensor| clamp_min(log(x), -100.0);
    let losses = -(target * log_at_least(x.clone()) + (1.0 - target) * log_at_least(1.0 - x));
    match weight {
        Some(weight) => reduction.apply(&(losses * weight)),
        None => reduction.apply(&losses),
    }
}

/// [`binary_cross_entropy`] of `1 / (1 + e^-x)`, without overflow; `pos_weight` multiplies the loss
/// of positive targets.
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
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    // The parts are not subtracted from each other, so that no digit of a small loss is lost.
    let near = log1p(exp(-x.abs()));
    let (positive, negative) = (&near + maximum(-x, 0.0), &near + maximum(x, 0.0));
    let positive = match pos_weight {
        Some(weight) => positive * weight,
        None => positive,
    };
    reduction.apply(&(target * positive + (1.0 - target) * negative))
}

/// `target (log target - x)` for logarithms of probabilities `x`; `target` holds logarithms too if
/// `log_target` (Kullback and Leibler 1951).
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::kl_div(tensor![0., -1.], tensor![1., 0.], false, ops::Reduction::Sum).to_vec::<f32>(), [0.]);
/// ```
#[track_caller]
pub fn kl_div(x: impl AsTensor, target: impl AsTensor, log_target: bool, reduction: Reduction) -> Tensor {
    let (x, target) = (&*x.as_tensor(), &*target.as_tensor());
    if log_target {
        return reduction.apply(&(exp(target) * (target - x)));
    }
    // Zero times the logarithm of zero counts as zero.
    let logarithm = log(select(target.gt(0.0), target, 1.0));
    reduction.apply(&(target * (logarithm - x)))
}

/// The cosine of the angle between `x` and `y` along an axis; norms are at least `eps`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::cosine_similarity(tensor![1., 0.], tensor![0., 2.], 0, 1e-8).to_vec::<f32>(), [0.]);
/// ```
#[track_caller]
pub fn cosine_similarity(x: impl AsTensor, y: impl AsTensor, axis: isize, eps: f64) -> Tensor {
    let (x, y) = (&*x.as_tensor(), &*y.as_tensor());
    let length = |x: &Tensor| clamp_min(norm(x, 2.0, axis, false), eps);
    sum(x * y, axis, false) / (length(x) * length(y))
}

/// For rows of `x` and `y`: one minus their cosine where `target` is 1, and what their cosine exceeds
/// `margin` by where it is -1.
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
    const EPS: f64 = 1e-12;
    let (x, y) = (&*x.as_tensor(), &*y.as_tensor());
    let squares = |x: &Tensor| sum(x.square(), -1, false) + EPS;
    let cosine = sum(x * y, -1, false) / sqrt(squares(x) * squares(y));
    let alike = target.as_tensor().gt(0);
    reduction.apply(&select(alike, 1.0 - &cosine, maximum(&cosine - margin, 0.0)))
}
