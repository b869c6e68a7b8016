//! Metrics.

use ms_core::Tensor;

/// The fraction of rows of `logits: [n, classes]` whose largest entry is at the class in
/// `target: [n]`.
#[track_caller]
pub fn accuracy(logits: &Tensor, target: &Tensor) -> Tensor {
    logits.argmax(-1).eq(target).mean((), false)
}

/// A mean over batches of different sizes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    /// Adds the mean of `count` examples.
    pub fn add(&mut self, value: f32, count: usize) {
        self.sum += value as f64 * count as f64;
        self.weight += count as f64;
    }

    /// The mean so far; NaN before the first value.
    pub fn get(&self) -> f64 {
        self.sum / self.weight
    }
}
