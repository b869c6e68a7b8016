//! Products whose terms are added in a fixed order for all sizes, strides, threads and instruction sets:
//! the sum over k is cut into chunks of 1,024 terms, each chunk is one chain of fused
//! multiply-adds from +0 in the order of k, and the sums of the chunks are added in order.
//!
//! Elements of the result are independent, so that blocks, tiles and threads may be cut in any way
//! except along k. f16 and bf16 are widened to f32, and the sum is rounded once.

use super::dot::{TERMS, dot};
use super::pack::pack;
use super::tile::{Operand, TILE, Tile, Wide};
use super::{Matrix, Shared};
use crate::isa::Isa;
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, Element};
use std::mem::MaybeUninit;

/// Number of terms of a chunk.
pub const CHUNK: usize = 1024;

/// Maximum number of columns of a block, which are packed at once.
const BLOCK_COLUMNS: usize = 512;

/// Number of tiles of rows that are packed at once.
const STRIP_TILES: usize = 8;

/// Maximum number of tiles of rows of a block.
const BLOCK_TILES: usize = 64;

/// Number of blocks per thread, so that no thread waits long for another.
const BLOCKS_PER_THREAD: usize = 3;

/// Up to this many tiles of rows, the right operand is read in place if its rows are dense: packing it
/// would take as long as it saves.
const UNPACKED_TILES: usize = 2;

/// Maximum size in bytes of a right operand that is read in place for more tiles: it fits in the cache.
const UNPACKED_BYTES: usize = 128 << 10;

/// Maximum number of elements of a vector register; packed operands are aligned to it.
const ALIGN: usize = 16;

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
}

/// Operands and result.
type Operands<E> = (Matrix<*const E>, Matrix<*const E>, Matrix<*mut E>);

impl Ordered {
    /// Multiplies `batch` pairs of matrices; `places` returns their offsets in elements, by operand.
    ///
    /// # Safety
    /// All elements that sizes, strides and offsets address are in memory that is live during the call;
    /// meanwhile, nobody else writes the operands or accesses the results, which do not overlap.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for copies of operands.
    pub unsafe fn run<E: Operand>(
        self,
        batch: usize,
        places: impl Fn(usize) -> [isize; 3] + Sync,
        a: Matrix<*const E>,
        b: Matrix<*const E>,
        out: Matrix<*mut E>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        if batch * m * n == 0 {
            return Ok(());
        }
        let tile = E::Wide::tile(self.isa);
        // Columns fill registers, so they are the longer side.
        if n < tile.columns && m > n {
            let turned = Self { sizes: [n, k, m], ..self };
            let turned_places = |it: usize| {
                let [a, b, out] = places(it);
                [b, a, out]
            };
            // SAFETY: the transposed product has the same elements.
            return unsafe {
                turned.cut(tile, batch, turned_places, (b.transposed(), a.transposed(), out.transposed()))
            };
        }
        // SAFETY: as the caller's.
        unsafe { self.cut(tile, batch, places, (a, b, out)) }
    }

    /// Multiplies block by block, on several threads if there is enough work.
    ///
    /// # Safety
    /// As [`Ordered::run`].
    unsafe fn cut<E: Operand>(
        self,
        tile: Tile<E::Wide>,
        batch: usize,
        places: impl Fn(usize) -> [isize; 3] + Sync,
        operands: Operands<E>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        // Narrow registers take a nanosecond for 32 terms of f32.
        let nanos = (batch * m * n).saturating_mul(k) / 128 * size_of::<E::Wide>();
        let [rows, columns] = blocks(tile.rows, tile.columns, [m, n], batch);
        let [across, along] = [n.div_ceil(columns), m.div_ceil(rows)];
        let operands = Shared::new(operands);
        threads::try_for_each(batch * across * along, nanos, |block| {
            let (a, b, out) = operands.get();
            let [at_a, at_b, at_out] = places(block / (across * along));
            let (left, top) = (block % across * columns, block / across % along * rows);
            let sizes = [rows.min(m - top), k, columns.min(n - left)];
            // SAFETY: the block is a part of the product of the caller's contract.
            unsafe {
                Self { sizes, ..self }.block(
                    tile,
                    a.at(at_a).skip(top, 0),
                    b.at(at_b).skip(0, left),
                    out.at(at_out).skip(top, left),
                )
            }
        })
    }

