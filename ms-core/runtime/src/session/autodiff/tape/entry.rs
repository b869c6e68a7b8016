//! Defines the entries of a tape.

use crate::session::call::compiled::{Compiled, Derivative};
use ms_ir::MapVec;
use ms_ir::error::{Error, Result};
use ms_ops::ops::{self, Cotangents};
use ms_ops::tensor::{Attr, Device, Tensor};
use ms_trace::transform::{Gradients, RuleEntry, Slot, TapeEntry, push_rule};
use std::ops::Range;
use std::sync::Arc;

/// An entry of a tape: pulls gradients back, and pushes tangents forward.
pub(super) trait Recorded: TapeEntry {
    /// Returns the tangents of at least the `wanted` results from the tangents of the operands, at least one of which
    /// is present.
    fn push(&self, tangents: &[Option<Tensor>], wanted: &[bool]) -> Result<Vec<Option<Tensor>>>;

    /// Returns whether it has float inputs without gradients.
    fn takes_constants(&self) -> bool;

    /// Returns whether gradients may reach an operand.
    fn passes(&self, _operand: usize) -> bool {
        true
    }
}

impl Recorded for RuleEntry {
    fn push(&self, tangents: &[Option<Tensor>], _: &[bool]) -> Result<Vec<Option<Tensor>>> {
        push_rule(self, tangents)
    }

    fn takes_constants(&self) -> bool {
        let mut operands = self.inputs.iter().zip(&self.input_slots);
        operands.any(|(it, slot)| slot.is_none() && it.dtype().is_float())
            || self.attrs.as_slice().iter().any(|it| matches!(it, Attr::Float(_)))
    }
}

/// A copy to another device.
pub(super) struct CopyEntry {
    pub input: [Option<Slot>; 1],
    pub output: [Option<Slot>; 1],
    /// The devices of the tensor and of its copy.
    pub devices: [Device; 2],
}

impl TapeEntry for CopyEntry {
    fn inputs(&self) -> &[Option<Slot>] {
        &self.input
    }

    fn outputs(&self) -> &[Option<Slot>] {
        &self.output
    }

    fn pull(&self, cotangents: &[Option<Tensor>], gradients: &mut Gradients) -> Result<()> {
        match (self.input[0], &cotangents[0]) {
            (Some(slot), Some(cotangent)) => gradients.add(slot, cotangent.try_to(self.devices[0])?),
            _ => Ok(()),
        }
    }
}

impl Recorded for CopyEntry {
    fn push(&self, tangents: &[Option<Tensor>], _: &[bool]) -> Result<Vec<Option<Tensor>>> {
        tangents.iter().map(|it| it.as_ref().map(|it| it.try_to(self.devices[1])).transpose()).collect()
    }

    fn takes_constants(&self) -> bool {
        false
    }
}

/// An entry for a call of a compiled graph.
pub(crate) struct CallEntry {
    pub compiled: Arc<Compiled>,
    /// The inputs that are differentiated.
    pub wrt: Vec<usize>,
    pub inputs: Vec<Tensor>,
    /// The results that are backward slots. The last inputs are the same slots.
    pub backward_slots: Range<usize>,
    pub derivative: Arc<Derivative>,
    pub residuals: Vec<Tensor>,
    /// The results, which give the shapes of absent cotangents.
    pub templates: Vec<Tensor>,
    pub input_slots: Vec<Option<Slot>>,
    pub output_slots: Vec<Option<Slot>>,
}

impl TapeEntry for CallEntry {
    fn inputs(&self) -> &[Option<Slot>] {
        &self.input_slots
    }

    fn outputs(&self) -> &[Option<Slot>] {
        &self.output_slots
    }

    fn pull(&self, cotangents: &[Option<Tensor>], gradients: &mut Gradients) -> Result<()> {
        self.pull_back(cotangents, gradients).map_err(|error| self.named(error))
    }
}

impl CallEntry {
    /// Names the op in the error of running a derivative. Running out of memory that ops share has no op.
    #[cold]
    fn named(&self, error: Error) -> Error {
        let traced = self.compiled.source.traced();
        let of = traced.map_or("a compiled function".to_owned(), |it| format!("`{}`", it.name()));
        error.within(format!("the derivative of {of}"))
    }

