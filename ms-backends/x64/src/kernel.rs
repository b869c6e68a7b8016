//! Defines executable kernels, [`KernelCode`], and the [`Partition`] of a call.

use ms_ir::{Kernel, KernelView, LoopArguments};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A kernel that is compiled to machine code, or interpreted.
///
/// # Safety
/// A call writes every element that the kernel stores, with a valid value of the dtype. It accesses only the memory
/// that the contract of [`KernelCode::call`] names.
pub unsafe trait KernelCode: Send + Sync {
    /// Runs the kernel with an argument block (see [`Kernel`]).
    ///
    /// # Safety
    /// - The block has the kernel's number of words, and extents that the kernel [takes](Kernel::takes).
    /// - All elements that the extents and strides address are in memory that is live during the call.
    /// - During the call, nobody else writes an element that the kernel reads, or accesses an element that it writes.
    /// - The kernel itself reads an element that it writes only at the same loop indices.
    unsafe fn call(&self, block: &[u64]);

    /// Returns the kernel and its machine code, for profiling. `None` if this is not the code of a single kernel.
    fn view(&self) -> Option<KernelView<'_>> {
        None
    }

    /// Returns code that runs a call with this block on the calling thread alone, if this code may share it with
    /// others.
    fn single_threaded(&self, _block: &[u64]) -> Option<&dyn KernelCode> {
        None
    }

    /// Returns the estimated duration of a call in nanoseconds, if the call may be
    /// [partitioned](KernelCode::partition). Addresses in the block do not matter.
    fn nanos(&self, _block: &[u64]) -> Option<usize> {
        None
    }

    /// Returns the partition of a call into parts that may run in parallel. `None` if the call must run on its own.
    fn partition(&self, _block: &[u64]) -> Option<Partition<'_>> {
        None
    }

    /// Returns code that is specialised for calls with these extents and strides, if there is any.
    fn specialized(&self, _block: &[u64]) -> Option<Arc<dyn KernelCode>> {
        None
    }
}

/// A partition of a kernel call: each part covers a range of one loop over the result.
pub struct Partition<'a> {
    pub(crate) code: &'a dyn KernelCode,
    /// The partitioned loop. `None` if the call is a single part.
    pub(crate) along: Option<PartitionedLoop>,
    /// The estimated duration of the call.
    pub(crate) nanos: usize,
}

/// A partitioned loop.
#[derive(Clone, Copy)]
pub(crate) struct PartitionedLoop {
    pub(crate) axis: usize,
    /// The number of steps of the loop, and of each part.
    pub(crate) steps: usize,
    pub(crate) chunk: usize,
    pub(crate) words: LoopArguments,
}

/// Returns the hash of a kernel, which is equal in all processes of one build.
pub fn hash(kernel: &Kernel) -> u64 {
    let mut state = FxHasher::default();
    kernel.hash(&mut state);
    state.finish()
}
