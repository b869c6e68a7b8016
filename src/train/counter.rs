//! Host counters that checkpoints include.

use ms_core::trace::{Arg, Cell, Sink};
use ms_core::{DType, Parameter, Tensor};

/// A host number of a training loop, such as the epoch. Checkpoints include it; compiled functions neither read it nor
/// are specialised to it.
///
/// ```
/// use ms::prelude::*;
/// let epoch = Counter::new(3);
/// epoch.add(1);
/// assert_eq!((epoch.get(), epoch.state_dict().len()), (4, 1));
/// ```
#[derive(Debug)]
pub struct Counter {
    slot: Parameter,
}

impl Counter {
    /// Creates a counter that starts at a number.
    pub fn new(first: u64) -> Self {
        Self { slot: Parameter::buffer([0usize; 0], DType::U64, || Tensor::from(first)) }
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.slot.load().item()
    }

    /// Sets the number.
    pub fn set(&self, number: u64) {
        self.slot.store(Tensor::from(number));
    }

    /// Adds to the number.
    pub fn add(&self, more: u64) {
        self.set(self.get() + more);
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Counter {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.parameter(&self.slot);
    }
}

#[diagnostic::do_not_recommend]
impl Cell for Counter {}
