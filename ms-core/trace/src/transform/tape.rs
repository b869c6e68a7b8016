//! Implements backward passes: tape entries, and gradients accumulated by slot.

use super::emit::is_stack;
use super::stacks;
use crate::trace::Tracer;
use ms_ir::error::{Code, Error, Result};
use ms_ops::ops::{self, Cotangents, Derivative, PartialGradient, Vjp};
use ms_ops::tensor::{Attrs, Op, Tensor};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::panic::Location;

/// The number of a differentiable value, by which gradients are accumulated.
pub type Slot = u32;

/// An entry of a tape.
pub trait TapeEntry {
    /// Returns the slots of the operands; `None` for operands that need no gradient.
    fn inputs(&self) -> &[Option<Slot>];

    /// Returns the slots of the results; `None` for results without a gradient.
    fn outputs(&self) -> &[Option<Slot>];

    /// Adds the gradients of the operands to `gradients`, given those of the results, at least one of which is present.
    ///
    /// # Errors
    /// [`Code::NoGradient`] when there is no rule.
    fn pull(&self, cotangents: &[Option<Tensor>], gradients: &mut Gradients) -> Result<()>;

    /// Returns the user's source location.
    fn location(&self) -> Option<&'static Location<'static>> {
        None
    }
}

/// An entry for one op with a derivative rule.
pub struct RuleEntry {
    /// The op.
    pub op: Op,
    /// The attributes.
    pub attrs: Attrs,
    /// The operands.
    pub inputs: SmallVec<[Tensor; 3]>,
    /// The results.
    pub outputs: SmallVec<[Tensor; 1]>,
    /// Slots of the operands.
    pub input_slots: SmallVec<[Option<Slot>; 3]>,
    /// Slots of the results.
    pub output_slots: SmallVec<[Option<Slot>; 1]>,
    /// The user's source location.
    pub location: &'static Location<'static>,
}

impl TapeEntry for RuleEntry {
    fn location(&self) -> Option<&'static Location<'static>> {
        Some(self.location)
    }

    fn inputs(&self) -> &[Option<Slot>] {
        &self.input_slots
    }

    fn outputs(&self) -> &[Option<Slot>] {
        &self.output_slots
    }

    fn pull(&self, cotangents: &[Option<Tensor>], gradients: &mut Gradients) -> Result<()> {
        let needs: SmallVec<[bool; 3]> = self.input_slots.iter().map(Option::is_some).collect();
        let (attrs, inputs, outputs) = (&self.attrs, &self.inputs, &self.outputs);
        let vjp = Vjp { attrs, inputs, outputs, cotangents, needs: &needs };
        match &ops::transform_rules(ops::definition(self.op)).derivative {
            Derivative::Rule(rule) => gradients.add_all(&self.input_slots, rule(&vjp)),
            Derivative::Read(rule) => {
                if let Some(slot) = self.input_slots[0] {
                    gradients.add_part(slot, rule(&vjp), self.location);
                }
                Ok(())
            }
            Derivative::Zero => Ok(()),
            Derivative::Body => unreachable!("the ops of the body are steps of their own"),
            Derivative::None(why) => {
                let input = needs.iter().position(|&it| it).unwrap_or(0);
                Err(no_derivative(self.op, input, why)
                    .with_operands(self.inputs.iter().map(|it| it.ty().to_string()))
                    .at(self.location))
            }
        }
    }
}

/// Returns the error for an op without a derivative.
pub(super) fn no_derivative(op: Op, input: usize, why: &str) -> Error {
    Error::new(Code::NoGradient, format!("no gradient with respect to operand {input}: {why}"))
        .with_op(op.name())
        .help("stop the gradient before this op with `ops::stop_gradient`")
}

/// Gradients by slot. Each is the sum of its terms, in the order in which they are added.
#[derive(Default)]
pub struct Gradients {
    sums: Vec<Option<Tensor>>,
    /// Partial gradients that are not yet added to the sums.
    parts: FxHashMap<Slot, Parts>,
    /// The number of elements of stacks, by slot.
    counts: FxHashMap<Slot, Tensor>,
}

