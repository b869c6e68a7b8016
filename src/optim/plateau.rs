//! Reduces learning rates when a metric stops improving.

use super::Optimizer;
use crate::train::Counter;
use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::{DType, Parameter, Tensor};
use ms_macros::cell;

/// Multiplies the learning rates by a factor when a metric to be minimised has not improved for more than `patience`
/// observations, like PyTorch's `ReduceLROnPlateau`. Checkpoints include its state.
///
/// ```
/// use ms::prelude::*;
/// let (opt, plateau) = (SGD::new(1.0), ReduceOnPlateau::new(0.5, 1));
/// let rates = [3.0, 2.0, 2.0, 2.0, 2.0].map(|loss| {
///     plateau.observe(loss, &opt);
///     opt.learning_rates()[0].get()
/// });
/// assert_eq!(rates, [1.0, 1.0, 1.0, 0.5, 0.5]);
/// ```
#[cell]
pub struct ReduceOnPlateau {
    factor: f64,
    patience: u64,
    threshold: f64,
    cooldown: u64,
    min: f64,
    best: Parameter,
    /// The number of observations without an improvement.
    bad: Counter,
    /// The number of observations until the end of the cooldown.
    waiting: Counter,
}

impl ReduceOnPlateau {
    /// Creates a reducer with a threshold of 1e-4, no cooldown, and no lower bound of the rates.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `factor` is at least zero and less than one.
    #[track_caller]
    pub fn new(factor: f64, patience: u64) -> Self {
        check_interval("ReduceOnPlateau", "factor", factor, &Interval::DECAY).or_raise();
        Self {
            factor,
            patience,
            threshold: 1e-4,
            cooldown: 0,
            min: 0.0,
            best: Parameter::buffer([0usize; 0], DType::F64, || Tensor::from(f64::INFINITY)),
            bad: Counter::new(0),
            waiting: Counter::new(0),
        }
    }

    /// Sets the relative threshold of an improvement: a metric improves if it is smaller than the best by this
    /// fraction.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `threshold` is at least zero and less than one.
    #[track_caller]
    pub fn threshold(self, threshold: f64) -> Self {
        check_interval("ReduceOnPlateau", "threshold", threshold, &Interval::DECAY).or_raise();
        Self { threshold, ..self }
    }

    /// Sets how many observations after a reduction are ignored.
    pub fn cooldown(self, cooldown: u64) -> Self {
        Self { cooldown, ..self }
    }

    /// Sets the lower bound of the learning rates.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `min` is at least zero and finite.
    #[track_caller]
    pub fn min(self, min: f64) -> Self {
        check_interval("ReduceOnPlateau", "min", min, &Interval::RATE).or_raise();
        Self { min, ..self }
    }

    /// Records a value of the metric, such as the loss of an epoch, and sets the learning rates. With a schedule, these
    /// are the base rates.
    pub fn observe(&self, metric: f64, optimizer: &impl Optimizer) {
        let best: f64 = self.best.load().item();
        // The absolute value keeps the threshold on the lower side for negative losses.
        if metric < best - self.threshold * best.abs() || best == f64::INFINITY && metric < best {
            self.best.store(Tensor::from(metric));
            self.bad.set(0);
        } else {
            self.bad.add(1);
        }
        if self.waiting.get() > 0 {
            self.waiting.set(self.waiting.get() - 1);
            self.bad.set(0);
        }
        if self.bad.get() > self.patience {
            for rate in optimizer.learning_rates() {
                rate.set((rate.base().get() * self.factor).max(self.min));
            }
            self.waiting.set(self.cooldown);
            self.bad.set(0);
        }
    }
}
