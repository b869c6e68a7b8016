//! Contractions as products of matrices: floats by tiles in a fixed order of terms ([`ordered`]) or by the `gemm` crates
//! ([`gemm`](mod@gemm)), depending on the precision and the size; integers and bools by plain loops.

mod dot;
mod gemm;
mod matrices;
mod ordered;
mod pack;
mod packing;
#[cfg(test)]
mod tests;
mod tile;

use ordered::Stored;
pub use ordered::{CHUNK, Ordered};
pub use pack::pack;
pub use tile::Wide;

use crate::interp::number::Number;
use crate::isa::Isa;
use matrices::{Flattened, Matrices};
use ms_core::error::Result;
use ms_core::ir::{Contraction, ContractionTypes, Precision};
use ms_core::tensor::{DType, Element, Scalar, try_filled, try_room};
use ms_core::with_element;

/// Runs a contraction.
///
/// # Safety
/// The contraction [is sound](Contraction::is_sound). All elements that its sizes and strides address are in memory
/// that is live during the call; meanwhile, nobody else writes `a` and `b` or accesses `out`.
///
/// # Errors
/// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for copies of the operands.
pub unsafe fn run(isa: Isa, contraction: &Contraction, a: *const u8, b: *const u8, out: *mut u8) -> Result<()> {
    let (types, precision) = (contraction.types, contraction.precision);
    // SAFETY: the caller's contract is the same; copies have the elements of the operands.
    unsafe {
        match Matrices::of(contraction) {
            Some(matrices) => run_matrices(isa, types, precision, &matrices, [a, b], out),
            None => {
                let flat = Flattened::new(contraction, [a, b])?;
                let matrices = Matrices::of(&flat.contraction).expect("the axes of the sum are one");
                let operands = [flat.operand(0, a), flat.operand(1, b)];
                run_matrices(isa, types, precision, &matrices, operands, out)
            }
        }
    }
}

/// Runs products of matrices.
///
/// # Safety
/// As [`run`].
unsafe fn run_matrices(
    isa: Isa,
    types: ContractionTypes,
    precision: Precision,
    matrices: &Matrices,
    [a, b]: [*const u8; 2],
    out: *mut u8,
) -> Result<()> {
    // There are no units for fewer bits than f32 has: `High` and `Medium` are `Highest`.
    let in_order = !precision.is_relaxed() || is_small(matrices);
    // SAFETY: the caller's contract is the same.
    unsafe {
        match (types.accumulator, in_order) {
            (DType::F32, true) => chains::<f32>(isa, types, matrices, [a, b], out),
            (DType::F64, true) => chains::<f64>(isa, types, matrices, [a, b], out),
            (DType::F32, false) if types == ContractionTypes::of(DType::F32) => {
                gemm::floats::<f32>(matrices, a, b, out)
            }
            (DType::F32, false) => gemm::widened(types, matrices, a, b, out),
            (DType::F64, false) => gemm::floats::<f64>(matrices, a, b, out),
            (DType::Bool, _) => integers::<u8>(types, matrices, [a, b], out),
            (DType::I64 | DType::U64, _) => integers::<u64>(types, matrices, [a, b], out),
            _ => integers::<u32>(types, matrices, [a, b], out),
        }
    }
}

/// Maximum number of multiply-adds of a small product.
const SMALL: usize = 3 << 14;

/// Returns whether a product of two matrices, neither of which is a vector, takes less time without the
/// preparations of the `gemm` crates: they allocate memory, and copy operands.
fn is_small(product: &Matrices) -> bool {
    let &Matrices { m, k, n, .. } = product;
    m.min(n) > 1 && m.saturating_mul(n).saturating_mul(k) <= SMALL
}

/// Products of floats whose terms are added in order.
///
/// # Safety
/// As [`run`], for accumulators of this type.
unsafe fn chains<W: Wide>(
    isa: Isa,
    types: ContractionTypes,
    product: &Matrices,
    operands: [*const u8; 2],
    out: *mut u8,
) -> Result<()> {
    let ordered = Ordered { isa, sizes: [product.m, product.k, product.n], accumulate: false };
    let format = |dtype| W::format(dtype).expect("the types of a contraction have its accumulators");
    let bytes = |steps: [isize; 2], size: usize| steps.map(|it| it * size as isize);
    let operand = |first, dtype, steps| {
        let format = format(dtype);
        Stored { matrix: Matrix { first, steps: bytes(steps, format.size) }, format }
    };
    let (a, b) = (operand(operands[0], types.a, product.a), operand(operands[1], types.b, product.b));
    let format = format(types.out);
    let out = Stored { matrix: Matrix { first: out, steps: bytes(product.out, format.size) }, format };
    // SAFETY: as the caller's.
    unsafe { ordered.run_stored(product.count(), |it| product.offsets(it), (a, b, out)) }
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

/// Accumulators of integers, which wrap, or of bools, whose sum is the disjunction.
trait Whole: Number {
    /// An integer of any type as a term, from its value modulo 2^64.
    fn term(value: i64) -> Self;
    /// A sum modulo 2^64.
    fn bits(self) -> i64;
}

impl Whole for u8 {
    fn term(value: i64) -> Self {
        (value != 0).into()
    }

    fn bits(self) -> i64 {
        self.into()
    }
}

impl Whole for u32 {
    fn term(value: i64) -> Self {
        value as Self
    }

    fn bits(self) -> i64 {
        self.into()
    }
}

impl Whole for u64 {
    fn term(value: i64) -> Self {
        value as Self
    }

    fn bits(self) -> i64 {
        self as i64
    }
}

/// Products of integers or bools.
///
/// # Safety
/// As [`run`], for accumulators of this size.
unsafe fn integers<C: Whole>(
    types: ContractionTypes,
    product: &Matrices,
    operands: [*const u8; 2],
    out: *mut u8,
) -> Result<()> {
    /// Number of columns whose sums fit in the first-level cache.
    const COLUMNS: usize = 512;
    let &Matrices { m, k, n, .. } = product;
    let mut sums = try_filled(C::ZERO, m * n)?;
    for i in 0..product.count() {
        let at = product.offsets(i);
        // SAFETY: as the caller's.
        let (a, b) = unsafe {
            (
                gather_whole::<C>(types.a, operands[0], at[0], [m, k], product.a)?,
                gather_whole::<C>(types.b, operands[1], at[1], [k, n], product.b)?,
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
        with_element!(types.out, T => {
            let out = out.cast::<T>().wrapping_offset(at[2]);
            // SAFETY: as the caller's.
            unsafe { scatter(&sums, out, n, product.out, |it| T::from_scalar(Scalar::Int(it.bits()))) };
        });
    }
    Ok(())
}

/// A row-major copy of a strided matrix of integers, as terms.
///
/// # Safety
/// The elements are valid for reads.
unsafe fn gather_whole<C: Whole>(
    dtype: DType,
    first: *const u8,
    at: isize,
    sizes: [usize; 2],
    steps: [isize; 2],
) -> Result<Vec<C>> {
    with_element!(dtype, T => {
        let first = first.cast::<T>().wrapping_offset(at);
        // SAFETY: as the caller's.
        unsafe { gather(first, sizes, steps, |it: T| C::term(it.to_scalar().as_i64())) }
    })
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
