//! The eager tape: ops are run and recorded, so that gradients can be pulled back through them.

use super::compiled::{Compiled, Derivative};
use crate::error::Result;
use crate::ops::{self, Cotangents};
use crate::tensor::{
    DispatchMode, Dispatcher, Eagerly, OpCall, Outputs, Parameter, SlotId, Tensor, current_dispatcher, with_dispatcher,
};
use crate::trace::check_handing;
use crate::transform::{Gradients, Residual, RuleStep, Slot, Step, pull_all, push_rule};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Runs ops through the dispatcher below it and records those that a watched tensor reaches.
pub struct Tape {
    below: Rc<dyn Dispatcher>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Slots of watched tensors by identity. The steps keep the tensors, and so their addresses, alive.
    slots: FxHashMap<usize, Slot>,
    kept: Vec<Tensor>,
    steps: Vec<Box<dyn Recorded>>,
    /// Watched parameters, until they are written.
    parameters: FxHashMap<SlotId, Tensor>,
    handed: Vec<Handed>,
    /// What backward functions read of parameters that they do not write.
    backward_reads: Vec<Parameter>,
    next: Slot,
}

/// A parameter that backward functions write, as they see it; see [`Parameter::backward`].
struct Handed {
    parameter: Parameter,
    first: Tensor,
    last: Tensor,
}

/// A step of a tape: gradients are pulled back through it, and tangents pushed forward.
trait Recorded: Step {
    /// The tangents of the results, at least of those that are `wanted`, from those of the operands, of
    /// which at least one is there.
    fn push(&self, tangents: &[Option<Tensor>], wanted: &[bool]) -> Result<Vec<Option<Tensor>>>;
}

impl Recorded for RuleStep {
    fn push(&self, tangents: &[Option<Tensor>], _: &[bool]) -> Result<Vec<Option<Tensor>>> {
        push_rule(self, tangents)
    }
}

/// What a tape recorded: a linear function from changes of the watched tensors to changes of
/// what was computed from them, and its transpose.
pub struct Record {
    slots: FxHashMap<usize, Slot>,
    /// Keeps the addresses of tensors theirs.
    _kept: Vec<Tensor>,
    steps: Vec<Box<dyn Recorded>>,
    handed: Vec<Handed>,
    backward_reads: Vec<Parameter>,
    count: usize,
}

impl Record {
    fn slot(&self, tensor: &Tensor) -> Option<Slot> {
        self.slots.get(&tensor.identity()).copied()
    }

    /// The gradients of the sum of `results`, weighted by `seeds` where they are given, with
    /// respect to watched tensors; zeros where none arrives. Parameters hold then what backward
    /// functions write.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
    pub fn pull(&self, results: &[Tensor], seeds: Option<&[Tensor]>, watched: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut gradients = Gradients::new(self.count);
        for (at, result) in results.iter().enumerate() {
            if let Some(slot) = self.slot(result) {
                gradients.add(slot, seeds.map_or_else(|| ops::ones_like(result), |seeds| seeds[at].clone()))?;
            }
        }
        check_handing(self.handed.iter().map(|it| &it.parameter), &self.backward_reads)?;
        // As a run of a compiled function, the pass is alone with what it reads and writes.
        let mut locks: Vec<&Parameter> =
            self.handed.iter().map(|it| &it.parameter).filter(|it| *it != ops::order()).collect();
        locks.sort_by_key(|it| it.id());
        let _alone: Vec<_> = locks.into_iter().map(Parameter::lock).collect();
        let mut seeded = Vec::with_capacity(self.handed.len());
        for it in &self.handed {
            let held = it.parameter.value();
            let seed = ops::hand_on(&held);
            gradients.add(self.slot(&it.last).expect("the tape gave it"), seed.clone())?;
            seeded.push((seed, held.dtype()));
        }
        pull_all(self.steps.iter().map(|it| &**it as &dyn Step), &mut gradients)?;
        for (it, (seed, dtype)) in self.handed.iter().zip(seeded) {
            let first = self.slot(&it.first).and_then(|slot| gradients.get(slot)).expect("every step hands it on");
            // Where no backward function ran, there is no write that gradients around this one stop at.
            if first.identity() != seed.identity() {
                it.parameter.try_set(&ops::take_over(first, dtype))?;
            }
        }
        let mut gradient = |it: &Tensor| match self.slot(it).and_then(|slot| gradients.get(slot)) {
            Some(gradient) => gradient.clone(),
            None => ops::zeros_like(it),
        };
        Ok(watched.iter().map(&mut gradient).collect())
    }

