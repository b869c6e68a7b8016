//! Reads operands into accumulators' type and rounds sums to the result's type, for every element type.

use super::Matrix;
use super::element::{Accumulator, Format, OperandElement, Transpose};
use super::pack;
use crate::isa::{Isa, Vectors};
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

impl<W: Accumulator> Format<W> {
    /// Returns the format of an element type.
    pub fn new<E: OperandElement<Accumulator = W>>(isa: Isa) -> Self {
        let write = match isa.vectors() {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => avx512::<E>,
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => avx2::<E>,
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
