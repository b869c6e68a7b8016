//! Implements a compiled version of a function, and its runs.

use super::backward_slots::BackwardSlots;
use super::compiled::Compiled;
use super::in_place_run::InPlaceRun;
use super::lent::LentTensors;
use crate::session::autodiff::tape::Tape;
use crate::session::devices;
use ms_compile::exec::Donation;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::{
    Array, DType, Dependent, Device, DispatchMode, Gathered, Outputs, Parameter, Role, Scalar, Tensor, Type,
    WeakParameter, dispatch_mode, is_host_only,
};
use ms_trace::trace::{Signature, Tree};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The source of an input of a version at a call.
pub(super) enum Source {
    /// The argument of that position.
    Argument(usize),
    /// The value of a parameter.
    Slot(Parameter),
    /// A tensor that the function captured.
    Captured(Tensor),
}

/// The source of a version's input when it runs.
#[derive(Clone, Copy, PartialEq)]
enum InputSource {
    Argument,
    Captured,
    /// The values of the slots that are only read.
    Read,
    /// The slots that the version only reads and that have a value on each thread.
    OfThread,
    /// The slots that the version writes.
    Written,
}

/// Consecutive inputs of a version that are consecutive in their source. A model's parameters are one run of inputs.
struct InputRun {
    source: InputSource,
    range: Range<usize>,
}

/// The values that a run reads besides those that the version holds.
struct BoundArgs<'a> {
    arguments: &'a [Tensor],
    /// The values of the slots that are only read.
    read: Option<Arc<[Tensor]>>,
    /// The values of the slots that have a value on each thread.
    of_thread: SmallVec<[Tensor; 2]>,
}

/// The versions of a function.
pub(super) trait Home: Sync {
    /// Removes a version.
    fn remove(&self, version: &Version);
}

/// A compiled function for one signature.
///
/// A version keeps no parameter alive. It is dropped when a parameter to which it is bound, or which its signature
/// names, is dropped. No later call can have its signature then.
pub(super) struct Version {
    home: &'static dyn Home,
    signature: Box<[u64]>,
    /// The types that the signature contains only as hashes.
    types: Box<[TypeId]>,
    /// The hash of the signature.
    pub(super) hash: u64,
    /// The types of the tensors among the arguments.
    pub(super) arguments: Box<[Type]>,
    /// The number of the last use among the versions of the function.
    pub(super) used: AtomicU64,
    /// Whether a parameter is dropped.
    pub(super) dead: AtomicBool,
    /// The size in bytes, without its compiled code.
    pub(super) bytes: usize,
    pub(super) compiled: Arc<Compiled>,
    backward_slots: Option<BackwardSlots>,
    inputs: Box<[InputRun]>,
    /// The donation terms of each input: a state if the version writes its slot.
    donations: Box<[Donation]>,
    captured: Vec<Tensor>,
    /// The inputs that are states of generators, which follow the other inputs to their device.
    states: Box<[usize]>,
    /// Slots that the version reads and does not write.
    reads: Option<Gathered>,
    /// Slots among these that have a value on each thread. They belong to the process.
    of_thread: Vec<Parameter>,
    writes: Vec<WeakParameter>,
    /// The written slots that are shared with other threads, in the order of their identities, so that two runs never
    /// deadlock.
    locks: Box<[usize]>,
    /// Whether another process traced it, so that it has no derivatives.
    pub untraced: bool,
    /// The traced result. Tensors of a run replace its tensors.
    template: Box<dyn Any + Send + Sync>,
}

/// The components of a [`Version`].
pub(super) struct Parts {
    /// The graph.
    pub compiled: Arc<Compiled>,
    /// The graph for a tape, if it is a different one.
    pub backward_slots: Option<BackwardSlots>,
    /// The sources of its inputs.
    pub inputs: Vec<Source>,
    /// The number of outputs before those that are written to parameters.
    pub results: usize,
    /// The parameters to which its last outputs are written.
    pub writes: Vec<Parameter>,
    /// Whether another process traced it.
    pub untraced: bool,
    /// The result, see [`template`].
    pub template: Box<dyn Any + Send + Sync>,
}

