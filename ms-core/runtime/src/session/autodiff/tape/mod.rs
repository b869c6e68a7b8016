//! Implements the eager tape: executes and records ops, so that gradients can be pulled back through them.

mod entry;
mod hidden;
mod record;

pub use record::Record;

use crate::session::call::compiled::{Compiled, Hiding};
use crate::session::eager::in_composite;
use entry::{CallEntry, CopyEntry, Recorded};
use hidden::HiddenValues;
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ops::ops;
use ms_ops::tensor::{
    DType, DispatchMode, Dispatcher, Eagerly, OpCall, Outputs, Parameter, Scalar, SlotId, Tensor, current_dispatcher,
    with_dispatcher,
};
use ms_trace::transform::{Residual, RuleEntry, Slot, StepFunction};
use record::{BackwardSlot, NumbersRead};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// Executes ops through the dispatcher below it, and records those that depend on watched tensors.
pub struct Tape {
    below: Rc<dyn Dispatcher>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Slots of watched tensors by identity. The entries keep the tensors alive, and so their addresses unique.
    slots: FxHashMap<usize, Slot>,
    kept: Vec<Tensor>,
    steps: Vec<Box<dyn Recorded>>,
    /// Watched parameters, until they are written.
    parameters: FxHashMap<SlotId, Tensor>,
    backward_slots: Vec<BackwardSlot>,
    /// The parameters that backward functions read and do not write.
    backward_reads: Vec<Parameter>,
    reads: Vec<NumbersRead>,
    /// Values that depend on watched ones through step functions.
    hidden: HiddenValues,
    next: Slot,
}

impl State {
    fn watch(&mut self, tensor: &Tensor) -> Slot {
        let slot = self.next;
        self.next += 1;
        self.slots.insert(tensor.identity(), slot);
        self.kept.push(tensor.clone());
        slot
    }

    fn alias(&mut self, tensor: &Tensor, alias: &Tensor) {
        if let Some(slot) = self.slot(tensor) {
            self.slots.insert(alias.identity(), slot);
            self.kept.push(alias.clone());
        }
        self.hidden.alias(tensor, alias);
    }

    /// Records which results of an op depend on watched values through step functions. If `is_step`, the op itself is
    /// one to its results without a slot; all results inherit such dependences from its operands.
    fn hide(&mut self, call: &OpCall<'_>, results: &[Tensor], slots: &[Option<Slot>], is_step: bool) {
        let hidden = self.hidden.among(call.inputs.iter().copied());
        let slots: SmallVec<[Slot; 2]> = slots.iter().flatten().copied().filter(|_| is_step).collect();
        if slots.is_empty() && hidden.is_empty() || ops::blocks_gradients(call.op) {
            return;
        }
        let step = (!slots.is_empty()).then_some(StepFunction { op: call.op, location: Some(call.location) });
        let Some(id) = self.hidden.add(step, slots, &hidden) else { return };
        for it in results {
            match self.slot(it) {
                Some(slot) => self.hidden.pass(slot, &hidden),
                None => self.hidden.name(it, id),
            }
        }
    }

    /// Records the results of a compiled graph that depend on watched values through step functions, inside it or
    /// outside.
    fn pass_call(&mut self, inputs: &[Tensor], sources: &[Option<Slot>], hiding: &Hiding, outputs: &[Tensor]) {
        let outside = self.hidden.among(inputs);
        let mut hidden = |steps: &[Option<StepFunction>]| {
            let mut hidden = outside.clone();
            for (step, slot) in steps.iter().zip(sources).filter_map(|(step, slot)| Some((*step.as_ref()?, (*slot)?))) {
                hidden.extend(self.hidden.add(Some(step), [slot].into_iter().collect(), &[]));
            }
            hidden
        };
        let (of_seeds, of_others) = (hidden(&hiding.of_seeds), hidden(&hiding.of_others));
        let other = self.hidden.add(None, SmallVec::new(), &of_others);
        for it in outputs {
            match (self.slot(it), other) {
                (Some(slot), _) => self.hidden.pass(slot, &of_seeds),
                (None, Some(other)) => self.hidden.name(it, other),
                (None, None) => {}
            }
        }
    }

    fn slot(&self, tensor: &Tensor) -> Option<Slot> {
        self.slots.get(&tensor.identity()).copied()
    }
}

impl Tape {
    /// Creates a tape over the current dispatcher.
    pub fn new() -> Rc<Self> {
        let below = current_dispatcher().unwrap_or_else(|| Rc::new(Eagerly));
        Rc::new(Self { below, state: RefCell::default() })
    }

    /// Returns the tape that is the current dispatcher of this thread, if there is one.
    pub fn current() -> Option<Rc<Self>> {
        let top = current_dispatcher()?;
        if top.mode() != DispatchMode::Tape {
            return None;
        }
        top.as_any()?.downcast::<Self>().ok()
    }

