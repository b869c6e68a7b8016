//! Packing of operands for the unit, and splitting of f32 into planes of bf16.
//!
//! `x` of f32 is the sum of three numbers of bf16, `high + middle + low`: each is what the ones before it leave of `x`,
//! rounded, and 24 bits are 8 each (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For
//! Higher-Precision Computations, 2019).
//!
//! A panel has 32 lines: rows of the left operand, or columns of the right one. For every group of terms, which are as
//! many as one instruction multiplies, it has one plane after the other, each of which is two tile registers of 16 lines.
//! The registers of a left operand have a row of words for each line; those of a right operand have a column.
//!
//! The terms of a left operand may be those of several taps. Then each group has one tap: for as many channels as a group
//! has terms one tap after the other, then those of the next channels.

#[cfg(target_arch = "x86_64")]
mod avx512;

use super::range::Range;
use super::tiles::{REGISTER, ROWS, WORDS};
use crate::isa::Isa;
use crate::product::Matrix;
#[cfg(target_arch = "x86_64")]
use avx512::Words;
use ms_core::tensor::DType;

/// Number of lines of a panel.
pub const PANEL: usize = 2 * ROWS;

/// Number of words of a plane of a group.
pub const PLANE: usize = 2 * REGISTER;

/// Maximum number of planes.
pub const PLANES: usize = 3;

/// How an operand is packed.
#[derive(Clone, Copy)]
pub struct Packing {
    /// The number of planes.
    pub planes: usize,
    /// The number of terms of a word.
    pub of_word: usize,
    run: Run,
    is_right: bool,
    /// The number of taps, which alternate fastest among the terms of a line.
    taps: usize,
}

/// Packs a panel of up to 32 lines with `depth` terms each, which has zeros in the place of others. Strides are in
/// bytes. Returns the range of the elements, which is empty for integers.
///
/// # Safety
/// The elements are valid for reads, there is room for all groups, and the machine has the instruction set.
type Run = unsafe fn(is_right: bool, from: Matrix<*const u8>, lines: usize, depth: usize, to: *mut u32) -> Range;

impl Packing {
    /// That of an operand of f32, bf16, or integers of a byte.
    pub fn new(isa: Isa, dtype: DType, planes: usize, is_right: bool) -> Self {
        let run = match (dtype, planes) {
            (DType::F32, 1) => run::<f32, 1>(isa),
            (DType::F32, 2) => run::<f32, 2>(isa),
            (DType::F32, _) => run::<f32, 3>(isa),
            (DType::BF16, _) => run::<u16, 1>(isa),
            _ => run::<u8, 1>(isa),
        };
        let of_word = if dtype.size() == 1 { 4 } else { 2 };
        Self { planes, of_word, run, is_right, taps: 1 }
    }

    /// The same for terms that are those of so many taps.
    pub fn of_taps(self, taps: usize) -> Self {
        Self { taps, ..self }
    }

    /// The number of planes, whether it is that of right operands, and the number of taps.
    pub fn kind(self) -> (usize, bool, usize) {
        (self.planes, self.is_right, self.taps)
    }

    /// The number of terms of a group.
    pub fn group(self) -> usize {
        self.of_word * WORDS
    }

    /// The number of groups of so many terms.
    pub fn groups(self, depth: usize) -> usize {
        (depth / self.taps).div_ceil(self.group()) * self.taps
    }

    /// The number of words of a panel with so many groups.
    pub fn panel(self, groups: usize) -> usize {
        groups * self.planes * PLANE
    }

    /// [`Run`], by taps.
    ///
    /// # Safety
    /// As [`Run`].
    pub unsafe fn pack(self, from: Matrix<*const u8>, lines: usize, depth: usize, mut to: *mut u32) -> Range {
        let (taps, channels, group) = (self.taps, depth / self.taps, self.group());
        if taps == 1 {
            // SAFETY: the caller's contract is the same.
            return unsafe { (self.run)(self.is_right, from, lines, depth, to) };
        }
        let of_channel = [from.steps[0], from.steps[1] * taps as isize];
        let mut range = Range::EMPTY;
        for first in (0..channels).step_by(group) {
            for tap in 0..taps {
                let from = Matrix { first: from.skip(0, first * taps + tap).first, steps: of_channel };
                // SAFETY: the terms are some of the caller's, and there is room for all groups.
                unsafe {
                    range = range.and((self.run)(self.is_right, from, lines, group.min(channels - first), to));
                    to = to.add(self.panel(1));
                }
            }
        }
        range
    }
}

