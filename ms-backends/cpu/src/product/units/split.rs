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

use super::tiles::{REGISTER, ROWS, WORDS};
use crate::isa::Isa;
use crate::product::Matrix;
use crate::product::pack::{LINES, Turn};
use crate::product::tile::Wide;
use ms_core::tensor::DType;
use std::mem::MaybeUninit;

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
    turn: Turn<f32>,
    is_right: bool,
    /// The number of taps, which alternate fastest among the terms of a line.
    taps: usize,
}

/// Packs a panel of up to 32 lines with `depth` terms each, which has zeros in the place of others. Strides are in
/// bytes.
///
/// # Safety
/// The elements are valid for reads, there is room for all groups, and the machine has the instruction set.
type Run = unsafe fn(Turn<f32>, is_right: bool, from: Matrix<*const u8>, lines: usize, depth: usize, to: *mut u32);

impl Packing {
    /// That of an operand of f32, bf16, or integers of a byte.
    pub fn new(isa: Isa, dtype: DType, planes: usize, is_right: bool) -> Self {
        let [plain, avx2, avx512] = match (dtype, planes) {
            (DType::F32, 1) => runs::<f32, 1>(),
            (DType::F32, 2) => runs::<f32, 2>(),
            (DType::F32, _) => runs::<f32, 3>(),
            (DType::BF16, _) => runs::<u16, 1>(),
            _ => runs::<u8, 1>(),
        };
        let run = match isa {
            Isa::Avx512 => avx512,
            Isa::Avx2 => avx2,
            Isa::Interp => plain,
        };
        let of_word = if dtype.size() == 1 { 4 } else { 2 };
        Self { planes, of_word, run, turn: f32::tile(isa).turn, is_right, taps: 1 }
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
    pub unsafe fn pack(self, from: Matrix<*const u8>, lines: usize, depth: usize, mut to: *mut u32) {
        let (taps, channels, group) = (self.taps, depth / self.taps, self.group());
        if taps == 1 {
            // SAFETY: the caller's contract is the same.
            return unsafe { (self.run)(self.turn, self.is_right, from, lines, depth, to) };
        }
        let of_channel = [from.steps[0], from.steps[1] * taps as isize];
        for first in (0..channels).step_by(group) {
            for tap in 0..taps {
                let from = Matrix { first: from.skip(0, first * taps + tap).first, steps: of_channel };
                // SAFETY: the terms are some of the caller's, and there is room for all groups.
                unsafe {
                    (self.run)(self.turn, self.is_right, from, lines, group.min(channels - first), to);
                    to = to.add(self.panel(1));
                }
            }
        }
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
    let [plain, avx2, avx512] = match planes {
        1 => splits::<1>(),
        2 => splits::<2>(),
        _ => splits::<3>(),
    };
    match isa {
        Isa::Avx512 => avx512,
        Isa::Avx2 => avx2,
        Isa::Interp => plain,
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
}

/// The bits of bf16.
impl Element for u16 {
    const OF_WORD: usize = 2;
    type Part = Self;

    #[inline(always)]
    fn take(&mut self, _: bool) -> Self {
        *self
    }
}

impl Element for u8 {
    const OF_WORD: usize = 4;
    type Part = Self;

    #[inline(always)]
    fn take(&mut self, _: bool) -> Self {
        *self
    }
}

/// The number of bf16 that is nearest to a finite one, the even one of two.
#[inline(always)]
fn round(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits((bits.wrapping_add(0x7fff + (bits >> 16 & 1))) & 0xffff_0000)
}

/// [`Run`] for every CPU, and with the features of functions that it is inlined into.
#[inline(always)]
unsafe fn panel<E: Element, const P: usize>(
    turn: Turn<f32>,
    is_right: bool,
    from: Matrix<*const u8>,
    lines: usize,
    depth: usize,
    mut to: *mut u32,
) {
    let from = Matrix { first: from.first.cast::<E>(), steps: from.steps.map(|it| it / size_of::<E>() as isize) };
    for start in (0..depth).step_by(E::OF_WORD * WORDS) {
        for half in 0..2 {
            let sizes = [lines.saturating_sub(half * ROWS).min(ROWS), (depth - start).min(E::OF_WORD * WORDS)];
            // SAFETY: the lines and terms are some of the caller's.
            unsafe { register::<E, P>(turn, is_right, from.skip(half * ROWS, start), sizes, to.add(half * REGISTER)) };
        }
        // SAFETY: there is room for the planes of every group.
        to = unsafe { to.add(P * PLANE) };
    }
}

/// Packs up to 16 lines of one group.
///
/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn register<E: Element, const P: usize>(
    turn: Turn<f32>,
    is_right: bool,
    mut from: Matrix<*const E>,
    [lines, depth]: [usize; 2],
    to: *mut u32,
) {
    let terms = E::OF_WORD * WORDS;
    let mut copy = MaybeUninit::<[E; 4 * REGISTER]>::uninit();
    let copy = copy.as_mut_ptr().cast::<E>();
    let mut other = MaybeUninit::<[u32; PLANES * PLANE]>::uninit();
    // SAFETY: elements are the caller's, and there is room for those of a register, and for the words of its planes;
    // zeros of every type are zero bytes.
    unsafe {
        if [lines, depth] != [ROWS, terms] || !from.steps.contains(&1) {
            copy.write_bytes(0, ROWS * terms);
            for line in 0..lines {
                (0..depth).for_each(|term| *copy.add(line * terms + term) = *from.skip(line, term).first);
            }
            from = Matrix { first: copy, steps: [terms as isize, 1] };
        }
        // Elements are read in the order of memory: all terms of each line, or all lines of each term.
        let by_terms = from.steps[1] != 1;
        let in_order = by_terms == is_right;
        let words = if in_order { to } else { other.as_mut_ptr().cast() };
        match by_terms {
            true => split_terms::<E, P>(from.first, from.steps[1], words),
            false => split_lines::<E, P>(from.first, from.steps[0], words),
        }
        if !in_order {
            for (plane, half) in (0..P).flat_map(|plane| [0, LINES].map(|half| (plane * PLANE, half))) {
                turn(WORDS, words.add(plane + half * WORDS).cast(), WORDS as isize, to.add(plane + half).cast(), ROWS);
            }
        }
    }
}

/// The words of all planes of 16 lines of a group, each of which is contiguous: a row for each line.
///
/// Loops run over all elements of a line, so that the compiler makes vectors of them.
///
/// # Safety
/// There are the lines, which are `step` elements apart, and room for the words.
#[inline(always)]
unsafe fn split_lines<E: Element, const P: usize>(from: *const E, step: isize, to: *mut u32) {
    let terms = E::OF_WORD * WORDS;
    let mut rest = MaybeUninit::<[E; 4 * WORDS]>::uninit();
    let rest = rest.as_mut_ptr().cast::<E>();
    for line in 0..ROWS {
        // SAFETY: by the caller's contract; the words of a line are its parts one after the other.
        unsafe {
            rest.copy_from_nonoverlapping(from.wrapping_offset(line as isize * step), terms);
            for plane in 0..P {
                let to = to.add(plane * PLANE + line * WORDS).cast::<E::Part>();
                // What two planes leave of f32 is a number of bf16.
                (0..terms).for_each(|it| *to.add(it) = (*rest.add(it)).take(plane < 2));
            }
        }
    }
}

/// The words of all planes of 16 lines of a group, which are contiguous for each term: a column for each line.
///
/// # Safety
/// There are the elements of the terms, which are `step` elements apart, and room for the words.
#[inline(always)]
unsafe fn split_terms<E: Element, const P: usize>(from: *const E, step: isize, to: *mut u32) {
    for row in 0..WORDS {
        let from = from.wrapping_offset((row * E::OF_WORD) as isize * step);
        // SAFETY: by the caller's contract.
        unsafe { split_words::<E, P>(from, step, to.add(row * WORDS), PLANE) };
    }
}

/// The words of 16 lines in all planes, which are `plane` words apart.
///
/// # Safety
/// There are the elements of the terms of a word, which are `step` elements apart, and room for the words.
#[inline(always)]
unsafe fn split_words<E: Element, const P: usize>(from: *const E, step: isize, to: *mut u32, plane: usize) {
    let mut rest = MaybeUninit::<[[E; ROWS]; 4]>::uninit();
    let rest = rest.as_mut_ptr().cast::<E>();
    // SAFETY: by the caller's contract.
    unsafe {
        for it in 0..E::OF_WORD {
            rest.add(it * ROWS).copy_from_nonoverlapping(from.wrapping_offset(it as isize * step), ROWS);
        }
        for number in 0..P {
            let to = to.add(number * plane);
            for line in 0..ROWS {
                let part = |it: usize| (*rest.add(it * ROWS + line)).take(number < 2).into() << (it * 32 / E::OF_WORD);
                *to.add(line) = (0..E::OF_WORD).fold(0, |word, it| word | part(it));
            }
        }
    }
}

/// [`Split`] for every CPU, and with the features of functions that it is inlined into.
#[inline(always)]
unsafe fn pairs<const P: usize>(from: *const f32, step: isize, pairs: usize, to: *mut u32, plane: usize) {
    for at in (0..pairs).step_by(WORDS) {
        // SAFETY: by the caller's contract.
        unsafe { split_words::<f32, P>(from.add(at), step, to.add(at), plane) };
    }
}

/// [`Split`] for every CPU, with AVX2, and with AVX-512.
fn splits<const P: usize>() -> [Split; 3] {
    #[cfg(target_arch = "x86_64")]
    return [pairs::<P>, pairs_avx2::<P>, pairs_avx512::<P>];
    #[cfg(not(target_arch = "x86_64"))]
    [pairs::<P>; 3]
}

/// [`Run`] for every CPU, with AVX2, and with AVX-512.
fn runs<E: Element, const P: usize>() -> [Run; 3] {
    #[cfg(target_arch = "x86_64")]
    return [panel::<E, P>, avx2::<E, P>, avx512::<E, P>];
    #[cfg(not(target_arch = "x86_64"))]
    [panel::<E, P>; 3]
}

#[cfg(target_arch = "x86_64")]
macro_rules! vector_runs {
    ($($name:ident, $pairs:ident, $features:literal;)*) => {$(
        #[target_feature(enable = $features)]
        unsafe fn $name<E: Element, const P: usize>(
            turn: Turn<f32>,
            is_right: bool,
            from: Matrix<*const u8>,
            lines: usize,
            depth: usize,
            to: *mut u32,
        ) {
            // SAFETY: the caller's contract is the same.
            unsafe { panel::<E, P>(turn, is_right, from, lines, depth, to) }
        }

        #[target_feature(enable = $features)]
        unsafe fn $pairs<const P: usize>(from: *const f32, step: isize, count: usize, to: *mut u32, plane: usize) {
            // SAFETY: the caller's contract is the same.
            unsafe { pairs::<P>(from, step, count, to, plane) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
vector_runs! {
    avx512, pairs_avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2";
    avx2, pairs_avx2, "avx2";
}
