//! Dot products of vectors: an instruction of AVX-512 BF16, of which there are two implementations, the processor and a
//! model.
//!
//! Its meaning is that of the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2. The kernel is
//! generic over the implementation, so that what is tested on the model is what runs on a processor.

mod model;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod processor;

use super::kernel::Columns;
use super::split::{PANEL, PLANE};
use super::tiles::{ROWS, WORDS};
#[cfg(test)]
pub use model::Model;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use processor::{Processor, is_present};

/// Number of rows whose sums are in registers.
const HEIGHT: usize = 8;

/// A vector of sums of f32, or of words that are pairs of bf16.
trait Vector: Copy {
    /// Zeros.
    ///
    /// # Safety
    /// The machine has the instructions, as for the other functions.
    unsafe fn zero() -> Self;

    /// So many neighbouring words.
    ///
    /// # Safety
    /// The words are valid for reads.
    unsafe fn load(from: *const u32) -> Self;

    /// A word in every place.
    ///
    /// # Safety
    /// The word is valid for reads.
    unsafe fn splat(from: *const u32) -> Self;

    /// Stores the words.
    ///
    /// # Safety
    /// The words are valid for writes.
    unsafe fn store(self, to: *mut u32);

    /// The sums with the products of pairs (`VDPBF16PS`).
    ///
    /// To each sum the product of the second elements of its pairs is added, then that of the first ones, by fused
    /// multiply-adds. Numbers below the normal ones are zeros, as operands and as results.
    ///
    /// # Safety
    /// The machine has the instruction.
    unsafe fn dot(self, a: Self, b: Self) -> Self;
}

/// [`Kernel`](super::kernel::Kernel), for one plane of each operand.
///
/// # Safety
/// As for a kernel; the machine has the instructions.
#[inline(always)]
unsafe fn run<V: Vector>(a: *const u32, columns: Columns<'_>, is_first: bool, to: *mut u32, step: isize) {
    const { assert!(PANEL.is_multiple_of(HEIGHT) && PANEL == 2 * ROWS) };
    for top in (0..PANEL).step_by(HEIGHT) {
        // SAFETY: by the caller's contract: panels have the words of all their lines in each group.
        unsafe {
            let mut a = a.add(top * WORDS);
            let row = |it: usize| to.wrapping_byte_offset((top + it) as isize * step);
            let mut sums = [[V::zero(); 2]; HEIGHT];
            if !is_first {
                for (it, sums) in sums.iter_mut().enumerate() {
                    *sums = [V::load(row(it)), V::load(row(it).wrapping_add(WORDS))];
                }
            }
            for &group in columns.groups {
                for pair in 0..WORDS {
                    let b = columns.first.add(group + pair * columns.row);
                    let columns = [V::load(b), V::load(b.add(columns.register))];
                    for (it, sums) in sums.iter_mut().enumerate() {
                        let factor = V::splat(a.add(it * WORDS + pair));
                        *sums = [sums[0].dot(factor, columns[0]), sums[1].dot(factor, columns[1])];
                    }
                }
                a = a.add(PLANE);
            }
            for (it, sums) in sums.iter().enumerate() {
                sums[0].store(row(it));
                sums[1].store(row(it).wrapping_add(WORDS));
            }
        }
    }
}
