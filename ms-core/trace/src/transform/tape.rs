//! Computations for backward passes: steps, and gradients accumulated by slot.

use super::emit::is_stack;
use super::stacks;
use crate::error::{Code, Error, Result};
use crate::ops::{self, Derivative, Part, Vjp};
use crate::tensor::{Attrs, Op, Tensor};
use crate::trace::Tracer;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::panic::Location;

/// The number of a differentiable value of a computation, by which gradients are accumulated.
pub type Slot = u32;

/// One step of a computation.
pub trait TapeEntry {
    /// The slots of the operands; `None` for those that need no gradient.
    fn inputs(&self) -> &[Option<Slot>];

    /// The slots of the results; `None` for those that carry none.
    fn outputs(&self) -> &[Option<Slot>];

    /// Adds the gradients of the operands to `gradients`, from those of the results, of which at
    /// least one is present.
    ///
    /// # Errors
    /// [`Code::NoGradient`] when there is no rule.
    fn pull(&self, cotangents: &[Option<Tensor>], gradients: &mut Gradients) -> Result<()>;

    /// The user's line.
    fn location(&self) -> Option<&'static Location<'static>> {
        None
    }
}

/// A step that is one op with a derivative rule.
pub struct RuleEntry {
    /// Which op.
    pub op: Op,
    /// Its attributes.
    pub attrs: Attrs,
    /// Its operands.
    pub inputs: SmallVec<[Tensor; 3]>,
    /// Its results.
    pub outputs: SmallVec<[Tensor; 1]>,
    /// Slots of the operands.
    pub input_slots: SmallVec<[Option<Slot>; 3]>,
    /// Slots of the results.
    pub output_slots: SmallVec<[Option<Slot>; 1]>,
    /// The user's line.
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
        match &ops::definition(self.op).derivative {
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

/// The error for an op without a derivative.
pub(super) fn no_derivative(op: Op, input: usize, why: &str) -> Error {
    Error::new(Code::NoGradient, format!("no gradient with respect to operand {input}: {why}"))
        .with_op(op.name())
        .help("stop the gradient before this op with `ops::stop_gradient`")
}

/// Gradients by slot. Each is the sum of its terms, in the order in which they are added.
#[derive(Default)]
pub struct Gradients {
    sums: Vec<Option<Tensor>>,
    /// Parts that are not added to the sums yet.
    parts: FxHashMap<Slot, Parts>,
    /// For slots of stacks: the number of elements.
    counts: FxHashMap<Slot, Tensor>,
}

/// Parts of a gradient that are to be added together.
#[derive(Default)]
struct Parts {
    list: Vec<Part>,
    /// The line of the last one, at which errors of adding them are reported.
    location: Option<&'static Location<'static>>,
    /// Their number of elements.
    numel: usize,
}

impl Gradients {
    /// Gradients of slots below `count`.
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
    /// Those of an op.
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

    /// Adds terms of the gradients of those of `slots` that are present.
    ///
    /// # Errors
    /// Those of an op.
    pub fn add_all(&mut self, slots: &[Option<Slot>], shares: impl IntoIterator<Item = Option<Tensor>>) -> Result<()> {
        for (slot, share) in slots.iter().zip(shares) {
            if let (Some(slot), Some(share)) = (slot, share) {
                self.add(*slot, share)?;
            }
        }
        Ok(())
    }

    /// Adds a term of a gradient that is zero outside a part, which an op at a user's line read.
    pub fn add_part(&mut self, slot: Slot, part: Part, location: &'static Location<'static>) {
        let parts = self.parts.entry(slot).or_default();
        parts.location = Some(location);
        let sizes = part.sizes();
        parts.list.push(part);
        // Added once they are as large as the gradient, they take no more memory than that, and
        // no more time than computing them.
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
            *sum = Some(Part::sum(sum.take(), &parts.list));
            if let (Some(tracer), Some(around)) = (tracer, around) {
                tracer.locate(around);
            }
        }
    }

    /// The gradient of a slot; `None` if none arrived.
    pub fn get(&mut self, slot: Slot) -> Option<&Tensor> {
        self.gather(slot);
        self.sums[slot as usize].as_ref()
    }

    /// Takes the gradient of a slot, for a step that adds to it itself.
    pub fn take(&mut self, slot: Slot) -> Option<Tensor> {
        self.gather(slot);
        self.sums[slot as usize].take()
    }
}

/// Runs the steps backwards. The gradients of all slots remain readable in `gradients`.
///
/// # Errors
/// Those of a step.
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
        let cotangents: SmallVec<[Option<Tensor>; 1]> = taken.collect();
        if cotangents.iter().any(Option::is_some) {
            step.pull(&cotangents, gradients)?;
        }
    }
    if let (Some(tracer), Some(around)) = (tracer, around) {
        tracer.locate(around);
    }
    Ok(())
}
