//! Runs contractions as batches of GEMMs.
//!
//! Floats are multiplied by vector micro-kernels in a fixed order of sums (`ordered`), integers and bools by plain
//! loops. Where the processor has a matrix engine, it multiplies floats in relaxed precisions and 8-bit
//! integers.

mod batched;
mod block;
mod dot;
mod element;
mod epilogue;
mod format;
mod matrices;
mod merge;
mod multiplier;
mod ordered;
mod pack;
mod panels;
#[cfg(test)]
mod tests;
mod tile;
// On other platforms only tests use it.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
mod engine;

pub use batched::BatchedGemm;
pub use block::Ordered;
use element::Stored;
pub use element::{Accumulator, PACK_WIDTH, Tile, Transpose};
pub use engine::{BLOCK, Filters, Layout, TILE};
#[cfg(any(test, feature = "emulation"))]
#[doc(hidden)]
pub use engine::{Engine, Implementation, testing};
pub use epilogue::Epilogue;
use epilogue::{OutputTile, OutputTiles};
pub use merge::EarlierSums;
pub use multiplier::{Arithmetic, Elements, Left, Multiplier, Products};
pub use pack::pack;
pub use panels::{CacheBytes, PackedKey, cache};

use crate::interp::Number;
use crate::isa::Isa;
use crate::threads;
use matrices::Matrices;
use ms_ir::ContractionTypes;
use ms_ir::StepOperand;
use ms_ir::data::{DType, Element, Scalar, try_filled, try_room};
use ms_ir::error::Result;
use ms_ir::with_element;

/// The destination of a contraction's result.
#[derive(Clone, Copy)]
pub enum Results<'a> {
    /// Memory with this first element.
    Memory(*mut u8),
    /// Epilogue kernels, which read output tiles; the result itself is not materialised.
    Epilogues(&'a [Epilogue<'a>]),
}

/// The destination of a batch of GEMMs: memory from `first` on, or the output tiles of epilogues.
#[derive(Clone, Copy)]
struct To<'a> {
    first: *mut u8,
    output_tiles: Option<OutputTiles<'a>>,
}

/// Row stride in bytes that causes L1 set conflicts (4K aliasing).
pub const ALIASED: usize = 4096;

/// Multiplies floats in the fixed order of sums, or with [vectorised sums](Ordered::vectorised_sums).
///
/// # Safety
/// The conditions of [`BatchedGemm::run`] hold, and `W` is the type of accumulators.
unsafe fn floats<W: Accumulator>(
    (isa, vectorised_sums): (Isa, bool),
    types: ContractionTypes,
    product: &Matrices,
    operands: [StepOperand<'_>; 2],
    to: To<'_>,
) -> Result<()> {
    let ordered =
        Ordered { isa, sizes: [product.m, product.k, product.n], earlier: EarlierSums::NONE, vectorised_sums };
    let format = |dtype| W::format(isa, dtype).expect("the types of a contraction have its accumulators");
    let bytes = |steps: [isize; 2], size: usize| steps.map(|it| it * size as isize);
    let operand = |of: StepOperand<'_>, dtype, steps| {
        let format = format(dtype);
        Stored { matrix: Matrix { first: of.address as *const u8, steps: bytes(steps, format.size) }, format }
    };
    let (a, b) = (operand(operands[0], types.a, product.a), operand(operands[1], types.b, product.b));
    let format = format(types.out);
    let out = Stored { matrix: Matrix { first: to.first, steps: bytes(product.out, format.size) }, format };
    // SAFETY: offsets and strides in bytes address the elements of `product`, which are live by this function's
    // contract.
    unsafe {
        let held = operands.map(|it| it.parameter_storage.map(|it| &**it));
        ordered.run_stored(product.count(), |it| product.offsets(it), (a, b, out), held, to.output_tiles.as_ref())
    }
}

/// A strided matrix: its first element, and strides between rows and columns.
#[derive(Clone, Copy)]
pub struct Matrix<P> {
    /// The first element.
    pub first: P,
    /// Strides between rows and between columns.
    pub steps: [isize; 2],
}

impl<P> Matrix<P> {
    /// Returns a contiguous row-major matrix.
    pub fn dense(first: P, columns: usize) -> Self {
        Self { first, steps: [columns as isize, 1] }
    }

