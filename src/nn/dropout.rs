//! Dropout.

use crate::prelude::*;
use ms_core::trace::Training;

/// In training each element is zero with probability `p`, and the others are scaled by
/// `1 / (1 - p)`; in evaluation nothing happens.
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
        if !(0.0..1.0).contains(&p) {
            let message = format!("the probability {p} is not in [0, 1)");
            ms_core::error::raise(ms_core::Error::new(ms_core::Code::Argument, message).with_op("dropout"));
        }
        Self { p, training: Training::default() }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        if self.training.get() { ops::dropout(x, self.p) } else { x.clone() }
    }
}
