//! GEMM with a fixed order of sums, which does not depend on sizes, strides, threads or instruction sets.
//!
//! The reduction dimension is split into [chunks](ms_ir::CHUNK). Each chunk is one chain of fused multiply-adds from +0
//! in order, and the sums of the chunks are combined [pairwise](ms_ir::PairwiseTree).
//!
//! Elements of the result are independent, so that blocks, tiles and threads may partition M and N freely, but not K.
//! Elements of f16 and bf16 are widened to f32, and the sum is rounded once.
//!
//! The blocking follows BLIS: micro-panels are packed, and [micro-kernels](super::tile) keep the sums of a tile in
//! registers.

use super::block::{Ordered, STRIP_TILES, is_read_in_place};
use super::element::{Accumulator, Format, OperandElement, ROW_TILES, Stored, Tile};
use super::panels::{CachedPanels, PanelLayout};
use super::{Matrix, OutputTile, OutputTiles, Shared};
use crate::threads;
use ms_ir::data::Storage;
use ms_ir::error::Result;

/// Maximum number of columns of a block, which are packed at once.
const BLOCK_COLUMNS: usize = 512;

/// Maximum number of tiles of rows of a block.
const BLOCK_TILES: usize = 64;

/// Number of blocks per thread, which balances the load of threads.
const BLOCKS_PER_THREAD: usize = 3;

/// Maximum size in bytes of a right operand that is packed as a whole. The blocks of a larger operand pack their own
/// columns.
const MAX_PACKED_BYTES: usize = 64 << 20;

/// Maximum number of multiply-adds of a product that the calling thread computes as one block. Partitioning it would
/// take a notable part of its time.
const ONE_BLOCK: usize = 1 << 15;

/// The left operand, the right operand, and the result.
pub type Operands<W> = (Stored<*const u8, W>, Stored<*const u8, W>, Stored<*mut u8, W>);