    /// The slots that `results` depend on.
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

    /// The tangents of `results`, given those of watched tensors; zeros where none arrives.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
    pub fn push(&self, results: &[Tensor], watched: &[Tensor], tangents: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut known: Vec<Option<Tensor>> = vec![None; self.count];
        for (it, tangent) in watched.iter().zip(tangents) {
            if let Some(slot) = self.slot(it) {
                known[slot as usize] = Some(tangent.clone());
            }
        }
        let wanted = self.wanted(results);
        for step in &self.steps {
            let outputs: SmallVec<[bool; 1]> =
                step.outputs().iter().map(|slot| slot.is_some_and(|it| wanted[it as usize])).collect();
            if !outputs.contains(&true) {
                continue;
            }
            let of = |slot: &Option<Slot>| slot.and_then(|it| known[it as usize].clone());
            let given: Vec<Option<Tensor>> = step.inputs().iter().map(of).collect();
            if given.iter().all(Option::is_none) {
                continue;
            }
            for (slot, tangent) in step.outputs().to_vec().into_iter().zip(step.push(&given, &outputs)?) {
                if let Some(slot) = slot {
                    known[slot as usize] = tangent;
                }
            }
        }
        let tangent = |it: &Tensor| match self.slot(it).and_then(|slot| known[slot as usize].clone()) {
            Some(tangent) => tangent,
            None => ops::zeros_like(it),
        };
        Ok(results.iter().map(tangent).collect())
    }
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
    }

    fn slot(&self, tensor: &Tensor) -> Option<Slot> {
        self.slots.get(&tensor.identity()).copied()
    }
}

impl Tape {
    /// A tape over the current dispatcher.
    pub fn new() -> Rc<Self> {
        let below = current_dispatcher().unwrap_or_else(|| Rc::new(Eagerly));
        Rc::new(Self { below, state: RefCell::default() })
    }

    /// The tape that is the current dispatcher of this thread, if there is one.
    pub fn current() -> Option<Rc<Self>> {
        let top = current_dispatcher()?;
        if top.mode() != DispatchMode::Tape {
            return None;
        }
        top.as_any()?.downcast::<Self>().ok()
    }

    /// Starts recording what happens to `tensor`: gives the same elements under an identity of
    /// their own.
    pub fn watch(&self, tensor: &Tensor) -> Tensor {
        let watched = tensor.fresh();
        // A tape around this one goes on seeing its own value.
        self.below.alias(tensor, &watched);
        self.state.borrow_mut().watch(&watched);
        watched
    }

