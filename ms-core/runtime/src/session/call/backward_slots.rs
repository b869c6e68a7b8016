//! Holds the graph that a tape calls instead of a version's own.

use super::compiled::Compiled;
use ms_ir::error::Result;
use ms_ops::tensor::WeakParameter;
use once_cell::sync::OnceCell;
use std::sync::Arc;

/// The graph for a tape, if backward functions in it read or write parameters; see [`ms_trace::trace::BackwardSlots`].
pub(super) struct BackwardSlots {
    compiled: OnceCell<Arc<Compiled>>,
    make: Make,
    /// Slots that it writes.
    pub writes: Vec<WeakParameter>,
    /// Slots that it reads.
    pub reads: Vec<WeakParameter>,
}

type Make = Box<dyn Fn() -> Result<Arc<Compiled>> + Send + Sync>;

impl BackwardSlots {
    /// Creates the slots. `make` compiles the graph when a tape first calls it.
    pub fn new(make: Make, writes: Vec<WeakParameter>, reads: Vec<WeakParameter>) -> Self {
        Self { compiled: OnceCell::new(), make, writes, reads }
    }

    /// Returns the graph, compiled on first use.
    ///
    /// # Errors
    /// The errors of compiling it.
    pub fn compiled(&self) -> Result<&Arc<Compiled>> {
        self.compiled.get_or_try_init(&self.make)
    }
}