    /// Starts recording uses of `tensor`. Returns a tensor with the same elements and a new identity.
    pub fn watch(&self, tensor: &Tensor) -> Tensor {
        let watched = tensor.fresh();
        // An outer tape continues to use the identity that it knows.
        self.below.alias(tensor, &watched);
        self.state.borrow_mut().watch(&watched);
        watched
    }

    /// Starts recording uses of the value of `parameter`. Reads of the parameter return the result.
    ///
    /// # Errors
    /// Fails if the parameter cannot be read here.
    pub fn watch_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        if let Some(watched) = self.state.borrow().parameters.get(&parameter.id()) {
            return Ok(watched.clone());
        }
        let watched = self.watch(&self.below.read_parameter(parameter)?);
        self.state.borrow_mut().parameters.insert(parameter.id(), watched.clone());
        Ok(watched)
    }

    /// Runs `f` and records its ops.
    pub fn record<R>(self: &Rc<Self>, f: impl FnOnce() -> R) -> R {
        with_dispatcher(self.clone(), f)
    }

    /// Runs `f` with the dispatcher below the tape.
    pub fn below<R>(&self, f: impl FnOnce() -> R) -> R {
        with_dispatcher(self.below.clone(), f)
    }

    /// Ends the recording.
    pub fn finish(&self) -> Record {
        let State { slots, kept, steps, backward_slots, backward_reads, reads, hidden, next, .. } =
            std::mem::take(&mut *self.state.borrow_mut());
        Record { slots, _kept: kept, steps, backward_slots, backward_reads, reads, hidden, count: next as usize }
    }

    /// Returns the outer tape.
    fn tape_below(&self) -> Option<Rc<Self>> {
        self.below.clone().as_any()?.downcast().ok()
    }

    /// Returns the backward slot of a parameter after the recorded entries.
    fn backward_slot(&self, parameter: &Parameter) -> Result<Tensor> {
        let known =
            self.state.borrow().backward_slots.iter().find(|it| it.parameter == *parameter).map(|it| it.last.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let outside = match self.tape_below() {
            Some(tape) => tape.backward_slot(parameter)?,
            None => ops::encode_as_floats(&self.below.read_parameter(parameter)?),
        };
        let first = self.watch(&outside);
        let (parameter, last) = (parameter.clone(), first.clone());
        self.state.borrow_mut().backward_slots.push(BackwardSlot { parameter, first: first.clone(), last });
        Ok(first)
    }

    /// Sets the backward slot of a parameter.
    fn set_backward_slot(&self, parameter: &Parameter, value: &Tensor) {
        let mut state = self.state.borrow_mut();
        let it = state.backward_slots.iter_mut().find(|it| it.parameter == *parameter);
        it.expect("it was read before").last = value.clone();
        drop(state);
        if let Some(tape) = self.tape_below() {
            tape.set_backward_slot(parameter, value);
        }
    }

    /// Records the parameters that backward functions read and do not write.
    fn note_backward_reads(&self, reads: &[Parameter]) {
        let mut state = self.state.borrow_mut();
        for parameter in reads {
            if !state.backward_reads.contains(parameter) {
                state.backward_reads.push(parameter.clone());
            }
        }
        drop(state);
        if let Some(tape) = self.tape_below() {
            tape.note_backward_reads(reads);
        }
    }

    /// Calls a compiled graph and records it as one entry. Its additional inputs and outputs are the slots of `writes`
    /// ([`ms_trace::trace::BackwardSlots`]).
    pub(in crate::session) fn call_with_backward_slots(
        &self,
        compiled: &Arc<Compiled>,
        writes: &[Parameter],
        reads: &[Parameter],
        inputs: &[Tensor],
    ) -> Result<Outputs> {
        self.note_backward_reads(reads);
        let slots: Result<Vec<Tensor>> = writes.try_map_vec(|it| self.backward_slot(it));
        let inputs: Vec<Tensor> = inputs.iter().cloned().chain(slots?).collect();
        let compiled = compiled.fitted(&inputs)?;
        let results = compiled.results()?;
        let first = results - writes.len();
        let mut outputs = self.call(&compiled, &inputs, first..results)?;
        for (parameter, value) in writes.iter().zip(outputs.drain(first..)) {
            self.set_backward_slot(parameter, &value);
        }
        Ok(outputs)
    }

    /// Calls a compiled graph and records it as one entry. The outputs `backward_slots`, and as many inputs at the end,
    /// are backward slots.
    pub(in crate::session) fn call(
        &self,
        compiled: &Arc<Compiled>,
        inputs: &[Tensor],
        backward_slots: Range<usize>,
    ) -> Result<Outputs> {
        let input_slots: Vec<Option<Slot>> = {
            let state = self.state.borrow();
            inputs.map_vec(|it| state.slot(it).filter(|_| it.dtype().is_float()))
        };
        let wrt: Vec<usize> = (0..inputs.len()).filter(|&i| input_slots[i].is_some()).collect();
        if wrt.is_empty() {
            let outputs = self.below(|| compiled.call_with_backward_slots(inputs, backward_slots))?;
            self.state.borrow_mut().pass_call(inputs, &[], &Hiding::default(), &outputs);
            return Ok(outputs);
        }
        let derivative = compiled.derivative(&wrt)?;
        // An outer tape records these backward slots too.
        let mut outputs = self.below(|| derivative.forward.call_with_backward_slots(inputs, backward_slots.clone()))?;
        let saved: Vec<Tensor> = outputs.drain(compiled.results()?..).collect();
        let residuals = derivative.residuals.iter().map(|it| match *it {
            Residual::Input(at) => inputs[at].clone(),
            Residual::Saved(at) => saved[at].clone(),
        });
        let residuals = residuals.collect();
        let mut state = self.state.borrow_mut();
        let output_slots = derivative.seeds.map_vec(|&i| Some(state.watch(&outputs[i])));
        let sources: Vec<Option<Slot>> = wrt.map_vec(|&i| input_slots[i]);
        state.pass_call(inputs, &sources, &derivative.hiding, &outputs);
        let templates = derivative.seeds.map_vec(|&i| outputs[i].clone());
        let (input_slots, inputs) = (sources, inputs.to_vec());
        let compiled = compiled.clone();
        state.steps.push(Box::new(CallEntry {
            compiled,
            wrt,
            inputs,
            backward_slots,
            derivative,
            residuals,
            templates,
            input_slots,
            output_slots,
        }));
        Ok(outputs)
    }
}

