//! Batches of a data set in memory.

use ms_core::{Tensor, ops, random};

/// Inputs and targets with one row for each example.
#[derive(Clone)]
pub struct Dataset {
    inputs: Tensor,
    targets: Tensor,
}

/// Some rows of a [`Dataset`]: inputs, then targets.
pub type Batch = (Tensor, Tensor);

impl Dataset {
    /// A data set; panics unless both have the same number of rows.
    #[track_caller]
    pub fn new(inputs: Tensor, targets: Tensor) -> Self {
        assert_eq!(inputs.shape().first(), targets.shape().first(), "as many targets as inputs");
        Self { inputs, targets }
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.inputs.shape()[0]
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All inputs.
    pub fn inputs(&self) -> &Tensor {
        &self.inputs
    }

    /// All targets.
    pub fn targets(&self) -> &Tensor {
        &self.targets
    }

    /// The first `rows` examples, and the others.
    pub fn split(&self, rows: usize) -> (Self, Self) {
        let cut = |x: &Tensor| (x.i(0..rows), x.i(rows..));
        let (inputs, targets) = (cut(&self.inputs), cut(&self.targets));
        (Self::new(inputs.0, targets.0), Self::new(inputs.1, targets.1))
    }

    /// Batches of `size` examples in order; the last one may be smaller.
    pub fn batches(&self, size: usize) -> Batches<'_> {
        Batches { dataset: self, order: None, size: size.max(1), at: 0 }
    }

    /// Batches of `size` examples in an order drawn from the default generator; the last one may
    /// be smaller.
    pub fn shuffled_batches(&self, size: usize) -> Batches<'_> {
        Batches { order: Some(random::permutation(self.len())), ..self.batches(size) }
    }
}

/// The iterator of [`Dataset::batches`].
pub struct Batches<'a> {
    dataset: &'a Dataset,
    order: Option<Tensor>,
    size: usize,
    at: usize,
}

impl Iterator for Batches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let (from, to) = (self.at, (self.at + self.size).min(self.dataset.len()));
        if from == to {
            return None;
        }
        self.at = to;
        let rows = |x: &Tensor| match &self.order {
            Some(order) => ops::index_select(x, order.i(from..to), 0),
            None => x.i(from..to),
        };
        Some((rows(&self.dataset.inputs), rows(&self.dataset.targets)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.dataset.len() - self.at).div_ceil(self.size);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Batches<'_> {}