/// Returns the structure of a result, in which tensors of a run replace the traced ones. The traced tensors must not be
/// kept alive.
pub(super) fn template<T: Tree + Send + Sync + 'static>(result: &T) -> Box<dyn Any + Send + Sync> {
    let blank = Tensor::from_number(Scalar::Float(0.0), DType::F32);
    Box::new(result.rebuild(&mut |_| blank.clone()).as_template())
}

impl Version {
    /// Creates the version for a signature with the parameters `shown`, as one of the versions of `home`.
    pub fn new(home: &'static dyn Home, signature: &Signature, shown: &[Parameter], parts: Parts) -> Arc<Self> {
        let Parts { compiled, backward_slots, inputs, results, writes, untraced, template } = parts;
        let (mut captured, mut reads, mut of_thread) = (Vec::new(), Vec::new(), Vec::new());
        let written: FxHashMap<u64, usize> = writes.iter().enumerate().map(|(at, it)| (it.id(), at)).collect();
        let place = |source| {
            fn add<T>(to: &mut Vec<T>, it: T) -> usize {
                to.push(it);
                to.len() - 1
            }
            match source {
                Source::Argument(at) => (InputSource::Argument, at),
                Source::Captured(tensor) => (InputSource::Captured, add(&mut captured, tensor)),
                Source::Slot(it) => match written.get(&it.id()) {
                    Some(&at) => (InputSource::Written, at),
                    None if it.is_of_thread() => (InputSource::OfThread, add(&mut of_thread, it)),
                    None => (InputSource::Read, add(&mut reads, it)),
                },
            }
        };
        let donation = |&(source, at): &(InputSource, usize)| match source {
            InputSource::Written => Donation::State((results + at) as u32),
            _ => Donation::Given,
        };
        let is_state = |it: &Source| matches!(it, Source::Slot(slot) if slot.role() == Role::RandomState);
        let states = inputs.iter().enumerate().filter(|it| is_state(it.1)).map(|it| it.0).collect();
        let inputs: Vec<(InputSource, usize)> = inputs.into_iter().map(place).collect();
        let is_shared = |it: &Parameter| !it.is_of_thread();
        let mut locks: Vec<usize> = (0..writes.len()).filter(|&at| is_shared(&writes[at])).collect();
        locks.sort_by_key(|&at| writes[at].id());
        let held =
            backward_slots.iter().flat_map(|it| it.writes.iter().chain(&it.reads)).filter_map(WeakParameter::upgrade);
        let mut bound: Vec<Parameter> = shown
            .iter()
            .chain(&writes)
            .chain(&reads)
            .map(Parameter::forward)
            .chain(held.map(|it| it.forward()))
            .collect();
        bound.sort_unstable_by_key(Parameter::id);
        bound.dedup();
        let of_tensor = |it: &Tensor| it.as_array().map_or(0, |it| it.storage().len());
        let words = signature.words().len() + 16 * (writes.len() + reads.len());
        let bytes = size_of::<Self>() + size_of::<u64>() * words + captured.iter().map(of_tensor).sum::<usize>();
        let version = Arc::new(Self {
            home,
            signature: signature.words().into(),
            types: signature.type_ids().into(),
            hash: signature.hash(),
            arguments: signature.types().into(),
            used: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            bytes,
            compiled,
            backward_slots,
            donations: inputs.iter().map(donation).collect(),
            inputs: runs(&inputs),
            captured,
            states,
            reads: (!reads.is_empty()).then(|| Gathered::new(&reads)),
            of_thread,
            writes: writes.iter().map(Parameter::downgrade).collect(),
            locks: locks.into(),
            untraced,
            template,
        });
        let dependent: Weak<Self> = Arc::downgrade(&version);
        bound.iter().for_each(|it| it.add_dependent(dependent.clone()));
        version
    }

    /// Returns whether this is the version for a signature.
    #[inline]
    pub(super) fn is_of(&self, signature: &Signature) -> bool {
        *self.signature == *signature.words() && *self.types == *signature.type_ids()
    }

    /// Returns the type arguments of its function, with which every signature begins.
    pub(super) fn monomorph(&self) -> Option<TypeId> {
        self.types.first().copied()
    }