    fn pull_back(&self, cotangents: &[Option<Tensor>], gradients: &mut Gradients) -> Result<()> {
        if !self.backward_slots.is_empty() && cotangents.iter().any(Option::is_none) {
            return gradients.add_all(&self.input_slots, self.pull_reached(cotangents)?);
        }
        let Derivative { backward, sums, .. } = &*self.derivative;
        let given = cotangents.iter().zip(&self.templates);
        let given = given.map(|(it, like)| it.clone().unwrap_or_else(|| ops::zeros_like(like)));
        let mut inputs: Vec<Tensor> = self.residuals.iter().cloned().chain(given).collect();
        if sums.is_empty() {
            let shares = backward.call(&inputs)?;
            return gradients.add_all(&self.input_slots, shares.into_iter().map(Some));
        }
        let is_sum = |at: &usize| sums.contains(&self.wrt[*at]);
        let summed = || (0..self.wrt.len()).filter(is_sum).filter_map(|at| Some((at, self.input_slots[at]?)));
        for (at, slot) in summed() {
            let zeros = || ops::zeros_like(&self.inputs[self.wrt[at]]);
            inputs.push(gradients.take(slot).unwrap_or_else(zeros));
        }
        let mut shares: Cotangents = backward.call_owned(inputs)?.into_iter().map(Some).collect();
        // These go first: for other inputs with the same value, they are the previous partial sum.
        for (at, slot) in summed() {
            gradients.add(slot, shares[at].take().expect("a sum that was taken goes on"))?;
        }
        gradients.add_all(&self.input_slots, shares)
    }

    /// Pulls back if some gradients are missing. Backward functions that no gradient reaches do not run.
    fn pull_reached(&self, cotangents: &[Option<Tensor>]) -> Result<Cotangents> {
        let all = || self.derivative.seeds.iter().copied().zip(cotangents);
        let (backward, results): (Vec<_>, Vec<_>) = all().partition(|(seed, _)| self.backward_slots.contains(seed));
        if results.iter().all(|it| it.1.is_none()) {
            let none = vec![None; self.wrt.len() - backward.len()];
            return Ok(none.into_iter().chain(backward.into_iter().map(|it| it.1.clone())).collect());
        }
        let (seeds, given): (Vec<usize>, Vec<Tensor>) =
            all().filter_map(|(seed, it)| Some((seed, it.clone()?))).unzip();
        let inputs: Vec<Tensor> = self.inputs.iter().cloned().chain(given).collect();
        let partial = self.compiled.partial(&self.wrt, &seeds)?;
        let gradients = partial.compiled.call(&inputs)?.into_iter().zip(&partial.reached);
        Ok(gradients.map(|(gradient, reached)| reached.then_some(gradient)).collect())
    }
}

impl Recorded for CallEntry {
    fn push(&self, tangents: &[Option<Tensor>], wanted: &[bool]) -> Result<Vec<Option<Tensor>>> {
        let given: Vec<usize> = (0..tangents.len()).filter(|&at| tangents[at].is_some()).collect();
        let wrt: Vec<usize> = given.map_vec(|&at| self.wrt[at]);
        let seeds = self.derivative.seeds.iter().zip(wanted);
        let results: Vec<usize> = seeds.filter(|(_, wanted)| **wanted).map(|(&seed, _)| seed).collect();
        let pushed = self.compiled.tangent(&wrt, &results)?;
        let inputs: Vec<Tensor> = self.inputs.iter().cloned().chain(tangents.iter().flatten().cloned()).collect();
        let mut tangents = pushed.call(&inputs).map_err(|error| self.named(error))?.into_iter();
        Ok(wanted.map_vec(|wanted| if *wanted { tangents.next() } else { None }))
    }

    fn passes(&self, operand: usize) -> bool {
        self.derivative.hiding.of_seeds[operand].is_none()
    }

    fn takes_constants(&self) -> bool {
        (0..self.inputs.len()).any(|at| self.inputs[at].dtype().is_float() && !self.wrt.contains(&at))
    }
}
