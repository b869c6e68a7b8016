//! Execution of a [`Plan`] in one arena. Everything that does not depend on addresses
//! is prepared when the plan is loaded.

mod arenas;
mod check;
mod donate;
mod fuzzing;
mod load;
mod repeat;
mod run;
mod stack;

use super::backend::Executable;
use super::product::MatrixProduct;
use super::waits::Waits;
use crate::error::{Code, Error, Result, in_op};
use crate::lower::{Plan, Reuse, is_stack};
use crate::tensor::{Array, Attrs, DType, Dim, Layout, MemorySpace, Op, Shape, Storage, Type};
use donate::Donors;
pub use fuzzing::stored_program;
use run::{Program, Run};
use smallvec::SmallVec;
use stack::Stacks;
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel that is compiled for the host.
///
/// # Safety
/// A call writes every element that the kernel stores, with a valid value of the dtype, and accesses
/// only the memory in the contract of [`KernelCode::call`].
pub unsafe trait KernelCode: Send + Sync {
    /// Runs the kernel with the block of a call (see [`crate::ir::Kernel`]).
    ///
    /// # Safety
    /// The block has the kernel's number of words, and extents that the kernel
    /// [takes](crate::ir::Kernel::takes). All elements that its extents and strides address are in memory that
    /// is live during the call. During the call, nobody else writes the elements that the kernel
    /// reads, or accesses those that it writes. The kernel itself may read an element that it writes
    /// only at the same loop indices.
    unsafe fn call(&self, block: &[u64]);

    /// Specialised code for calls with these extents, if there is any.
    fn at(&self, extents: &[u64]) -> Option<Arc<dyn KernelCode>> {
        let _ = extents;
        None
    }
}

/// The calls of executables into a host backend, besides kernels.
///
/// # Safety
/// All elements of outputs are written, with valid values of their dtypes, and no array is retained.
pub unsafe trait Host: Send + Sync {
    /// Runs a product.
    ///
    /// # Safety
    /// All elements that the product's sizes and strides address are in memory that is live during
    /// the call; meanwhile, nobody else writes `a` and `b` or accesses `out`.
    ///
    /// # Errors
    /// [`Code::Backend`] if the device cannot run it.
    unsafe fn product(&self, product: &MatrixProduct, a: *const u8, b: *const u8, out: *mut u8) -> Result<()>;

