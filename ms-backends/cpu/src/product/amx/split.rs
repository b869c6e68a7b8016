//! Packing of operands for the unit, and splitting of f32 into planes of bf16.
//!
//! `x` of f32 is the sum of three numbers of bf16, `high + middle + low`: each is what the ones before it leave of `x`,
//! rounded, and 24 bits are 8 each (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For
//! Higher-Precision Computations, 2019).
//!
//! A panel has 32 lines: rows of the left operand, or columns of the right one. For every group of terms, which are as
//! many as one instruction multiplies, it has one plane after the other, each of which is two tile registers of 16 lines.
//! The registers of a left operand have a row of words for each line; those of a right operand have a column.

use super::unit::{REGISTER, ROWS, WORDS};
use crate::isa::Isa;
use crate::product::Matrix;
use crate::product::pack::{LINES, Turn};
use crate::product::tile::Wide;
use ms_core::tensor::DType;
use std::array::from_fn;
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
            (DType::F32, 1) => runs::<f32, 2, 1>(),
            (DType::F32, 2) => runs::<f32, 2, 2>(),
            (DType::F32, _) => runs::<f32, 2, 3>(),
            (DType::BF16, _) => runs::<u16, 2, 1>(),
            _ => runs::<u8, 4, 1>(),
        };
        let run = match isa {
            Isa::Avx512 => avx512,
            Isa::Avx2 => avx2,
            Isa::Interp => plain,
        };
        let of_word = if dtype.size() == 1 { 4 } else { 2 };
        Self { planes, of_word, run, turn: f32::tile(isa).turn, is_right }
    }

    /// The number of terms of a group.
    pub fn group(self) -> usize {
        self.of_word * WORDS
    }

    /// The number of words of a panel with so many groups.
    pub fn panel(self, groups: usize) -> usize {
        groups * self.planes * PLANE
    }

    /// [`Run`].
    ///
    /// # Safety
    /// As [`Run`].
    pub unsafe fn pack(self, from: Matrix<*const u8>, lines: usize, depth: usize, to: *mut u32) {
        // SAFETY: the caller's contract is the same.
        unsafe { (self.run)(self.turn, self.is_right, from, lines, depth, to) };
    }
}

/// An element of which `W` are a word in each of `P` planes.
trait Words<const W: usize, const P: usize>: Copy {
    /// The words of neighbouring terms.
    fn words(terms: [Self; W]) -> [u32; P];
}

impl<const P: usize> Words<2, P> for f32 {
    #[inline(always)]
    fn words(mut terms: [Self; 2]) -> [u32; P] {
        from_fn(|plane| {
            // What two planes leave has eight bits.
            let rounded = if plane == 2 { terms } else { terms.map(round) };
            terms = from_fn(|it| terms[it] - rounded[it]);
            rounded[0].to_bits() >> 16 | rounded[1].to_bits() & 0xffff_0000
        })
    }
}

impl Words<2, 1> for u16 {
    #[inline(always)]
    fn words([first, second]: [Self; 2]) -> [u32; 1] {
        [u32::from(first) | u32::from(second) << 16]
    }
}