impl Ordered {
    /// Multiplies `batch` pairs of matrices of one element type; `offsets` returns the element offsets of a pair's
    /// operands and result.
    ///
    /// # Safety
    /// The conditions of [`Ordered::run_stored`] hold.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn run<E: OperandElement>(
        self,
        batch: usize,
        offsets: impl Fn(usize) -> [isize; 3] + Sync,
        a: Matrix<*const E>,
        b: Matrix<*const E>,
        out: Matrix<*mut E>,
    ) -> Result<()> {
        let format = Format::new::<E>(self.isa);
        let [a, b] = [a, b].map(|it| Stored { matrix: it.in_bytes(), format });
        let out = Stored { matrix: out.in_bytes(), format };
        // SAFETY: the matrices in bytes address the same elements, which are valid by this function's contract.
        unsafe { self.run_stored(batch, offsets, (a, b, out), [None; 2], None) }
    }

    /// Multiplies `batch` pairs of matrices; `offsets` returns the element offsets of a pair's operands and result.
    ///
    /// An operand in a `held` storage, which all pairs share, may be packed once for many calls. If epilogues read
    /// `output_tiles` of the results, the results are not materialised.
    ///
    /// # Safety
    /// All elements that sizes, strides and offsets address are live during the call, and lie in the `held` storage if
    /// there is one. Meanwhile, nothing else writes the operands or accesses the results, which do not overlap. The
    /// conditions of `OutputTiles::run` hold for every output tile.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands or for output tiles.
    pub unsafe fn run_stored<W: Accumulator>(
        self,
        batch: usize,
        offsets: impl Fn(usize) -> [isize; 3] + Sync,
        (a, b, out): Operands<W>,
        held: [Option<&Storage>; 2],
        output_tiles: Option<&OutputTiles<'_>>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        if batch * m * n == 0 {
            return Ok(());
        }
        let (tile, cache) = (W::tile(self.isa), self.cache::<W>(held));
        // Packing rows of the left operand takes longer than multiplying half a tile.
        let packs_lines = a.matrix.steps[1] == a.format.size as isize && !held[0].is_some_and(Storage::may_be_held);
        // Rows of the transposed left operand are contiguous, so that it packs fast as the right operand of the
        // transposed product.
        let fills_more = cache.is_none() && a.matrix.steps[0] == a.format.size as isize && pads(tile.columns, m, n);
        if fills_more || is_transposed(tile.columns, m, n) && !(packs_lines && 2 * n >= tile.columns) {
            let transposed = Self { sizes: [n, k, m], ..self };
            let transposed_offsets = |it: usize| {
                let [a, b, out] = offsets(it);
                [b, a, out]
            };
            // SAFETY: the transposed product addresses the same elements as the product of this function's contract.
            return unsafe {
                let operands = (b.transposed(), a.transposed(), out.transposed());
                transposed.partition(
                    tile,
                    batch,
                    transposed_offsets,
                    operands,
                    cache,
                    output_tiles.map(|it| (it, true)),
                )
            };
        }
        // SAFETY: the operands and the result are valid by this function's contract.
        unsafe { self.partition(tile, batch, offsets, (a, b, out), cache, output_tiles.map(|it| (it, false))) }
    }

    /// Returns the parameter storage that may cache the packed right operand: a parameter holds it, and it fills a
    /// micro-panel.
    pub fn cache<W: Accumulator>(self, held: [Option<&Storage>; 2]) -> Option<&Storage> {
        let ([m, _, n], columns) = (self.sizes, W::tile(self.isa).columns);
        let (right, width) = if is_transposed(columns, m, n) { (held[0], m) } else { (held[1], n) };
        right.filter(|it| width >= columns && it.may_be_held())
    }

    /// Multiplies block by block, on several threads if there is enough work. `cache` may cache the packed right
    /// operand. `output_tiles` are the output tiles; the flag says that they tile the transposed result.
    ///
    /// # Safety
    /// The conditions of [`Ordered::run_stored`] hold.
    unsafe fn partition<W: Accumulator>(
        self,
        tile: Tile<W>,
        batch: usize,
        offsets: impl Fn(usize) -> [isize; 3] + Sync,
        operands: Operands<W>,
        cache: Option<&Storage>,
        output_tiles: Option<(&OutputTiles<'_>, bool)>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        // The order of sums must not depend on the partition of rows, nor on whether packed operands are cached
        // already.
        let own = Self { vectorised_sums: self.vectorised_sums && m == 1 && cache.is_none(), ..self };
        if let (1, None, None) = (batch, cache, output_tiles)
            && (m * n).saturating_mul(k) <= ONE_BLOCK
        {
            let ([at_a, at_b, at_out], (a, b, out)) = (offsets(0), operands);
            // SAFETY: the one pair's offsets address elements of this function's contract.
            return unsafe { own.block(tile, a.at(at_a), (b.at(at_b), None), out.at(at_out)) };
        }
        // The slowest instruction set takes a nanosecond for 32 multiply-adds of f32.
        let nanos = (batch * m * n).saturating_mul(k) / 128 * size_of::<W>();
        // SAFETY: the right operand is readable and lies in `cache`, and the CPU has the tile's instruction set.
        let cached = cache.and_then(|it| unsafe { CachedPanels::cached(it, tile, operands.1, [k, n]) });
        let block_sizes = |most: usize| match output_tiles {
            Some((it, transposed)) if it.by_rows() => whole_blocks(tile.rows, tile.columns, [m, n], batch, transposed),
            _ => blocks(tile.rows, tile.columns, [m, n], batch, most),
        };
        // Columns that several blocks of rows would pack are packed once, before the blocks run.
        let layout = PanelLayout { sizes: [k, n], width: tile.columns };
        let [rows, columns] = block_sizes(n);
        let packs_whole = cached.is_none()
            && batch == 1
            && rows < m
            && !is_read_in_place(operands.1, rows, k)
            && layout.bytes::<W>() <= MAX_PACKED_BYTES;
        let [rows, columns] =
            if cached.is_some() || packs_whole { [rows, columns] } else { block_sizes(BLOCK_COLUMNS) };
        // SAFETY: the batch has one pair, whose right operand has `k` by `n` elements that are valid for reads.
        let packed = packs_whole.then(|| unsafe { layout.pack(tile, operands.1.at(offsets(0)[1])) }).transpose()?;
        let panels = cached.as_deref().map(CachedPanels::elements).or(packed.as_ref().map(|it| layout.elements_of(it)));
        let [across, along] = [n.div_ceil(columns), m.div_ceil(rows)];
        let operands = Shared::new((operands, panels));
        threads::try_for_each(batch * across * along, nanos, |block| {
            let ((a, b, out), panels) = operands.get();
            let [at_a, at_b, at_out] = offsets(block / (across * along));
            let (left, at) = (block % across * columns, block / across % along);
            // Blocks have about equal numbers of rows.
            let [top, bottom] = [at, at + 1].map(|it| it * m / along);
            let sizes = [bottom - top, k, columns.min(n - left)];
            let own = Self { sizes, ..own };
            let (a, b) = (a.at(at_a).skip(top, 0), (b.at(at_b).skip(0, left), panels.map(|it| (it, left))));
            let Some((output_tiles, transposed)) = output_tiles else {
                // SAFETY: the block's rows and columns lie inside a product of this function's contract, and blocks do
                // not overlap.
                return unsafe { own.block(tile, a, b, out.at(at_out).skip(top, left)) };
            };
            let (rows, columns) = (top..top + sizes[0], left..left + sizes[2]);
            let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
            let compute = |to: Matrix<*mut u8>| {
                let size = out.format.size as isize;
                let to = Matrix { first: to.first, steps: to.steps.map(|it| it * size) };
                let matrix = if transposed { to.transposed() } else { to };
                // SAFETY: the block's rows and columns lie inside a product, and `to` has room for the tile.
                unsafe { own.block(tile, a, b, Stored { matrix, ..out }) }
            };
            // SAFETY: `compute` writes all elements of the tile, and `whole_blocks` made whole rows if the epilogues
            // require them.
            unsafe { output_tiles.run(&OutputTile { product: block / (across * along), rows, columns }, compute) }
        })
    }
}