    /// Returns the transposed matrix.
    pub fn transposed(self) -> Self {
        Self { first: self.first, steps: [self.steps[1], self.steps[0]] }
    }
}

impl<P: Pointer> Matrix<P> {
    /// Returns the matrix of the same strides that begins `elements` elements further.
    pub fn at(self, elements: isize) -> Self {
        Self { first: self.first.moved(elements), steps: self.steps }
    }

    /// Returns the matrix without its first rows and columns.
    pub fn skip(self, rows: usize, columns: usize) -> Self {
        self.at(rows as isize * self.steps[0] + columns as isize * self.steps[1])
    }

    /// Returns the matrix with strides in bytes.
    pub fn in_bytes(self) -> Matrix<P::Bytes> {
        Matrix { first: self.first.bytes(), steps: self.steps.map(|it| it * P::SIZE as isize) }
    }
}

/// A raw pointer to an element of an array.
pub trait Pointer: Copy {
    /// The pointer to bytes.
    type Bytes: Pointer;

    /// The size of an element in bytes.
    const SIZE: usize;

    /// Casts to bytes.
    fn bytes(self) -> Self::Bytes;

    /// Offsets the pointer by this number of elements.
    fn moved(self, elements: isize) -> Self;
}

impl<T> Pointer for *const T {
    type Bytes = *const u8;
    const SIZE: usize = size_of::<T>();

    fn bytes(self) -> *const u8 {
        self.cast()
    }

    fn moved(self, elements: isize) -> Self {
        self.wrapping_offset(elements)
    }
}

impl<T> Pointer for *mut T {
    type Bytes = *mut u8;
    const SIZE: usize = size_of::<T>();

    fn bytes(self) -> *mut u8 {
        self.cast()
    }

    fn moved(self, elements: isize) -> Self {
        self.wrapping_offset(elements)
    }
}

/// Raw pointers that may be sent to threads, as every access through them is `unsafe`.
pub trait Addresses: Copy {}

impl<T> Addresses for *const T {}
impl<T> Addresses for *mut T {}
impl<P: Addresses> Addresses for Matrix<P> {}
impl<P: Addresses> Addresses for Option<P> {}
impl<A: Addresses, B: Addresses> Addresses for (A, B) {}
impl<A: Addresses, B: Addresses, C: Addresses> Addresses for (A, B, C) {}

/// Raw pointers that the threads of a task share.
pub struct Shared<P>(P);

impl<P: Addresses> Shared<P> {
    /// Shares addresses with threads that write disjoint tiles.
    pub fn new(addresses: P) -> Self {
        Self(addresses)
    }

    /// Returns the addresses.
    pub fn get(&self) -> P {
        self.0
    }
}

// SAFETY: the wrapper only copies addresses. Every access through them is `unsafe` and must exclude data races itself.
unsafe impl<P: Addresses> Sync for Shared<P> {}

/// An accumulator of integers, which wraps, or of bools, which sums by disjunction.
trait IntegerAccumulator: Number + Sync {
    /// Converts an integer of any type from its value modulo 2^64.
    fn term(value: i64) -> Self;
    /// Returns a sum modulo 2^64.
    fn bits(self) -> i64;
}

impl IntegerAccumulator for u8 {
    fn term(value: i64) -> Self {
        (value != 0).into()
    }

    fn bits(self) -> i64 {
        self.into()
    }
}

impl IntegerAccumulator for u32 {
    fn term(value: i64) -> Self {
        value as Self
    }

    fn bits(self) -> i64 {
        self.into()
    }
}

impl IntegerAccumulator for u64 {
    fn term(value: i64) -> Self {
        value as Self
    }

    fn bits(self) -> i64 {
        self as i64
    }
}

