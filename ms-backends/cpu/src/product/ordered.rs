//! Products whose terms are added in a fixed order for all sizes, strides, threads and instruction sets:
//! the sum over k is cut into chunks of 1,024 terms, each chunk is one chain of fused
//! multiply-adds from +0 in the order of k, and the sums of the chunks are added in order.
//!
//! Elements of the result are independent, so that blocks, tiles and threads may be cut in any way
//! except along k. f16 and bf16 are widened to f32, and the sum is rounded once.

use super::dot::{TERMS, dot};
use super::panels::{Elements, Panels};
use super::tile::{Format, Operand, TILE, Tile, Wide, packed};
use super::{ALIASED, Addresses, Matrix, Part, Parts, Pointer, Shared};
use crate::isa::Isa;
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, Storage};
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

/// Up to this many rows, the right operand is read in place if its rows are dense: packing it would take as long as it
/// saves.
const UNPACKED_ROWS: usize = 28;

/// Maximum size in bytes of a right operand that is read in place for more rows: it fits in the cache.
const UNPACKED_BYTES: usize = 128 << 10;

/// Up to this many tiles of columns, the left operand is read in place.
const UNPACKED_PANELS: usize = 2;

/// Maximum number of elements of a vector register; packed operands are aligned to it.
const ALIGN: usize = 16;

/// Maximum number of elements of packed operands that are on the stack: allocating memory for a small product takes as
/// long as the product.
const NEAR: usize = 1024;

/// Maximum number of multiply-adds of a product that is one block of the calling thread: to find blocks and threads for
/// it would take a notable part of its time.
const ONE_BLOCK: usize = 1 << 15;

/// Room for packed operands.
#[repr(align(64))]
struct Near<W>(MaybeUninit<[W; NEAR]>);

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
    fn skip(self, rows: usize, columns: usize) -> Self {
        Self { matrix: self.matrix.skip(rows, columns), ..self }
    }

    /// The matrix whose first element is this many elements further.
    fn at(self, elements: isize) -> Self {
        Self { matrix: self.matrix.at(elements * self.format.size as isize), ..self }
    }

    fn transposed(self) -> Self {
        Self { matrix: self.matrix.transposed(), ..self }
    }
}

impl<W: Wide> Stored<*const u8, W> {
    /// The matrix of accumulators that it is.
    fn wide(self) -> Matrix<*const W> {
        debug_assert!(self.format.is_wide);
        let Matrix { first, steps } = self.matrix;
        Matrix { first: first.cast(), steps: steps.map(|it| it / size_of::<W>() as isize) }
    }
}

impl<P: Addresses, W: Copy> Addresses for Stored<P, W> {}

/// Operands and result.
pub type Operands<W> = (Stored<*const u8, W>, Stored<*const u8, W>, Stored<*mut u8, W>);

