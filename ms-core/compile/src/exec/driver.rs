//! The interface between the order of a plan and the device that runs its steps.

use super::watch::KernelView;
use crate::error::{Code, Error, Result, in_op};
use crate::ir::{Contraction, LoopWords, Precision};
use crate::ops::host::check_positions;
use crate::tensor::{Array, Attrs, DType, Layout, MemorySpace, Op, Shape, Storage, Type};
use std::ptr::NonNull;
use std::sync::Arc;

/// Runs the steps of plans on a device.
///
/// [`PlanExecutable`](super::PlanExecutable) decides which step is next, on which memory: order, loops, branches, calls,
/// arenas and stacks are its own on every device. It *issues* each step to a driver, which is generic, so that on the
/// host issuing a kernel is a call of its code. Addresses are the device's. Where the device has memory of its own,
/// steps are work of the calling thread's [stream](crate::tensor::with_stream) for computing.
///
/// A driver either runs a step when it is issued, or is [queued](Driver::QUEUED): then it collects what is issued in
/// [`Driver::Commands`], and [`Driver::submit`] gives all of it to the device at once. Dropping commands that are not
/// submitted leaves no trace of them.
///
/// What only a queued driver has to do:
/// - A value that decides what is issued next is read by [`Driver::condition`] and [`Driver::numbers`], which submit
///   and wait. Such reads are the [`Waits`](super::Waits) of a plan.
/// - A block is valid during the call only, and so are views; what is shared with later work is in an [`Arc`].
/// - A step that refuses its operands does so later. Its error is that of [`LibraryCall::explained`] and
///   [`Check::run`], with the op and its node. The steps behind it are not run: see
///   [`Streams`](crate::tensor::Streams).
/// - Memory that a run gives up while its steps are not submitted is handed to [`Driver::free`]. The arena needs no
///   such care: it is dropped when everything is submitted, and freed in the order of the stream.
///
/// # Safety
/// A step writes every element of its results, with valid values of their dtypes, and accesses only the memory in its
/// contract. Steps have the effects that they have one after the other, in the order in which they are issued; those
/// that are submitted at once run all, up to the first that refuses its operands, or none. Reads see the effects of
/// everything before them.
///
/// Memory in the contract of a step is live, and not accessed otherwise, when the step runs.
pub unsafe trait Driver: Send + Sync {
    /// The code of a kernel.
    type Kernel: Clone + Send + Sync;

    /// The steps of a run that are issued and not submitted.
    type Commands: Default;

    /// Whether steps run when they are submitted, and not when they are issued. Then issuing any of them, and reading
    /// a value, may fail; otherwise [`launch`](Driver::launch), [`copy`](Driver::copy) and the reads do not fail. The
    /// memory of a queued driver is a device's, which is freed in the order of streams.
    const QUEUED: bool;

    /// Whether it is told which step is issued next: see [`Driver::at_step`].
    const WATCHED: bool = false;

    /// The step that is issued next, by the name of its routine and its number there; called if the driver is
    /// [watched](Driver::WATCHED).
    fn at_step(&self, commands: &mut Self::Commands, routine: &Arc<str>, step: usize) {
        let _ = (commands, routine, step);
    }

