//! Products whose terms are added in a fixed order for all sizes, strides, threads and instruction sets:
//! the sum over k is cut into chunks of 1,024 terms, each chunk is one chain of fused
//! multiply-adds from +0 in the order of k, and the sums of the chunks are added in order.
//!
//! Elements of the result are independent, so that blocks, tiles and threads may be cut in any way
//! except along k. f16 and bf16 are widened to f32, and the sum is rounded once.

use super::block::{STRIP_TILES, is_read_in_place};
use super::format::{Format, Operand};
use super::panels::{Cut, Elements, Panels};
use super::tile::{ROW_TILES, Tile, Wide};
use super::{Addresses, Matrix, Part, Parts, Pointer, Shared};
use crate::isa::Isa;
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::Storage;

/// Number of terms of a chunk.
pub const CHUNK: usize = 1024;

/// Maximum number of columns of a block, which are packed at once.
const BLOCK_COLUMNS: usize = 512;

/// Maximum number of tiles of rows of a block.
const BLOCK_TILES: usize = 64;

/// Number of blocks per thread, so that no thread waits long for another.
const BLOCKS_PER_THREAD: usize = 3;

/// Maximum size in bytes of a right operand that is packed as a whole. Blocks of a larger one pack their columns.
const WHOLE: usize = 64 << 20;

/// Maximum number of multiply-adds of a product that is one block of the calling thread: to find blocks and threads for
/// it would take a notable part of its time.
const ONE_BLOCK: usize = 1 << 15;

/// A product of matrices whose terms are added in order.
#[derive(Clone, Copy)]
pub struct Ordered {
    /// The instruction set.
    pub isa: Isa,
    /// `[m, k, n]`
    pub sizes: [usize; 3],
    /// Whether the result has sums of earlier chunks, to which those of this product are added; only for
    /// element types of accumulators.
    pub accumulate: bool,
    /// Whether products with a vector may be summed in another order if that is faster.
    pub in_lanes: bool,
}

/// A matrix in memory, with steps in bytes.
#[derive(Clone, Copy)]
pub struct Stored<P, W> {
    /// Its first element, and steps between rows and between columns.
    pub matrix: Matrix<P>,
    /// How its elements are accessed.
    pub format: Format<W>,
}

impl<P: Pointer, W> Stored<P, W> {
    /// The matrix without its first rows and columns.
    pub fn skip(self, rows: usize, columns: usize) -> Self {
        Self { matrix: self.matrix.skip(rows, columns), ..self }
    }

    /// The matrix whose first element is this many elements further.
    pub fn at(self, elements: isize) -> Self {
        Self { matrix: self.matrix.at(elements * self.format.size as isize), ..self }
    }

    /// The transposed matrix.
    pub fn transposed(self) -> Self {
        Self { matrix: self.matrix.transposed(), ..self }
    }
}

impl<W: Wide> Stored<*const u8, W> {
    /// The matrix of accumulators that it is.
    pub fn wide(self) -> Matrix<*const W> {
        debug_assert!(self.format.is_wide);
        let Matrix { first, steps } = self.matrix;
        Matrix { first: first.cast(), steps: steps.map(|it| it / size_of::<W>() as isize) }
    }
}

impl<P: Addresses, W: Copy> Addresses for Stored<P, W> {}

/// Operands and result.
pub type Operands<W> = (Stored<*const u8, W>, Stored<*const u8, W>, Stored<*mut u8, W>);

/// A right operand, and its panels if it is packed, with the number of their columns before it.
pub type Right<W> = (Stored<*const u8, W>, Option<(Elements<W>, usize)>);

impl Ordered {
    /// Multiplies `batch` pairs of matrices of one element type; `places` returns their offsets in elements, by
    /// operand.
    ///
    /// # Safety
    /// As [`Ordered::run_stored`].
    ///
    /// # Errors
    /// As [`Ordered::run_stored`].
    pub unsafe fn run<E: Operand>(
        self,
        batch: usize,
        places: impl Fn(usize) -> [isize; 3] + Sync,
        a: Matrix<*const E>,
        b: Matrix<*const E>,
        out: Matrix<*mut E>,
    ) -> Result<()> {
        let format = Format::of::<E>(self.isa);
        let [a, b] = [a, b].map(|it| Stored { matrix: it.in_bytes(), format });
        let out = Stored { matrix: out.in_bytes(), format };
        // SAFETY: the caller's contract is the same.
        unsafe { self.run_stored(batch, places, (a, b, out), [None; 2], None) }
    }

