//! Computations as backward passes see them: steps, and gradients gathered by slot.

use super::emit::is_stack;
use super::stacks;
use crate::error::{Code, Error, Result};
use crate::ops::{self, Cotangents, Derivative, Vjp};
use crate::tensor::{Attrs, Op, Tensor};
use crate::trace::Tracer;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::panic::Location;

/// A differentiable value of a computation: gradients are gathered by this number.
pub type Slot = u32;

/// One step of a computation.
pub trait Step {
    /// The slots of the operands; nothing for those that want no gradient.
    fn inputs(&self) -> &[Option<Slot>];

    /// The slots of the results; nothing for those that carry none.
    fn outputs(&self) -> &[Option<Slot>];

    /// The gradients of the operands from those of the results, of which at least one is there.
    ///
    /// # Errors
    /// [`Code::NoGradient`] when there is no rule.
    fn pull(&self, cotangents: &[Option<Tensor>]) -> Result<Cotangents>;

    /// The user's line.
    fn location(&self) -> Option<&'static Location<'static>> {
        None
    }
}

/// A step that is one op with a derivative rule.
pub struct RuleStep {
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

impl Step for RuleStep {
    fn location(&self) -> Option<&'static Location<'static>> {
        Some(self.location)
    }

    fn inputs(&self) -> &[Option<Slot>] {
        &self.input_slots
    }

    fn outputs(&self) -> &[Option<Slot>] {
        &self.output_slots
    }

    fn pull(&self, cotangents: &[Option<Tensor>]) -> Result<Cotangents> {
        let needs: SmallVec<[bool; 3]> = self.input_slots.iter().map(Option::is_some).collect();
        match &ops::definition(self.op).derivative {
            Derivative::Rule(rule) => Ok(rule(&Vjp {
                attrs: &self.attrs,
                inputs: &self.inputs,
                outputs: &self.outputs,
                cotangents,
                needs: &needs,
            })),
            Derivative::Zero => Ok(SmallVec::from_elem(None, self.inputs.len())),
            Derivative::None(why) => {
                let input = needs.iter().position(|&it| it).unwrap_or(0);
                Err(no_derivative(self.op, input, why)
                    .with_operands(self.inputs.iter().map(|it| it.ty().to_string()))
                    .at(self.location))
            }
        }
    }
}

/// Why an op has no derivative.
pub(super) fn no_derivative(op: Op, input: usize, why: &str) -> Error {
    Error::new(Code::NoGradient, format!("no gradient with respect to operand {input}: {why}"))
        .with_op(op.name())
        .help("stop the gradient before this op with `ops::stop_gradient`")
}

/// Gradients by slot.
#[derive(Default)]
pub struct Gradients {
    sums: Vec<Option<Tensor>>,
    /// For slots of stacks: how many elements there are.
    counts: FxHashMap<Slot, Tensor>,
}

impl Gradients {
    /// Room for the gradients of slots below `count`.
    pub fn new(count: usize) -> Self {
        Self { sums: vec![None; count], counts: FxHashMap::default() }
    }

    /// Says how many elements the stack of a slot has.
    pub(super) fn count(&mut self, slot: Slot, count: Tensor) {
        self.counts.insert(slot, count);
    }

    /// Adds a share of a gradient.
    ///
    /// # Errors
    /// What an op refuses.
    pub fn add(&mut self, slot: Slot, share: Tensor) -> Result<()> {
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

    /// The gradient of a slot; nothing where none arrived.
    pub fn get(&self, slot: Slot) -> Option<&Tensor> {
        self.sums[slot as usize].as_ref()
    }
}

/// Runs the steps backwards. The gradients of all slots stay readable in `gradients`.
///
/// # Errors
/// What a step refuses.
pub fn pull_all<'a>(steps: impl DoubleEndedIterator<Item = &'a dyn Step>, gradients: &mut Gradients) -> Result<()> {
    let tracer = Tracer::current();
    let around = tracer.as_ref().map(|it| it.locate(None));
    for step in steps.rev() {
        let taken = step.outputs().iter().map(|slot| gradients.get((*slot)?).cloned());
        let cotangents: SmallVec<[Option<Tensor>; 1]> = taken.collect();
        if cotangents.iter().all(Option::is_none) {
            continue;
        }
        if let Some(tracer) = &tracer {
            tracer.locate(step.location());
        }
        let shares = step.pull(&cotangents)?;
        for (slot, share) in step.inputs().iter().zip(shares) {
            if let (Some(slot), Some(share)) = (slot, share) {
                gradients.add(*slot, share)?;
            }
        }
    }
    if let (Some(tracer), Some(around)) = (tracer, around) {
        tracer.locate(around);
    }
    Ok(())
}