    /// A kernel and its machine code, for profiles; `None` if they are not known.
    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        let _ = kernel;
        None
    }

    /// The memory in which inputs, outputs, constants, arenas and stacks are.
    fn space(&self) -> MemorySpace;

    /// The code for calls of a kernel with these extents.
    #[inline]
    fn specialized(&self, kernel: &Self::Kernel, extents: &[u64]) -> Self::Kernel {
        let _ = extents;
        kernel.clone()
    }

    /// The code for calls of kernels with these extents that are issued [together](Driver::launch_together).
    fn specialized_together(&self, calls: &[(&Self::Kernel, &[u64])]) -> Vec<Self::Kernel> {
        calls.iter().map(|it| it.0.clone()).collect()
    }

    /// Issues a kernel with the block of a call (see [`Kernel`](crate::ir::Kernel)).
    ///
    /// # Safety
    /// The block has the kernel's number of words, and extents that the kernel [takes](crate::ir::Kernel::takes). All
    /// elements that its extents and strides address are in memory that is live when the step runs. Then nobody else
    /// writes the elements that the kernel reads, or accesses those that it writes. The kernel itself may read an
    /// element that it writes only at the same loop indices.
    ///
    /// # Errors
    /// Those of the device.
    unsafe fn launch(&self, commands: &mut Self::Commands, kernel: &Self::Kernel, block: &[u64]) -> Result<()>;

    /// Issues kernels that a device may run in any order, or at the same time.
    ///
    /// # Safety
    /// As for [`Driver::launch`] of each; and what one of them writes, no other one accesses.
    ///
    /// # Errors
    /// Those of the device.
    unsafe fn launch_together(
        &self,
        commands: &mut Self::Commands,
        launches: &[KernelLaunch<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: the caller's contract for each.
        launches.iter().try_for_each(|it| unsafe { self.launch(commands, it.kernel, it.block) })
    }

    /// Issues a contraction of these operands, to the result at an address.
    ///
    /// # Safety
    /// The contraction [is sound](Contraction::is_sound). All elements that its sizes and strides address are in
    /// memory that is live when the step runs, those of an operand in its [held](ContractionOperand::held) block if
    /// there is one; those of the result are distinct. Then nobody else writes the operands or accesses the result.
    ///
    /// # Errors
    /// [`Code::Backend`](crate::Code::Backend) if the device cannot run it; those of the device.
    unsafe fn contract(
        &self,
        commands: &mut Self::Commands,
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        result: u64,
    ) -> Result<()>;

    /// Issues a contraction of these operands, and the kernels that compute with its result, in this order: each of them runs on
    /// a part of the result before the next one does. A device whose [target](crate::lower::Target::epilogues) has no
    /// epilogues needs no other one than this.
    ///
    /// # Safety
    /// The contraction [is sound](Contraction::is_sound). A block is that of a call of its kernel on a row-major
    /// result of the contraction, apart from the address of its first element: as for [`Driver::launch`], where nobody
    /// else accesses the memory that is chosen for the result. A kernel that reads the result has a loop for each axis of
    /// it, in the order of [`Contraction::axes_of`], or one loop of one step, and no other loops, all of which are
    /// parallel but for the last one of a kernel [by rows](EpilogueWords::by_rows); it reads elements of the result at
    /// the steps of the loops that they belong to. Any other kernel is by rows, and has a loop for each axis of the
    /// result but the last one, then others, all of which are parallel. What one kernel writes, no other one accesses,
    /// but for such a kernel behind it, at the steps of the axes of the result at which it is written. All elements of
    /// the operands that sizes and strides address are in memory that is live when the step runs, and nobody, the
    /// kernels included, writes them then.
    ///
    /// # Errors
    /// [`Code::Backend`] if the device cannot run it; those of the device.
    unsafe fn contract_with(
        &self,
        commands: &mut Self::Commands,
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        epilogues: &[EpilogueCall<'_, Self::Kernel>],
    ) -> Result<()> {
        let _ = (commands, operands, epilogues);
        Err(Error::new(Code::Backend, format!("the device runs no epilogues of contractions: {contraction}")))
    }

    /// Issues an op as a library call that writes its row-major results; that of an op which
    /// [updates](crate::ops::Lowering::Update) its first operand may share the operand's memory. An op that
    /// [acts on the host](crate::ops::Effects::act_on_host) does so on the calling thread, when everything before it
    /// is done.
    ///
    /// # Safety
    /// The op's type rule accepts the operands and infers the types of the results. The memory of the results is not
    /// accessed by anyone else when the step runs, and does not overlap that of the operands otherwise.
    ///
    /// # Errors
    /// Those of the op, [explained](LibraryCall::explained); those of the device.
    unsafe fn library(
        &self,
        commands: &mut Self::Commands,
        call: &Arc<LibraryCall>,
        operands: &[MemoryView],
        results: &[MemoryView],
    ) -> Result<()>;

    /// Issues an op as a library call, and kernels that compute with its result, of images, if there are any: each may run on
    /// any part of the result as soon as that is computed, and on a part they run in this order.
    ///
    /// # Safety
    /// As [`Driver::library`], for an op with one result if there are kernels. A block is that of a call of its kernel, which has a loop for each
    /// of the [axes](crate::lower::image_axes) of the result, all parallel, and reads the elements of the result at
    /// the steps of these loops: as for [`Driver::launch`]. What one kernel writes, no other one accesses, nor do the
    /// operands contain it; it may be in the place of the elements of the result that the kernel reads at the same steps.
    ///
    /// # Errors
    /// As [`Driver::library`].
    unsafe fn library_with(
        &self,
        commands: &mut Self::Commands,
        call: &Arc<LibraryCall>,
        operands: &[MemoryView],
        results: &[MemoryView],
        epilogues: &[EpilogueCall<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: the caller's contract for the op and for each kernel.
        unsafe {
            self.library(commands, call, operands, results)?;
            epilogues.iter().try_for_each(|it| self.launch(commands, it.kernel, it.block))
        }
    }

    /// Issues a check of an operand's elements.
    ///
    /// # Safety
    /// The operand was written, and nobody writes it when the step runs.
    ///
    /// # Errors
    /// Those of [`Check::run`]; those of the device.
    unsafe fn check(&self, commands: &mut Self::Commands, check: &Arc<Check>, operand: &MemoryView) -> Result<()>;

    /// Issues a copy of bytes from one address to another.
    ///
    /// # Safety
    /// Both ranges are in memory that is live when the step runs, and do not overlap. Then nobody else writes the
    /// source or accesses the target.
    ///
    /// # Errors
    /// Those of the device.
    unsafe fn copy(&self, commands: &mut Self::Commands, from: u64, to: u64, bytes: usize) -> Result<()>;

    /// Issues a write of a number of eight bytes, at any address.
    ///
    /// # Safety
    /// As [`Driver::copy`], for the target.
    ///
    /// # Errors
    /// Those of the device.
    unsafe fn set_number(&self, commands: &mut Self::Commands, to: u64, number: u64) -> Result<()>;

    /// Reads a bool, after everything that was issued.
    ///
    /// # Safety
    /// It was written, and nobody writes it meanwhile.
    ///
    /// # Errors
    /// Those of the device, and of the work that is waited for.
    unsafe fn condition(&self, commands: &mut Self::Commands, at: u64) -> Result<bool>;

    /// Reads numbers of eight bytes, at any addresses, after everything that was issued.
    ///
    /// # Safety
    /// As [`Driver::condition`].
    ///
    /// # Errors
    /// As [`Driver::condition`].
    unsafe fn numbers(&self, commands: &mut Self::Commands, at: &[u64], to: &mut [u64]) -> Result<()>;

    /// Frees a block of [`Driver::space`] when everything that was issued is done.
    #[inline]
    fn free(&self, commands: &mut Self::Commands, block: Storage) {
        let _ = commands;
        drop(block);
    }

    /// What follows is another iteration of a loop: a driver whose commands have grown long submits them.
    ///
    /// # Errors
    /// As [`Driver::submit`].
    #[inline]
    fn iterated(&self, commands: &mut Self::Commands) -> Result<()> {
        let _ = commands;
        Ok(())
    }

    /// Gives everything that was issued to the device, at once.
    ///
    /// # Errors
    /// Those of the device; then nothing of it runs.
    fn submit(&self, commands: &mut Self::Commands) -> Result<()>;
}

/// A call of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelLaunch<'a, K> {
    /// The code of the kernel.
    pub kernel: &'a K,
    /// The block of the call.
    pub block: &'a [u64],
}

/// An operand of a contraction.
#[derive(Clone, Copy, Debug)]
pub struct ContractionOperand<'a> {
    /// The address of its first element.
    pub address: u64,
    /// The block that it lies in, if a slot may hold that: the run does not write it, and
    /// [forms](Storage::form) of it can be kept.
    pub held: Option<&'a Storage>,
}