/// A right operand, and its panels if they are kept, with the number of their columns before it.
type Right<W> = (Stored<*const u8, W>, Option<(Elements<W>, usize)>);

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
        let format = Format::of::<E>();
        let bytes = |steps: [isize; 2]| steps.map(|it| it * size_of::<E>() as isize);
        let [a, b] = [a, b].map(|it| {
            let matrix = Matrix { first: it.first.cast(), steps: bytes(it.steps) };
            Stored { matrix, format }
        });
        let out = Stored { matrix: Matrix { first: out.first.cast(), steps: bytes(out.steps) }, format };
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
        if is_turned(tile.columns, m, n) {
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
        if let (1, None, None) = (batch, keeper, parts)
            && (m * n).saturating_mul(k) <= ONE_BLOCK
        {
            let ([at_a, at_b, at_out], (a, b, out)) = (places(0), operands);
            // SAFETY: as the caller's.
            return unsafe { self.block(tile, a.at(at_a), (b.at(at_b), None), out.at(at_out)) };
        }
        // Narrow registers take a nanosecond for 32 terms of f32.
        let nanos = (batch * m * n).saturating_mul(k) / 128 * size_of::<W>();
        let [rows, columns] = match parts {
            Some((it, turned)) if it.by_rows() => whole_blocks(tile.rows, tile.columns, [m, n], batch, turned),
            _ => blocks(tile.rows, tile.columns, [m, n], batch),
        };
        let [across, along] = [n.div_ceil(columns), m.div_ceil(rows)];
        // SAFETY: as the caller's.
        let kept = keeper.and_then(|it| unsafe { Panels::kept(it, tile, operands.1, [k, n]) });
        let kept = kept.as_deref().map(Panels::elements);
        let operands = Shared::new((operands, kept));
        threads::try_for_each(batch * across * along, nanos, |block| {
            let ((a, b, out), kept) = operands.get();
            let [at_a, at_b, at_out] = places(block / (across * along));
            let (left, top) = (block % across * columns, block / across % along * rows);
            let sizes = [rows.min(m - top), k, columns.min(n - left)];
            let own = Self { sizes, ..self };
            let (a, b) = (a.at(at_a).skip(top, 0), (b.at(at_b).skip(0, left), kept.map(|it| (it, left))));
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

    /// Multiplies on this thread.
    ///
    /// # Safety
    /// As [`Ordered::run`]; panels have the operand's elements.
    unsafe fn block<W: Wide>(
        self,
        tile: Tile<W>,
        a: Stored<*const u8, W>,
        (b, kept): Right<W>,
        out: Stored<*mut u8, W>,
    ) -> Result<()> {
        let [m, k, n] = self.sizes;
        let all_wide = a.format.is_wide && b.format.is_wide && out.format.is_wide;
        if all_wide && m * n == 1 && k >= TERMS && !self.accumulate {
            // SAFETY: as the caller's; the elements have the type of accumulators.
            let (sum, terms) = unsafe { dot(tile, k, a.wide(), b.wide())? };
            // SAFETY: the result has one element.
            unsafe { out.matrix.first.cast::<W>().write(sum) };
            if terms == k {
                return Ok(());
            }
            let rest = Self { sizes: [1, k - terms, 1], accumulate: true, ..self };
            // SAFETY: as the caller's, for the remaining terms.
            return unsafe { rest.block(tile, a.skip(0, terms), (b.skip(terms, 0), None), out) };
        }
        // Tiles of about equal heights.
        let tiles = m.div_ceil(tile.rows);
        let height = m.div_ceil(tiles);
        let strip = (height * STRIP_TILES).min(m);
        let [b_down, b_right] = b.matrix.steps;
        let reach = b_down.unsigned_abs().saturating_mul(k);
        let in_place =
            b.format.is_wide && b_right == size_of::<W>() as isize && (m <= UNPACKED_ROWS || reach <= UNPACKED_BYTES);
        let packed_columns = match kept {
            Some(_) => 0,
            None if in_place => tile.columns,
            None => n.next_multiple_of(tile.columns),
        };
        // Rows of a tile that are in the same set of a cache evict each other.
        let rows_in_place = a.format.is_wide
            && n <= UNPACKED_PANELS * tile.columns
            && !a.matrix.steps[0].unsigned_abs().is_multiple_of(ALIASED);
        let packed_rows = if rows_in_place { 0 } else { strip };
        let depth = k.min(CHUNK);
        let keeps_sums = !out.format.is_wide && k > CHUNK;
        let lens = [packed_rows * depth, packed_columns * depth + tile.columns, if keeps_sums { m * n } else { 0 }];
        let [a_len, b_len, sums_len] = lens.map(|it| it.next_multiple_of(ALIGN));
        let len = a_len + b_len + sums_len;
        let mut near = Near::<W>(MaybeUninit::uninit());
        // SAFETY: what is read below was written before.
        let far = (len > NEAR).then(|| unsafe { Array::uninit(&[len], W::DTYPE) }).transpose()?;
        let a_room = far.as_ref().map_or(near.0.as_mut_ptr().cast::<W>(), |it| it.device_ptr().cast());
        let (b_room, sums_room) = (a_room.wrapping_add(a_len), a_room.wrapping_add(a_len + b_len));
        // Sums of f32 and f64 are accumulated in the result.
        let sums = match out.format.is_wide {
            true => Matrix {
                first: out.matrix.first.cast(),
                steps: out.matrix.steps.map(|it| it / size_of::<W>() as isize),
            },
            false => Matrix { first: sums_room, steps: [n as isize, 1] },
        };
        let mut product = MaybeUninit::<[W; TILE]>::uninit();
        let product = product.as_mut_ptr().cast::<W>();
        // A sum of no terms is +0.
        for start in (0..k.max(1)).step_by(CHUNK) {
            let depth = CHUNK.min(k - start);
            let ending = Ending { first: start == 0 && !self.accumulate, last: start + depth == k };
            let (a, b) = (a.skip(0, start), b.skip(start, 0));
            let panels = (0..n).step_by(tile.columns);
            // SAFETY: the packed strip and block are parts of the operands of the caller's contract, and
            // tiles are inside them.
            unsafe {
                let pack_columns = |left: usize, to: *mut W| {
                    let columns = tile.columns.min(n - left);
                    (b.format.pack)(tile.turn, b.transposed().skip(left, 0).matrix, columns, depth, to);
                    if columns < tile.columns {
                        // A tile reads whole registers of columns; after the last ones there are others.
                        to.add(columns * depth).write_bytes(0, tile.columns);
                    }
                    (to.cast_const(), columns as isize)
                };
                if kept.is_none() && !in_place {
                    panels.clone().for_each(|left| _ = pack_columns(left, b_room.add(left * depth)));
                }
                for top in (0..m).step_by(strip) {
                    let tops = (top..m.min(top + strip)).step_by(height);
                    for at in tops.clone().filter(|_| !rows_in_place) {
                        let rows = height.min(m - at);
                        (a.format.pack)(tile.turn, a.skip(at, 0).matrix, rows, depth, a_room.add((at - top) * depth));
                    }
                    for left in panels.clone() {
                        let columns = tile.columns.min(n - left);
                        let (panel, step) = if let Some((kept, first)) = kept {
                            (kept.panel(start, depth, first + left), columns as isize)
                        } else if !in_place {
                            (b_room.cast_const().add(left * depth), columns as isize)
                        } else if columns == tile.columns {
                            (b.skip(0, left).matrix.first.cast(), b_down / size_of::<W>() as isize)
                        } else {
                            pack_columns(left, b_room)
                        };
                        for at in tops.clone() {
                            let rows = height.min(m - at);
                            let lines = match rows_in_place {
                                true => a.skip(at, 0).wide(),
                                false => {
                                    Matrix { first: a_room.add((at - top) * depth).cast_const(), steps: packed(rows) }
                                }
                            };
                            let (sums, out) = (sums.skip(at, left), out.skip(at, left));
                            if out.format.is_wide && ending.first && columns == tile.columns && sums.steps[1] == 1 {
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

/// Whether the transposed product is computed: columns fill registers, so they are the longer side.
fn is_turned(tile_columns: usize, m: usize, n: usize) -> bool {
    n < tile_columns && m > n
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
    if turned { [m, part] } else { [part, n] }
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
    unsafe fn write<W: Wide>(
        self,
        [rows, columns]: [usize; 2],
        tile: *mut W,
        width: usize,
        sums: Matrix<*mut W>,
        out: Stored<*mut u8, W>,
    ) {
        let dense = sums.steps[1] == 1;
        for row in 0..rows {
            // SAFETY: by the caller's contract; rows of a tile are initialised, and do not overlap others.
            unsafe {
                let tile = std::slice::from_raw_parts_mut(tile.add(row * width), columns);
                let sums = sums.skip(row, 0);
                if out.format.is_wide && dense {
                    let to = std::slice::from_raw_parts_mut(sums.first, columns);
                    match self.first {
                        true => to.copy_from_slice(tile),
                        false => to.iter_mut().zip(tile).for_each(|(to, &mut it)| *to = *to + it),
                    }
                    continue;
                }
                if !self.first {
                    for (column, value) in tile.iter_mut().enumerate() {
                        *value = *sums.skip(0, column).first + *value;
                    }
                }
                match self.last || out.format.is_wide {
                    true => (out.format.write)(tile, out.skip(row, 0).matrix),
                    false => tile.iter().enumerate().for_each(|(at, &it)| *sums.skip(0, at).first = it),
                }
            }
        }
    }
}
