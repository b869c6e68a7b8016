//! Element types of operands, results and accumulators, with the functions that an instruction set has for them.

use super::{Addresses, Matrix, Pointer};
use crate::isa::Isa;
use half::{bf16, f16};
use ms_ir::data::{DType, Element};

/// Number of rows or columns that are read at once, few enough that their cache lines stay in the cache.
pub const PACK_WIDTH: usize = 8;

/// Maximum number of elements of a tile.
pub const TILE: usize = 14 * 32;

/// Transposes [`PACK_WIDTH`] contiguous rows or columns, which are `across` elements apart: `to[step * width + line]`
/// becomes element `step` of `line`.
///
/// # Safety
/// Each line has `depth` elements, `to` has room for all of them, and the CPU has the instruction set.
pub type Transpose<W> = unsafe fn(depth: usize, from: *const W, across: isize, to: *mut W, width: usize);

/// Computes [`PACK_WIDTH`] accumulation chains: for each `line`, the sum of `a[p * PACK_WIDTH + line] * b[p *
/// PACK_WIDTH + line]` over all `p` below [`CHUNK`](ms_ir::CHUNK) in order, from +0. Each step is rounded once.
///
/// # Safety
/// The operands have `PACK_WIDTH * CHUNK` elements, and the CPU has the instruction set.
pub type Chains<W> = unsafe fn(a: *const W, b: *const W) -> [W; PACK_WIDTH];

/// The micro-kernels of an instruction set for an element type.
#[derive(Clone, Copy)]
pub struct Tile<W> {
    /// Maximum number of rows of a tile.
    pub rows: usize,
    /// Number of columns of a tile.
    pub columns: usize,
    /// The micro-kernel of a tile.
    pub run: Run<W>,
    /// The micro-kernel of one row and several tiles of columns.
    pub row: Row<W>,
    /// The dot product of contiguous vectors, with vectorised sums.
    pub vector_dot: VectorDot<W>,
    /// The transposition that packing uses.
    pub transpose: Transpose<W>,
    /// The dot product of long vectors.
    pub chains: Chains<W>,
}

/// Sets `to[i][j]` to the accumulation chain of `a[i][p] * b[p][j]` over all `p` below `depth` in order. Each step is
/// rounded once. The chain starts at +0, or at the value of `to[i][j]` if it `resumes`.
///
/// `a` has the given strides between rows and between steps, which may be the strides of [packed
/// rows](super::tile::packed). `b` and `to` are matrices of [`Tile::columns`] columns with the given row strides.
///
/// # Safety
/// The operands and `to` have these elements, there are 1 to [`Tile::rows`] rows, and the CPU has the instruction set.
/// If it resumes, `to` is initialised.
pub type Run<W> =
    unsafe fn(sizes: [usize; 2], resumes: bool, a: Matrix<*const W>, b: (*const W, isize), to: (*mut W, isize));

/// Number of tiles of columns that one row is multiplied by at once: enough chains to hide the latency of an FMA.
pub const ROW_TILES: usize = 4;

/// [`Run`] of one row and [`ROW_TILES`] tiles of columns, from +0.
///
/// `a` has the given stride between steps, and `b` the strides between steps and between tiles. The tiles of `to` are
/// contiguous.
///
/// # Safety
/// `a` has `depth` elements, `b` has [`ROW_TILES`] tiles of `depth` rows, `to` has room for the tiles, and the CPU has
/// the instruction set.
pub type Row<W> = unsafe fn(depth: usize, a: (*const W, isize), b: (*const W, [isize; 2]), to: *mut W);

/// Returns the sum of `a[p] * b[p]` over all `p` below `depth`. Vector lanes accumulate in parallel, so the order of
/// sums depends on the instruction set.
///
/// # Safety
/// The operands have `depth` elements, and the CPU has the instruction set.
pub type VectorDot<W> = unsafe fn(depth: usize, a: *const W, b: *const W) -> W;

impl<W> Tile<W> {
    /// Returns the height of tiles of about equal heights for this number of rows.
    pub fn height(&self, rows: usize) -> usize {
        rows.div_ceil(rows.div_ceil(self.rows).max(1)).max(1)
    }
}

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
    /// Packs elements as [`pack()`](super::pack::pack) does.
    pub pack: unsafe fn(Transpose<W>, Matrix<*const u8>, usize, usize, *mut W),
    /// Rounds and writes sums.
    pub write: Write<W>,
}

/// Rounds and writes rows and columns of sums. The `usize` beside `sums` is their row stride in elements.
///
/// # Safety
/// The sums are initialised, the matrix has room for the elements, and the CPU has the instruction set.
pub type Write<W> = unsafe fn(sizes: [usize; 2], sums: (*const W, usize), to: Matrix<*mut u8>);

/// An element type of accumulators.
pub trait Accumulator: OperandElement<Accumulator = Self> + Default + std::ops::Add<Output = Self> {
    /// Returns the micro-kernels of an instruction set.
    fn tile(isa: Isa) -> Tile<Self>;

    /// Returns how elements of a dtype are accessed with an instruction set; `None` if the dtype has accumulators of
    /// another type.
    fn format(isa: Isa, dtype: DType) -> Option<Format<Self>>;

    /// Returns `self * b + c`, rounded once.
    fn fused(self, b: Self, c: Self) -> Self;
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

/// A matrix in memory, with strides in bytes.
#[derive(Clone, Copy)]
pub struct Stored<P, W> {
    /// The first element, and strides between rows and between columns.
    pub matrix: Matrix<P>,
    /// How its elements are accessed.
    pub format: Format<W>,
}

impl<P: Pointer, W> Stored<P, W> {
    /// Returns the matrix without its first rows and columns.
    pub fn skip(self, rows: usize, columns: usize) -> Self {
        Self { matrix: self.matrix.skip(rows, columns), ..self }
    }

    /// Returns the matrix that begins `elements` elements further.
    pub fn at(self, elements: isize) -> Self {
        Self { matrix: self.matrix.at(elements * self.format.size as isize), ..self }
    }

    /// Returns the transposed matrix.
    pub fn transposed(self) -> Self {
        Self { matrix: self.matrix.transposed(), ..self }
    }
}

impl<W: Accumulator> Stored<*const u8, W> {
    /// Returns the matrix as one of accumulators; its elements must have their type.
    pub fn as_accumulators(self) -> Matrix<*const W> {
        debug_assert!(self.format.is_accumulator);
        let Matrix { first, steps } = self.matrix;
        Matrix { first: first.cast(), steps: steps.map(|it| it / size_of::<W>() as isize) }
    }
}

impl<W: Accumulator> Stored<*mut u8, W> {
    /// Returns the matrix as one of accumulators; its elements must have their type.
    pub fn as_accumulators(self) -> Matrix<*mut W> {
        debug_assert!(self.format.is_accumulator);
        let Matrix { first, steps } = self.matrix;
        Matrix { first: first.cast(), steps: steps.map(|it| it / size_of::<W>() as isize) }
    }
}

impl<P: Addresses, W: Copy> Addresses for Stored<P, W> {}
