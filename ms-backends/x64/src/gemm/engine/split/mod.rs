//! Packs operands for matrix engines and splits f32 into bf16 components.
//!
//! An f32 `x` is the sum of three bf16 numbers, `high + middle + low`. Each is the rounded rest of `x` after the ones
//! before it, so that 24 bits of significand become three times 8 (Henry, Tang, Heinecke: Leveraging the bfloat16
//! Artificial Intelligence Datatype For Higher-Precision Computations, 2019).
//!
//! A micro-panel packs 32 rows of the left operand, or 32 columns of the right one. A K block is as deep as one
//! instruction, and stores its split components one after another. A component is two tile registers of 16 rows or
//! columns. In a left operand, each row is a row of words of a register. In a right operand, each column is a column of
//! words.
//!
//! The reduction dimension of a left operand may run over the kernel taps of a convolution. Then each K block has one
//! tap: all taps of a K block of channels, then all taps of the next K block.

#[cfg(target_arch = "x86_64")]
mod avx512;

use super::kernel::{COMPONENT_WORDS, PANEL_ROWS, REGISTER, ROWS, WORDS};
use super::range::Range;
use crate::gemm::Matrix;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Vectors;
#[cfg(target_arch = "x86_64")]
use avx512::Words;
use ms_ir::data::DType;

/// Maximum number of split components.
pub const MAX_COMPONENTS: usize = 3;

/// How an operand is packed.
#[derive(Clone, Copy)]
pub struct Packing {
    /// The number of split components.
    pub components: usize,
    /// The number of elements of a word.
    pub per_word: usize,
    pack_panel: PackPanel,
    is_right: bool,
    /// The number of kernel taps, which vary fastest along the reduction dimension.
    taps: usize,
}

/// Packs a micro-panel of up to 32 `lines`, which are rows or columns, of `depth` elements each; the padding is zero.
/// Strides are in bytes. Returns the range of the elements, which is empty for integers.
///
/// # Safety
/// The elements are valid for reads, `to` has room for all K blocks, and the machine has the instruction set.
type PackPanel = unsafe fn(is_right: bool, from: Matrix<*const u8>, lines: usize, depth: usize, to: *mut u32) -> Range;

impl Packing {
    /// Returns the packing of an operand of f32, bf16, or 8-bit integers.
    pub fn new(isa: Isa, dtype: DType, components: usize, is_right: bool) -> Self {
        let pack_panel = match (dtype, components) {
            (DType::F32, 1) => pack_panel::<f32, 1>(isa),
            (DType::F32, 2) => pack_panel::<f32, 2>(isa),
            (DType::F32, _) => pack_panel::<f32, 3>(isa),
            (DType::BF16, _) => pack_panel::<u16, 1>(isa),
            _ => pack_panel::<u8, 1>(isa),
        };
        let per_word = if dtype.size() == 1 { 4 } else { 2 };
        Self { components, per_word, pack_panel, is_right, taps: 1 }
    }

    /// Returns the packing of an operand whose reduction dimension runs over this number of kernel taps.
    pub fn with_taps(self, taps: usize) -> Self {
        Self { taps, ..self }
    }

    /// Returns the number of split components, whether the packing is that of right operands, and the number of kernel
    /// taps.
    pub fn kind(self) -> (usize, bool, usize) {
        (self.components, self.is_right, self.taps)
    }

    /// Returns the number of elements of a K block along the reduction dimension.
    pub fn k_block(self) -> usize {
        self.per_word * WORDS
    }

    /// Returns the number of K blocks of a reduction dimension of this size.
    pub fn k_blocks(self, depth: usize) -> usize {
        (depth / self.taps).div_ceil(self.k_block()) * self.taps
    }

    /// Returns the number of words of a micro-panel with this number of K blocks.
    pub fn panel_words(self, k_blocks: usize) -> usize {
        k_blocks * self.components * COMPONENT_WORDS
    }

    /// Packs a micro-panel, tap by tap if there are several kernel taps.
    ///
    /// # Safety
    /// The elements are valid for reads, `to` has room for all K blocks, and the machine has the instruction set.
    pub unsafe fn pack(self, from: Matrix<*const u8>, lines: usize, depth: usize, mut to: *mut u32) -> Range {
        let (taps, channels, k_block) = (self.taps, depth / self.taps, self.k_block());
        if taps == 1 {
            // SAFETY: the elements are readable and `to` has room for them by this function's contract; `pack_panel`
            // needs the packing's instruction set, which the machine has.
            return unsafe { (self.pack_panel)(self.is_right, from, lines, depth, to) };
        }
        let of_channel = [from.steps[0], from.steps[1] * taps as isize];
        let mut range = Range::EMPTY;
        for first in (0..channels).step_by(k_block) {
            for tap in 0..taps {
                let from = Matrix { first: from.skip(0, first * taps + tap).first, steps: of_channel };
                // SAFETY: channels from `first` on of this tap are elements of the operand. `to` advances by one K
                // block of `self.k_blocks(depth)`, for which there is room.
                unsafe {
                    range = range.and((self.pack_panel)(self.is_right, from, lines, k_block.min(channels - first), to));
                    to = to.add(self.panel_words(1));
                }
            }
        }
        range
    }
}

/// Splits pairs of f32, whose elements are `step` elements apart, into words of components, which are `component` words
/// apart. The number of pairs is a multiple of [`WORDS`].
///
/// # Safety
/// The elements are valid for reads, there is room for the words, and the machine has the instruction set.
pub type SplitPairs = unsafe fn(from: *const f32, step: isize, pairs: usize, to: *mut u32, component: usize);

