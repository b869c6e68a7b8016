//! Batch normalisation.

use super::compute::{operand, result};
use super::init::filled_parameter;
use crate::prelude::*;
use ms_core::error::OrRaise;
use ms_core::ops::BatchStatistics;
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::trace::{ComputeDType, Training};

/// Batch normalisation: `(x - mean) / sqrt(variance + eps) * gamma + beta` per channel of `x` `[n, channels, ..]`
/// ([`ops::batch_norm`]). There may be any number of further axes. Training uses the statistics of the batch and
/// updates the running statistics; evaluation uses the running statistics.
///
/// ```
/// use ms::prelude::*;
/// let norm = nn::BatchNorm::new(1);
/// let x = tensor![[1.0], [3.0]];
/// assert!((norm.call(&x) - tensor![[-1.0], [1.0]]).abs().max(()).item::<f32>() < 1e-4);
/// // A tenth of the way from 0 to 2, and from 1 to 2.
/// assert!((norm.moving_mean.value().item::<f32>() - 0.2).abs() < 1e-6);
/// assert!((norm.moving_variance.value().item::<f32>() - 1.1).abs() < 1e-6);
/// norm.set_train(false);
/// assert!((norm.call(&tensor![[0.2]])).abs().item::<f32>() < 1e-6);
/// ```
#[cell]
#[derive(Debug)]
pub struct BatchNorm {
    /// The scale, `[channels]`, initially ones; `None` without an affine transform.
    pub gamma: Option<Parameter>,
    /// The shift, `[channels]`, initially zeros; `None` without an affine transform.
    pub beta: Option<Parameter>,
    /// The running mean, `[channels]`, zeros at first: a buffer, updated in training.
    pub moving_mean: Parameter,
    /// The running variance, `[channels]`, ones at first: a buffer, updated in training with the unbiased variance
    /// (divided by `n - 1`).
    pub moving_variance: Parameter,
    /// The weight of the old statistics in each update, from zero to one.
    pub momentum: f64,
    /// The term added to the variance; positive and finite.
    pub eps: f64,
    /// Whether batch statistics are used in both training and evaluation. `None` uses them in training only.
    pub use_batch_statistics: Option<bool>,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
    training: Training,
}

impl BatchNorm {
    /// Creates a layer for this many channels, with `momentum = 0.9` and `eps = 1e-5`.
    #[track_caller]
    pub fn new(channels: usize) -> Self {
        let buffer = |value: f64| Parameter::buffer([channels], DType::F32, || Tensor::full([channels], value));
        Self {
            gamma: Some(filled_parameter(&[channels], 1.0)),
            beta: Some(filled_parameter(&[channels], 0.0)),
            moving_mean: buffer(0.0),
            moving_variance: buffer(1.0),
            momentum: 0.9,
            eps: 1e-5,
            use_batch_statistics: None,
            compute: ComputeDType::default(),
            training: Training::default(),
        }
    }

    /// Removes `gamma` and `beta`.
    pub fn without_affine(self) -> Self {
        Self { gamma: None, beta: None, ..self }
    }

    /// Returns the scale and shift of the normalised values.
    #[track_caller]
    fn affine(&self) -> (Tensor, Tensor) {
        let or_filled = |it: &Option<Parameter>, value: f64| match it {
            Some(it) => it.value(),
            None => ops::full_like(self.moving_mean.value(), value),
        };
        (or_filled(&self.gamma, 1.0), or_filled(&self.beta, 0.0))
    }
}

#[cell]
impl BatchNorm {
    fn construct(&self, x: &Tensor) -> Tensor {
        let own = &operand(&self.compute, x);
        let (gamma, beta) = self.affine();
        let kept = BatchStatistics { mean: self.moving_mean.value(), var: self.moving_variance.value() };
        let of_batch = match self.use_batch_statistics {
            Some(of_batch) => of_batch,
            None => self.training.get(),
        };
        if of_batch && self.training.get() {
            check_interval("BatchNorm", "momentum", self.momentum, &Interval::SHARE).or_raise();
            let next = kept.updated(own, 1.0 - self.momentum);
            self.moving_mean.set(&next.mean.cast(kept.mean.dtype()));
            self.moving_variance.set(&next.var.cast(kept.var.dtype()));
        }
        let y = ops::batch_norm(own, gamma, beta, if of_batch { None } else { Some(&kept) }, self.eps);
        result(&self.compute, y, x)
    }
}
