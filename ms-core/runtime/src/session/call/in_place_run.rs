//! Executes a version with in-place state.

use super::compiled::Compiled;
use super::lent::LentTensors;
use crate::session::devices;
use ms_compile::exec::Donation;
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ops::tensor::{Array, Outputs, Parameter, TakenSlot, Tensor, is_host_only};
use smallvec::SmallVec;

/// The tensors of `&mut` arguments, and for each that is an input, its number and the input.
type LentInputs<'a> = (&'a mut LentTensors, SmallVec<[(usize, usize); 8]>);

/// A run that writes slots. Results may reuse the memory of the old values, which nothing else reads meanwhile.
pub(super) struct InPlaceRun<'a> {
    writes: &'a [Parameter],
    /// The taken value of each slot and the input that holds it, if it was taken.
    taken: Vec<Option<(TakenSlot<'a>, usize)>>,
    /// The inputs so far.
    pub inputs: Vec<Array>,
    lent: Option<LentInputs<'a>>,
}

impl<'a> InPlaceRun<'a> {
    /// Creates a run with `inputs` inputs that writes these slots.
    pub fn new(writes: &'a [Parameter], inputs: usize) -> Self {
        Self { writes, taken: writes.map_vec(|_| None), inputs: Vec::with_capacity(inputs), lent: None }
    }

    /// Takes the value of a slot as the next input.
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

    /// Takes the tensors of `&mut` arguments. `input` maps an argument to its input.
    pub fn lend(&mut self, tensors: &'a mut LentTensors, input: impl Fn(usize) -> Option<usize>) {
        let given = tensors.give(input);
        self.lent = Some((tensors, given));
    }

    /// Runs a graph with inputs that are values of slots, and writes the slots. Returns the outputs without their
    /// new values. `donations` has the terms of the inputs. Inputs of `&mut` arguments are lent.
    #[track_caller]
    pub fn run(mut self, compiled: &Compiled, donations: &[Donation]) -> Result<Outputs> {
        let mut outputs = match &self.lent {
            None => compiled.run_donated(&mut self.inputs, donations)?,
            Some((_, lent)) => {
                let mut donations: SmallVec<[Donation; 32]> = donations.into();
                lent.iter().for_each(|it| donations[it.1] = Donation::Lent);
                compiled.run_donated(&mut self.inputs, &donations)?
            }
        };
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
        if let Some((lent, _)) = self.lent.take() {
            lent.replaced();
        }
        Ok(outputs)
    }
}

impl Drop for InPlaceRun<'_> {
    /// After a failed run, returns the values of the slots and the tensors of `&mut` arguments.
    fn drop(&mut self) {
        if let Some((lent, given)) = self.lent.take() {
            given.into_iter().for_each(|(at, input)| lent.put_back(at, Tensor::from_array(self.inputs[input].clone())));
        }
        for (slot, input) in self.taken.drain(..).flatten() {
            slot.put(Tensor::from_array(self.inputs[input].clone()));
        }
    }
}
