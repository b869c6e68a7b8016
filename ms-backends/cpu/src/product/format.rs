//! Element types of operands and results: how they are read as terms and written, for accumulators of another type or
//! the same.

use super::Matrix;
use super::pack::{self, Turn};
use super::tile::Wide;
use crate::isa::Isa;
use half::{bf16, f16};
use ms_core::tensor::{DType, Element};
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// How elements of one type are read as terms and written as results, for accumulators of type `W`. Steps of
/// matrices are in bytes.
#[derive(Clone, Copy)]
pub struct Format<W> {
    /// The type.
    pub dtype: DType,
    /// The size of an element in bytes.
    pub size: usize,
    /// Whether it is the accumulators' type.
    pub is_wide: bool,
    /// [`pack()`](pack::pack).
    pub pack: unsafe fn(Turn<W>, Matrix<*const u8>, usize, usize, *mut W),
    /// Writes sums, rounded.
    pub write: Write<W>,
}

impl<W: Wide> Format<W> {
    /// That of a type.
    pub fn of<E: Operand<Wide = W>>(isa: Isa) -> Self {
        let write = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::<E>,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::<E>,
            _ => write::<E>,
        };
        Self { dtype: E::DTYPE, size: size_of::<E>(), is_wide: E::IS_WIDE, pack: pack_bytes::<E>, write }
    }
}

/// # Safety
/// As [`pack::pack`]; elements are aligned.
unsafe fn pack_bytes<E: Operand>(
    turn: Turn<E::Wide>,
    from: Matrix<*const u8>,
    lines: usize,
    depth: usize,
    to: *mut E::Wide,
) {
    let from = Matrix { first: from.first.cast::<E>(), steps: from.steps.map(|it| it / size_of::<E>() as isize) };
    // SAFETY: the caller's contract is the same.
    unsafe { pack::pack(turn, from, lines, depth, to) };
}

/// Writes so many rows and columns of sums, rounded; the rows of sums are that many elements apart.
///
/// # Safety
/// The sums are initialised, the matrix has room for the elements, and the CPU has the instruction set.
type Write<W> = unsafe fn(sizes: [usize; 2], sums: (*const W, usize), to: Matrix<*mut u8>);

/// [`Write`] for every CPU, and with the features of functions that it is inlined into.
#[inline(always)]
unsafe fn write<E: Operand>([rows, columns]: [usize; 2], (sums, width): (*const E::Wide, usize), to: Matrix<*mut u8>) {
    for row in 0..rows {
        // SAFETY: by the caller's contract; elements that are not initialised are written only.
        unsafe {
            let (sums, to) = (from_raw_parts(sums.add(row * width), columns), to.skip(row, 0));
            if to.steps[1] == size_of::<E>() as isize {
                let to = from_raw_parts_mut(to.first.cast::<MaybeUninit<E>>(), columns);
                to.iter_mut().zip(sums).for_each(|(to, &sum)| _ = to.write(E::narrow(sum)));
                continue;
            }
            for (column, &sum) in sums.iter().enumerate() {
                to.skip(0, column).first.cast::<E>().write(E::narrow(sum));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! vector_writes {
    ($($name:ident, $features:literal;)*) => {$(
        #[target_feature(enable = $features)]
        unsafe fn $name<E: Operand>(sizes: [usize; 2], sums: (*const E::Wide, usize), to: Matrix<*mut u8>) {
            // SAFETY: the caller's contract is the same.
            unsafe { write::<E>(sizes, sums, to) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
vector_writes! {
    avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2";
    avx2, "avx2";
}

/// An element type of operands and results.
pub trait Operand: Element {
    /// The type of accumulators, which represents every element exactly.
    type Wide: Wide;

    /// Whether it is that type itself.
    const IS_WIDE: bool;

    /// The element as a term.
    fn widen(self) -> Self::Wide;

    /// A sum, rounded.
    fn narrow(sum: Self::Wide) -> Self;
}

impl Operand for f16 {
    type Wide = f32;
    const IS_WIDE: bool = false;

    fn widen(self) -> f32 {
        self.to_f32()
    }

    fn narrow(sum: f32) -> Self {
        Self::from_f32(sum)
    }
}

impl Operand for bf16 {
    type Wide = f32;
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    /// As `from_f32`, without branches, so that loops over rows become vector instructions.
    #[inline(always)]
    fn narrow(sum: f32) -> Self {
        let bits = sum.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        let quiet = bits | 1 << 22;
        Self::from_bits(((if sum.is_nan() { quiet } else { rounded }) >> 16) as u16)
    }
}