/// Splits neighbouring pairs of f32, which are `step` elements apart, into words of planes, which are `plane` words apart.
/// There are [`WORDS`] pairs, or some times that number.
///
/// # Safety
/// The elements are valid for reads, there is room for the words, and the machine has the instruction set.
pub type Split = unsafe fn(from: *const f32, step: isize, pairs: usize, to: *mut u32, plane: usize);

/// [`Split`] into so many planes.
pub fn split(isa: Isa, planes: usize) -> Split {
    match planes {
        1 => split_of::<1>(isa),
        2 => split_of::<2>(isa),
        _ => split_of::<3>(isa),
    }
}

/// An element of an operand.
trait Element: Copy {
    /// The number of elements that are a word.
    const OF_WORD: usize;

    /// What a plane has of an element.
    type Part: Copy + Into<u32>;

    /// Takes the next plane off an element, rounded or as it is.
    fn take(&mut self, is_rounded: bool) -> Self::Part;

    /// The bits of its magnitude as f32; zero for an integer.
    fn magnitude(self) -> u32;
}

impl Element for f32 {
    const OF_WORD: usize = 2;
    type Part = u16;

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
    const OF_WORD: usize = 2;
    type Part = Self;

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
    const OF_WORD: usize = 4;
    type Part = Self;

    #[inline(always)]
    fn take(&mut self, _: bool) -> Self {
        *self
    }

    #[inline(always)]
    fn magnitude(self) -> u32 {
        0
    }
}

/// The number of bf16 that is nearest to a finite one, the even one of two.
#[inline(always)]
fn round(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits((bits.wrapping_add(0x7fff + (bits >> 16 & 1))) & 0xffff_0000)
}

/// [`Run`] for every CPU.
///
/// # Safety
/// As [`Run`].
unsafe fn panel<E: Element, const P: usize>(
    is_right: bool,
    from: Matrix<*const u8>,
    lines: usize,
    depth: usize,
    to: *mut u32,
) -> Range {
    let from = Matrix { first: from.first.cast::<E>(), steps: from.steps.map(|it| it / size_of::<E>() as isize) };
    let (mut lowest, mut highest) = (u32::MAX, 0);
    for word in 0..depth.div_ceil(E::OF_WORD * WORDS) * WORDS {
        let (group, row) = (word / WORDS, word % WORDS);
        for line in 0..PANEL {
            let at = if is_right { row * WORDS + line % ROWS } else { line % ROWS * WORDS + row };
            // SAFETY: the lines and terms are some of the caller's, as is the room for groups.
            unsafe {
                let to = to.add(group * P * PLANE + line / ROWS * REGISTER + at);
                (0..P).for_each(|plane| *to.add(plane * PLANE) = 0);
                let terms = if line < lines { depth.saturating_sub(word * E::OF_WORD).min(E::OF_WORD) } else { 0 };
                for term in 0..terms {
                    let mut rest = *from.skip(line, word * E::OF_WORD + term).first;
                    let magnitude = rest.magnitude();
                    (lowest, highest) = (magnitude.wrapping_sub(1).min(lowest), magnitude.max(highest));
                    for plane in 0..P {
                        // What two planes leave of f32 is a number of bf16.
                        *to.add(plane * PLANE) |= rest.take(plane < 2).into() << (term * 32 / E::OF_WORD);
                    }
                }
            }
        }
    }
    Range::of_found((lowest, highest))
}

/// [`Split`] for every CPU.
///
/// # Safety
/// As [`Split`].
unsafe fn pairs<const P: usize>(from: *const f32, step: isize, pairs: usize, to: *mut u32, plane: usize) {
    for at in 0..pairs {
        // SAFETY: by the caller's contract.
        unsafe {
            let from = from.add(at);
            let mut pair = [*from, *from.wrapping_offset(step)];
            for number in 0..P {
                let [first, second] = pair.each_mut().map(|it| u32::from(it.take(number < 2)));
                *to.add(number * plane + at) = first | second << 16;
            }
        }
    }
}

/// [`Split`] into so many planes.
#[cfg(target_arch = "x86_64")]
fn split_of<const P: usize>(isa: Isa) -> Split {
    if isa == Isa::Avx512 { avx512::split::<P>() } else { pairs::<P> }
}

/// [`Split`] into so many planes.
#[cfg(not(target_arch = "x86_64"))]
fn split_of<const P: usize>(_: Isa) -> Split {
    pairs::<P>
}

/// [`Run`] for elements of a type.
#[cfg(target_arch = "x86_64")]
fn run<E: Words, const P: usize>(isa: Isa) -> Run {
    if isa == Isa::Avx512 { avx512::run::<E, P>() } else { panel::<E, P> }
}

/// [`Run`] for elements of a type.
#[cfg(not(target_arch = "x86_64"))]
fn run<E: Element, const P: usize>(_: Isa) -> Run {
    panel::<E, P>
}
