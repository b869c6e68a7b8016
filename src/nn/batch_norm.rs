//! Normalisation over the batch.

use crate::prelude::*;
use ms_core::error::OrRaise;
use ms_core::ops::BatchStatistics;
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::trace::Training;

/// `(x - mean) / sqrt(variance + eps) * gamma + beta` per channel of `x` `[n, channels, ..]`
/// ([`ops::batch_norm`]): with the statistics of the batch in training, which also update the
/// running ones, and with the running ones in evaluation.
///
/// ```
/// use ms::prelude::*;
/// let norm = nn::BatchNorm::new(1);
/// let x = tensor![[1.0], [3.0]];
/// assert!((norm.call(&x) - tensor![[-1.0], [1.0]]).abs().max((), false).item::<f32>() < 1e-4);
/// // A tenth of the way from 0 to 2, and from 1 to 2.
/// assert!((norm.moving_mean.value().item::<f32>() - 0.2).abs() < 1e-6);
/// assert!((norm.moving_variance.value().item::<f32>() - 1.1).abs() < 1e-6);
/// norm.set_train(false);
/// assert!((norm.call(&tensor![[0.2]])).abs().item::<f32>() < 1e-6);
/// ```
#[cell]
pub struct BatchNorm {
    /// `[channels]`, ones at first.
    pub gamma: Parameter,
    /// `[channels]`, zeros at first.
    pub beta: Parameter,
    /// `[channels]`, zeros at first; a buffer, updated in training.
    pub moving_mean: Parameter,
    /// `[channels]`, ones at first; a buffer: for batches, the variance is divided by `n - 1`.
    pub moving_variance: Parameter,
    /// The weight of the old statistics in each update, from zero to one.
    pub momentum: f64,
    /// Added to the variance; positive and finite.
    pub eps: f64,
    training: Training,
}

#[cell]
impl BatchNorm {
    /// A layer for inputs of this many channels, with `momentum = 0.9` and `eps = 1e-5`.
    pub fn new(channels: usize) -> Self {
        let filled = |value: f64| Parameter::init("", [channels], DType::F32, || Tensor::full([channels], value));
        let buffer = |value: f64| Parameter::buffer([channels], DType::F32, || Tensor::full([channels], value));
        Self {
            gamma: filled(1.0),
            beta: filled(0.0),
            moving_mean: buffer(0.0),
            moving_variance: buffer(1.0),
            momentum: 0.9,
            eps: 1e-5,
            training: Training::default(),
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let kept = BatchStatistics { mean: self.moving_mean.value(), var: self.moving_variance.value() };
        if self.training.get() {
            check_interval("BatchNorm", "momentum", self.momentum, &Interval::SHARE).or_raise();
            let next = kept.updated(x, 1.0 - self.momentum);
            self.moving_mean.set(&next.mean);
            self.moving_variance.set(&next.var);
            ops::batch_norm(x, &self.gamma, &self.beta, None, self.eps)
        } else {
            ops::batch_norm(x, &self.gamma, &self.beta, Some(&kept), self.eps)
        }
    }
}