    /// Multiplies `batch` pairs of matrices; `places` returns their offsets in elements, by operand. An operand in a
    /// `held` block, which is the same in all pairs, may be packed once for many calls. If epilogues read `parts` of
    /// the results, these are in no memory.
    ///
    /// # Safety
    /// All elements that sizes, strides and offsets address are in memory that is live during the call, and in the
    /// blocks; meanwhile, nobody else writes the operands or accesses the results, which do not overlap. Parts are as
    /// in [`Parts::run`].
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for copies of operands, or for parts.
    pub unsafe fn run_stored<W: Wide>(
        self,
        batch: usize,
        places: impl Fn(usize) -> [isize; 3] + Sync,
        (a, b, out): Operands<W>,
        held: [Option<&Storage>; 2],
        parts: Option<&Parts<'_>>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        if batch * m * n == 0 {
            return Ok(());
        }
        let (tile, keeper) = (W::tile(self.isa), self.keeper::<W>(held));
        // To pack lines of the left operand takes longer than to multiply half a tile.
        let packs_lines = a.matrix.steps[1] == a.format.size as isize && !held[0].is_some_and(Storage::may_be_held);
        // The rows of this left operand, turned, are contiguous: the right one of the transposed product packs fast.
        let fills_more = keeper.is_none() && a.matrix.steps[0] == a.format.size as isize && pads(tile.columns, m, n);
        if fills_more || is_turned(tile.columns, m, n) && !(packs_lines && 2 * n >= tile.columns) {
            let turned = Self { sizes: [n, k, m], ..self };
            let turned_places = |it: usize| {
                let [a, b, out] = places(it);
                [b, a, out]
            };
            // SAFETY: the transposed product has the same elements.
            return unsafe {
                let operands = (b.transposed(), a.transposed(), out.transposed());
                turned.cut(tile, batch, turned_places, operands, keeper, parts.map(|it| (it, true)))
            };
        }
        // SAFETY: as the caller's.
        unsafe { self.cut(tile, batch, places, (a, b, out), keeper, parts.map(|it| (it, false))) }
    }

    /// The block in which panels of the right operand of what is computed may be kept: a slot holds it, and there is a
    /// whole panel.
    pub fn keeper<W: Wide>(self, held: [Option<&Storage>; 2]) -> Option<&Storage> {
        let ([m, _, n], columns) = (self.sizes, W::tile(self.isa).columns);
        let (right, width) = if is_turned(columns, m, n) { (held[0], m) } else { (held[1], n) };
        right.filter(|it| width >= columns && it.may_be_held())
    }

    /// Multiplies block by block, on several threads if there is enough work. Panels of the right operand may be
    /// kept in a block. `parts` are those of the result, or of the transposed one if so it says.
    ///
    /// # Safety
    /// As [`Ordered::run`].
    unsafe fn cut<W: Wide>(
        self,
        tile: Tile<W>,
        batch: usize,
        places: impl Fn(usize) -> [isize; 3] + Sync,
        operands: Operands<W>,
        keeper: Option<&Storage>,
        parts: Option<(&Parts<'_>, bool)>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        // The order of terms does not depend on how rows are cut, nor on whether panels are kept already.
        let own = Self { in_lanes: self.in_lanes && m == 1 && keeper.is_none(), ..self };
        if let (1, None, None) = (batch, keeper, parts)
            && (m * n).saturating_mul(k) <= ONE_BLOCK
        {
            let ([at_a, at_b, at_out], (a, b, out)) = (places(0), operands);
            // SAFETY: as the caller's.
            return unsafe { own.block(tile, a.at(at_a), (b.at(at_b), None), out.at(at_out)) };
        }
        // Narrow registers take a nanosecond for 32 terms of f32.
        let nanos = (batch * m * n).saturating_mul(k) / 128 * size_of::<W>();
        // SAFETY: as the caller's.
        let kept = keeper.and_then(|it| unsafe { Panels::kept(it, tile, operands.1, [k, n]) });
        let cut = |most: usize| match parts {
            Some((it, turned)) if it.by_rows() => whole_blocks(tile.rows, tile.columns, [m, n], batch, turned),
            _ => blocks(tile.rows, tile.columns, [m, n], batch, most),
        };
        // What several blocks of rows would pack is packed once, before them.
        let whole = Cut { sizes: [k, n], width: tile.columns };
        let [rows, columns] = cut(n);
        let packs_whole = kept.is_none()
            && batch == 1
            && rows < m
            && !is_read_in_place(operands.1, rows, k)
            && whole.bytes::<W>() <= WHOLE;
        let [rows, columns] = if kept.is_some() || packs_whole { [rows, columns] } else { cut(BLOCK_COLUMNS) };
        // SAFETY: as above.
        let packed = packs_whole.then(|| unsafe { whole.pack(tile, operands.1.at(places(0)[1])) }).transpose()?;
        let panels = kept.as_deref().map(Panels::elements).or(packed.as_ref().map(|it| whole.elements_of(it)));
        let [across, along] = [n.div_ceil(columns), m.div_ceil(rows)];
        let operands = Shared::new((operands, panels));
        threads::try_for_each(batch * across * along, nanos, |block| {
            let ((a, b, out), panels) = operands.get();
            let [at_a, at_b, at_out] = places(block / (across * along));
            let (left, at) = (block % across * columns, block / across % along);
            // About as many rows each.
            let [top, bottom] = [at, at + 1].map(|it| it * m / along);
            let sizes = [bottom - top, k, columns.min(n - left)];
            let own = Self { sizes, ..own };
            let (a, b) = (a.at(at_a).skip(top, 0), (b.at(at_b).skip(0, left), panels.map(|it| (it, left))));
            let Some((parts, turned)) = parts else {
                // SAFETY: the block is a part of the product of the caller's contract.
                return unsafe { own.block(tile, a, b, out.at(at_out).skip(top, left)) };
            };
            let (rows, columns) = (top..top + sizes[0], left..left + sizes[2]);
            let (rows, columns) = if turned { (columns, rows) } else { (rows, columns) };
            let compute = |to: Matrix<*mut u8>| {
                let size = out.format.size as isize;
                let to = Matrix { first: to.first, steps: to.steps.map(|it| it * size) };
                let matrix = if turned { to.transposed() } else { to };
                // SAFETY: as above.
                unsafe { own.block(tile, a, b, Stored { matrix, ..out }) }
            };
            // SAFETY: as the caller's.
            unsafe { parts.run(&Part { product: block / (across * along), rows, columns }, compute) }
        })
    }
}

