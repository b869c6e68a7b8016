//! Defines the interface between the plan runner and the device that runs its steps.

use ms_ir::MapVec;
use ms_ir::data::{Array, Attrs, DType, Layout, MemorySpace, Op, Storage, StreamKind, Type};
use ms_ir::error::{Code, Error, Result, in_op};
use ms_ir::op::{NONE_REFUSED, Refused, definition};
use ms_ir::{Contraction, Kernel, KernelLaunch, KernelView, Precision, StepOperand, TileArguments};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Runs the steps of plans on a device.
///
/// [`PlanExecutable`](super::PlanExecutable) schedules steps and their memory: it owns order, loops, branches, calls,
/// arenas and stacks on every device. It *issues* each step to a driver. The driver is generic, so on the host issuing
/// a kernel is a call of its code. Addresses are the device's. On a device with separate memory, steps are work of the
/// calling thread's compute [stream](ms_ir::data::with_stream).
///
/// A driver either runs a step when it is issued, or is [queued](Driver::QUEUED). A queued driver collects issued steps
/// in [`Driver::Commands`], and [`Driver::submit`] passes all of them to the device at once. Commands that are dropped
/// before they are submitted have no effect.
///
/// Duties of queued drivers only:
///
/// - [`Driver::condition`] and [`Driver::numbers`] read values that decide which steps are issued next. They submit and
///   wait. Such reads are the [`Waits`](super::Waits) of a plan.
/// - An argument block is valid during the call only, and so are views; data shared with later work is in an [`Arc`].
/// - A step that fails on its operands fails later. Its error comes from [`LibraryCall::explained`] and
///   [`Check::result`], with the op and its node. It sets the error word of the stream: see
///   [`Streams`](ms_ir::data::Streams).
/// - Later steps, of this run and of others, may run or not, and what their results hold is unspecified. But slots keep
///   their old values: steps do not write the memory that [`Driver::begin`] names while the word is set. They look at
///   the word when they run, or write to scratch memory that a step copies if the word is clear. No step accesses other
///   memory than that in its contract, whatever its operands hold.
/// - [`Driver::free`] receives memory that a run releases before its steps are submitted. The arena is an exception: it
///   is dropped after everything is submitted, and freed in stream order.
///
/// # Safety
/// A step writes every element of its results with valid values of their dtypes, and accesses only the memory in its
/// contract. Steps take effect one after the other, in the order in which they are issued, up to the first that fails
/// on its operands. Reads see the effects of everything before them, or fail.
///
/// The memory in a step's contract is live, and has no other accesses, when the step runs.
pub unsafe trait Driver: Send + Sync {
    /// The code of a kernel.
    type Kernel: Clone + Send + Sync;

    /// The code of a contraction with its epilogues.
    type Contraction: Send + Sync;

    /// The code of a library step with its epilogues.
    type LibraryStep: Send + Sync;

    /// The steps of a run that are issued and not submitted.
    type Commands: Default;

    /// Whether steps run when they are submitted rather than when they are issued. Then issuing a step and reading a
    /// value may fail. Otherwise [`launch`](Driver::launch), [`copy`](Driver::copy) and the reads do not fail. A queued
    /// driver has device memory, which is freed in stream order.
    const QUEUED: bool;

    /// Whether [`branch`](Driver::branch) and [`repeat`](Driver::repeat) are implemented, which take *bodies*: command
    /// lists that run as often as conditions in device memory say. They are issued to if the
    /// [target](crate::target::Target::conditions) has conditions. A profiled run reads all conditions instead.
    const CONDITIONS: bool = false;

    /// Whether [`fork`](Driver::fork) and [`join`](Driver::join) are implemented, so that steps that communicate run
    /// beside others. Otherwise, and in a profiled run, all steps run on the compute stream.
    const FORKS: bool = false;

