//! A run that writes slots.

use super::compiled::Compiled;
use crate::error::Result;
use crate::session::devices;
use crate::tensor::{Array, Outputs, Parameter, TakenSlot, Tensor, is_host_only};

/// A run that writes slots. Results may reuse the memory of their values, which nobody else reads meanwhile.
pub(super) struct WritingRun<'a> {
    writes: &'a [Parameter],
    /// By slot, whether its value is taken, and the input that it is.
    taken: Vec<Option<(TakenSlot<'a>, usize)>>,
    /// The inputs so far.
    pub inputs: Vec<Array>,
}

impl<'a> WritingRun<'a> {
    /// A run of so many inputs that writes these slots.
    pub fn new(writes: &'a [Parameter], inputs: usize) -> Self {
        Self { writes, taken: writes.iter().map(|_| None).collect(), inputs: Vec::with_capacity(inputs) }
    }

    /// Makes the value of a slot the next input.
    pub fn take(&mut self, at: usize) {
        let value = match self.writes[at].take() {
            Some((slot, value)) => {
                self.taken[at] = Some((slot, self.inputs.len()));
                value
            }
            None => self.writes[at].load(),
        };
        self.inputs.push(value.into_array().expect("values of slots are not traced"));
    }

    /// Runs a graph, of whose inputs some are values of slots that outputs in `state` replace, and writes the slots;
    /// returns the outputs without their new values.
    #[track_caller]
    pub fn run(mut self, compiled: &Compiled, state: &[Option<u32>]) -> Result<Outputs> {
        let mut outputs = compiled.run_donated(&mut self.inputs, state)?;
        let results = outputs.len() - self.writes.len();
        if !is_host_only() {
            let old = self.writes.iter().zip(&self.taken).map(|(slot, taken)| match taken {
                Some((_, input)) => Tensor::from_array(self.inputs[*input].clone()),
                None => slot.load(),
            });
            devices::keep_old_values(old.zip(&outputs[results..]))?;
        }
        for ((slot, taken), value) in self.writes.iter().zip(&mut self.taken).zip(outputs.drain(results..)) {
            match taken.take() {
                Some((taken, _)) => taken.put(value),
                None => {
                    if let Err(value) = slot.try_store(value) {
                        slot.try_set(&value)?;
                    }
                }
            }
        }
        Ok(outputs)
    }
}

impl Drop for WritingRun<'_> {
    /// After a run that failed, the slots have their values again.
    fn drop(&mut self) {
        for (slot, input) in self.taken.drain(..).flatten() {
            slot.put(Tensor::from_array(self.inputs[input].clone()));
        }
    }
}