    /// Returns whether it has the same signature as another version.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.signature == other.signature && self.types == other.types
    }

    /// Runs the version on the tensors among the arguments. Returns `None` if a parameter is dropped, or the version
    /// does not [run](Self::runs_on) on the arguments' device.
    ///
    /// # Errors
    /// The errors of ops at run time.
    #[track_caller]
    #[inline]
    pub fn run<T: Tree + 'static>(&self, arguments: &[Tensor]) -> Option<Result<T>> {
        // Moving outputs from result to result takes a significant part of a small run.
        let mut outputs = Outputs::new();
        let run = match self.writes.is_empty() {
            true => self.run_to(&mut outputs, arguments, &[])?,
            false => {
                let writes = upgraded(&self.writes)?;
                let _alone = self.lock(&writes);
                self.run_to(&mut outputs, arguments, &writes)?
            }
        };
        Some(run.map(|()| self.result(&mut outputs)))
    }

    /// Runs the version with the slots that it writes, and stores the tensors of the result in `to`.
    #[track_caller]
    fn run_to(&self, to: &mut Outputs, arguments: &[Tensor], writes: &[Parameter]) -> Option<Result<()>> {
        match dispatch_mode() {
            DispatchMode::Eager => {
                let given = self.given(arguments)?;
                if writes.is_empty() {
                    return self.read_only_run(to, &given);
                }
                let run = self.in_place_run(&given, writes).transpose()?;
                Some(run.and_then(|it| it.run(&self.compiled, &self.donations)).map(|it| *to = it))
            }
            _ => {
                let inputs = match self.gather(arguments, writes)? {
                    Ok(inputs) => inputs,
                    Err(error) => return Some(Err(error)),
                };
                Some(self.call(inputs)?.and_then(|it| self.written(it, writes)).map(|it| *to = it))
            }
        }
    }

    /// Runs the version like [`Version::run`], with donated arguments. Results overwrite tensors that are `lent`, which
    /// are returned if the run fails.
    ///
    /// # Errors See [`Version::run`].
    #[track_caller]
    pub fn run_donating<T: Tree + 'static>(
        &self,
        arguments: Vec<Tensor>,
        lent: Option<&mut LentTensors>,
    ) -> Option<Result<T>> {
        let writes = upgraded(&self.writes)?;
        let alone = self.lock(&writes);
        if self.untraced && !is_host_only() {
            // The arguments are consumed, so the body cannot be traced any more.
            let elsewhere = arguments.iter().filter_map(Tensor::as_array).find(|it| !self.runs_on(it.device()));
            if let Some(array) = elsewhere {
                let message = format!("a stored function for `{}` is given a tensor", self.compiled.device());
                return Some(Err(Error::new(Code::Devices, format!("{message} on `{}`", array.device()))));
            }
        }
        let outputs = match dispatch_mode() {
            DispatchMode::Eager => {
                let run = self.in_place_run(&self.given(&arguments)?, &writes).transpose()?;
                drop(arguments);
                run.and_then(|mut run| {
                    if let Some(lent) = lent {
                        run.lend(lent, |argument| self.input_of(argument));
                    }
                    run.run(&self.compiled, &self.donations)
                })
            }
            _ => {
                let inputs = match self.gather(&arguments, &writes)? {
                    Ok(inputs) => inputs,
                    Err(error) => return Some(Err(error)),
                };
                drop(arguments);
                let outputs = match Tape::current() {
                    // The tape keeps the tensors that it may need for derivatives alive.
                    Some(_) => self.call(inputs)?,
                    None => self.compiled.run_owned(inputs),
                };
                outputs.and_then(|it| self.written(it, &writes))
            }
        };
        drop(alone);
        Some(outputs.map(|mut it| self.result(&mut it)))
    }

    /// Returns whether a call may run on tensors that were taken out of `&mut` arguments, on any device.
    pub fn takes_lent(&self) -> bool {
        !self.untraced || is_host_only()
    }

    /// Returns the input that an argument is.
    fn input_of(&self, argument: usize) -> Option<usize> {
        let mut first = 0;
        self.inputs.iter().find_map(|run| {
            let at = (run.source == InputSource::Argument && run.range.contains(&argument))
                .then(|| first + argument - run.range.start);
            first += run.range.len();
            at
        })
    }

    /// Returns the parameters to which it is bound, to keep them alive until it has run; `None` if one is dropped.
    pub fn hold(&self) -> Option<Vec<Parameter>> {
        let mut held = self.reads.as_ref().map_or_else(|| Some(Vec::new()), Gathered::slots)?;
        held.extend(upgraded(&self.writes)?);
        if let Some(it) = &self.backward_slots {
            held.extend(upgraded(&it.writes)?);
            held.extend(upgraded(&it.reads)?);
        }
        Some(held)
    }

    /// Calls the graph through the current dispatcher.
    fn call(&self, inputs: Vec<Tensor>) -> Option<Result<Outputs>> {
        match (Tape::current(), &self.backward_slots) {
            (Some(tape), Some(it)) => {
                let (writes, reads) = (upgraded(&it.writes)?, upgraded(&it.reads)?);
                Some(
                    it.compiled()
                        .and_then(|compiled| tape.call_with_backward_slots(compiled, &writes, &reads, &inputs)),
                )
            }
            _ => Some(self.compiled.call(&inputs)),
        }
    }

    /// Locks the slots that the version writes. From its first read of a slot to its last write, a run has exclusive
    /// access to it.
    #[inline]
    fn lock<'a>(&self, writes: &'a [Parameter]) -> Option<SmallVec<[impl Sized + use<'a>; 4]>> {
        (!self.locks.is_empty()).then(|| self.locks.iter().map(|&at| writes[at].lock()).collect())
    }

    /// Builds the result from these tensors. This may run user code, so it happens after the run, outside of its locks.
    fn result<T: Tree + 'static>(&self, outputs: &mut Outputs) -> T {
        outputs.reverse();
        let template = self.template.downcast_ref::<T>().expect("the signature holds the result's type");
        template.rebuild(&mut |_| outputs.pop().expect("as many results as the template has"))
    }

    /// Writes the slots, and returns the outputs without their new values.
    #[track_caller]
    fn written(&self, mut outputs: Outputs, writes: &[Parameter]) -> Result<Outputs> {
        let results = outputs.len() - writes.len();
        if !is_host_only() {
            devices::keep_old_values(writes.iter().map(Parameter::load).zip(&outputs[results..]))?;
        }
        for (parameter, value) in writes.iter().zip(outputs.drain(results..)) {
            parameter.try_set(&value)?;
        }
        Ok(outputs)
    }

    /// Returns the values that a run with these arguments reads, if no dispatcher overrides values of slots, or
    /// records. Returns `None` if a slot is dropped.
    #[inline]
    fn given<'a>(&self, arguments: &'a [Tensor]) -> Option<BoundArgs<'a>> {
        let read = match &self.reads {
            Some(reads) => Some(reads.values()?),
            None => None,
        };
        let mut of_thread = SmallVec::new();
        // The check avoids collecting zero values, which costs as much as reading an input.
        if !self.of_thread.is_empty() {
            of_thread.extend(self.of_thread.iter().map(Parameter::load));
        }
        Some(BoundArgs { arguments, read, of_thread })
    }

    /// Returns the values of a run of inputs; `None` if they are values of slots that the version writes.
    #[inline]
    fn tensors<'a>(&'a self, run: &InputRun, given: &'a BoundArgs<'_>) -> Option<&'a [Tensor]> {
        let all = match run.source {
            InputSource::Argument => given.arguments,
            InputSource::Captured => &self.captured,
            InputSource::Read => given.read.as_deref().unwrap_or_default(),
            InputSource::OfThread => &given.of_thread,
            InputSource::Written => return None,
        };
        Some(&all[run.range.clone()])
    }

    /// Takes the values of the slots that a run writes. Slots that it only reads were read before, so two runs never
    /// wait for each other. Returns `None` if the version does not [run](Self::runs_on) on the inputs' device.
    fn in_place_run<'a>(&self, given: &BoundArgs<'_>, writes: &'a [Parameter]) -> Result<Option<InPlaceRun<'a>>> {
        let mut run = InPlaceRun::new(writes, self.donations.len());
        for inputs in &self.inputs {
            match self.tensors(inputs, given) {
                Some(tensors) => {
                    for tensor in tensors {
                        run.inputs.push(tensor.array()?.clone());
                    }
                }
                None => inputs.range.clone().for_each(|at| run.take(at)),
            }
        }
        let is_here = is_host_only() || {
            let device = devices::gather(&mut run.inputs, |at| self.states.contains(&at))?;
            self.runs_on(device)
        };
        Ok(is_here.then_some(run))
    }

    /// Implements [`Version::run_to`] for a version that writes no slots. Returns `None` if it does not
    /// [run](Self::runs_on) on the inputs' device.
    fn read_only_run(&self, to: &mut Outputs, given: &BoundArgs<'_>) -> Option<Result<()>> {
        let mut inputs: SmallVec<[&Array; 8]> = SmallVec::new();
        inputs.reserve(self.donations.len());
        for run in &self.inputs {
            for tensor in self.tensors(run, given).expect("it writes no slots") {
                match tensor.array() {
                    Ok(array) => inputs.push(array),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
        match is_host_only() {
            true => Some(self.compiled.run_arrays(to, &inputs)),
            false => self.read_only_run_on_any(to, &inputs).transpose(),
        }
    }

    /// Implements [`Version::read_only_run`] for inputs on any device.
    #[cold]
    fn read_only_run_on_any(&self, to: &mut Outputs, inputs: &[&Array]) -> Result<Option<()>> {
        let (device, inputs) = devices::gathered(inputs, |at| self.states.contains(&at))?;
        if !self.runs_on(device) {
            return Ok(None);
        }
        self.compiled.run_arrays(to, &inputs.iter().collect::<SmallVec<[&Array; 8]>>()).map(Some)
    }

    /// Returns whether there is code for a device, or a graph to compile for it.
    fn runs_on(&self, device: Device) -> bool {
        !self.untraced || device == self.compiled.device()
    }

    /// Moves states of generators to the device of the other inputs, and returns whether the version
    /// [runs](Self::runs_on) there.
    #[cold]
    fn move_states(&self, inputs: &mut [Tensor]) -> Result<bool> {
        let Some(arrays) = inputs.iter().map(Tensor::as_array).collect::<Option<Vec<&Array>>>() else {
            return Ok(true);
        };
        let (device, moved) = devices::gathered(&arrays, |at| self.states.contains(&at))?;
        let moved: Vec<(usize, Array)> = self.states.map_vec(|&at| (at, moved[at].clone()));
        moved.into_iter().for_each(|(at, array)| inputs[at] = Tensor::from_array(array));
        Ok(self.runs_on(device))
    }

    /// Reads the inputs through the dispatcher. Returns `None` if a slot is dropped, or the version does not
    /// [run](Self::runs_on) on the inputs' device.
    fn gather(&self, arguments: &[Tensor], writes: &[Parameter]) -> Option<Result<Vec<Tensor>>> {
        let read = self.reads.as_ref().map_or_else(|| Some(Vec::new()), Gathered::slots)?;
        let input = |source, at: usize| match source {
            InputSource::Argument => arguments[at].clone(),
            InputSource::Captured => self.captured[at].clone(),
            InputSource::Read => read[at].value(),
            InputSource::OfThread => self.of_thread[at].value(),
            InputSource::Written => writes[at].value(),
        };
        let mut inputs: Vec<Tensor> = Vec::with_capacity(self.donations.len());
        for run in &self.inputs {
            inputs.extend(run.range.clone().map(|at| input(run.source, at)));
        }
        if is_host_only() {
            return Some(Ok(inputs));
        }
        match self.move_states(&mut inputs) {
            Ok(true) => Some(Ok(inputs)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Divides inputs into runs.
fn runs(inputs: &[(InputSource, usize)]) -> Box<[InputRun]> {
    let mut runs: Vec<InputRun> = Vec::new();
    for &(source, at) in inputs {
        match runs.last_mut() {
            Some(last) if last.source == source && last.range.end == at => last.range.end += 1,
            _ => runs.push(InputRun { source, range: at..at + 1 }),
        }
    }
    runs.into()
}

fn upgraded(slots: &[WeakParameter]) -> Option<Vec<Parameter>> {
    slots.iter().map(WeakParameter::upgrade).collect()
}

impl Dependent for Version {
    fn slot_dropped(&self) {
        // The flag is set before the version is looked up, so that a thread that adds the version later sees it.
        if !self.dead.swap(true, Ordering::AcqRel) {
            self.home.remove(self);
        }
    }
}