    /// Starts recording what happens to the value of `parameter`; reads of it give the result.
    ///
    /// # Errors
    /// When the parameter cannot be read here.
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
        let State { slots, kept, steps, handed, backward_reads, next, .. } =
            std::mem::take(&mut *self.state.borrow_mut());
        Record { slots, _kept: kept, steps, handed, backward_reads, count: next as usize }
    }

    /// The tape around this one.
    fn tape_below(&self) -> Option<Rc<Self>> {
        self.below.clone().as_any()?.downcast().ok()
    }

    /// The slot of a parameter as backward functions see it, as far as they were recorded.
    fn handed(&self, parameter: &Parameter) -> Result<Tensor> {
        let known = self.state.borrow().handed.iter().find(|it| it.parameter == *parameter).map(|it| it.last.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let outside = match self.tape_below() {
            Some(tape) => tape.handed(parameter)?,
            None => ops::hand_on(&self.below.read_parameter(parameter)?),
        };
        let first = self.watch(&outside);
        let (parameter, last) = (parameter.clone(), first.clone());
        self.state.borrow_mut().handed.push(Handed { parameter, first: first.clone(), last });
        Ok(first)
    }

    /// Goes on from another value of the slot of a parameter as backward functions see it.
    fn hand_on(&self, parameter: &Parameter, value: &Tensor) {
        let mut state = self.state.borrow_mut();
        let it = state.handed.iter_mut().find(|it| it.parameter == *parameter);
        it.expect("it was read before").last = value.clone();
        drop(state);
        if let Some(tape) = self.tape_below() {
            tape.hand_on(parameter, value);
        }
    }

    /// Notes what backward functions read of parameters that they do not write.
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

    /// Calls a compiled graph and records it as one step; see [`crate::trace::Handing`] for what it
    /// takes and gives behind all others.
    pub(super) fn call_handing(
        &self,
        compiled: &Arc<Compiled>,
        writes: &[Parameter],
        reads: &[Parameter],
        inputs: &[Tensor],
    ) -> Result<Outputs> {
        self.note_backward_reads(reads);
        let handed: Result<Vec<Tensor>> = writes.iter().map(|it| self.handed(it)).collect();
        let inputs: Vec<Tensor> = inputs.iter().cloned().chain(handed?).collect();
        let compiled = compiled.at_sizes(&inputs)?;
        let results = compiled.results()?;
        let first = results - writes.len();
        let mut outputs = self.call(&compiled, &inputs, first..results)?;
        for (parameter, value) in writes.iter().zip(outputs.drain(first..)) {
            self.hand_on(parameter, &value);
        }
        Ok(outputs)
    }

    /// Calls a compiled graph and records it as one step. The outputs `handed`, and as many inputs at
    /// the end, are slots as backward functions see them.
    pub(super) fn call(&self, compiled: &Arc<Compiled>, inputs: &[Tensor], handed: Range<usize>) -> Result<Outputs> {
        let input_slots: Vec<Option<Slot>> = {
            let state = self.state.borrow();
            inputs.iter().map(|it| state.slot(it).filter(|_| it.dtype().is_float())).collect()
        };
        let wrt: Vec<usize> = (0..inputs.len()).filter(|&i| input_slots[i].is_some()).collect();
        if wrt.is_empty() {
            return self.below(|| compiled.call_handing(inputs, handed));
        }
        let derivative = compiled.derivative(&wrt)?;
        // A tape around this one records the same slots.
        let mut outputs = self.below(|| derivative.forward.call_handing(inputs, handed.clone()))?;
        let saved: Vec<Tensor> = outputs.drain(compiled.results()?..).collect();
        let residuals = derivative.residuals.iter().map(|it| match *it {
            Residual::Input(at) => inputs[at].clone(),
            Residual::Saved(at) => saved[at].clone(),
        });
        let residuals = residuals.collect();
        let mut state = self.state.borrow_mut();
        let output_slots = derivative.seeds.iter().map(|&i| Some(state.watch(&outputs[i]))).collect();
        let templates = derivative.seeds.iter().map(|&i| outputs[i].clone()).collect();
        let input_slots = wrt.iter().map(|&i| input_slots[i]).collect();
        let inputs = inputs.to_vec();
        let compiled = compiled.clone();
        state.steps.push(Box::new(CallStep {
            compiled,
            wrt,
            inputs,
            handed,
            derivative,
            residuals,
            templates,
            input_slots,
            output_slots,
        }));
        Ok(outputs)
    }
}

/// A step that is a compiled graph.
struct CallStep {
    compiled: Arc<Compiled>,
    /// The inputs that are watched.
    wrt: Vec<usize>,
    inputs: Vec<Tensor>,
    /// The results that are slots as backward functions see them; the last inputs are, too.
    handed: Range<usize>,
    derivative: Arc<Derivative>,
    residuals: Vec<Tensor>,
    /// The results, for the shapes of absent cotangents.
    templates: Vec<Tensor>,
    input_slots: Vec<Option<Slot>>,
    output_slots: Vec<Option<Slot>>,
}

impl Step for CallStep {
    fn inputs(&self) -> &[Option<Slot>] {
        &self.input_slots
    }

    fn outputs(&self) -> &[Option<Slot>] {
        &self.output_slots
    }

    fn pull(&self, cotangents: &[Option<Tensor>], gradients: &mut Gradients) -> Result<()> {
        gradients.add_all(&self.input_slots, self.shares(cotangents)?)
    }
}

