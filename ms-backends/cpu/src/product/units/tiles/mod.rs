//! Tiles of matrices in registers: the instructions of Intel AMX, of which there are two implementations, the processor
//! and a model.
//!
//! Their meaning is that of the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2. Kernels are
//! generic over the implementation, so that what is tested on the model is what runs on a processor.

mod kernel;
mod model;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod processor;

use super::kernel::{Kernel, Terms, Unit};
pub use model::Model;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use processor::{Processor, is_present};

/// Number of rows of a tile register.
pub const ROWS: usize = 16;

/// Number of 32-bit words of a row of a tile register.
pub const WORDS: usize = 16;

/// Number of words of a tile register.
pub const REGISTER: usize = ROWS * WORDS;

/// Eight tile registers, which are those of one thread.
///
/// Registers are named by constants below eight.
pub trait Tiles: Sized {
    /// Configures the registers (`LDTILECFG`): all have [`ROWS`] rows of [`WORDS`] words, which are zero. They are
    /// released (`TILERELEASE`) when the value is dropped.
    ///
    /// # Safety
    /// This machine has the registers, and nothing else of this thread has them.
    unsafe fn configure() -> Self;

    /// `d = 0` (`TILEZERO`).
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

    /// Fetches the line of an address into the cache, if there is one at all (`PREFETCHT0`).
    fn fetch(&self, at: *const u32);

    /// Fetches the line into the second-level cache (`PREFETCHT1`).
    fn fetch_ahead(&self, at: *const u32);

    /// `d += a b` for sums of f32 and words that are pairs of bf16 (`TDPBF16PS`): a row of `a` has the terms of a row
    /// of the product, and a column of `b` those of a column.
    ///
    /// The products of the first elements of all pairs are one chain of fused multiply-adds from +0, those of the second
    /// elements another one; the sum of both is added to that in `d`. Numbers below the normal ones are zeros, as
    /// operands and as results.
    fn dot_pairs<const D: usize, const A: usize, const B: usize>(&mut self);

    /// `d += a b` for sums of 32 bits, which wrap, and words of four bytes each (`TDPBSSD`, `TDPBSUD`, `TDPBUSD`,
    /// `TDPBUUD`). The bytes of `a` and of `b` are integers with a sign or without.
    fn dot_quads<const D: usize, const A: usize, const B: usize, const SIGNED_A: bool, const SIGNED_B: bool>(&mut self);
}

impl<T: Tiles> Unit for T {
    unsafe fn start() -> Self {
        // SAFETY: the caller's contract is the same.
        unsafe { Self::configure() }
    }

    fn kernel(terms: Terms) -> Kernel<Self> {
        kernel::kernel(terms)
    }
}