impl Dispatcher for Tape {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let def = ops::definition(call.op);
        let rules = ops::transform_rules(def);
        if let (ops::Derivative::Body, Some(body)) = (&rules.derivative, rules.composite()) {
            return in_composite(&call, || ops::apply_body(&call, body));
        }
        let mut outputs = self.below.apply(call)?;
        let mut state = self.state.borrow_mut();
        let slots: SmallVec<[Option<Slot>; 3]> = call.inputs.iter().map(|it| state.slot(it)).collect();
        let is_zero = matches!(rules.derivative, ops::Derivative::Zero);
        if slots.iter().all(Option::is_none) || is_zero || !outputs.iter().any(|it| it.dtype().is_float()) {
            state.hide(&call, &outputs, &slots, true);
            return Ok(outputs);
        }
        // An op may return an operand. Its result needs a separate identity here.
        for output in &mut outputs {
            if state.slot(output).is_some() {
                let own = output.fresh();
                self.below.alias(output, &own);
                *output = own;
            }
        }
        let output_slots = outputs.iter().map(|it| it.dtype().is_float().then(|| state.watch(it))).collect();
        // Integer results, such as the indices of `sort`, depend on the operands through a step function.
        state.hide(&call, &outputs, &slots, outputs.iter().any(|it| !it.dtype().is_float()));
        state.steps.push(Box::new(RuleEntry {
            op: call.op,
            attrs: call.attrs.clone(),
            inputs: call.inputs.iter().map(|&it| it.clone()).collect(),
            outputs: outputs.clone(),
            input_slots: slots,
            output_slots,
            location: call.location,
        }));
        Ok(outputs)
    }

    fn number(&self, value: Scalar, dtype: DType, location: &'static Location<'static>) -> Result<Tensor> {
        self.below.number(value, dtype, location)
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        if let Some(watched) = self.state.borrow().parameters.get(&parameter.id()) {
            return Ok(watched.clone());
        }
        self.below.read_parameter(parameter)
    }

    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        // To the gradient, the new value is a constant: its identity is not recorded.
        self.state.borrow_mut().parameters.remove(&parameter.id());
        self.below.write_parameter(parameter, &value.fresh())
    }

    fn advance_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        self.state.borrow_mut().parameters.remove(&parameter.id());
        self.below.advance_parameter(parameter, &value.fresh())
    }

    fn alias(&self, tensor: &Tensor, alias: &Tensor) {
        self.below.alias(tensor, alias);
        self.state.borrow_mut().alias(tensor, alias);
    }

    fn copied(&self, tensor: &Tensor, copy: &Tensor) {
        self.below.copied(tensor, copy);
        let mut state = self.state.borrow_mut();
        let Some(slot) = state.slot(tensor).filter(|_| tensor.dtype().is_float()) else { return };
        let output = state.watch(copy);
        let devices = [tensor.device(), copy.device()];
        state.steps.push(Box::new(CopyEntry { input: [Some(slot)], output: [Some(output)], devices }));
    }

    fn note_read(&self, tensor: &Tensor, location: &'static Location<'static>) {
        self.below.note_read(tensor, location);
        let mut state = self.state.borrow_mut();
        if state.slot(tensor).is_some() {
            let steps = state.steps.len();
            state.reads.push(NumbersRead { steps, location });
        }
    }

    fn mode(&self) -> DispatchMode {
        DispatchMode::Tape
    }

    fn as_any(self: Rc<Self>) -> Option<Rc<dyn Any>> {
        Some(self)
    }
}