    /// Returns a kernel and its machine code for profiles; `None` if they are not known.
    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        let _ = kernel;
        None
    }

    /// Returns the memory of inputs, outputs, constants, arenas and stacks.
    fn space(&self) -> MemorySpace;

    /// Prepares a kernel for calls with an argument block like this one, which has extents, strides and no addresses:
    /// chooses, for example, a grid and the widths of vectors and indices.
    #[inline]
    fn prepare_kernel(&self, launch: KernelLaunch<'_, Self::Kernel>) -> Self::Kernel {
        launch.kernel.clone()
    }

    /// Prepares kernels as [`Driver::prepare_kernel`] does, for calls that are issued
    /// [together](Driver::launch_together).
    fn prepare_kernels(&self, launches: &[KernelLaunch<'_, Self::Kernel>]) -> Vec<Self::Kernel> {
        launches.map_vec(|it| it.kernel.clone())
    }

    /// Begins a run, before its first step is issued. `overwritten` are the addresses of outputs in the memory of old
    /// values of slots. Every step that fails on its operands comes before the first that writes them.
    #[inline]
    fn begin(&self, commands: &mut Self::Commands, overwritten: &[Range<u64>]) {
        let _ = (commands, overwritten);
    }

    /// Issues a kernel with a call's argument block (see [`Kernel`](ms_ir::Kernel)).
    ///
    /// # Safety
    /// The block must have the kernel's number of words, and extents that the kernel [takes](ms_ir::Kernel::takes).
    /// All elements that its extents and strides address must be in memory that is live when the step runs. During that
    /// time, nothing else writes the elements that the kernel reads or accesses those that it writes. The kernel itself
    /// may read an element that it writes only at the same loop indices.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn launch(&self, commands: &mut Self::Commands, kernel: &Self::Kernel, block: &[u64]) -> Result<()>;

    /// Issues kernels that a device may run in any order or concurrently.
    ///
    /// # Safety
    /// The conditions of [`Driver::launch`] hold for each kernel, and no kernel accesses elements that another
    /// writes.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn launch_together(
        &self,
        commands: &mut Self::Commands,
        launches: &[KernelLaunch<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: the conditions of `launch` hold for each kernel by this method's contract.
        launches.iter().try_for_each(|it| unsafe { self.launch(commands, it.kernel, it.block) })
    }

    /// Prepares a contraction, with the kernels that are its epilogues: chooses its implementation, and compiles or
    /// plans whatever does not depend on addresses. Every call runs what was prepared.
    ///
    /// A backend that compiles a contraction and its epilogues together does so in
    /// [`Backend::compile`](super::Backend::compile), where it finds them in the plan. Here it identifies its code by
    /// the contraction and the kernels.
    ///
    /// # Errors
    /// [`Code::Backend`](ms_ir::Code::Backend) if the device cannot run it; the errors of the device.
    fn prepare_contraction(
        &self,
        contraction: &Contraction,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<Self::Contraction>>;

    /// Prepares a library step, with the kernels that are its epilogues, as [`Driver::prepare_contraction`] does.
    ///
    /// # Errors
    /// [`Code::Backend`](ms_ir::Code::Backend) if the device has no implementation; the errors of the device.
    fn prepare_library(
        &self,
        call: &Arc<LibraryCall>,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<Self::LibraryStep>>;

    /// Returns the implementation of a library step for profiles, and why each earlier one of its list declined; `None`
    /// if the op has no list.
    fn implementation<'s>(&self, step: &'s Self::LibraryStep) -> Option<&'s str> {
        let _ = step;
        None
    }

    /// Issues a contraction.
    ///
    /// Without epilogues, the result is written at `call.results[0]`. Otherwise there are no results, and the kernels
    /// compute with the result of the contraction. They run in order: each runs on a tile of the result before the next
    /// one does.
    ///
    /// # Safety
    /// The contraction [is sound](Contraction::is_sound). All elements that its sizes and strides address are in memory
    /// that is live when the step runs. An operand's elements are in its [parameter
    /// storage](StepOperand::parameter_storage) if it has one. The elements of the result are distinct. While the step
    /// runs, nothing else writes the operands or accesses the result or the workspace, which has the prepared size.
    ///
    /// Each argument block is valid, as for [`Driver::launch`], for a call of its kernel on a row-major result of the
    /// contraction. Only the address of the result is not set. The driver chooses the memory of the result, and nothing
    /// else accesses it. No kernel writes the operands.
    ///
    /// A kernel that reads the result has exactly one loop for each axis of it, in the order of
    /// [`Contraction::axes_of`]. If the result has no axes, the kernel has a single loop of one iteration. All loops
    /// are parallel, except for the last one of a kernel [by rows](TileArguments::by_rows). At each iteration it reads
    /// the elements of the result at the corresponding indices.
    ///
    /// Any other kernel is by rows. It has one loop for each axis of the result but the last one, followed by other
    /// loops, and all are parallel.
    ///
    /// No kernel accesses elements that another writes. The exception is a kernel by rows that runs after the
    /// writer. It may access them at the same indices along the axes of the result.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn contract(
        &self,
        commands: &mut Self::Commands,
        code: &Arc<Self::Contraction>,
        call: StepCall<'_>,
    ) -> Result<()>;

    /// Issues an op as a library step that writes its row-major results. A result of an op that
    /// [updates](ms_ir::op::Lowering::Update) its first operand may share that operand's memory. An op that [acts on
    /// the host](ms_ir::op::Effects::act_on_host) does so on the calling thread, when all earlier steps have
    /// completed.
    ///
    /// Each epilogue may run on any tile of the result as soon as the tile is computed. On a tile they run in order.
    ///
    /// # Safety
    /// The op's type rule accepts the operands and infers the types of the results. While the step runs, nothing else
    /// accesses the memory of the results, or the workspace, which has the prepared size. Apart from updates, results
    /// do not overlap the operands. If there are kernels, the op has one result.
    ///
    /// Each argument block is valid for a call of its kernel, as for [`Driver::launch`]. The kernel has one parallel
    /// loop for each of the [axes](crate::lower::image_axes) of the result, and reads its elements at the loop indices.
    /// No kernel writes elements of the operands or elements that another kernel accesses. It may overwrite the
    /// elements of the result that it reads at the same indices.
    ///
    /// # Errors
    /// The errors of the op, [explained](LibraryCall::explained); the errors of the device.
    unsafe fn library(
        &self,
        commands: &mut Self::Commands,
        code: &Arc<Self::LibraryStep>,
        call: StepCall<'_>,
    ) -> Result<()>;

    /// Issues a step that fails if the record of a check, the eight bytes at an address, has an element that the check
    /// refuses. A kernel that was issued before it writes the record. `views` are the addresses of the first elements
    /// of the check's [views](Check::views).
    ///
    /// The device needs the views only if an element is refused. It then keeps that element, and the elements of the
    /// views that the error shows, until the host asks for the [error](Check::result).
    ///
    /// # Safety
    /// The record and the elements of the views are initialised, and nothing writes them when the step runs.
    ///
    /// # Errors
    /// The errors of [`Check::result`] and of the device.
    unsafe fn check(&self, commands: &mut Self::Commands, check: &Arc<Check>, record: u64, views: &[u64])
    -> Result<()>;

    /// Issues a copy of bytes from one address to another.
    ///
    /// # Safety
    /// Both ranges are in memory that is live when the step runs, and do not overlap. During that time, nothing else
    /// writes the source or accesses the target.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn copy(&self, commands: &mut Self::Commands, from: u64, to: u64, bytes: usize) -> Result<()>;

    /// Issues a write of an eight-byte number at any address.
    ///
    /// # Safety
    /// The eight bytes at `to` are in memory that is live when the step runs, and nothing else accesses them then.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn set_number(&self, commands: &mut Self::Commands, to: u64, number: u64) -> Result<()>;

    /// Begins the commands of a body in the run of `commands`. The steps of the body are then issued to them, including
    /// other branches and loops. Nothing is submitted meanwhile, and no value is read.
    #[inline]
    fn body(&self, commands: &Self::Commands) -> Self::Commands {
        let _ = commands;
        Self::Commands::default()
    }

    /// Issues a branch to one of two bodies, of a true and of a false condition. The device reads the condition, a
    /// bool, when the branch runs.
    ///
    /// # Safety
    /// `condition` is the address of a bool that earlier steps initialise, and nothing else writes it when the branch
    /// runs. The contracts of the steps of a body hold if it runs.
    ///
    /// # Errors
    /// The errors of the device; [`Code::Backend`] unless the driver decides [conditions](Driver::CONDITIONS).
    unsafe fn branch(&self, commands: &mut Self::Commands, condition: u64, bodies: [Self::Commands; 2]) -> Result<()> {
        let _ = (commands, condition, bodies);
        Err(no_conditions())
    }

    /// Issues a loop over a body, which runs again with the same addresses as long as a condition in device memory
    /// holds. The number of iterations is not bounded. If the error word of the stream is set, the loop ends after the
    /// iteration, since the condition is not specified then.
    ///
    /// # Safety
    /// The addresses of the condition are valid, and nothing but the body and the loop accesses them when the loop
    /// runs. Earlier steps initialise the first condition, and the body the next one. The contracts of the steps of the
    /// body hold in each iteration.
    ///
    /// # Errors
    /// See [`Driver::branch`].
    unsafe fn repeat(
        &self,
        commands: &mut Self::Commands,
        condition: LoopCondition,
        body: Self::Commands,
    ) -> Result<()> {
        let _ = (commands, condition, body);
        Err(no_conditions())
    }

    /// Issues a body that runs on the calling thread's stream of a kind, when all steps issued before have ended. Later
    /// steps do not wait for it before the [join](Driver::join) of this fork. A submission ends when its forks have
    /// ended, joined or not.
    ///
    /// # Safety
    /// The contracts of the steps of the body hold until the join, while other steps run.
    ///
    /// # Errors
    /// The errors of the device; [`Code::Backend`] unless the driver [forks](Driver::FORKS).
    unsafe fn fork(
        &self,
        commands: &mut Self::Commands,
        fork: u32,
        kind: StreamKind,
        body: Self::Commands,
    ) -> Result<()> {
        let _ = (commands, fork, kind, body);
        Err(Error::new(Code::Backend, "the device runs steps on one stream"))
    }

    /// Makes later steps begin when the last fork with this number has ended, and depend on its results. Does nothing
    /// if its submission has ended.
    ///
    /// # Errors
    /// See [`Driver::fork`].
    fn join(&self, commands: &mut Self::Commands, fork: u32) -> Result<()> {
        let _ = (commands, fork);
        Err(Error::new(Code::Backend, "the device runs steps on one stream"))
    }

    /// Reads a bool after all issued steps.
    ///
    /// # Safety
    /// `at` is the address of an initialised bool, and nothing writes it meanwhile.
    ///
    /// # Errors
    /// The errors of the device, and of the work that precedes the read.
    unsafe fn condition(&self, commands: &mut Self::Commands, at: u64) -> Result<bool>;

    /// Reads eight-byte numbers at any addresses after all issued steps.
    ///
    /// # Safety
    /// The addresses point to initialised numbers, and nothing writes them meanwhile.
    ///
    /// # Errors
    /// See [`Driver::condition`].
    unsafe fn numbers(&self, commands: &mut Self::Commands, at: &[u64], to: &mut [u64]) -> Result<()>;

    /// Frees a block of [`Driver::space`] when all issued steps are done.
    #[inline]
    fn free(&self, commands: &mut Self::Commands, block: Storage) {
        let _ = commands;
        drop(block);
    }

    /// Called between iterations of a loop: a driver whose command list has grown long submits it.
    ///
    /// # Errors
    /// See [`Driver::submit`].
    #[inline]
    fn iterated(&self, commands: &mut Self::Commands) -> Result<()> {
        let _ = commands;
        Ok(())
    }

    /// Submits all issued steps to the device at once.
    ///
    /// # Errors
    /// The errors of the device; then none of the steps runs.
    fn submit(&self, commands: &mut Self::Commands) -> Result<()>;
}