    /// Multiplies on this thread.
    ///
    /// # Safety
    /// As [`Ordered::run`].
    unsafe fn block<E: Operand>(
        self,
        tile: Tile<E::Wide>,
        a: Matrix<*const E>,
        b: Matrix<*const E>,
        out: Matrix<*mut E>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        if E::IS_WIDE && m * n == 1 && k >= TERMS && !self.accumulate {
            let wide = |it: Matrix<*const E>| Matrix { first: it.first.cast(), steps: it.steps };
            // SAFETY: as the caller's; the elements have the type of accumulators.
            let (sum, terms) = unsafe { dot(tile, k, wide(a), wide(b))? };
            // SAFETY: the result has one element.
            unsafe { out.first.cast::<E::Wide>().write(sum) };
            if terms == k {
                return Ok(());
            }
            let rest = Self { sizes: [1, k - terms, 1], accumulate: true, ..self };
            // SAFETY: as the caller's, for the remaining terms.
            return unsafe { rest.block(tile, a.skip(0, terms), b.skip(terms, 0), out) };
        }
        // Tiles of about equal heights.
        let tiles = m.div_ceil(tile.rows);
        let height = m.div_ceil(tiles);
        let strip = (height * STRIP_TILES).min(m);
        let reach = b.steps[0].unsigned_abs().saturating_mul(k).saturating_mul(size_of::<E>());
        let unpacked = E::IS_WIDE && b.steps[1] == 1 && (tiles <= UNPACKED_TILES || reach <= UNPACKED_BYTES);
        let packed_columns = if unpacked { tile.columns } else { n.next_multiple_of(tile.columns) };
        let depth = k.min(CHUNK);
        let keeps_sums = !E::IS_WIDE && k > CHUNK;
        let lens = [strip * depth, packed_columns * depth + tile.columns, if keeps_sums { m * n } else { 0 }];
        let [a_len, b_len, sums_len] = lens.map(|it| it.next_multiple_of(ALIGN));
        // SAFETY: what is read below was written before.
        let room = unsafe { Array::uninit(&[a_len + b_len + sums_len], E::Wide::DTYPE)? };
        let a_room = room.device_ptr().cast::<E::Wide>();
        let (b_room, sums_room) = (a_room.wrapping_add(a_len), a_room.wrapping_add(a_len + b_len));
        // Sums of f32 and f64 are accumulated in the result.
        let sums = match E::IS_WIDE {
            true => Matrix { first: out.first.cast(), steps: out.steps },
            false => Matrix { first: sums_room, steps: [n as isize, 1] },
        };
        let mut product = MaybeUninit::<[E::Wide; TILE]>::uninit();
        let product = product.as_mut_ptr().cast::<E::Wide>();
        // A sum of no terms is +0.
        for start in (0..k.max(1)).step_by(CHUNK) {
            let depth = CHUNK.min(k - start);
            let ending = Ending { first: start == 0 && !self.accumulate, last: start + depth == k };
            let (a, b) = (a.skip(0, start), b.skip(start, 0));
            let panels = (0..n).step_by(tile.columns);
            // SAFETY: the packed strip and block are parts of the operands of the caller's contract, and
            // tiles are inside them.
            unsafe {
                let pack_columns = |left: usize, to: *mut E::Wide| {
                    let columns = tile.columns.min(n - left);
                    pack(tile.turn, b.transposed().skip(left, 0), columns, depth, to);
                    if columns < tile.columns {
                        // A tile reads whole registers of columns; after the last ones there are others.
                        to.add(columns * depth).write_bytes(0, tile.columns);
                    }
                    (to.cast_const(), columns as isize)
                };
                if !unpacked {
                    panels.clone().for_each(|left| _ = pack_columns(left, b_room.add(left * depth)));
                }
                for top in (0..m).step_by(strip) {
                    let tops = (top..m.min(top + strip)).step_by(height);
                    for at in tops.clone() {
                        let rows = height.min(m - at);
                        pack(tile.turn, a.skip(at, 0), rows, depth, a_room.add((at - top) * depth));
                    }
                    for left in panels.clone() {
                        let columns = tile.columns.min(n - left);
                        let (panel, step) = if !unpacked {
                            (b_room.cast_const().add(left * depth), columns as isize)
                        } else if columns == tile.columns {
                            (b.skip(0, left).first.cast(), b.steps[0])
                        } else {
                            pack_columns(left, b_room)
                        };
                        for at in tops.clone() {
                            let rows = height.min(m - at);
                            let lines = a_room.add((at - top) * depth);
                            let (sums, out) = (sums.skip(at, left), out.skip(at, left));
                            if E::IS_WIDE && ending.first && columns == tile.columns && out.steps[1] == 1 {
                                (tile.run)(rows, depth, lines, (panel, step), (sums.first, sums.steps[0]));
                            } else {
                                (tile.run)(rows, depth, lines, (panel, step), (product, tile.columns as isize));
                                ending.write([rows, columns], product, tile.columns, sums, out);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Rows and columns of blocks of a result, which do not affect its bits.
fn blocks(tile_rows: usize, tile_columns: usize, [m, n]: [usize; 2], batch: usize) -> [usize; 2] {
    let wanted = match threads::count() {
        1 => 1,
        threads => threads * BLOCKS_PER_THREAD,
    };
    let tiles = m.div_ceil(tile_rows);
    let across = n.div_ceil(BLOCK_COLUMNS);
    // A block of few rows takes as long to pack columns as to multiply.
    let along = wanted.div_ceil(batch * across).min(tiles.div_ceil(STRIP_TILES / 2)).max(tiles.div_ceil(BLOCK_TILES));
    let across = wanted.div_ceil(batch * along).max(across);
    [tiles.div_ceil(along) * tile_rows, n.div_ceil(across).next_multiple_of(2 * tile_columns)]
}

/// The treatment of the sums of a chunk.
#[derive(Clone, Copy)]
struct Ending {
    /// Whether there is no sum yet.
    first: bool,
    /// Whether the sum is the result.
    last: bool,
}

impl Ending {
    /// Adds a tile of the chunk's sums, whose rows are `width` elements apart.
    ///
    /// # Safety
    /// The tile, the sums and the result have that many rows and columns; sums of earlier chunks are
    /// initialised.
    unsafe fn write<E: Operand>(
        self,
        [rows, columns]: [usize; 2],
        tile: *const E::Wide,
        width: usize,
        sums: Matrix<*mut E::Wide>,
        out: Matrix<*mut E>,
    ) {
        let dense = sums.steps[1] == 1;
        for row in 0..rows {
            // SAFETY: by the caller's contract; rows of a tile are initialised, and do not overlap others.
            unsafe {
                let tile = std::slice::from_raw_parts(tile.add(row * width), columns);
                let (sums, out) = (sums.skip(row, 0), out.skip(row, 0));
                if E::IS_WIDE && dense {
                    let to = std::slice::from_raw_parts_mut(sums.first, columns);
                    match self.first {
                        true => to.copy_from_slice(tile),
                        false => to.iter_mut().zip(tile).for_each(|(to, &it)| *to = *to + it),
                    }
                    continue;
                }
                for (column, &value) in tile.iter().enumerate() {
                    let (sum, out) = (sums.skip(0, column).first, out.skip(0, column).first);
                    let value = if self.first { value } else { *sum + value };
                    match self.last {
                        true => *out = E::narrow(value),
                        false => *sum = value,
                    }
                }
            }
        }
    }
}
