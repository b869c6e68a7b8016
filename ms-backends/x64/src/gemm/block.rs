//! Computes one block of an ordered GEMM on one thread.

use super::dot::{DOT_ELEMENTS, dot};
use super::element::{Accumulator, ROW_TILES, Stored, TILE, Tile};
use super::merge::{ChunkMerge, EarlierSums, Slots};
use super::panels::Elements;
use super::tile::packed;
use super::{ALIASED, Matrix};
use crate::isa::Isa;
use ms_ir::data::Storage;
use ms_ir::error::Result;
use ms_ir::{CHUNK, PairwiseTree};
use std::mem::MaybeUninit;

/// Number of tiles of rows that are packed at once, as a strip.
pub const STRIP_TILES: usize = 8;

/// Up to this many rows, a right operand with contiguous rows is read in place: packing would cost as much as it saves.
const UNPACKED_ROWS: usize = 28;

/// Maximum extent in bytes along K of an operand that is read in place repeatedly, so that it stays in the cache.
const UNPACKED_BYTES: usize = 128 << 10;

/// Up to this many tiles of columns, the left operand is read in place.
const UNPACKED_PANELS: usize = 6;

/// Maximum number of elements of a vector register; packed operands are aligned to it.
const ALIGN: usize = 16;

/// Maximum number of elements of packed operands on the stack: an allocation would take as long as a small product.
const STACK_ELEMENTS: usize = 1024;

/// A stack buffer for packed operands.
#[repr(align(64))]
struct StackBuffer<W>(MaybeUninit<[W; STACK_ELEMENTS]>);

/// A GEMM with a fixed order of sums.
#[derive(Clone, Copy)]
pub struct Ordered {
    /// The instruction set.
    pub isa: Isa,
    /// `[m, k, n]`
    pub sizes: [usize; 3],
    /// Earlier sums that the product is combined with; only for accumulators' types.
    pub earlier: EarlierSums,
    /// Whether products with a vector may use vectorised sums, which have another order.
    pub vectorised_sums: bool,
}

/// A right operand, and its packed form if there is one, with the first column of the block in it.
pub type Right<W> = (Stored<*const u8, W>, Option<(Elements<W>, usize)>);

/// Whether blocks of `rows` rows read a right operand of `k` rows in place.
pub fn is_read_in_place<W: Accumulator>(b: Stored<*const u8, W>, rows: usize, k: usize) -> bool {
    let [down, right] = b.matrix.steps;
    let reach = down.unsigned_abs().saturating_mul(k);
    b.format.is_accumulator && right == size_of::<W>() as isize && (rows <= UNPACKED_ROWS || reach <= UNPACKED_BYTES)
}

impl Ordered {
    /// Multiplies one row by contiguous columns, with vectorised sums.
    ///
    /// # Safety
    /// The conditions of [`Ordered::run`] hold, and the block has one row.
    unsafe fn vector_times_columns<W: Accumulator>(
        self,
        tile: Tile<W>,
        a: Matrix<*const W>,
        b: Matrix<*const W>,
        out: Stored<*mut u8, W>,
    ) -> Result<()> {
        let [_, k, n] = self.sizes;
        let is_dense = a.steps[1] == 1 || k == 1;
        let room = (!is_dense).then(|| Storage::uninit(k.saturating_mul(size_of::<W>()))).transpose()?;
        let mut row = a.first;
        if let Some(room) = &room {
            let to = room.device_ptr().cast::<W>();
            // SAFETY: `p < k`, the length of `room` and of the row.
            (0..k).for_each(|p| unsafe { to.add(p).write(*a.skip(0, p).first) });
            row = to;
        }
        for column in 0..n {
            // SAFETY: the row and column `column < n` have `k` contiguous elements, and the result has accumulators'
            // type, by this function's contract.
            unsafe {
                let sum = (tile.vector_dot)(k, row, b.skip(0, column).first);
                out.skip(0, column).matrix.first.cast::<W>().write(sum);
            }
        }
        Ok(())
    }

