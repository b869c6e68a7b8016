//! Products of matrices: floats by tiles in a fixed order of terms ([`ordered`]) or by the `gemm` crates
//! ([`gemm`](mod@gemm)), depending on the precision and the size; integers and bools by plain loops.

mod dot;
mod gemm;
mod ordered;
mod pack;
mod packing;
#[cfg(test)]
mod tests;
mod tile;

pub use ordered::{CHUNK, Ordered};
pub use pack::pack;
pub use tile::Wide;

use crate::interp::number::Number;
use crate::isa::Isa;
use half::{bf16, f16};
use ms_core::error::Result;
use ms_core::exec::MatrixProduct;
use ms_core::ir::Precision;
use ms_core::tensor::{DType, try_filled, try_room};
use tile::Operand;

/// Runs a product.
///
/// # Safety
/// All elements that the product's sizes and strides address are in memory that is live during the
/// call; meanwhile, nobody else writes `a` and `b` or accesses `out`.
///
/// # Errors
/// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for copies of the operands.
pub unsafe fn run(isa: Isa, product: &MatrixProduct, a: *const u8, b: *const u8, out: *mut u8) -> Result<()> {
    use Precision::{Highest, Strict};
    let precision = if is_small(product) { Strict } else { product.precision };
    // SAFETY: the caller's contract is the same, and the types are those of the dtype.
    unsafe {
        match (product.dtype, precision) {
            (DType::F32, Strict) => in_order::<f32>(isa, product, a, b, out),
            (DType::F64, Strict) => in_order::<f64>(isa, product, a, b, out),
            (DType::F16, Strict) => in_order::<f16>(isa, product, a, b, out),
            (DType::BF16, Strict) => in_order::<bf16>(isa, product, a, b, out),
            (DType::F32, Highest) => gemm::floats::<f32>(product, a, b, out),
            (DType::F64, Highest) => gemm::floats::<f64>(product, a, b, out),
            (DType::F16, Highest) => gemm::halves(product, a, b, out, f16::to_f32, f16::from_f32),
            (DType::BF16, Highest) => gemm::halves(product, a, b, out, bf16::to_f32, bf16::from_f32),
            _ => whole_numbers(product, a, b, out),
        }
    }
}

/// Maximum number of multiply-adds of a small product.
const SMALL: usize = 3 << 14;

/// Returns whether a product of two matrices, neither of which is a vector, takes less time without the
/// preparations of the `gemm` crates: they allocate memory, and copy operands.
fn is_small(product: &MatrixProduct) -> bool {
    let &MatrixProduct { m, k, n, .. } = product;
    m.min(n) > 1 && m.saturating_mul(n).saturating_mul(k) <= SMALL
}

/// A product of floats whose terms are added in order.
///
/// # Safety
/// As [`run`], for operands of this type.
unsafe fn in_order<E: Operand>(
    isa: Isa,
    product: &MatrixProduct,
    a: *const u8,
    b: *const u8,
    out: *mut u8,
) -> Result<()> {
    let ordered = Ordered { isa, sizes: [product.m, product.k, product.n], accumulate: false };
    let a = Matrix { first: a.cast::<E>(), steps: product.a };
    let b = Matrix { first: b.cast::<E>(), steps: product.b };
    let out = Matrix { first: out.cast::<E>(), steps: product.out };
    // SAFETY: as the caller's.
    unsafe { ordered.run(product.batch_len(), |it| product.batch_offsets(it), a, b, out) }
}

/// A product of integers or bools.
///
/// # Safety
/// As [`run`].
unsafe fn whole_numbers(product: &MatrixProduct, a: *const u8, b: *const u8, out: *mut u8) -> Result<()> {
    // SAFETY: the caller's contract is the same, and the types are those of the dtype.
    unsafe {
        match product.dtype {
            DType::Bool => integers(product, a, b, out, |it: u8| (it != 0) as u8, |it| it),
            DType::I8 => integers(product, a, b, out, |it: i8| it as i32, |it| it as i8),
            DType::I16 => integers(product, a, b, out, |it: i16| it as i32, |it| it as i16),
            DType::U8 => integers(product, a, b, out, |it: u8| it as u32, |it| it as u8),
            DType::U16 => integers(product, a, b, out, |it: u16| it as u32, |it| it as u16),
            DType::I32 | DType::U32 => integers(product, a, b, out, |it: u32| it, |it| it),
            DType::I64 | DType::U64 => integers(product, a, b, out, |it: u64| it, |it| it),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => unreachable!("`run` takes floats elsewhere"),
        }
    }
}

/// A matrix: its first element, and strides between rows and columns.
#[derive(Clone, Copy)]
pub struct Matrix<P> {
    /// The first element.
    pub first: P,
    /// Strides between rows and between columns.
    pub steps: [isize; 2],
}

