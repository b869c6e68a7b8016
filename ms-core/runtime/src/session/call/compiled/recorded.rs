//! Calls compiled graphs, which a tape records.

use super::Compiled;
use crate::session::autodiff::tape::Tape;
use ms_ir::error::Result;
use ms_ops::tensor::{Outputs, Tensor};
use std::ops::Range;
use std::sync::Arc;

impl Compiled {
    /// Calls the graph through the current dispatcher, which records it as one step if it is a tape.
    ///
    /// # Errors
    /// The errors of lowering and of ops.
    pub fn call(self: &Arc<Self>, inputs: &[Tensor]) -> Result<Outputs> {
        self.call_with_backward_slots(inputs, 0..0)
    }

    /// Calls the graph like [`Compiled::call`], with the outputs `backward_slots` as backward slots.
    pub(in crate::session) fn call_with_backward_slots(
        self: &Arc<Self>,
        inputs: &[Tensor],
        backward_slots: Range<usize>,
    ) -> Result<Outputs> {
        match Tape::current() {
            Some(tape) => tape.call(&self.fitted(inputs)?, inputs, backward_slots),
            None => self.run(inputs),
        }
    }

    /// Calls the graph like [`Compiled::call`], with donated inputs: see [`Compiled::run_owned`].
    ///
    /// # Errors
    /// See [`Compiled::call`].
    pub(crate) fn call_owned(self: &Arc<Self>, inputs: Vec<Tensor>) -> Result<Outputs> {
        match Tape::current() {
            Some(_) => self.call(&inputs),
            None => self.run_owned(inputs),
        }
    }
}
