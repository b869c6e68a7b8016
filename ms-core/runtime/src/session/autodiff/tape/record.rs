//! Runs the record of a tape backwards and forwards.

use super::entry::Recorded;
use super::hidden::{HiddenValues, in_rules};
use crate::session::autodiff::silent::warn_of_step;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result, warn_once};
use ms_ops::ops;
use ms_ops::tensor::{Parameter, Tensor};
use ms_trace::trace::check_backward_slots;
use ms_trace::transform::{Gradients, Slot, TapeEntry, pull_all};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::panic::Location;

/// The record of a tape: a linear function from changes of the watched tensors to changes of the values computed from
/// them, and its transpose.
pub struct Record {
    pub(super) slots: FxHashMap<usize, Slot>,
    /// Keeps tensors alive so that their addresses are not reused.
    pub(super) _kept: Vec<Tensor>,
    pub(super) steps: Vec<Box<dyn Recorded>>,
    pub(super) backward_slots: Vec<BackwardSlot>,
    pub(super) backward_reads: Vec<Parameter>,
    pub(super) reads: Vec<NumbersRead>,
    pub(super) hidden: HiddenValues,
    pub(super) count: usize,
}

impl Record {
    fn slot(&self, tensor: &Tensor) -> Option<Slot> {
        self.slots.get(&tensor.identity()).copied()
    }