impl<P> Matrix<P> {
    /// A row-major matrix without gaps.
    pub fn dense(first: P, columns: usize) -> Self {
        Self { first, steps: [columns as isize, 1] }
    }

    /// The transposed matrix.
    pub fn transposed(self) -> Self {
        Self { first: self.first, steps: [self.steps[1], self.steps[0]] }
    }
}

impl<P: Pointer> Matrix<P> {
    /// The matrix with the same steps whose first element is this many elements further.
    pub fn at(self, elements: isize) -> Self {
        Self { first: self.first.moved(elements), steps: self.steps }
    }

    /// The matrix without its first rows and columns.
    pub fn skip(self, rows: usize, columns: usize) -> Self {
        self.at(rows as isize * self.steps[0] + columns as isize * self.steps[1])
    }
}

/// A raw pointer to an element of an array.
pub trait Pointer: Copy {
    /// The pointer offset by this many elements.
    fn moved(self, elements: isize) -> Self;
}

impl<T> Pointer for *const T {
    fn moved(self, elements: isize) -> Self {
        self.wrapping_offset(elements)
    }
}

impl<T> Pointer for *mut T {
    fn moved(self, elements: isize) -> Self {
        self.wrapping_offset(elements)
    }
}

/// Raw pointers, which may be sent to threads, as every use of one is `unsafe`.
pub trait Addresses: Copy {}

impl<T> Addresses for *const T {}
impl<T> Addresses for *mut T {}
impl<P: Addresses> Addresses for Matrix<P> {}
impl<A: Addresses, B: Addresses, C: Addresses> Addresses for (A, B, C) {}

/// Addresses that the threads of a task share.
pub struct Shared<P>(P);

impl<P: Addresses> Shared<P> {
    /// Addresses for a task whose threads write disjoint parts.
    pub fn new(addresses: P) -> Self {
        Self(addresses)
    }

    /// The addresses.
    pub fn get(&self) -> P {
        self.0
    }
}

// SAFETY: every access through the pointers is `unsafe`, and must not race.
unsafe impl<P: Addresses> Sync for Shared<P> {}

/// Products of integers, which wrap, and of bools, whose sum is the disjunction.
unsafe fn integers<M: Copy, C: Number>(
    product: &MatrixProduct,
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    widen: impl Fn(M) -> C + Copy,
    narrow: impl Fn(C) -> M + Copy,
) -> Result<()> {
    /// Number of columns whose sums fit in the first-level cache.
    const COLUMNS: usize = 512;
    let &MatrixProduct { m, k, n, .. } = product;
    let mut sums = try_filled(C::ZERO, m * n)?;
    for i in 0..product.batch_len() {
        let at = product.batch_offsets(i);
        // SAFETY: as the caller's.
        let (a, b) = unsafe {
            (
                gather(a.cast::<M>().wrapping_offset(at[0]), [m, k], product.a, widen)?,
                gather(b.cast::<M>().wrapping_offset(at[1]), [k, n], product.b, widen)?,
            )
        };
        sums.fill(C::ZERO);
        for row in 0..m {
            let sums = &mut sums[row * n..(row + 1) * n];
            for (block, sums) in sums.chunks_mut(COLUMNS).enumerate() {
                for step in 0..k {
                    let factor = a[row * k + step];
                    let b = &b[step * n + block * COLUMNS..][..sums.len()];
                    for (sum, &b) in sums.iter_mut().zip(b) {
                        *sum = sum.add(factor.mul(b));
                    }
                }
            }
        }
        // SAFETY: as the caller's.
        unsafe { scatter(&sums, out.cast::<M>().wrapping_offset(at[2]), n, product.out, narrow) };
    }
    Ok(())
}

/// A row-major copy of a strided matrix.
unsafe fn gather<M: Copy, C>(
    first: *const M,
    [rows, columns]: [usize; 2],
    steps: [isize; 2],
    widen: impl Fn(M) -> C,
) -> Result<Vec<C>> {
    let mut out = try_room(rows * columns)?;
    for row in 0..rows as isize {
        let first = first.wrapping_offset(row * steps[0]);
        // SAFETY: as the caller's.
        out.extend((0..columns as isize).map(|it| widen(unsafe { *first.wrapping_offset(it * steps[1]) })));
    }
    Ok(out)
}

/// Writes a row-major matrix of `columns` columns to a strided one.
unsafe fn scatter<M, C: Copy>(values: &[C], first: *mut M, columns: usize, steps: [isize; 2], narrow: impl Fn(C) -> M) {
    if columns == 0 {
        return;
    }
    for (row, values) in values.chunks(columns).enumerate() {
        let first = first.wrapping_offset(row as isize * steps[0]);
        for (column, &value) in values.iter().enumerate() {
            // SAFETY: as the caller's.
            unsafe { *first.wrapping_offset(column as isize * steps[1]) = narrow(value) };
        }
    }
}