    /// Multiplies one block on the calling thread.
    ///
    /// # Safety
    /// The conditions of [`Ordered::run`] hold for the block, and micro-panels have the elements of the right operand.
    pub unsafe fn block<W: Accumulator>(
        self,
        tile: Tile<W>,
        a: Stored<*const u8, W>,
        (b, panels): Right<W>,
        out: Stored<*mut u8, W>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        let all_accumulators = a.format.is_accumulator && b.format.is_accumulator && out.format.is_accumulator;
        let size = size_of::<W>() as isize;
        if self.vectorised_sums && all_accumulators && panels.is_none() && b.matrix.steps[0] == size {
            // SAFETY: all elements have the accumulators' type, and the columns of `b` are contiguous.
            // `vectorised_sums` is set only for one row.
            return unsafe { self.vector_times_columns(tile, a.as_accumulators(), b.as_accumulators(), out) };
        }
        if all_accumulators && m * n == 1 && k >= DOT_ELEMENTS && self.earlier.count == 0 {
            let result = out.matrix.first.cast::<W>();
            let rest = |summed: usize| {
                let rest = Self { sizes: [1, k - summed, 1], ..self };
                // SAFETY: `summed < k`, so the operands have the remaining `k - summed` elements, of which the block
                // writes the sum.
                unsafe {
                    rest.block(tile, a.skip(0, summed), (b.skip(summed, 0), None), out)?;
                    Ok(*result)
                }
            };
            // SAFETY: the row and the column have `k` elements of the accumulators' type, and the result has one.
            unsafe { result.write(dot(tile, k, a.as_accumulators(), b.as_accumulators(), rest)?) };
            return Ok(());
        }
        let height = tile.height(m);
        let strip = (height * STRIP_TILES).min(m);
        let b_down = b.matrix.steps[0];
        let in_place = is_read_in_place(b, m, k);
        let packed_columns = match panels {
            Some(_) => 0,
            None if in_place => tile.columns,
            None => n.next_multiple_of(tile.columns),
        };
        // Rows of a tile that fall into the same cache set evict each other, and so do elements that are far apart.
        let [down, along] = a.matrix.steps.map(isize::unsigned_abs);
        let rows_in_place = a.format.is_accumulator
            && n <= UNPACKED_PANELS * tile.columns
            && !down.is_multiple_of(ALIASED)
            && (along == size_of::<W>() || along.saturating_mul(k.min(CHUNK)) <= UNPACKED_BYTES);
        let packed_rows = if rows_in_place { 0 } else { strip };
        let depth = k.min(CHUNK);
        let tree = PairwiseTree::of_terms(k);
        // The result is the first slot, unless it has another type or holds an earlier sum.
        let result = (out.format.is_accumulator && self.earlier.count == 0).then(|| out.as_accumulators());
        let slots = if k > CHUNK { tree.slots() - usize::from(result.is_some()) } else { 0 };
        let slot_columns = n.next_multiple_of(tile.columns);
        let lens = [packed_rows * depth, packed_columns * depth + tile.columns, slots * m * slot_columns];
        let [a_len, b_len, slots_len] = lens.map(|it| it.next_multiple_of(ALIGN));
        let len = a_len + b_len + slots_len;
        let mut stack = StackBuffer::<W>(MaybeUninit::uninit());
        let bytes = len.saturating_mul(size_of::<W>());
        let heap = (len > STACK_ELEMENTS).then(|| Storage::uninit(bytes)).transpose()?;
        let a_room = heap.as_ref().map_or(stack.0.as_mut_ptr().cast::<W>(), |it| it.device_ptr().cast());
        let b_room = a_room.wrapping_add(a_len);
        let slots = Slots { result, room: b_room.wrapping_add(b_len), sizes: [m, slot_columns] };
        // One row is multiplied by groups of tiles of columns, as far as there are whole groups.
        let group = ROW_TILES * tile.columns;
        let grouped = if m == 1 && (panels.is_some() || in_place) { n / group * group } else { 0 };
        let mut product = MaybeUninit::<[W; STRIP_TILES * TILE]>::uninit();
        let product = product.as_mut_ptr().cast::<W>();
        // An empty reduction dimension has one chunk, whose sums are +0.
        for start in (0..k.max(1)).step_by(CHUNK) {
            let depth = CHUNK.min(k - start);
            let combined = tree.combined(start / CHUNK);
            let merge = ChunkMerge { slots, combined, last: start + depth == k, earlier: self.earlier, out };
            let (a, b) = (a.skip(0, start), b.skip(start, 0));
            let lefts = (grouped..n).step_by(tile.columns);
            // SAFETY: `top..top + strip` and `left..left + tile.columns` are clipped to `m` and `n`, and
            // `start + depth <= k`. So all elements belong to the operands, and the buffers have `lens` elements.
            unsafe {
                let pack_columns = |left: usize, to: *mut W| {
                    let columns = tile.columns.min(n - left);
                    (b.format.pack)(tile.transpose, b.transposed().skip(left, 0).matrix, columns, depth, to);
                    if columns < tile.columns {
                        // A tile reads whole registers of columns, and so reads past the last column.
                        to.add(columns * depth).write_bytes(0, tile.columns);
                    }
                    (to.cast_const(), columns as isize)
                };
                if panels.is_none() && !in_place {
                    lefts.clone().for_each(|left| _ = pack_columns(left, b_room.add(left * depth)));
                }
                for top in (0..m).step_by(strip) {
                    let tops = (top..m.min(top + strip)).step_by(height);
                    for at in tops.clone().filter(|_| !rows_in_place) {
                        let rows = height.min(m - at);
                        (a.format.pack)(
                            tile.transpose,
                            a.skip(at, 0).matrix,
                            rows,
                            depth,
                            a_room.add((at - top) * depth),
                        );
                    }
                    for left in (0..grouped).step_by(group) {
                        let (first, along) = match rows_in_place {
                            true => (a.matrix.first.cast(), a.as_accumulators().steps[1]),
                            false => (a_room.cast_const(), 1),
                        };
                        let (right, steps) = match panels {
                            Some((panels, first)) => (
                                panels.panel(start, depth, first + left),
                                [tile.columns, depth * tile.columns].map(|it| it as isize),
                            ),
                            None => (b.skip(0, left).matrix.first.cast(), [b_down / size, tile.columns as isize]),
                        };
                        if let Some(to) = merge.destination(true) {
                            (tile.row)(depth, (first, along), (right, steps), to.skip(0, left).first);
                        } else {
                            (tile.row)(depth, (first, along), (right, steps), product);
                            merge.write([0, left], [1, group], (product, group));
                        }
                    }
                    for left in lefts.clone() {
                        let columns = tile.columns.min(n - left);
                        let (panel, step) = if let Some((panels, first)) = panels {
                            (panels.panel(start, depth, first + left), columns as isize)
                        } else if !in_place {
                            (b_room.cast_const().add(left * depth), columns as isize)
                        } else if columns == tile.columns {
                            (b.skip(0, left).matrix.first.cast(), b_down / size)
                        } else {
                            pack_columns(left, b_room)
                        };
                        let direct = merge.destination(columns == tile.columns).map(|it| it.skip(0, left));
                        for at in tops.clone() {
                            let rows = height.min(m - at);
                            let rows_of_a = match rows_in_place {
                                true => a.skip(at, 0).as_accumulators(),
                                false => {
                                    let packed = Matrix { first: a_room.cast_const(), steps: packed(rows) };
                                    packed.at(((at - top) * depth) as isize)
                                }
                            };
                            let to = match direct {
                                Some(to) => (to.skip(at, 0).first, to.steps[0]),
                                None => (product.add((at - top) * tile.columns), tile.columns as isize),
                            };
                            (tile.run)([rows, depth], false, rows_of_a, (panel, step), to);
                        }
                        for at in tops.clone().filter(|_| direct.is_none()) {
                            let product = product.add((at - top) * tile.columns);
                            merge.write([at, left], [height.min(m - at), columns], (product, tile.columns));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
