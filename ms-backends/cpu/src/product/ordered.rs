//! Products whose terms are added up in one order, whatever the sizes, strides, threads and instruction
//! set: the sum over k is cut into chunks of 1,024 terms, each chunk is one chain of fused
//! multiply-adds from +0 in the order of k, and the sums of the chunks are added in order.
//!
//! An element of the result depends on no other, so that blocks, tiles and threads may be cut as is
//! fastest, but for k. f16 and bf16 are widened to f32, and the sum is rounded once.

use super::dot::{TERMS, dot};
use super::pack::pack;
use super::tile::{Operand, TILE, Tile, Wide};
use super::{Matrix, Shared};
use crate::isa::Isa;
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, Element};
use std::mem::MaybeUninit;

/// Terms of a chunk.
pub const CHUNK: usize = 1024;

/// Columns of a block at most: what of the right operand is packed at once.
const BLOCK_COLUMNS: usize = 512;

/// Tiles of rows that are packed at once.
const STRIP_TILES: usize = 8;

/// Tiles of rows of a block at most.
const BLOCK_TILES: usize = 64;

/// Blocks per thread, so that none waits long for another.
const BLOCKS_PER_THREAD: usize = 3;

/// Up to this many tiles of rows the right operand is read where it lies, if its rows are dense: packing
/// it would take as long as what it saves.
const UNPACKED_TILES: usize = 2;

/// Bytes of a right operand that is read where it lies for more of them: it stays in the cache.
const UNPACKED_BYTES: usize = 128 << 10;

/// Elements of a vector register at most; packed operands begin at multiples of it.
const ALIGN: usize = 16;

/// A product of matrices whose terms are added up in order.
#[derive(Clone, Copy)]
pub struct Ordered {
    /// The instruction set.
    pub isa: Isa,
    /// `[m, k, n]`
    pub sizes: [usize; 3],
    /// Whether the result holds sums of earlier chunks, to which those of this product are added; of
    /// elements in which sums are kept only.
    pub accumulate: bool,
}

/// Operands and result.
type Operands<E> = (Matrix<*const E>, Matrix<*const E>, Matrix<*mut E>);

impl Ordered {
    /// Multiplies `batch` pairs of matrices; `places` gives how far each lies from the first one, in
    /// elements, by operand.
    ///
    /// # Safety
    /// Every element that sizes, strides and places reach lies in memory that lives during the call;
    /// nobody writes the operands or touches the results meanwhile, which do not overlap.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for copies of operands.
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
        // Columns fill registers: the longer side is theirs.
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

    /// Multiplies block by block, on several threads where it is worth it.
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
            // SAFETY: the block is a part of the product that the caller vouches for.
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
            // SAFETY: as the caller's; the elements are those in which sums are kept.
            let (sum, terms) = unsafe { dot(tile, k, wide(a), wide(b))? };
            // SAFETY: the result has one element.
            unsafe { out.first.cast::<E::Wide>().write(sum) };
            if terms == k {
                return Ok(());
            }
            let rest = Self { sizes: [1, k - terms, 1], accumulate: true, ..self };
            // SAFETY: as the caller's, of the terms that are left.
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
        let a_room = room.as_mut_ptr().cast::<E::Wide>();
        let (b_room, sums_room) = (a_room.wrapping_add(a_len), a_room.wrapping_add(a_len + b_len));
        // Sums of floats that are wide themselves are kept in the result.
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
            // SAFETY: the rooms hold a strip and a block of the operands, whose elements the caller vouches
            // for, and tiles are inside of them.
            unsafe {
                let pack_columns = |left: usize, to: *mut E::Wide| {
                    let columns = tile.columns.min(n - left);
                    pack(tile.turn, b.transposed().skip(left, 0), columns, depth, to);
                    if columns < tile.columns {
                        // A tile reads as many columns as it has: behind the last ones are others.
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

/// Rows and columns of blocks of a result. No bit depends on them.
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

/// What is done with the sums of a chunk.
#[derive(Clone, Copy)]
struct Ending {
    /// Whether there is no sum yet.
    first: bool,
    /// Whether the sum is the result.
    last: bool,
}

impl Ending {
    /// Takes in a tile of the chunk's sums, whose rows are `width` elements apart.
    ///
    /// # Safety
    /// The tile, the sums and the result have so many rows and columns; where there are sums, they were
    /// written.
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
            // SAFETY: by the caller's contract; rows of a tile are initialised, and overlap nothing.
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
