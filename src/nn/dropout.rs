//! Dropout.

use crate::prelude::*;
use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::trace::Training;

/// In training each element is zero with probability `p`, and the others are scaled by
/// `1 / (1 - p)`; in evaluation, the identity.
#[cell]
#[derive(Clone)]
pub struct Dropout {
    p: f64,
    training: Training,
}

#[cell]
impl Dropout {
    /// Drops with probability `p`, which is at least zero and less than one.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for another `p`.
    #[track_caller]
    pub fn new(p: f64) -> Self {
        check_interval("Dropout", "p", p, &Interval::DECAY).or_raise();
        Self { p, training: Training::default() }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        if self.training.get() { ops::dropout(x, self.p) } else { x.clone() }
    }
}
