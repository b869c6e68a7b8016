//! Runs a [`Plan`] by any [`Driver`], with intermediate values in an arena. This module owns the order of steps,
//! branches, loops, calls of routines, and the memory of intermediate values. Everything that does not depend on
//! addresses is prepared when the plan is loaded.

mod arenas;
mod check;
mod copied;
mod donate;
mod fuzzing;
mod load;
mod observer;
mod program;
mod read_inputs;
mod repeat;
mod run;
mod stack;

use super::backend::{Donation, Executable};
use super::driver::Driver;
use super::waits::Waits;
use crate::lower::{Plan, Reuse, STACK_BYTES, is_stack};
use arenas::StreamArenas;
use donate::Donors;
pub use fuzzing::stored_program;
use ms_ir::MapVec;
use ms_ir::data::{Array, DType, Dim, Layout, MemorySpace, Shape, Storage, StreamKind, Type, with_stream};
use ms_ir::error::{Code, Error, Missing, Result, in_op};
use observer::Observer;
use program::Program;
use read_inputs::ReadInputs;
use run::Run;
use smallvec::SmallVec;
use stack::Stacks;
use std::borrow::Borrow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A loaded plan that a driver runs.
pub struct PlanExecutable<D: Driver> {
    driver: D,
    program: Program<D>,
    /// The types of inputs.
    types: Vec<Type>,
    /// The properties of inputs that every call compares: compact, because a call may have many inputs.
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    reuse: Reuse,
    donors: Donors,
    /// Whether an input or output is a stack.
    has_stacks: bool,
    waits: Waits,
    idle: Mutex<Vec<Scratch>>,
    /// The arenas on a device with separate memory.
    arenas: Option<Arc<StreamArenas>>,
}

/// The type that an input array must have.
struct Input {
    dtype: DType,
    /// The sizes of the array; [`ANY`] if the plan takes any.
    sizes: Shape,
}

/// A size that exceeds any array's.
const ANY: usize = usize::MAX;

/// The type of an output.
enum Output {
    /// An array of this row-major layout.
    Array(Layout, DType),
    /// A stack with rows of this type.
    Stack(Type),
}

impl Output {
    /// Returns whether this is an array of the same type as `array`.
    fn has_type_of(&self, array: &Array) -> bool {
        matches!(self, Self::Array(layout, dtype) if (layout.shape(), *dtype) == (array.shape(), array.dtype()))
    }
}

/// The reusable state of a run.
struct Scratch {
    /// The host arena, if executables [cache](arenas::are_cached) it.
    arena: Option<Storage>,
    words: Vec<u64>,
    /// The address of the arena to which the words are relocated; zero before the first run.
    base: usize,
    stacks: Stacks,
}

/// Plans without an arena copy templates of up to this many words to the stack.
const STACK_WORDS: usize = 64;