/// Partial gradients that are added together.
#[derive(Default)]
struct Parts {
    list: Vec<PartialGradient>,
    /// The source location of the last one, at which errors of adding them are reported.
    location: Option<&'static Location<'static>>,
    /// The total number of elements.
    numel: usize,
}

impl Gradients {
    /// Creates gradients of slots below `count`.
    pub fn new(count: usize) -> Self {
        Self { sums: vec![None; count], ..Self::default() }
    }

    /// Sets the number of elements of the stack of a slot.
    pub(super) fn count(&mut self, slot: Slot, count: Tensor) {
        self.counts.insert(slot, count);
    }

    /// Adds a term of a gradient.
    ///
    /// # Errors
    /// The errors of the addition.
    pub fn add(&mut self, slot: Slot, share: Tensor) -> Result<()> {
        self.gather(slot);
        let sum = &mut self.sums[slot as usize];
        *sum = Some(match sum.take() {
            None => share,
            Some(sum) if share.is_traced() && is_stack(&share.ty()) => {
                let unknown = || Error::new(Code::Verify, "a stack of unknown length has two gradients");
                stacks::add(self.counts.get(&slot).ok_or_else(unknown)?, &sum, &share)?
            }
            Some(sum) => ops::add(&sum, &share),
        });
        Ok(())
    }

    /// Adds terms of the gradients of the `slots` that are present.
    ///
    /// # Errors
    /// The errors of the addition.
    pub fn add_all(&mut self, slots: &[Option<Slot>], shares: impl IntoIterator<Item = Option<Tensor>>) -> Result<()> {
        for (slot, share) in slots.iter().zip(shares) {
            if let (Some(slot), Some(share)) = (slot, share) {
                self.add(*slot, share)?;
            }
        }
        Ok(())
    }

    /// Adds a term of a gradient that is zero outside a part. An op at the user's source location read that part.
    pub fn add_part(&mut self, slot: Slot, part: PartialGradient, location: &'static Location<'static>) {
        let parts = self.parts.entry(slot).or_default();
        parts.location = Some(location);
        let sizes = part.sizes();
        parts.list.push(part);
        // Parts are added once their total size is that of the gradient. So they take no more memory than the gradient,
        // and no more time than their computation.
        if let Some((own, whole)) = sizes {
            parts.numel += own;
            if parts.numel > whole {
                self.gather(slot);
            }
        }
    }

    /// Adds the parts of a slot to its sum.
    fn gather(&mut self, slot: Slot) {
        if self.parts.is_empty() {
            return;
        }
        if let Some(parts) = self.parts.remove(&slot) {
            let sum = &mut self.sums[slot as usize];
            let tracer = Tracer::current();
            let around = tracer.as_ref().map(|it| it.locate(parts.location));
            *sum = Some(PartialGradient::sum(sum.take(), &parts.list));
            if let (Some(tracer), Some(around)) = (tracer, around) {
                tracer.locate(around);
            }
        }
    }

    /// Returns the gradient of a slot; `None` if no term arrived.
    pub fn get(&mut self, slot: Slot) -> Option<&Tensor> {
        self.gather(slot);
        self.sums[slot as usize].as_ref()
    }

    /// Takes the gradient of a slot, for an entry that adds to it itself.
    pub fn take(&mut self, slot: Slot) -> Option<Tensor> {
        self.gather(slot);
        self.sums[slot as usize].take()
    }
}

/// Runs the entries backwards. The gradients of all slots remain readable in `gradients`.
///
/// # Errors
/// The errors of an entry.
pub fn pull_all<'a>(
    steps: impl DoubleEndedIterator<Item = &'a dyn TapeEntry>,
    gradients: &mut Gradients,
) -> Result<()> {
    let tracer = Tracer::current();
    let around = tracer.as_ref().map(|it| it.locate(None));
    for step in steps.rev() {
        if let Some(tracer) = &tracer {
            tracer.locate(step.location());
        }
        let taken = step.outputs().iter().map(|slot| gradients.get((*slot)?).cloned());
        let cotangents: Cotangents = taken.collect();
        if cotangents.iter().any(Option::is_some) {
            step.pull(&cotangents, gradients)?;
        }
    }
    if let (Some(tracer), Some(around)) = (tracer, around) {
        tracer.locate(around);
    }
    Ok(())
}
