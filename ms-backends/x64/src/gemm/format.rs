//! Reads operands into accumulators' type and rounds sums to the result's type, for every element type.

use super::Matrix;
use super::pack::{self, Transpose};
use super::tile::Accumulator;
use crate::isa::Isa;
use half::{bf16, f16};
use ms_ir::data::{DType, Element};
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// How elements of one type are read as operands and written as results, for accumulators of type `W`. Strides are in
/// bytes.
#[derive(Clone, Copy)]
pub struct Format<W> {
    /// The element type.
    pub dtype: DType,
    /// The size of an element in bytes.
    pub size: usize,
    /// Whether the element type is `W`.
    pub is_accumulator: bool,
    /// Packs elements as [`pack()`](pack::pack) does.
    pub pack: unsafe fn(Transpose<W>, Matrix<*const u8>, usize, usize, *mut W),
    /// Rounds and writes sums.
    pub write: Write<W>,
}

impl<W: Accumulator> Format<W> {
    /// Returns the format of an element type.
    pub fn new<E: OperandElement<Accumulator = W>>(isa: Isa) -> Self {
        let write = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::<E>,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::<E>,
            _ => write::<E>,
        };
        Self { dtype: E::DTYPE, size: size_of::<E>(), is_accumulator: E::IS_ACCUMULATOR, pack: pack_bytes::<E>, write }
    }
}

/// Calls [`pack::pack`] for a matrix with strides in bytes.
///
/// # Safety
/// The elements are aligned and valid for reads, `to` has room for `lines * depth`, and the CPU has the instruction set
/// of `transpose`.
unsafe fn pack_bytes<E: OperandElement>(
    transpose: Transpose<E::Accumulator>,
    from: Matrix<*const u8>,
    lines: usize,
    depth: usize,
    to: *mut E::Accumulator,
) {
    let from = Matrix { first: from.first.cast::<E>(), steps: from.steps.map(|it| it / size_of::<E>() as isize) };
    // SAFETY: the elements are readable and aligned, and `to` has room for them, by this function's contract.
    unsafe { pack::pack(transpose, from, lines, depth, to) };
}

/// Rounds and writes rows and columns of sums. The `usize` beside `sums` is their row stride in elements.
///
/// # Safety
/// The sums are initialised, the matrix has room for the elements, and the CPU has the instruction set.
type Write<W> = unsafe fn(sizes: [usize; 2], sums: (*const W, usize), to: Matrix<*mut u8>);

/// [`Write`] for every CPU; inlined, it is compiled with its caller's target features.
#[inline(always)]
unsafe fn write<E: OperandElement>(
    [rows, columns]: [usize; 2],
    (sums, width): (*const E::Accumulator, usize),
    to: Matrix<*mut u8>,
) {
    for row in 0..rows {
        // SAFETY: `row < rows`; sums are initialised and the matrix has `columns` elements in this row. `MaybeUninit`
        // permits uninitialised memory.
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
        unsafe fn $name<E: OperandElement>(sizes: [usize; 2], sums: (*const E::Accumulator, usize), to: Matrix<*mut u8>) {
            // SAFETY: the sums are initialised and the matrix has room for them, by the contract of `Write`.
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
pub trait OperandElement: Element {
    /// The accumulators' type, which represents every element exactly.
    type Accumulator: Accumulator;

    /// Whether the element type is the accumulators' type.
    const IS_ACCUMULATOR: bool;

    /// Converts the element to the accumulators' type.
    fn widen(self) -> Self::Accumulator;

    /// Rounds a sum to the element type.
    fn narrow(sum: Self::Accumulator) -> Self;
}

impl OperandElement for f16 {
    type Accumulator = f32;
    const IS_ACCUMULATOR: bool = false;

    #[inline]
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[inline]
    fn narrow(sum: f32) -> Self {
        Self::from_f32(sum)
    }
}

impl OperandElement for bf16 {
    type Accumulator = f32;
    const IS_ACCUMULATOR: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    /// Rounds as `from_f32` does, but without branches, so that loops over rows are vectorised.
    #[inline(always)]
    fn narrow(sum: f32) -> Self {
        let bits = sum.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        let quiet = bits | 1 << 22;
        Self::from_bits(((if sum.is_nan() { quiet } else { rounded }) >> 16) as u16)
    }
}