impl CallStep {
    fn shares(&self, cotangents: &[Option<Tensor>]) -> Result<Cotangents> {
        if !self.handed.is_empty() && cotangents.iter().any(Option::is_none) {
            return self.pull_reached(cotangents);
        }
        let given = cotangents.iter().zip(&self.templates);
        let given = given.map(|(it, like)| it.clone().unwrap_or_else(|| ops::zeros_like(like)));
        let inputs: Vec<Tensor> = self.residuals.iter().cloned().chain(given).collect();
        Ok(self.derivative.backward.call(&inputs)?.into_iter().map(Some).collect())
    }

    /// Pulls back where some gradients are missing: backward functions that none reaches do not run.
    fn pull_reached(&self, cotangents: &[Option<Tensor>]) -> Result<Cotangents> {
        let all = || self.derivative.seeds.iter().copied().zip(cotangents);
        let (handed, results): (Vec<_>, Vec<_>) = all().partition(|(seed, _)| self.handed.contains(seed));
        if results.iter().all(|it| it.1.is_none()) {
            let none = vec![None; self.wrt.len() - handed.len()];
            return Ok(none.into_iter().chain(handed.into_iter().map(|it| it.1.clone())).collect());
        }
        let (seeds, given): (Vec<usize>, Vec<Tensor>) =
            all().filter_map(|(seed, it)| Some((seed, it.clone()?))).unzip();
        let inputs: Vec<Tensor> = self.inputs.iter().cloned().chain(given).collect();
        let partial = self.compiled.partial(&self.wrt, &seeds)?;
        let gradients = partial.compiled.call(&inputs)?.into_iter().zip(&partial.reached);
        Ok(gradients.map(|(gradient, reached)| reached.then_some(gradient)).collect())
    }
}

impl Recorded for CallStep {
    fn push(&self, tangents: &[Option<Tensor>], wanted: &[bool]) -> Result<Vec<Option<Tensor>>> {
        let given: Vec<usize> = (0..tangents.len()).filter(|&at| tangents[at].is_some()).collect();
        let wrt: Vec<usize> = given.iter().map(|&at| self.wrt[at]).collect();
        let seeds = self.derivative.seeds.iter().zip(wanted);
        let results: Vec<usize> = seeds.filter(|(_, wanted)| **wanted).map(|(&seed, _)| seed).collect();
        let pushed = self.compiled.tangent(&wrt, &results)?;
        let inputs: Vec<Tensor> = self.inputs.iter().cloned().chain(tangents.iter().flatten().cloned()).collect();
        let mut tangents = pushed.call(&inputs)?.into_iter();
        Ok(wanted.iter().map(|wanted| if *wanted { tangents.next() } else { None }).collect())
    }
}

impl Dispatcher for Tape {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let mut outputs = self.below.apply(call)?;
        let mut state = self.state.borrow_mut();
        let slots: SmallVec<[Option<Slot>; 3]> = call.inputs.iter().map(|it| state.slot(it)).collect();
        if slots.iter().all(Option::is_none)
            || matches!(ops::definition(call.op).derivative, ops::Derivative::Zero)
            || !outputs.iter().any(|it| it.dtype().is_float())
        {
            return Ok(outputs);
        }
        // An op may hand an operand through; its result must be a value of its own here.
        for output in &mut outputs {
            if state.slot(output).is_some() {
                let own = output.fresh();
                self.below.alias(output, &own);
                *output = own;
            }
        }
        let output_slots = outputs.iter().map(|it| it.dtype().is_float().then(|| state.watch(it))).collect();
        state.steps.push(Box::new(RuleStep {
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

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        if let Some(watched) = self.state.borrow().parameters.get(&parameter.id()) {
            return Ok(watched.clone());
        }
        self.below.read_parameter(parameter)
    }

    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        // The new value is a constant to the gradient: an identity that nothing recorded.
        self.state.borrow_mut().parameters.remove(&parameter.id());
        self.below.write_parameter(parameter, &value.fresh())
    }

    fn alias(&self, tensor: &Tensor, alias: &Tensor) {
        self.below.alias(tensor, alias);
        self.state.borrow_mut().alias(tensor, alias);
    }

    fn mode(&self) -> DispatchMode {
        DispatchMode::Tape
    }

    fn as_any(self: Rc<Self>) -> Option<Rc<dyn Any>> {
        Some(self)
    }
}