#[cold]
fn no_conditions() -> Error {
    Error::new(Code::Backend, "the device decides no conditions")
}

/// The device memory of a loop's condition.
#[derive(Clone, Copy, Debug)]
pub struct LoopCondition {
    /// The address of the condition of the first iteration, a bool.
    pub first: u64,
    /// The address of the condition of each later iteration, a bool that the body writes.
    pub next: u64,
}

/// The code of a step, and the bytes of device memory that a call needs beside its operands and results.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<C> {
    /// The code.
    pub code: C,
    /// The size of the workspace in bytes.
    pub workspace: usize,
}

/// An epilogue to prepare: a kernel on the result of a contraction or a library op.
#[derive(Clone, Copy, Debug)]
pub struct EpilogueCode<'a, K> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The code of the kernel.
    pub code: &'a K,
    /// The argument block of a call on the whole result, with extents and strides and without addresses.
    pub block: &'a [u64],
    /// The per-tile arguments.
    pub words: TileArguments,
}

/// The memory of a call of a contraction or a library step.
#[derive(Clone, Copy, Debug)]
pub struct StepCall<'a> {
    /// The operands.
    pub operands: &'a [StepOperand<'a>],
    /// The addresses of the first elements of the results.
    pub results: &'a [u64],
    /// The argument block of each epilogue, for a call on the whole result. The address of a contraction's result is
    /// zero.
    pub epilogues: &'a [&'a [u64]],
    /// The address of the workspace, a multiple of 64.
    pub workspace: u64,
}

