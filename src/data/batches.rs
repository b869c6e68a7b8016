//! Batches of a data set in memory.

use ms_core::error::raise;
use ms_core::{Code, Error, Tensor, ops, random};

/// Inputs and targets with one row per example.
#[derive(Clone)]
pub struct Dataset {
    inputs: Tensor,
    targets: Tensor,
}

/// Some rows of a [`Dataset`]: inputs, then targets.
pub type Batch = (Tensor, Tensor);

impl Dataset {
    /// A data set.
    ///
    /// # Panics
    /// Raises [`Code::Shape`] unless both have the same number of rows.
    #[track_caller]
    pub fn new(inputs: Tensor, targets: Tensor) -> Self {
        match (inputs.shape(), targets.shape()) {
            ([rows, ..], [others, ..]) if rows == others => Self { inputs, targets },
            _ => {
                let operands = [&inputs, &targets].map(|it| it.ty().to_string());
                let error = Error::new(Code::Shape, "inputs and targets need one row for each example");
                raise(error.with_op("Dataset::new").with_operands(operands))
            }
        }
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
    ///
    /// # Panics
    /// Raises [`Code::OutOfRange`] when there are fewer.
    #[track_caller]
    pub fn split(&self, rows: usize) -> (Self, Self) {
        if rows > self.len() {
            let message = format!("`rows` is {rows}, but there are {} examples", self.len());
            raise(Error::new(Code::OutOfRange, message).with_op("Dataset::split"));
        }
        let cut = |x: &Tensor| (x.i(0..rows), x.i(rows..));
        let (inputs, targets) = (cut(&self.inputs), cut(&self.targets));
        (Self::new(inputs.0, targets.0), Self::new(inputs.1, targets.1))
    }

    /// Batches of `size` examples in order; the last one may be smaller.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for a size of zero.
    #[track_caller]
    pub fn batches(&self, size: usize) -> Batches<'_> {
        if size == 0 {
            raise(Error::new(Code::Argument, "`size` is 0, but a batch has one example at least").with_op("batches"));
        }
        Batches { dataset: self, order: None, size, at: 0 }
    }

    /// Batches of `size` examples in an order drawn from the default generator; the last one may
    /// be smaller.
    ///
    /// # Panics
    /// As [`Dataset::batches`].
    #[track_caller]
    pub fn shuffled_batches(&self, size: usize) -> Batches<'_> {
        let in_order = self.batches(size);
        Batches { order: Some(random::permutation(self.len())), ..in_order }
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
        let (from, to) = (self.at, self.at.saturating_add(self.size).min(self.dataset.len()));
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