/// Whether the transposed product is computed: columns fill registers, so they are the longer side.
fn is_turned(tile_columns: usize, m: usize, n: usize) -> bool {
    n < tile_columns && m > n
}

/// Whether more than an eighth of the columns of tiles would be padding, of which the transposed product has none to speak of.
fn pads(tile_columns: usize, m: usize, n: usize) -> bool {
    8 * n.next_multiple_of(tile_columns) > 9 * n && m >= 16 * tile_columns
}

/// Rows and columns of blocks of a result, with `most` columns at most, which do not affect its bits.
fn blocks(tile_rows: usize, tile_columns: usize, [m, n]: [usize; 2], batch: usize, most: usize) -> [usize; 2] {
    let wanted = match threads::count() {
        1 => 1,
        threads => threads * BLOCKS_PER_THREAD,
    };
    let tiles = m.div_ceil(tile_rows);
    let across = n.div_ceil(most);
    // A block of few rows takes as long to pack columns as to multiply.
    let along = wanted.div_ceil(batch * across).min(tiles.div_ceil(STRIP_TILES / 2)).max(tiles.div_ceil(BLOCK_TILES));
    let across = wanted.div_ceil(batch * along).max(across);
    let side = tile_columns * if m == 1 { ROW_TILES } else { 2 };
    [tiles.div_ceil(along) * tile_rows, n.div_ceil(across).next_multiple_of(side)]
}

/// [`blocks`] that have all columns, or all rows if the product is turned.
fn whole_blocks(tile_rows: usize, tile_columns: usize, [m, n]: [usize; 2], batch: usize, turned: bool) -> [usize; 2] {
    // Such a part stays in the cache of a core.
    const ELEMENTS: usize = 32 << 10;
    let wanted = match threads::count() {
        1 => 1,
        threads => (threads * BLOCKS_PER_THREAD).div_ceil(batch),
    };
    let [side, tile, other] = if turned { [n, tile_columns, m] } else { [m, tile_rows, n] };
    let most = side.div_ceil(wanted).min((ELEMENTS / other).max(1));
    let part = most.next_multiple_of(tile);
    if turned {
        return [m, part];
    }
    let (parts, threads) = (m.div_ceil(part), threads::count());
    // Few parts are as many for each thread.
    if batch == 1 && parts < threads * BLOCKS_PER_THREAD {
        return [m.div_ceil((parts / threads * threads).max(threads).min(m)), n];
    }
    [part, n]
}