/// A step that a library runs as a whole.
#[derive(Clone, Debug)]
pub struct LibraryCall {
    /// The op.
    pub op: Op,
    /// The op's attributes.
    pub attrs: Attrs,
    /// See [`PlanStep::Library`](crate::lower::PlanStep::Library).
    pub precision: Precision,
    /// The number of the op's node in the traced graph.
    pub node: Option<u32>,
    /// The operands.
    pub operands: Vec<ArrayLayout>,
    /// The results, row-major.
    pub results: Vec<ArrayLayout>,
}

impl LibraryCall {
    /// Calls the library through `run`, and attributes its errors to the op on its operands.
    ///
    /// # Errors
    /// The errors of `run`.
    pub fn explained(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        in_op(run).map_err(|it| with_op_and_node(it, self.op, self.operands.iter().map(ArrayLayout::ty), self.node))
    }
}

/// The dtype and the layout of an array. Offsets are relative to the first element in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrayLayout {
    /// The dtype of the elements.
    pub dtype: DType,
    /// The positions of the elements, in elements.
    pub layout: Layout,
}

impl ArrayLayout {
    /// Returns the type: dtype and dimensions.
    pub fn ty(&self) -> Type {
        Type::of(self.dtype, self.layout.shape())
    }

    /// Returns a host array that borrows the elements of an operand with this layout.
    ///
    /// # Safety
    /// The address is a host address, and the memory is live as long as the array. Every element is initialised before
    /// it is read.
    pub unsafe fn borrowed(&self, operand: StepOperand<'_>) -> Array {
        let Self { dtype, layout } = self;
        if let Some(block) = operand.parameter_storage {
            let before = (operand.address - block.device_ptr() as u64) as usize / dtype.size();
            let (shape, strides) = (layout.shape().into(), layout.strides().into());
            let layout = Layout::new(shape, strides, layout.offset() + before);
            // SAFETY: `layout` addresses the elements at `address`, which lie in the live `block`, and the contract has
            // them initialised before a read.
            return unsafe { Array::new(block.clone(), layout, *dtype) };
        }
        let first = NonNull::new(operand.address as *mut u8).expect("no memory is at address zero");
        let bytes = layout.range().1 * dtype.size();
        // SAFETY: the memory at `first` is live as long as the array and initialised before a read, by this method's
        // contract.
        unsafe { Array::new(Arc::new(Storage::borrowed(first, bytes)), layout.clone(), *dtype) }
    }
}