impl ContractionOperand<'_> {
    /// An operand in memory of a run.
    pub fn at(address: u64) -> Self {
        Self { address, held: None }
    }
}

/// A call of a kernel that computes with the result of a contraction or of a library op.
#[derive(Clone, Copy, Debug)]
pub struct EpilogueCall<'a, K> {
    /// The code of the kernel.
    pub kernel: &'a K,
    /// The block of a call on the whole result, whose address, if the kernel reads that of a contraction, is zero.
    pub block: &'a [u64],
    /// What depends on a part of the result.
    pub words: EpilogueWords,
}

/// The words in the block of a call on a result that are other ones for a part of the result.
#[derive(Clone, Copy, Debug)]
pub struct EpilogueWords {
    /// Those that depend on the part.
    pub loops: LoopWords,
    /// The number of loops that are axes of the result, the first ones.
    pub axes: usize,
    /// The one with the address of the part, which its byte strides along the loops follow, if the kernel reads the result of
    /// a contraction.
    pub result: Option<usize>,
    /// Whether a part has all elements along the last axis of the result: the last loop is not parallel, or there is
    /// none for that axis.
    pub by_rows: bool,
}

/// Elements of memory of a device.
#[derive(Clone, Debug)]
pub struct MemoryView {
    /// The address of the memory.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
    /// As in [`ContractionOperand::held`].
    pub held: Option<Arc<Storage>>,
    /// The dtype of the elements.
    pub dtype: DType,
    /// Their positions in the memory, in elements.
    pub layout: Layout,
}