    /// Returns the gradients of the sum of `results`, weighted by `seeds` if there are any, with respect to watched
    /// tensors. A tensor that no gradient reaches gets zeros. Applies the writes of backward functions to parameters.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn pull(&self, results: &[Tensor], seeds: Option<&[Tensor]>, watched: &[Tensor]) -> Result<Vec<Tensor>> {
        self.warn_of_reads(results);
        self.warn_of_steps(results, watched);
        let mut gradients = Gradients::new(self.count);
        for (at, result) in results.iter().enumerate() {
            if let Some(slot) = self.slot(result) {
                gradients.add(slot, seeds.map_or_else(|| ops::ones_like(result), |seeds| seeds[at].clone()))?;
            }
        }
        check_backward_slots(self.backward_slots.iter().map(|it| &it.parameter), &self.backward_reads)?;
        // Like a run of a compiled function, the pass locks the parameters that it reads and writes.
        let mut locks: Vec<&Parameter> =
            self.backward_slots.iter().map(|it| &it.parameter).filter(|it| *it != ops::order()).collect();
        locks.sort_by_key(|it| it.id());
        let _alone: Vec<_> = locks.into_iter().map(Parameter::lock).collect();
        let mut seeded = Vec::with_capacity(self.backward_slots.len());
        for it in &self.backward_slots {
            let held = it.parameter.value();
            let seed = ops::encode_as_floats(&held);
            gradients.add(self.slot(&it.last).expect("the tape gave it"), seed.clone())?;
            seeded.push((seed, held.dtype()));
        }
        in_rules(|| pull_all(self.steps.iter().map(|it| &**it as &dyn TapeEntry), &mut gradients))?;
        for (it, (seed, dtype)) in self.backward_slots.iter().zip(seeded) {
            let first = self.slot(&it.first).and_then(|slot| gradients.get(slot)).expect("every step threads it");
            // If no backward function ran, no write is a barrier to outer gradients.
            if first.identity() != seed.identity() {
                it.parameter.try_set(&ops::decode_floats(first, dtype))?;
            }
        }
        let mut gradient = |it: &Tensor| match self.slot(it).and_then(|slot| gradients.get(slot)) {
            Some(gradient) => gradient.clone(),
            None => ops::zeros_like(it),
        };
        Ok(watched.map_vec(&mut gradient))
    }

    /// Warns of numbers that were read from recorded values if they may have flowed back into `results` as constants
    /// that entered after the read.
    fn warn_of_reads(&self, results: &[Tensor]) {
        let Some(first) = self.reads.first() else { return };
        let is_constant = |it: &Tensor| it.dtype().is_float() && self.slot(it).is_none();
        let last = match results.iter().any(is_constant) {
            true => self.steps.len(),
            false => {
                let wanted = self.wanted(results);
                let enters = |step: &dyn Recorded| {
                    step.takes_constants() && step.outputs().iter().flatten().any(|&it| wanted[it as usize])
                };
                match (first.steps..self.steps.len()).rev().find(|&at| enters(&*self.steps[at])) {
                    Some(last) => last,
                    None => return,
                }
            }
        };
        self.reads.iter().filter(|it| it.steps <= last).for_each(|it| warn_of_read(it.location));
    }

    /// Warns of watched tensors on which `results` depend only through step functions.
    fn warn_of_steps(&self, results: &[Tensor], watched: &[Tensor]) {
        if self.hidden.is_empty() {
            return;
        }
        let of = |all: &[Tensor]| all.iter().filter_map(|it| self.slot(it)).collect::<Vec<Slot>>();
        let hidden = self.hidden.among(results);
        self.hidden.hiding(&self.steps, &of(results), &hidden, &of(watched)).into_iter().for_each(warn_of_step);
    }

    /// Returns the slots on which `results` depend.
    fn wanted(&self, results: &[Tensor]) -> Vec<bool> {
        let mut wanted = vec![false; self.count];
        results.iter().filter_map(|it| self.slot(it)).for_each(|it| wanted[it as usize] = true);
        for step in self.steps.iter().rev() {
            if step.outputs().iter().flatten().any(|&it| wanted[it as usize]) {
                step.inputs().iter().flatten().for_each(|&it| wanted[it as usize] = true);
            }
        }
        wanted
    }

    /// Returns the tangents of `results`, given the tangents of watched tensors. They are zeros if no tangent arrives.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn push(&self, results: &[Tensor], watched: &[Tensor], tangents: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut known: Vec<Option<Tensor>> = vec![None; self.count];
        for (it, tangent) in watched.iter().zip(tangents) {
            if let Some(slot) = self.slot(it) {
                known[slot as usize] = Some(tangent.clone());
            }
        }
        self.warn_of_reads(results);
        self.warn_of_steps(results, watched);
        let wanted = self.wanted(results);
        for step in &self.steps {
            let outputs: SmallVec<[bool; 1]> =
                step.outputs().iter().map(|slot| slot.is_some_and(|it| wanted[it as usize])).collect();
            if !outputs.contains(&true) {
                continue;
            }
            let of = |slot: &Option<Slot>| slot.and_then(|it| known[it as usize].clone());
            let given: Vec<Option<Tensor>> = step.inputs().map_vec(of);
            if given.iter().all(Option::is_none) {
                continue;
            }
            for (slot, tangent) in step.outputs().to_vec().into_iter().zip(in_rules(|| step.push(&given, &outputs))?) {
                if let Some(slot) = slot {
                    known[slot as usize] = tangent;
                }
            }
        }
        let tangent = |it: &Tensor| match self.slot(it).and_then(|slot| known[slot as usize].clone()) {
            Some(tangent) => tangent,
            None => ops::zeros_like(it),
        };
        Ok(results.map_vec(tangent))
    }
}

/// The state of a parameter that backward functions write, in these functions; see [`Parameter::backward`].
pub(super) struct BackwardSlot {
    pub parameter: Parameter,
    pub first: Tensor,
    pub last: Tensor,
}

/// A read of numbers from a recorded value by the user, and the number of entries at that time.
pub(super) struct NumbersRead {
    pub steps: usize,
    pub location: &'static Location<'static>,
}

/// Warns once of numbers read at a source location.
fn warn_of_read(location: &'static Location<'static>) {
    warn_once(Code::ReadNumbers, Some(location), || {
        let message = "numbers are read of a value that a gradient is taken through: what is computed from them is a \
                       constant to it";
        let help = "compute with the tensor instead; where the numbers are looked at only, or meant as constants, \
                    read them of `ops::stop_gradient(&x)`";
        Error::new(Code::ReadNumbers, message).help(help)
    });
}