/// A run-time check of an op's operand.
#[derive(Clone, Debug)]
pub struct Check {
    /// The op.
    pub op: Op,
    /// The attributes.
    pub attrs: Attrs,
    /// The types of all operands.
    pub operands: Vec<Type>,
    /// The operand that the check reads, and those that its error shows.
    pub views: Vec<ArrayLayout>,
    /// The number of the op's node in the traced graph.
    pub node: Option<u32>,
}

impl Check {
    /// Returns the result of the check with this record: an error if it has a refused element, which the first view
    /// contains. `views` are the addresses of the first elements of the [views](Check::views).
    ///
    /// # Safety
    /// There is a host address for each view, and its elements are live and initialised. Nothing writes them during the
    /// call.
    ///
    /// # Errors
    /// The error of the op; [`Code::Verify`] for an element that the operand does not have.
    pub unsafe fn result(&self, record: i64, views: &[u64]) -> Result<()> {
        match record {
            NONE_REFUSED => Ok(()),
            // SAFETY: the views have live host addresses by the contract of this method.
            _ => Err(unsafe { self.refusal(record, views) }),
        }
    }

    /// Returns the error of a refused element.
    ///
    /// # Safety
    /// See [`Check::result`].
    #[cold]
    unsafe fn refusal(&self, record: i64, views: &[u64]) -> Error {
        // An op's function gets the arrays and may keep them, so they are copies.
        let copy = |(view, &at): (&ArrayLayout, &u64)| {
            // SAFETY: the elements are live and initialised during the call, by this method's contract, and the
            // borrowed array is dropped here.
            let array = unsafe { view.borrowed(StepOperand::at(at)) };
            Ok(array.on_host()?.duplicate())
        };
        let arrays: Result<Vec<Array>> = self.views.iter().zip(views).map(copy).collect();
        let error = arrays.and_then(|it| {
            let arrays: Vec<&Array> = it.iter().collect();
            refusal(self.op, &self.attrs, &self.operands, record, &arrays)
        });
        error.map_or_else(|it| it, |it| with_op_and_node(it, self.op, self.operands.iter().cloned(), self.node))
    }
}

/// Returns the error of the element at `record` in the first array, which the check of an op refuses. The other arrays
/// are those that the error shows.
///
/// # Errors
/// [`Code::Verify`] for an element that the array does not have; the errors of [`Array::on_host`].
#[cold]
pub fn refusal(op: Op, attrs: &Attrs, operands: &[Type], record: i64, arrays: &[&Array]) -> Result<Error> {
    let missing = || Error::new(Code::Verify, format!("a check refuses element {record}, which is not there"));
    let (&checked, shown) = arrays.split_first().ok_or_else(missing)?;
    let position = usize::try_from(record).map_err(|_| missing())?;
    let element = *checked.on_host()?.scalars().get(position).ok_or_else(missing)?;
    Ok(definition(op).refuse(attrs, operands, &Refused { position, element, shown }))
}

/// Adds the op, its operands and the node to an error.
#[cold]
fn with_op_and_node(error: Error, op: Op, operands: impl Iterator<Item = Type>, node: Option<u32>) -> Error {
    let error = error.with_op(op.name()).with_operands(operands.map(|it| it.to_string()));
    match node {
        Some(node) => error.of_node(node),
        None => error,
    }
}
