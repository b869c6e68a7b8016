//! The micro-kernel of AVX512-BF16 dot products, with two implementations of the instruction: the processor and an
//! emulation.
//!
//! The instruction has the semantics of the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2. The
//! kernel is generic over the implementation, so that tests on the emulation run the same kernel as the processor.

mod emulated;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod native;

use super::kernel::{COMPONENT_WORDS, Columns, PANEL_ROWS, ROWS, WORDS};

#[cfg(any(test, feature = "emulation"))]
pub use emulated::Emulated;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use native::{Native, is_present};

/// Number of rows whose sums are in registers.
const HEIGHT: usize = 8;

/// A vector of f32 sums, or of words that are pairs of bf16.
trait Vector: Copy {
    /// Returns zeros.
    ///
    /// # Safety
    /// The machine has AVX-512 F and BF16, as for every function of this trait.
    unsafe fn zero() -> Self;

    /// Loads contiguous words.
    ///
    /// # Safety
    /// The words are valid for reads, and the machine has the instructions.
    unsafe fn load(from: *const u32) -> Self;

    /// Broadcasts a word to every lane.
    ///
    /// # Safety
    /// The word is valid for reads, and the machine has the instructions.
    unsafe fn splat(from: *const u32) -> Self;

    /// Stores the words.
    ///
    /// # Safety
    /// The words are valid for writes, and the machine has the instructions.
    unsafe fn store(self, to: *mut u32);

    /// Accumulates the products of pairs (`VDPBF16PS`).
    ///
    /// Fused multiply-adds add the product of the second elements of a pair to its sum, then the product of the first
    /// elements. Subnormal operands and results are flushed to zero.
    ///
    /// # Safety
    /// The machine has the instruction.
    unsafe fn dot(self, a: Self, b: Self) -> Self;
}

/// [`Kernel`](super::kernel::Kernel) for one component of each operand.
///
/// # Safety
/// The micro-panel of rows has as many K blocks as the columns. All words are valid for reads, and `to` is valid for
/// reads and writes. The machine has the instructions.
#[inline(always)]
unsafe fn run<V: Vector>(a: *const u32, columns: Columns<'_>, is_first: bool, to: *mut u32, step: isize) {
    const { assert!(PANEL_ROWS.is_multiple_of(HEIGHT) && PANEL_ROWS == 2 * ROWS) };
    for top in (0..PANEL_ROWS).step_by(HEIGHT) {
        // SAFETY: micro-panels have all `PANEL_ROWS` rows and columns in each K block, padding included. `to` has
        // `PANEL_ROWS` rows of `PANEL_ROWS` words, by this function's contract.
        unsafe {
            let mut a = a.add(top * WORDS);
            let row = |it: usize| to.wrapping_byte_offset((top + it) as isize * step);
            let mut sums = [[V::zero(); 2]; HEIGHT];
            if !is_first {
                for (it, sums) in sums.iter_mut().enumerate() {
                    *sums = [V::load(row(it)), V::load(row(it).wrapping_add(WORDS))];
                }
            }
            for &k_block in columns.k_blocks {
                for pair in 0..WORDS {
                    let b = columns.first.add(k_block + pair * columns.row);
                    let columns = [V::load(b), V::load(b.add(columns.register))];
                    for (it, sums) in sums.iter_mut().enumerate() {
                        let factor = V::splat(a.add(it * WORDS + pair));
                        *sums = [sums[0].dot(factor, columns[0]), sums[1].dot(factor, columns[1])];
                    }
                }
                a = a.add(COMPONENT_WORDS);
            }
            for (it, sums) in sums.iter().enumerate() {
                sums[0].store(row(it));
                sums[1].store(row(it).wrapping_add(WORDS));
            }
        }
    }
}