    /// Runs an op as a library call that writes its row-major `outputs`; that of an op which
    /// [updates](crate::ops::Lowering::Update) its first operand may share the operand's memory.
    /// The arrays are valid only during the call.
    ///
    /// # Safety
    /// The op's type rule accepts the inputs and infers the types of the outputs. The memory of the
    /// outputs is not accessed by anyone else during the call, and does not overlap that of the
    /// inputs otherwise.
    ///
    /// # Errors
    /// Those of the op.
    unsafe fn library(&self, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()>;
}

/// A loaded plan of a backend on the host.
pub struct PlanExecutable {
    program: Program,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    reuse: Reuse,
    donors: Donors,
    /// Whether an input or output is a stack.
    has_stacks: bool,
    waits: Waits,
    /// The memory of inputs and outputs.
    space: MemorySpace,
    /// The distance from an address of that memory to the host's address of the same byte.
    offset: usize,
    idle: Mutex<Vec<Scratch>>,
}

/// The type of an input.
struct Input {
    ty: Type,
    /// Its sizes; `None` if the plan takes any.
    sizes: SmallVec<[Option<usize>; 4]>,
}

/// The type of an output.
enum Output {
    Array(Shape, DType),
    /// A stack, with rows of this type.
    Stack(Type),
}

/// A run whose results have memory, and which may take place later: see [`PlanExecutable::prepare`].
pub struct PreparedRun {
    /// What the run returns.
    pub outputs: SmallVec<[Array; 1]>,
    /// The host's addresses of inputs and outputs.
    pub places: Places,
}

/// The host's addresses of inputs and outputs.
type Places = SmallVec<[u64; 8]>;

/// The reusable state of a run.
struct Scratch {
    /// The arena, unless it is a [shared](arenas) one.
    arena: Option<Arc<Storage>>,
    words: Vec<u64>,
    /// The address of the arena to which the words are relocated; zero before the first run.
    base: usize,
    stacks: Stacks,
}

/// Plans without an arena copy templates of up to this many words to the stack.
const STACK_WORDS: usize = 64;

impl PlanExecutable {
    /// Prepares a plan with its compiled `kernels`, in order.
    ///
    /// # Safety
    /// `kernels` are compiled from those of the plan, which is the result of lowering a valid graph.
    /// Only the bounds of buffers are checked, not that buffers with overlapping lifetimes are
    /// disjoint or that they are written before they are read.
    ///
    /// # Errors
    /// [`Code::Verify`] if the plan is not well formed: indices out of range, a routine that calls a
    /// later one, or a step that is out of bounds of its buffers.
    pub unsafe fn new(plan: &Plan, kernels: &[Arc<dyn KernelCode>], host: Arc<dyn Host>) -> Result<Self> {
        let program = in_op(|| load::program(plan, kernels, host))?;
        let main = plan.main();
        let symbolic = |ty: &Type| Error::new(Code::Verify, format!("a plan's type {ty} has constant dimensions"));
        let output = |ty: &Type| {
            if !is_stack(ty) {
                return Ok(Output::Array(ty.shape().ok_or_else(|| symbolic(ty))?, ty.dtype));
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
                size => Ok(size),
            };
            Ok(Input { ty: ty.clone(), sizes: ty.dims.iter().map(size).collect::<Result<_>>()? })
        };
        let inputs: Vec<Input> = main.inputs.iter().map(input).collect::<Result<_>>()?;
        let outputs: Vec<Output> = main.outputs.iter().map(output).collect::<Result<_>>()?;
        Ok(Self {
            donors: Donors::new(&inputs, &outputs, &main.reuse),
            inputs,
            outputs,
            reuse: main.reuse.clone(),
            has_stacks: main.inputs.iter().chain(&main.outputs).any(is_stack),
            waits: Waits::of(plan),
            program,
            space: MemorySpace::Host,
            offset: 0,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// The executable for inputs and outputs in a memory whose bytes the host accesses at other addresses:
    /// each is the device's and `offset`, modulo 2^64.
    ///
    /// # Safety
    /// All blocks of the memory are at these addresses of the host.
    #[must_use]
    pub unsafe fn in_memory(self, space: MemorySpace, offset: usize) -> Self {
        Self { space, offset, ..self }
    }

    /// The host's address of the first element of an input or output.
    #[inline]
    fn address(&self, array: &Array) -> *mut u8 {
        array.device_ptr().wrapping_add(self.offset)
    }

    /// Whether an array is in the memory of inputs and outputs.
    #[inline]
    fn holds(&self, array: &Array) -> bool {
        match (self.space, array.space()) {
            (MemorySpace::Host, MemorySpace::Host) => true,
            (MemorySpace::Device(own), MemorySpace::Device(other)) => own.device() == other.device(),
            _ => false,
        }
    }

    /// Returns whether inputs have the plan's types, and are row-major and in the memory of inputs.
    fn takes_dense(&self, inputs: &[&Array]) -> bool {
        let fits = |(own, array): (&Input, &&Array)| {
            let shape = array.shape();
            array.dtype() == own.ty.dtype
                && shape.len() == own.sizes.len()
                && own.sizes.iter().zip(shape).all(|(own, size)| own.is_none_or(|it| it == *size))
                && array.layout().is_contiguous()
                && self.holds(array)
        };
        inputs.len() == self.inputs.len() && self.inputs.iter().zip(inputs).all(fits)
    }

    /// Runs with inputs of which some are not row-major, in another memory, or not of the plan's types.
    #[cold]
    fn run_others(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>> {
        let dense = |it: &&Array| it.on_host()?.to_contiguous().to_space(self.space);
        let dense: SmallVec<[Array; 4]> = in_op(|| inputs.iter().map(dense).collect())?;
        let dense: SmallVec<[&Array; 8]> = dense.iter().collect();
        if self.takes_dense(&dense) { self.run(&dense) } else { Err(self.refuse(inputs)) }
    }

    fn refuse(&self, inputs: &[&Array]) -> Error {
        let want: Vec<_> = self.inputs.iter().map(|it| it.ty.to_string()).collect();
        Error::new(Code::Argument, format!("the plan takes ({})", want.join(", ")))
            .with_operands(inputs.iter().map(|it| it.ty().to_string()))
    }

    /// Takes a scratch from the pool, or creates one, and takes an arena.
    fn acquire(&self) -> Result<(Scratch, Arc<Storage>)> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut scratch = idle.unwrap_or_else(|| Scratch {
            arena: None,
            words: self.program.template.clone(),
            base: 0,
            stacks: Stacks::default(),
        });
        let bytes = self.program.arena_bytes;
        let arena = match scratch.arena.take() {
            Some(arena) => arena,
            None if bytes >= arenas::SHARED_BYTES => arenas::acquire(bytes)?,
            None => Arc::new(Storage::uninit(bytes)?),
        };
        let base = arena.device_ptr() as usize;
        if std::mem::replace(&mut scratch.base, base) != base {
            self.program.place(&mut scratch.words, &arena);
        }
        Ok((scratch, arena))
    }

    /// Returns a scratch and an arena to their pools.
    fn release(&self, mut scratch: Scratch, arena: Arc<Storage>) {
        match self.program.arena_bytes {
            arenas::SHARED_BYTES.. => arenas::release(arena),
            _ => scratch.arena = Some(arena),
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }

    /// Allocates output `at`, which is an array.
    ///
    /// # Safety
    /// As [`Array::uninit`].
    #[inline]
    unsafe fn fresh(&self, at: usize) -> Result<Array> {
        match &self.outputs[at] {
            // SAFETY: as the caller's.
            Output::Array(shape, dtype) => unsafe { Array::uninit_in(self.space, shape, *dtype) },
            Output::Stack(_) => unreachable!("there are no stacks"),
        }
    }

    /// The memory of every output: that of a donated input if it may be reused, or else newly
    /// allocated. Inputs that are `state` are reused only if the run cannot fail once they are written.
    ///
    /// # Safety
    /// As [`Array::uninit`].
    unsafe fn over(&self, inputs: &mut [Array], state: &[Option<u32>]) -> Result<SmallVec<[Array; 1]>> {
        let donors = self.donors.find(inputs, state, &self.reuse);
        let output = |(at, donor): (usize, Option<usize>)| match (donor, &self.outputs[at]) {
            (Some(donor), Output::Array(shape, dtype)) => {
                // SAFETY: as the caller's.
                Ok(unsafe { Array::new(inputs[donor].storage().clone(), Layout::contiguous(shape), *dtype) })
            }
            // SAFETY: as the caller's.
            _ => unsafe { self.fresh(at) },
        };
        donors.into_iter().enumerate().map(output).collect()
    }

    /// Runs with inputs and outputs that are arrays.
    ///
    /// # Safety
    /// The inputs fit the plan, and nobody else accesses the memory of the outputs. An output may
    /// share the memory of an input if the plan allows it.
    unsafe fn run_arrays(&self, inputs: &[&Array], outputs: &[Array]) -> Result<()> {
        let arrays = inputs.iter().copied().chain(outputs);
        // SAFETY: as the caller's.
        unsafe { self.run_at(arrays.map(|it| self.address(it) as u64)) }
    }

    /// Runs with inputs and outputs at these addresses of the host.
    ///
    /// # Safety
    /// As [`PlanExecutable::run_arrays`].
    #[inline]
    unsafe fn run_at(&self, places: impl Iterator<Item = u64>) -> Result<()> {
        let len = self.program.template.len();
        if self.program.arena_bytes == 0 && len <= STACK_WORDS {
            let mut words: SmallVec<[u64; STACK_WORDS]> = SmallVec::from_slice(&self.program.template);
            let mut run =
                Run { program: &self.program, words: &mut words, arena: None, stacks: &mut Stacks::default() };
            // SAFETY: as the caller's.
            return unsafe { run.main(places) };
        }
        self.with_scratch(|run| {
            // SAFETY: as the caller's.
            unsafe { run.main(places) }
        })
    }

    /// Runs a plan with stacks among its inputs or outputs: the call's block has the addresses of
    /// their numbers.
    fn run_stacks(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>> {
        self.with_scratch(|run| {
            let mut numbers: SmallVec<[u64; 8]> = smallvec::smallvec![0; inputs.len() + self.outputs.len()];
            for ((number, array), Input { ty, .. }) in numbers.iter_mut().zip(inputs).zip(&self.inputs) {
                if is_stack(ty) {
                    let rows = array.shape()[0];
                    let row_bytes = array.shape()[1..].iter().product::<usize>() * ty.dtype.size();
                    // SAFETY: inputs are live during the run, and the stack is closed when it ends.
                    *number = unsafe { run.stacks.borrow(self.address(array), rows, row_bytes) };
                }
            }
            let fresh = |output: &Output| match output {
                // SAFETY: a run writes all of its outputs.
                Output::Array(shape, dtype) => unsafe { Array::uninit_in(self.space, shape, *dtype) }.map(Some),
                Output::Stack(_) => Ok(None),
            };
            let outputs: Vec<Option<Array>> = self.outputs.iter().map(fresh).collect::<Result<_>>()?;
            let first = numbers.as_mut_ptr();
            let number = |i: usize| first.wrapping_add(i) as u64;
            let place = |(i, (own, array)): (usize, (&Input, &&Array))| {
                if is_stack(&own.ty) { number(i) } else { self.address(array) as u64 }
            };
            let inputs_at: SmallVec<[u64; 8]> = self.inputs.iter().zip(inputs).enumerate().map(place).collect();
            let result = |(i, it): (usize, &Option<Array>)| match it {
                Some(array) => self.address(array) as u64,
                None => number(inputs.len() + i),
            };
            let outputs_at: SmallVec<[u64; 8]> = outputs.iter().enumerate().map(result).collect();
            // SAFETY: inputs were checked, outputs are newly allocated, and numbers have a word each.
            unsafe { run.main(inputs_at.into_iter().chain(outputs_at))? };
            let gather = |(i, (array, output)): (usize, (Option<Array>, &Output))| match (array, output) {
                (Some(array), _) => Ok(array),
                (None, Output::Stack(row)) => run.gather(numbers[inputs.len() + i], row)?.to_space(self.space),
                (None, Output::Array(..)) => unreachable!("arrays were made for these"),
            };
            outputs.into_iter().zip(&self.outputs).enumerate().map(gather).collect()
        })
    }

    fn with_scratch<R>(&self, f: impl FnOnce(&mut Run<'_>) -> Result<R>) -> Result<R> {
        let (mut scratch, arena) = self.acquire()?;
        let Scratch { words, stacks, .. } = &mut scratch;
        let done = f(&mut Run { program: &self.program, words, arena: Some(&arena), stacks });
        scratch.stacks.close_from(0);
        self.release(scratch, arena);
        done
    }
}

/// Runs that take place later.
impl PlanExecutable {
    /// Allocates the results of a run on `inputs`, of which one that is donated may give its memory to a result, as
    /// for [`Executable::run_donated`] with `state`. `None` if the run cannot be [at addresses](Self::run_prepared):
    /// a value is a stack, or an input is not a row-major array of the plan's type in its memory.
    ///
    /// # Errors
    /// [`Code::Memory`], and those of the device.
    ///
    /// # Safety
    /// The outputs are read only by work behind the run.
    pub unsafe fn prepare(&self, inputs: Inputs<'_>) -> Result<Option<PreparedRun>> {
        let read: SmallVec<[&Array; 8]> = match &inputs {
            Inputs::Read(inputs) => inputs.iter().copied().collect(),
            Inputs::Donated(inputs, _) => inputs.iter().collect(),
        };
        if self.has_stacks || !self.takes_dense(&read) {
            return Ok(None);
        }
        let mut places: Places = read.into_iter().map(|it| self.address(it) as u64).collect();
        let outputs: SmallVec<[Array; 1]> = match inputs {
            // SAFETY: a run writes all of its outputs; before, nobody reads them, by the caller's contract.
            Inputs::Read(_) => (0..self.outputs.len()).map(|at| unsafe { self.fresh(at) }).collect::<Result<_>>()?,
            // SAFETY: as above.
            Inputs::Donated(inputs, state) => unsafe { self.over(inputs, state)? },
        };
        places.extend(outputs.iter().map(|it| self.address(it) as u64));
        Ok(Some(PreparedRun { outputs, places }))
    }

    /// Takes place: a run that was [prepared](Self::prepare), with its addresses.
    ///
    /// # Safety
    /// The memory of the inputs and outputs is live, the inputs have been written, and nobody else accesses the
    /// outputs meanwhile.
    ///
    /// # Errors
    /// Those of the plan's ops.
    pub unsafe fn run_prepared(&self, places: &[u64]) -> Result<()> {
        // SAFETY: as the caller's; `prepare` has checked the arrays.
        unsafe { self.run_at(places.iter().copied()) }
    }
}

/// The inputs of a run that is [prepared](PlanExecutable::prepare).
pub enum Inputs<'a> {
    /// They are read.
    Read(&'a [&'a Array]),
    /// They are donated, and these are state: see [`Executable::run_donated`].
    Donated(&'a mut [Array], &'a [Option<u32>]),
}

impl Inputs<'_> {
    /// The same inputs, for a shorter time.
    pub fn reborrow(&mut self) -> Inputs<'_> {
        match self {
            Self::Read(inputs) => Inputs::Read(inputs),
            Self::Donated(inputs, state) => Inputs::Donated(inputs, state),
        }
    }
}

impl Executable for PlanExecutable {
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
            // SAFETY: a run writes all of its outputs.
            outputs.push(unsafe { self.fresh(at)? });
        }
        // SAFETY: inputs were checked, and outputs are newly allocated.
        unsafe { self.run_arrays(inputs, &outputs)? };
        Ok(outputs)
    }

    fn run_donated(&self, inputs: &mut [Array], state: &[Option<u32>]) -> Result<SmallVec<[Array; 1]>> {
        let fit = self.takes_dense(&inputs.iter().collect::<SmallVec<[&Array; 8]>>());
        if !fit || self.has_stacks {
            return self.run(&inputs.iter().collect::<SmallVec<[&Array; 8]>>());
        }
        // SAFETY: a run writes all of its outputs.
        let outputs = unsafe { self.over(inputs, state)? };
        // SAFETY: inputs were checked. Outputs are newly allocated, or the plan allows them to reuse
        // the memory of inputs to which this call has the only reference.
        unsafe { self.run_arrays(&inputs.iter().collect::<SmallVec<[&Array; 8]>>(), &outputs)? };
        Ok(outputs)
    }

    fn overwrites(&self, output: usize, input: usize) -> bool {
        self.reuse.allows_state(output, input)
    }

    fn waits(&self) -> Waits {
        self.waits
    }
}