/// Multiplies integers or bools.
///
/// # Safety
/// The conditions of [`BatchedGemm::run`] hold, and `C` has the size of accumulators.
unsafe fn integers<C: IntegerAccumulator>(
    types: ContractionTypes,
    product: &Matrices,
    operands: [*const u8; 2],
    to: To<'_>,
) -> Result<()> {
    /// Number of columns whose sums fit in L1.
    const COLUMNS: usize = 512;
    let &Matrices { m, k, n, .. } = product;
    let mut sums = try_filled(C::ZERO, m * n)?;
    if sums.is_empty() {
        return Ok(());
    }
    for i in 0..product.count() {
        let at = product.offsets(i);
        // SAFETY: offsets and strides of `product` address elements that are valid for reads by this function's
        // contract.
        let (a, b) = unsafe {
            (
                gather_integers::<C>(types.a, operands[0], at[0], [m, k], product.a)?,
                gather_integers::<C>(types.b, operands[1], at[1], [k, n], product.b)?,
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
            // SAFETY: `scatter` writes all `m` by `n` elements of product `i`, which nothing else accesses by this
            // function's contract.
            unsafe {
                put(&sums, i, product, to, |sums, out: Matrix<*mut T>| {
                    scatter(sums, out.first, n, out.steps, |it| T::from_scalar(Scalar::Int(it.bits())))
                })?
            };
        });
    }
    Ok(())
}

/// Copies a strided matrix of integers to row-major accumulators.
///
/// # Safety
/// The elements are valid for reads.
unsafe fn gather_integers<C: IntegerAccumulator>(
    dtype: DType,
    first: *const u8,
    at: isize,
    sizes: [usize; 2],
    steps: [isize; 2],
) -> Result<Vec<C>> {
    with_element!(dtype, T => {
        let first = first.cast::<T>().wrapping_offset(at);
        // SAFETY: the `sizes` elements from `first` on are valid for reads by this function's contract.
        unsafe { gather(first, sizes, steps, |it: T| C::term(it.to_scalar().as_i64())) }
    })
}

/// Copies a strided matrix to row-major order.
unsafe fn gather<M: Copy, C>(
    first: *const M,
    [rows, columns]: [usize; 2],
    steps: [isize; 2],
    widen: impl Fn(M) -> C,
) -> Result<Vec<C>> {
    let mut out = try_room(rows * columns)?;
    for row in 0..rows as isize {
        let first = first.wrapping_offset(row * steps[0]);
        // SAFETY: `row < rows` and `it < columns`, and all elements are valid for reads by this function's contract.
        out.extend((0..columns as isize).map(|it| widen(unsafe { *first.wrapping_offset(it * steps[1]) })));
    }
    Ok(out)
}

/// Writes product `i` from its row-major values: to memory, or to output tiles that epilogues read. `write` writes rows
/// of values to a matrix.
///
/// # Safety
/// The conditions of [`BatchedGemm::run`] hold, and `write` writes all elements.
unsafe fn put<C: Sync, T>(
    values: &[C],
    i: usize,
    product: &Matrices,
    to: To<'_>,
    write: impl Fn(&[C], Matrix<*mut T>) + Sync,
) -> Result<()> {
    /// Number of values of an output tile, and estimated nanoseconds for each value.
    const TILE_VALUES: usize = 16 << 10;
    const NANOS: usize = 1;
    let &Matrices { m, n, .. } = product;
    let Some(output_tiles) = to.output_tiles else {
        let first = to.first.cast::<T>().wrapping_offset(product.offsets(i)[2]);
        write(values, Matrix { first, steps: product.out });
        return Ok(());
    };
    let rows_of_tile = (TILE_VALUES / n).clamp(1, m);
    threads::try_for_each(m.div_ceil(rows_of_tile), NANOS * values.len(), |tile| {
        let rows = tile * rows_of_tile..m.min((tile + 1) * rows_of_tile);
        let values = &values[rows.start * n..rows.end * n];
        let tile = OutputTile { product: i, rows, columns: 0..n };
        let write = |to: Matrix<*mut u8>| {
            write(values, Matrix { first: to.first.cast(), steps: to.steps });
            Ok(())
        };
        // SAFETY: `write` writes all elements, and tiles of whole rows satisfy every epilogue.
        unsafe { output_tiles.run(&tile, write) }
    })
}

/// Writes a row-major matrix of `columns` columns to a strided one.
unsafe fn scatter<M, C: Copy>(values: &[C], first: *mut M, columns: usize, steps: [isize; 2], narrow: impl Fn(C) -> M) {
    if columns == 0 {
        return;
    }
    for (row, values) in values.chunks(columns).enumerate() {
        let first = first.wrapping_offset(row as isize * steps[0]);
        for (column, &value) in values.iter().enumerate() {
            // SAFETY: the element is in row `row` and column `column` of the result, which is writable by this
            // function's contract.
            unsafe { *first.wrapping_offset(column as isize * steps[1]) = narrow(value) };
        }
    }
}