/// Whether the transposed product is computed: columns fill vector registers, so they should be the longer side.
fn is_transposed(tile_columns: usize, m: usize, n: usize) -> bool {
    n < tile_columns && m > n
}

/// Whether padding is more than an eighth of the columns of tiles, while the transposed product has little.
fn pads(tile_columns: usize, m: usize, n: usize) -> bool {
    8 * n.next_multiple_of(tile_columns) > 9 * n && m >= 16 * tile_columns
}

/// Returns the rows and columns of blocks of a result, with at most `most` columns. They do not affect its bits.
fn blocks(tile_rows: usize, tile_columns: usize, [m, n]: [usize; 2], batch: usize, most: usize) -> [usize; 2] {
    let desired = match threads::count() {
        1 => 1,
        threads => threads * BLOCKS_PER_THREAD,
    };
    let tiles = m.div_ceil(tile_rows);
    let across = n.div_ceil(most);
    // In a block of few rows, packing columns takes as long as multiplying.
    let along = desired.div_ceil(batch * across).min(tiles.div_ceil(STRIP_TILES / 2)).max(tiles.div_ceil(BLOCK_TILES));
    let across = desired.div_ceil(batch * along).max(across);
    let side = tile_columns * if m == 1 { ROW_TILES } else { 2 };
    [tiles.div_ceil(along) * tile_rows, n.div_ceil(across).next_multiple_of(side)]
}

/// Returns the sizes of [`blocks`] that have all columns, or all rows if the product is transposed.
fn whole_blocks(
    tile_rows: usize,
    tile_columns: usize,
    [m, n]: [usize; 2],
    batch: usize,
    transposed: bool,
) -> [usize; 2] {
    // A tile of this size stays in a core's cache.
    const ELEMENTS: usize = 32 << 10;
    let desired = match threads::count() {
        1 => 1,
        threads => (threads * BLOCKS_PER_THREAD).div_ceil(batch),
    };
    let [side, tile, other] = if transposed { [n, tile_columns, m] } else { [m, tile_rows, n] };
    let most = side.div_ceil(desired).min((ELEMENTS / other).max(1));
    let block = most.next_multiple_of(tile);
    if transposed {
        return [m, block];
    }
    let (blocks, threads) = (m.div_ceil(block), threads::count());
    // A small number of blocks is made a multiple of the number of threads.
    if batch == 1 && blocks < threads * BLOCKS_PER_THREAD {
        return [m.div_ceil((blocks / threads * threads).max(threads).min(m)), n];
    }
    [block, n]
}