/// Returns the [`SplitPairs`] into this number of components.
pub fn split_pairs(isa: Isa, components: usize) -> SplitPairs {
    match components {
        1 => split_pairs_with::<1>(isa),
        2 => split_pairs_with::<2>(isa),
        _ => split_pairs_with::<3>(isa),
    }
}

/// An element of an operand.
trait Element: Copy {
    /// The number of elements of a word.
    const PER_WORD: usize;

    /// The bits of one split component.
    type OutputTile: Copy + Into<u32>;

    /// Takes the next component off an element, rounded or truncated.
    fn take(&mut self, is_rounded: bool) -> Self::OutputTile;

    /// Returns the bits of its magnitude as f32; zero for an integer.
    fn magnitude(self) -> u32;
}

impl Element for f32 {
    const PER_WORD: usize = 2;
    type OutputTile = u16;

    #[inline(always)]
    fn take(&mut self, is_rounded: bool) -> u16 {
        let part = if is_rounded { round(*self) } else { *self };
        *self -= part;
        (part.to_bits() >> 16) as u16
    }

    #[inline(always)]
    fn magnitude(self) -> u32 {
        self.abs().to_bits()
    }
}

/// The bits of bf16.
impl Element for u16 {
    const PER_WORD: usize = 2;
    type OutputTile = Self;

    #[inline(always)]
    fn take(&mut self, _: bool) -> Self {
        *self
    }

    #[inline(always)]
    fn magnitude(self) -> u32 {
        u32::from(self & 0x7fff) << 16
    }
}

impl Element for u8 {
    const PER_WORD: usize = 4;
    type OutputTile = Self;

    #[inline(always)]
    fn take(&mut self, _: bool) -> Self {
        *self
    }

    #[inline(always)]
    fn magnitude(self) -> u32 {
        0
    }
}

/// Rounds a finite number to the nearest bf16, ties to even.
#[inline(always)]
fn round(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits((bits.wrapping_add(0x7fff + (bits >> 16 & 1))) & 0xffff_0000)
}

/// [`PackPanel`] for every CPU.
///
/// # Safety
/// The conditions of [`PackPanel`] hold; every CPU has the instruction set.
unsafe fn panel<E: Element, const P: usize>(
    is_right: bool,
    from: Matrix<*const u8>,
    lines: usize,
    depth: usize,
    to: *mut u32,
) -> Range {
    let from = Matrix { first: from.first.cast::<E>(), steps: from.steps.map(|it| it / size_of::<E>() as isize) };
    let (mut lowest, mut highest) = (u32::MAX, 0);
    for word in 0..depth.div_ceil(E::PER_WORD * WORDS) * WORDS {
        let (k_block, row) = (word / WORDS, word % WORDS);
        for line in 0..PANEL_ROWS {
            let at = if is_right { row * WORDS + line % ROWS } else { line % ROWS * WORDS + row };
            // SAFETY: `to` stays within `word / WORDS + 1` K blocks, for which there is room. Elements are read for
            // `line < lines` and K indices below `depth` only.
            unsafe {
                let to = to.add(k_block * P * COMPONENT_WORDS + line / ROWS * REGISTER + at);
                (0..P).for_each(|component| *to.add(component * COMPONENT_WORDS) = 0);
                let elements = if line < lines { depth.saturating_sub(word * E::PER_WORD).min(E::PER_WORD) } else { 0 };
                for element in 0..elements {
                    let mut rest = *from.skip(line, word * E::PER_WORD + element).first;
                    let magnitude = rest.magnitude();
                    (lowest, highest) = (magnitude.wrapping_sub(1).min(lowest), magnitude.max(highest));
                    for component in 0..P {
                        // The rest after two components is exactly a bf16 number.
                        *to.add(component * COMPONENT_WORDS) |=
                            rest.take(component < 2).into() << (element * 32 / E::PER_WORD);
                    }
                }
            }
        }
    }
    Range::from_scan((lowest, highest))
}

/// [`SplitPairs`] for every CPU.
///
/// # Safety
/// The conditions of [`SplitPairs`] hold; every CPU has the instruction set.
unsafe fn pairs<const P: usize>(from: *const f32, step: isize, pairs: usize, to: *mut u32, component: usize) {
    for at in 0..pairs {
        // SAFETY: `at < pairs`, so both elements are valid for reads and each component has room for the word.
        unsafe {
            let from = from.add(at);
            let mut pair = [*from, *from.wrapping_offset(step)];
            for number in 0..P {
                let [first, second] = pair.each_mut().map(|it| u32::from(it.take(number < 2)));
                *to.add(number * component + at) = first | second << 16;
            }
        }
    }
}

/// Returns the [`SplitPairs`] into `P` components.
#[cfg(target_arch = "x86_64")]
fn split_pairs_with<const P: usize>(isa: Isa) -> SplitPairs {
    if isa.vectors() == Vectors::Avx512 { avx512::split_pairs::<P>() } else { pairs::<P> }
}

/// Returns the [`SplitPairs`] into `P` components.
#[cfg(not(target_arch = "x86_64"))]
fn split_pairs_with<const P: usize>(_: Isa) -> SplitPairs {
    pairs::<P>
}

/// Returns the [`PackPanel`] for an element type.
#[cfg(target_arch = "x86_64")]
fn pack_panel<E: Words, const P: usize>(isa: Isa) -> PackPanel {
    if isa.vectors() == Vectors::Avx512 { avx512::pack_panel::<E, P>() } else { panel::<E, P> }
}

/// Returns the [`PackPanel`] for an element type.
#[cfg(not(target_arch = "x86_64"))]
fn pack_panel<E: Element, const P: usize>(_: Isa) -> PackPanel {
    panel::<E, P>
}