impl<D: Driver + 'static> PlanExecutable<D> {
    /// Prepares a plan with its compiled `kernels`, in order, for a driver.
    ///
    /// # Safety
    /// `kernels` are compiled from those of the plan, and the plan is the result of lowering a valid graph. Only the
    /// bounds of buffers are checked. Buffers with overlapping lifetimes must be disjoint, and buffers must be written
    /// before they are read.
    ///
    /// # Errors [`Code::Verify`] if the plan is not well formed: an index is out of range, a routine calls a later one,
    /// or a step exceeds its buffers. The errors of copying constants to the device.
    pub unsafe fn new(plan: &Plan, kernels: &[D::Kernel], driver: D) -> Result<Self> {
        let program = in_op(|| load::program(&driver, plan, kernels))?;
        let main = plan.main();
        let symbolic = |ty: &Type| Error::new(Code::Verify, format!("a plan's type {ty} has constant dimensions"));
        let output = |ty: &Type| {
            if !is_stack(ty) {
                let shape = ty.shape().ok_or_else(|| symbolic(ty))?;
                return Ok(Output::Array(Layout::contiguous(&shape), ty.dtype));
            }
            let row = Type::new(ty.dtype, ty.dims[1..].iter().copied().collect());
            if row.shape().is_none() {
                return Err(Error::new(
                    Code::Backend,
                    format!("{ty} is not an array, so that no program can return it"),
                ));
            }
            Ok(Output::Stack(row))
        };
        let input = |ty: &Type| {
            let size = |dim: &Dim| match dim.as_const() {
                None if *dim != Dim::DYNAMIC => Err(symbolic(ty)),
                size => Ok(size.unwrap_or(ANY)),
            };
            Ok(Input { dtype: ty.dtype, sizes: ty.dims.iter().map(size).collect::<Result<_>>()? })
        };
        let inputs: Vec<Input> = main.inputs.try_map_vec(input)?;
        let outputs: Vec<Output> = main.outputs.try_map_vec(output)?;
        let mut reuse = main.reuse.clone();
        if D::QUEUED {
            // A device that refuses a submission keeps the effects of earlier ones.
            reuse.fallible = reuse.fallible.max(program.submitting_steps());
        }
        Ok(Self {
            donors: Donors::new(&inputs, &outputs, &main.reuse),
            types: main.inputs.clone(),
            inputs,
            outputs,
            reuse,
            has_stacks: main.inputs.iter().chain(&main.outputs).any(is_stack),
            waits: Waits::of(plan),
            arenas: match driver.space() {
                MemorySpace::Host => None,
                MemorySpace::Device(memory) => Some(StreamArenas::new(memory)),
            },
            program,
            driver,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Returns the size in bytes of the memory of a run: intermediate values and workspaces.
    #[cfg(test)]
    fn arena_bytes(&self) -> usize {
        self.program.arena_bytes
    }

    /// Returns whether an array is in the memory of inputs and outputs.
    #[inline]
    fn holds(&self, array: &Array) -> bool {
        match (self.driver.space(), array.space()) {
            (MemorySpace::Host, MemorySpace::Host) => true,
            (MemorySpace::Device(own), MemorySpace::Device(other)) => own.device() == other.device(),
            _ => false,
        }
    }

    /// Returns whether inputs have the plan's types, and are row-major and in the memory of inputs.
    fn takes_dense<A: Borrow<Array>>(&self, inputs: &[A]) -> bool {
        let fits = |(own, array): (&Input, &A)| {
            let array = array.borrow();
            let shape = array.shape();
            array.dtype() == own.dtype
                && shape.len() == own.sizes.len()
                && own.sizes.iter().zip(shape).all(|(own, size)| own == size || *own == ANY)
                && array.layout().is_contiguous()
                && self.holds(array)
        };
        inputs.len() == self.inputs.len() && self.inputs.iter().zip(inputs).all(fits)
    }

    /// Runs with inputs some of which are not row-major, in another memory, or not of the plan's types.
    #[cold]
    fn run_others(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>> {
        let dense = |it: &&Array| it.on_host()?.to_contiguous().to_space(self.driver.space());
        let dense: SmallVec<[Array; 4]> = in_op(|| inputs.iter().map(dense).collect())?;
        if let MemorySpace::Device(memory) = self.driver.space() {
            let written = |stream| dense.iter().try_for_each(|it| it.storage().await_written(stream));
            with_stream(memory, StreamKind::Compute, written)?;
        }
        let dense: SmallVec<[&Array; 8]> = dense.iter().collect();
        if self.takes_dense(&dense) { self.run(&dense) } else { Err(self.refuse(inputs)) }
    }

    fn refuse(&self, inputs: &[&Array]) -> Error {
        let want: Vec<_> = self.types.map_vec(Type::to_string);
        Error::new(Code::Argument, format!("the plan takes ({})", want.join(", ")))
            .with_operands(inputs.iter().map(|it| it.ty().to_string()))
    }

    /// Takes scratch state from the pool, or creates it, and acquires an arena.
    fn acquire(&self) -> Result<(Scratch, Storage)> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut scratch = idle.unwrap_or_else(|| Scratch {
            arena: None,
            words: self.program.template.clone(),
            base: 0,
            stacks: Stacks::default(),
        });
        let bytes = self.program.arena_bytes;
        let arena = match (scratch.arena.take(), &self.arenas) {
            (Some(arena), _) => Ok(arena),
            (None, None) => arenas::acquire(bytes),
            (None, Some(arenas)) => arenas.acquire(bytes),
        };
        let arena = arena.map_err(|it| it.of_memory(Missing::Inside))?;
        let base = arena.device_ptr() as usize;
        if std::mem::replace(&mut scratch.base, base) != base {
            self.program.place(&mut scratch.words, &arena);
        }
        Ok((scratch, arena))
    }

    /// Returns scratch state and an arena to their pools.
    fn release(&self, mut scratch: Scratch, arena: Storage) {
        match &self.arenas {
            Some(arenas) => arenas.release(arena),
            None if arenas::are_cached(self.program.arena_bytes) => scratch.arena = Some(arena),
            None => arenas::release(arena),
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }

    /// Allocates output `at`, which is an array.
    ///
    /// # Safety
    /// Every element of the array is written before it is read.
    #[inline(always)]
    unsafe fn fresh(&self, at: usize) -> Result<Array> {
        match &self.outputs[at] {
            // SAFETY: every element is written before it is read, by this method's contract.
            Output::Array(layout, dtype) => unsafe { Array::uninit_as(self.driver.space(), layout, *dtype) }
                .map_err(|it| it.of_memory(Missing::Result(at))),
            Output::Stack(_) => unreachable!("there are no stacks"),
        }
    }

    /// Returns the memory of every output: the storage of its donor in `donors`, or a new allocation.
    ///
    /// # Safety
    /// Every element of the outputs is written before it is read.
    unsafe fn over(&self, inputs: &[Array], donors: &[Option<usize>]) -> Result<SmallVec<[Array; 1]>> {
        let mut outputs = SmallVec::with_capacity(donors.len());
        for (at, &donor) in donors.iter().enumerate() {
            outputs.push(match (donor.map(|it| &inputs[it]), &self.outputs[at]) {
                (Some(input), output) if output.has_type_of(input) => input.clone(),
                (Some(input), Output::Array(layout, dtype)) => {
                    // SAFETY: the donor has the output's size, and every element is written before it is read, by this
                    // method's contract.
                    unsafe { Array::new(input.storage().clone(), layout.clone(), *dtype) }
                }
                // SAFETY: every element is written before it is read, by this method's contract.
                _ => unsafe { self.fresh(at)? },
            });
        }
        Ok(outputs)
    }

    /// Runs with inputs and outputs that are arrays. `read` are the inputs that the run does not write, and
    /// `overwritten` those for [`Driver::begin`].
    ///
    /// # Safety
    /// The inputs fit the plan, and nothing else accesses the memory of the outputs. An output may share the memory of
    /// an input if the plan allows it.
    unsafe fn run_arrays<A: Borrow<Array>>(
        &self,
        inputs: &[A],
        outputs: &[Array],
        read: &[&Array],
        overwritten: &[Range<u64>],
    ) -> Result<()> {
        let arrays = inputs.iter().map(A::borrow).chain(outputs);
        // SAFETY: the addresses point to inputs that fit the plan and to outputs without other accesses, by this
        // method's contract.
        self.submit(|run| unsafe {
            self.driver.begin(&mut run.commands, overwritten);
            run.read = ReadInputs::new(read);
            run.main(arrays.map(|it| it.device_ptr() as u64))
        })
    }

    /// Runs a plan with stacks among its inputs or outputs. For a stack, the argument block of the call has the address
    /// of its number.
    fn run_stacks(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>> {
        let (space, count) = (self.driver.space(), inputs.len() + self.outputs.len());
        let numbers = in_op(|| Storage::uninit_in(space, count * STACK_BYTES))?;
        let number = |at: usize| numbers.device_ptr() as u64 + (at * STACK_BYTES) as u64;
        self.submit(|run| {
            run.read = ReadInputs::new(inputs);
            let mut places: SmallVec<[u64; 8]> = SmallVec::with_capacity(count);
            for (at, (array, ty)) in inputs.iter().zip(&self.types).enumerate() {
                let first = array.device_ptr() as u64;
                if !is_stack(ty) {
                    places.push(first);
                    continue;
                }
                let row_bytes = array.shape()[1..].iter().product::<usize>() * ty.dtype.size();
                let stack = run.stacks.borrow(first, array.shape()[0], row_bytes);
                // SAFETY: `number(at)` is one of `count` eight-byte words of the live allocation `numbers`, and only
                // this input uses it.
                unsafe { self.driver.set_number(&mut run.commands, number(at), stack)? };
                places.push(number(at));
            }
            let fresh = |at: usize| match &self.outputs[at] {
                // SAFETY: a run writes all of its outputs.
                Output::Array(..) => unsafe { self.fresh(at) }.map(Some),
                Output::Stack(_) => Ok(None),
            };
            let outputs: Vec<Option<Array>> = (0..self.outputs.len()).map(fresh).collect::<Result<_>>()?;
            let place = |(at, it): (usize, &Option<Array>)| match it {
                Some(array) => array.device_ptr() as u64,
                None => number(inputs.len() + at),
            };
            places.extend(outputs.iter().enumerate().map(place));
            // SAFETY: the inputs have the plan's types, the outputs are newly allocated, and each stack has a separate
            // word in `numbers`.
            unsafe { run.main(places.into_iter())? };
            // The numbers of all results are read at once.
            let stacks = || (0..outputs.len()).filter(|&at| outputs[at].is_none());
            let at: SmallVec<[u64; 4]> = stacks().map(|it| number(inputs.len() + it)).collect();
            let mut of: SmallVec<[u64; 4]> = SmallVec::from_elem(0, at.len());
            if !at.is_empty() {
                // SAFETY: the addresses are words of `numbers` that the run has written, and no step writes them
                // afterwards.
                unsafe { self.driver.numbers(&mut run.commands, &at, &mut of)? };
            }
            let mut of = of.into_iter();
            let gather = |(array, output): (Option<Array>, &Output)| match (array, output) {
                (Some(array), _) => Ok(array),
                (None, Output::Stack(row)) => run
                    .gather(of.next().expect("each stack has a number"), row)
                    .map_err(|it| it.of_memory(Missing::Inside)),
                (None, Output::Array(..)) => unreachable!("arrays were made for these"),
            };
            outputs.into_iter().zip(&self.outputs).map(gather).collect()
        })
    }

    /// Submits a run with the steps that `issue` issues. Memory that it releases is freed after it.
    #[inline]
    fn submit<'r, R>(&self, issue: impl FnOnce(&mut Run<'_, 'r, D>) -> Result<R>) -> Result<R> {
        let len = self.program.template.len();
        if self.program.arena_bytes == 0 && len <= STACK_WORDS {
            let mut words: SmallVec<[u64; STACK_WORDS]> = SmallVec::from_slice(&self.program.template);
            return self.submit_on(&mut words, &mut Stacks::default(), issue);
        }
        let (mut scratch, arena) = self.acquire()?;
        let Scratch { words, stacks, .. } = &mut scratch;
        let done = self.submit_on(words, stacks, issue);
        if stacks.mark() > 0 {
            stacks.close_from(0).for_each(drop);
        }
        self.release(scratch, arena);
        done
    }

    /// Implements [`PlanExecutable::submit`] on this memory.
    #[inline]
    fn submit_on<'r, R>(
        &self,
        words: &mut [u64],
        stacks: &mut Stacks,
        issue: impl FnOnce(&mut Run<'_, 'r, D>) -> Result<R>,
    ) -> Result<R> {
        let mut run = Run {
            program: &self.program,
            driver: &self.driver,
            commands: D::Commands::default(),
            words,
            stacks,
            read: ReadInputs::default(),
            observer: Observer::of_thread(),
            is_body: false,
        };
        let done = issue(&mut run).and_then(|done| self.driver.submit(&mut run.commands).map(|()| done));
        if D::QUEUED {
            // Even if it failed, some steps may have been submitted.
            self.uses_constants();
        }
        done
    }

    /// Records that work of this thread reads the constants, so that they are freed after it.
    fn uses_constants(&self) {
        let MemorySpace::Device(memory) = self.driver.space() else { return };
        with_stream(memory, StreamKind::Compute, |stream| {
            let fence = memory.fence(stream);
            self.program.constants.iter().for_each(|it| it.storage().used_by(fence));
        });
    }

    /// Returns the inputs that a run with lent inputs does not write: others hold them too, such as a model's
    /// parameters.
    fn only_read<'a>(inputs: &'a [Array], donations: &[Donation], outputs: &[Array]) -> SmallVec<[&'a Array; 8]> {
        if !donations.contains(&Donation::Lent) {
            return SmallVec::new();
        }
        let is_written = |it: &Array| outputs.iter().any(|output| Arc::ptr_eq(output.storage(), it.storage()));
        let is_read = |it: &(&Array, &Donation)| {
            *it.1 == Donation::Given && Arc::strong_count(it.0.storage()) > 1 && !is_written(it.0)
        };
        inputs.iter().zip(donations).filter(is_read).map(|it| it.0).collect()
    }

    /// Returns the addresses of the states that outputs overwrite.
    fn overwritten(inputs: &[Array], donations: &[Donation], donors: &[Option<usize>]) -> SmallVec<[Range<u64>; 8]> {
        let is_state = |it: &usize| matches!(donations.get(*it), Some(Donation::State(_)));
        let range = |at: usize| {
            let (first, storage) = (inputs[at].device_ptr() as u64, inputs[at].storage());
            first..first + storage.len() as u64
        };
        donors.iter().flatten().copied().filter(is_state).map(range).collect()
    }

    /// Adds to the error of a run on donated inputs a note if a lent input may have been partly overwritten.
    #[cold]
    fn torn(&self, error: Error, inputs: &[Array], donations: &[Donation], outputs: &[Array]) -> Error {
        let lent = inputs.iter().zip(donations).enumerate().filter(|it| *it.1.1 == Donation::Lent);
        let is_torn = |(at, (input, _)): (usize, (&Array, &Donation))| {
            let over = |it: &Array| it.device_ptr() == input.device_ptr();
            outputs.iter().position(over).is_some_and(|output| !self.reuse.allows_state(output, at))
        };
        match { lent }.any(is_torn) {
            true => error.overwriting(),
            false => error,
        }
    }
}

impl<D: Driver + 'static> Executable for PlanExecutable<D> {
    fn run(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>> {
        if !self.takes_dense(inputs) {
            return self.run_others(inputs);
        }
        if self.has_stacks {
            return self.run_stacks(inputs);
        }
        // A fast path: collecting results takes as long as a small run.
        let mut outputs = SmallVec::with_capacity(self.outputs.len());
        for at in 0..self.outputs.len() {
            // SAFETY: the run writes all elements of its outputs before anything reads them.
            outputs.push(unsafe { self.fresh(at)? });
        }
        // SAFETY: `takes_dense` checked the inputs, and outputs are newly allocated.
        unsafe { self.run_arrays(inputs, &outputs, inputs, &[])? };
        Ok(outputs)
    }

    fn run_donated(&self, inputs: &mut [Array], donations: &[Donation]) -> Result<SmallVec<[Array; 1]>> {
        if !self.takes_dense(inputs) || self.has_stacks {
            return self.run(&inputs.iter().collect::<SmallVec<[&Array; 8]>>());
        }
        let donors = self.donors.find(inputs, donations, &self.outputs, &self.reuse);
        // SAFETY: the run writes all elements of its outputs before anything reads them.
        let outputs = unsafe { self.over(inputs, &donors)? };
        let read = Self::only_read(inputs, donations, &outputs);
        let overwritten = if D::QUEUED { Self::overwritten(inputs, donations, &donors) } else { SmallVec::new() };
        // SAFETY: `takes_dense` checked the inputs. Outputs are newly allocated, or the plan allows them to reuse the
        // memory of inputs to which this call has the only reference.
        match unsafe { self.run_arrays(inputs, &outputs, &read, &overwritten) } {
            Ok(()) => Ok(outputs),
            Err(error) => Err(self.torn(error, inputs, donations, &outputs)),
        }
    }

    fn overwrites(&self, output: usize, input: usize) -> bool {
        self.reuse.allows_state(output, input)
    }

    fn waits(&self) -> Waits {
        self.waits
    }
}
