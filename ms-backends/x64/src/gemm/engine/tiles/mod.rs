//! The interface to Intel AMX tile registers, with two implementations: the processor and an emulation.
//!
//! The instructions have the semantics of the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
//! Kernels are generic over the implementation, so that tests on the emulation run the same kernels as the processor.

mod emulated;
mod kernel;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod native;

use super::kernel::{EngineState, Kernel, Split};
#[cfg(doc)]
use super::kernel::{ROWS, WORDS};
pub use emulated::Emulated;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use native::{Native, is_present};

/// The eight tile registers of one thread.
///
/// Registers are named by constants below eight.
pub trait Tiles: Sized {
    /// Configures the registers (`LDTILECFG`): all have [`ROWS`] rows of [`WORDS`] words, which are zero. Dropping the
    /// value releases them (`TILERELEASE`).
    ///
    /// # Safety
    /// This machine has the registers, and no other value on this thread has configured them.
    unsafe fn configure() -> Self;

    /// Computes `d = 0` (`TILEZERO`).
    fn zero<const D: usize>(&mut self);

    /// Loads rows that are `step` bytes apart (`TILELOADD`).
    ///
    /// # Safety
    /// The rows are valid for reads.
    unsafe fn load<const D: usize>(&mut self, from: *const u8, step: isize);

    /// Stores rows, `step` bytes apart (`TILESTORED`).
    ///
    /// # Safety
    /// The rows are valid for writes.
    unsafe fn store<const S: usize>(&mut self, to: *mut u8, step: isize);

    /// Prefetches the cache line of an address into L1, if the address is mapped (`PREFETCHT0`).
    fn prefetch_l1(&self, at: *const u32);

    /// Prefetches the cache line of an address into L2 (`PREFETCHT1`).
    fn prefetch_l2(&self, at: *const u32);

    /// Computes `d += a b` for f32 sums and words that are pairs of bf16 (`TDPBF16PS`). A row of `a` and a column of
    /// `b` have the pairs of one sum.
    ///
    /// The products of the first elements of all pairs form one chain of fused multiply-adds from +0; those of the
    /// second elements form another. The sum of both chains is added to `d`. Subnormal operands and results are flushed
    /// to zero.
    fn dot_pairs<const D: usize, const A: usize, const B: usize>(&mut self);

    /// Computes `d += a b` for wrapping 32-bit sums and words of four bytes each (`TDPBSSD`, `TDPBSUD`, `TDPBUSD`,
    /// `TDPBUUD`). The bytes of `a` and of `b` are signed or unsigned integers.
    fn dot_quads<const D: usize, const A: usize, const B: usize, const SIGNED_A: bool, const SIGNED_B: bool>(&mut self);
}

impl<T: Tiles> EngineState for T {
    unsafe fn start() -> Self {
        // SAFETY: the machine has the registers and this thread has configured no others, by this function's contract.
        unsafe { Self::configure() }
    }

    fn kernel(split: Split) -> Kernel<Self> {
        kernel::kernel(split)
    }
}