impl Words<4, 1> for u8 {
    #[inline(always)]
    fn words(terms: [Self; 4]) -> [u32; 1] {
        [u32::from_le_bytes(terms)]
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
unsafe fn panel<E: Words<W, P>, const W: usize, const P: usize>(
    turn: Turn<f32>,
    is_right: bool,
    from: Matrix<*const u8>,
    lines: usize,
    depth: usize,
    mut to: *mut u32,
) {
    let from = Matrix { first: from.first.cast::<E>(), steps: from.steps.map(|it| it / size_of::<E>() as isize) };
    for start in (0..depth).step_by(W * WORDS) {
        for half in 0..2 {
            let sizes = [lines.saturating_sub(half * ROWS).min(ROWS), (depth - start).min(W * WORDS)];
            // SAFETY: the lines and terms are some of the caller's.
            unsafe { register(turn, is_right, from.skip(half * ROWS, start), sizes, to.add(half * REGISTER)) };
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
unsafe fn register<E: Words<W, P>, const W: usize, const P: usize>(
    turn: Turn<f32>,
    is_right: bool,
    from: Matrix<*const E>,
    [lines, depth]: [usize; 2],
    to: *mut u32,
) {
    let mut padded = MaybeUninit::<[E; ROWS * 4 * WORDS]>::uninit();
    let padded = padded.as_mut_ptr().cast::<E>();
    let is_whole = lines == ROWS && depth == W * WORDS;
    let from = match is_whole && (from.steps[0] == 1 || from.steps[1] == 1) {
        true => from,
        false => {
            // SAFETY: there is room for 16 lines of a group, and zeros of every type are zero bytes.
            unsafe {
                padded.write_bytes(0, ROWS * W * WORDS);
                for line in 0..lines {
                    for term in 0..depth {
                        *padded.add(line * W * WORDS + term) = *from.skip(line, term).first;
                    }
                }
            }
            Matrix::dense(padded.cast_const(), W * WORDS)
        }
    };
    // Words are computed in the order of memory.
    let by_terms = from.steps[1] != 1;
    let mut other = MaybeUninit::<[u32; PLANES * PLANE]>::uninit();
    let in_order = by_terms == is_right;
    let words = if in_order { to } else { other.as_mut_ptr().cast() };
    let (first, [across, along]) = (from.first, from.steps);
    // SAFETY: there are 16 lines and `W * WORDS` terms, and room for the words.
    unsafe {
        match by_terms {
            true => {
                square::<E, W, P>(|row, column, it| *first.offset((row * W + it) as isize * along).add(column), words)
            }
            false => {
                square::<E, W, P>(|row, column, it| *first.offset(row as isize * across).add(column * W + it), words)
            }
        }
        if !in_order {
            for (plane, half) in (0..P).flat_map(|plane| [0, LINES].map(|half| (plane * PLANE, half))) {
                turn(WORDS, words.add(plane + half * WORDS).cast(), WORDS as isize, to.add(plane + half).cast(), ROWS);
            }
        }
    }
}

/// Computes the words of 16 rows and columns, for each plane, from terms by row, column and number in the word.
///
/// # Safety
/// There is room for the words.
#[inline(always)]
unsafe fn square<E: Words<W, P>, const W: usize, const P: usize>(
    term: impl Fn(usize, usize, usize) -> E,
    to: *mut u32,
) {
    for row in 0..ROWS {
        for column in 0..WORDS {
            let words = E::words(from_fn(|it| term(row, column, it)));
            for (plane, word) in words.into_iter().enumerate() {
                // SAFETY: by the caller's contract.
                unsafe { *to.add(plane * PLANE + row * WORDS + column) = word };
            }
        }
    }
}

/// [`Run`] for every CPU, with AVX2, and with AVX-512.
fn runs<E: Words<W, P>, const W: usize, const P: usize>() -> [Run; 3] {
    #[cfg(target_arch = "x86_64")]
    return [panel::<E, W, P>, avx2::<E, W, P>, avx512::<E, W, P>];
    #[cfg(not(target_arch = "x86_64"))]
    [panel::<E, W, P>; 3]
}

#[cfg(target_arch = "x86_64")]
macro_rules! vector_runs {
    ($($name:ident, $features:literal;)*) => {$(
        #[target_feature(enable = $features)]
        unsafe fn $name<E: Words<W, P>, const W: usize, const P: usize>(
            turn: Turn<f32>,
            is_right: bool,
            from: Matrix<*const u8>,
            lines: usize,
            depth: usize,
            to: *mut u32,
        ) {
            // SAFETY: the caller's contract is the same.
            unsafe { panel::<E, W, P>(turn, is_right, from, lines, depth, to) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
vector_runs! {
    avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2";
    avx2, "avx2";
}
