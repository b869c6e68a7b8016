//! [`KernelCode`]: kernels that the processor runs.

use crate::cut::Cut;
use ms_core::exec::KernelView;
use std::sync::Arc;

/// A kernel that is compiled for the processor, or interpreted.
///
/// # Safety
/// A call writes every element that the kernel stores, with a valid value of the dtype, and accesses
/// only the memory in the contract of [`KernelCode::call`].
pub unsafe trait KernelCode: Send + Sync {
    /// Runs the kernel with the block of a call (see [`Kernel`](ms_core::ir::Kernel)).
    ///
    /// # Safety
    /// The block has the kernel's number of words, and extents that the kernel
    /// [takes](ms_core::ir::Kernel::takes). All elements that its extents and strides address are in memory that
    /// is live during the call. During the call, nobody else writes the elements that the kernel
    /// reads, or accesses those that it writes. The kernel itself may read an element that it writes
    /// only at the same loop indices.
    unsafe fn call(&self, block: &[u64]);

    /// The kernel and its machine code, for profiles; `None` if this is not the code of one kernel.
    fn view(&self) -> Option<KernelView<'_>> {
        None
    }

    /// Code that runs a call with this block on the calling thread, if this code may share it with others.
    fn alone(&self, _block: &[u64]) -> Option<&dyn KernelCode> {
        None
    }

    /// The estimated duration of a call with these extents in nanoseconds, if it may be [cut](KernelCode::cut).
    fn nanos(&self, extents: &[u64]) -> Option<usize> {
        let _ = extents;
        None
    }

    /// The parts of a call with this block that may run at the same time; `None` if it is to run by itself.
    fn cut(&self, _block: &[u64]) -> Option<Cut<'_>> {
        None
    }

    /// Specialised code for calls with these extents, if there is any.
    fn at(&self, extents: &[u64]) -> Option<Arc<dyn KernelCode>> {
        let _ = extents;
        None
    }
}