impl MemoryView {
    /// The type: dtype and dimensions.
    pub fn ty(&self) -> Type {
        Type::of(self.dtype, self.layout.shape())
    }

    /// An array of the host that borrows these elements.
    ///
    /// # Safety
    /// The address is the host's, and the memory is live as long as the array. Before an element is read, it has been
    /// written.
    pub unsafe fn borrowed(&self) -> Array {
        if let Some(block) = &self.held {
            let before = (self.address - block.device_ptr() as u64) as usize / self.dtype.size();
            let (shape, strides) = (self.layout.shape().into(), self.layout.strides().into());
            let layout = Layout::new(shape, strides, self.layout.offset() + before);
            // SAFETY: as the caller's; the elements are those at the address, which is in the block.
            return unsafe { Array::new(block.clone(), layout, self.dtype) };
        }
        let first = NonNull::new(self.address as *mut u8).expect("no memory is at address zero");
        // SAFETY: as the caller's.
        unsafe { Array::new(Arc::new(Storage::borrowed(first, self.bytes)), self.layout.clone(), self.dtype) }
    }
}

/// A step that a library runs as a whole.
#[derive(Clone, Debug)]
pub struct LibraryCall {
    /// The op.
    pub op: Op,
    /// Its attributes.
    pub attrs: Attrs,
    /// As in [`PlanStep::Library`](crate::lower::PlanStep::Library).
    pub precision: Precision,
    /// The number of its node in the traced graph.
    pub node: Option<u32>,
}

impl LibraryCall {
    /// Calls the library: an error of `run` is that of the op on these operands.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn explained(&self, operands: &[MemoryView], run: impl FnOnce() -> Result<()>) -> Result<()> {
        in_op(run).map_err(|it| refused(it, self.op, operands.iter().map(MemoryView::ty), self.node))
    }
}

/// Elements that an op refuses.
#[derive(Clone, Debug)]
pub struct Check {
    /// The op.
    pub op: Op,
    /// What it accepts.
    pub accepted: Accepted,
    /// The number of its node in the traced graph.
    pub node: Option<u32>,
}

/// Which elements an op accepts.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// Those that an op of [`Lowering::Check`](crate::ops::Lowering::Check) with these attributes accepts: the operand
    /// is row-major.
    Elements(fn(&Attrs, DType, &[u8]) -> Result<()>, Attrs),
    /// Positions along an axis of an array of this type and shape, from which the op gathers.
    Positions {
        /// The type of the array.
        of: Type,
        /// Its shape.
        shape: Shape,
        /// The axis.
        axis: usize,
    },
}

impl Check {
    /// Checks the elements of an operand.
    ///
    /// # Safety
    /// The address is the host's, the elements were written, and nobody writes them meanwhile.
    ///
    /// # Errors
    /// Those of the op.
    pub unsafe fn run(&self, operand: &MemoryView) -> Result<()> {
        match &self.accepted {
            Accepted::Elements(check, attrs) => {
                let size = operand.dtype.size();
                let first = operand.address as usize + operand.layout.offset() * size;
                // SAFETY: the caller's contract; the operand is row-major.
                let bytes = unsafe { std::slice::from_raw_parts(first as *const u8, operand.layout.numel() * size) };
                check(attrs, operand.dtype, bytes)
                    .map_err(|it| refused(it, self.op, std::iter::once(operand.ty()), self.node))
            }
            Accepted::Positions { of, shape, axis } => {
                // SAFETY: as the caller's.
                let positions = unsafe { operand.borrowed() };
                check_positions(&positions, *axis, shape)
                    .map_err(|it| refused(it, self.op, [of.clone(), operand.ty()].into_iter(), self.node))
            }
        }
    }
}

/// The error of an op, with the op, its operands and the line.
#[cold]
fn refused(error: Error, op: Op, operands: impl Iterator<Item = Type>, node: Option<u32>) -> Error {
    let error = error.with_op(op.name()).with_operands(operands.map(|it| it.to_string()));
    match node {
        Some(node) => error.of_node(node),
        None => error,
    }
}
