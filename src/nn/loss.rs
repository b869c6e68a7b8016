//! Losses as cells.

use crate::prelude::*;

/// The mean cross entropy of logits `[n, classes]` with classes `[n]`, or with distributions
/// `[n, classes]`.
#[cell]
#[derive(Clone, Default)]
pub struct CrossEntropyLoss {}

#[cell]
impl CrossEntropyLoss {
    /// The loss.
    pub fn new() -> Self {
        Self {}
    }

    fn construct(&self, logits: &Tensor, target: &Tensor) -> Tensor {
        ops::cross_entropy(logits, target)
    }
}

/// The mean of the squared differences.
#[cell]
#[derive(Clone, Default)]
pub struct MSELoss {}

#[cell]
impl MSELoss {
    /// The loss.
    pub fn new() -> Self {
        Self {}
    }

    fn construct(&self, x: &Tensor, target: &Tensor) -> Tensor {
        ops::mse_loss(x, target)
    }
}
