//! Blocked GEMM on a matrix engine.
//!
//! A result is partitioned into blocks for threads, blocks into strips of rows, and strips into tiles of one
//! micro-panel by another. Every sum accumulates its K blocks in order, independently of the partition.

use super::kernel::{Columns, EngineState, Kernel, LINE, PANEL_ROWS, Prefetch, Split};
use super::packed::{Operand, Packed, Panels};
use super::{Engine, Implementation, MAX_PACKED_BYTES, dots, tiles};
use crate::gemm::element::Accumulator;
use crate::gemm::{Addresses, Matrix, OutputTile, OutputTiles, Shared, scatter};
use crate::isa::Isa;
use crate::threads;
use ms_ir::data::{DType, Element, Scalar, Storage};
use ms_ir::error::Result;
use ms_ir::with_element;
use std::ops::Range;
use std::slice::from_raw_parts;

/// Maximum number of rows that are packed at once: [some K blocks](MAX_K_BLOCKS) of them use a part of the L2 cache.
const ROWS: usize = 256;

/// Maximum number of split components of K blocks that are packed at once.
const MAX_K_BLOCKS: usize = 48;

/// Maximum number of bytes of a packed left operand that stays in the L2 caches until blocks multiply it.
const SMALL: usize = 4 << 20;

/// Maximum number of columns of a block whose sums are accumulated in a separate buffer.
const COLUMNS: usize = 512;

/// Maximum number of columns of an output tile that epilogues read.
const TILE_COLUMNS: usize = 1024;

/// Number of blocks per thread, which balances the load of threads.
const BLOCKS_PER_THREAD: usize = 2;

/// The result of a GEMM, with strides in bytes.
#[derive(Clone, Copy)]
pub struct Output {
    pub matrix: Matrix<*mut u8>,
    pub dtype: DType,
    /// The instruction set of the code that rounds sums.
    pub isa: Isa,
}

impl Addresses for Output {}

impl Output {
    /// Whether sums are accumulated in the result: it has 32-bit elements and contiguous rows.
    fn is_direct(self) -> bool {
        self.dtype.size() == size_of::<u32>() && self.matrix.steps[1] == size_of::<u32>() as isize
    }

    /// Returns the result without its first rows and columns.
    fn skip(self, rows: usize, columns: usize) -> Self {
        Self { matrix: self.matrix.skip(rows, columns), ..self }
    }

    /// Writes sums to the first rows and columns, rounded or truncated. `width` is the row stride of `sums` in words.
    ///
    /// # Safety
    /// `sums` is valid for reads of these rows and columns, and the result for writes.
    unsafe fn write(self, [rows, columns]: [usize; 2], (sums, width): (*const u32, usize)) {
        let Matrix { first, steps } = self.matrix;
        // SAFETY: `sums` is readable and the result writable for `rows` by `columns` elements by this function's
        // contract. The accumulators of `f32::format` are as large as the words.
        unsafe {
            if let Some(format) = f32::format(self.isa, self.dtype) {
                return (format.write)([rows, columns], (sums.cast(), width), self.matrix);
            }
            with_element!(self.dtype, T => {
                let steps = steps.map(|it| it / size_of::<T>() as isize);
                let narrow = |it: u32| <T as Element>::from_scalar(Scalar::Int((it as i32).into()));
                for row in 0..rows {
                    let (sums, first) = (from_raw_parts(sums.add(row * width), columns), first.cast::<T>());
                    scatter(sums, first.wrapping_offset(row as isize * steps[0]), columns, steps, narrow);
                }
            });
        }
    }
}

/// A batch of GEMMs of the same sizes on a matrix engine.
#[derive(Clone, Copy)]
pub struct Product {
    pub engine: Engine,
    pub split: Split,
    /// `[m, k, n]`
    pub sizes: [usize; 3],
    pub left: Operand,
    pub right: Operand,
    pub out: Output,
    /// Whether products are added to the sums in the result, which must be [direct](Output::is_direct).
    pub accumulate: bool,
}

impl Addresses for Product {}

impl Product {
    /// Multiplies the pairs of matrices with these indices, on several threads if there is enough work. `offsets`
    /// returns the byte offsets of a pair's matrices. `left_panels` are micro-panels of left operands that were packed
    /// before.
    ///
    /// # Safety
    /// The conditions of [`BatchedGemm::run`](crate::gemm::BatchedGemm::run) hold. This machine has the engine and the
    /// instruction sets of the packings.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn run(
        self,
        pairs: Range<usize>,
        offsets: impl Fn(usize) -> [isize; 3] + Sync,
        left_panels: Option<Panels>,
    ) -> Result<()> {
        // SAFETY: `pack` and `multiply` require what this function's contract states, and `own` lives until `multiply`
        // returns.
        unsafe {
            let own = self.pack(&pairs, pairs.len() == 1, &offsets, [left_panels.is_some(), false], None)?;
            let [packed_left, right_panels] = own.each_ref().map(|it| it.as_ref().map(Packed::panels));
            self.multiply(pairs, offsets, [left_panels.or(packed_left), right_panels], None)
        }
    }

    /// Packs the operands whose micro-panels several blocks would pack otherwise, and a small left operand.
    ///
    /// Packing also finds the range of the elements, which saves a scan. `is_forced` marks operands that are packed
    /// already; `is_same` says that all pairs share the right operand.
    ///
    /// # Safety
    /// The conditions of [`Product::run`] hold.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn pack(
        self,
        pairs: &Range<usize>,
        is_same: bool,
        offsets: impl Fn(usize) -> [isize; 3],
        is_forced: [bool; 2],
        output_tiles: Option<(&OutputTiles<'_>, bool)>,
    ) -> Result<[Option<Packed>; 2]> {
        let ([m, k, n], batch) = (self.sizes, pairs.len());
        let [rows, columns] = partition([m, n], batch, output_tiles);
        let first = offsets(pairs.start);
        let is_small = Packed::bytes(self.left.packing, [k, m], 1) <= SMALL;
        let packs_left = !is_forced[0] && batch == 1 && (n > columns || is_small);
        let packs_right = !is_forced[1] && is_same && (batch > 1 || m > rows.min(ROWS));
        let transposed = Operand { matrix: self.left.matrix.transposed(), ..self.left };
        let candidates = [(packs_left, transposed, first[0], [k, m]), (packs_right, self.right, first[1], [k, n])];
        let mut packed = [None, None];
        for (packed, (packs, side, at, sizes)) in packed.iter_mut().zip(candidates) {
            let side = Operand { matrix: side.matrix.at(at), ..side };
            if packs && Packed::bytes(side.packing, sizes, 1) <= MAX_PACKED_BYTES {
                // SAFETY: the first pair's operand has `sizes` readable elements by this function's contract, and
                // `count` is 1.
                *packed = Some(unsafe { Packed::new(side, sizes, 1)? });
            }
        }
        Ok(packed)
    }

    /// Multiplies the pairs of matrices with these indices, with micro-panels of packed operands where they are given.
    ///
    /// `output_tiles` are the output tiles that epilogues read; the flag says that they tile the transposed result.
    ///
    /// # Safety
    /// The conditions of [`Product::run`] hold, and the micro-panels pack the operands.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands or for output tiles.
    pub unsafe fn multiply(
        self,
        pairs: Range<usize>,
        offsets: impl Fn(usize) -> [isize; 3] + Sync,
        [left_panels, right_panels]: [Option<Panels>; 2],
        output_tiles: Option<(&OutputTiles<'_>, bool)>,
    ) -> Result<()> {
        let ([m, k, n], batch) = (self.sizes, pairs.len());
        debug_assert!(!self.accumulate || self.out.is_direct());
        let [rows, columns] = partition([m, n], batch, output_tiles);
        let [along, across] = [m.div_ceil(rows), n.div_ceil(columns)];
        // One nanosecond covers several hundred component products.
        let nanos = (batch * m * n).saturating_mul(k) / 512 * self.split.component_products();
        let shared = Shared::new((self, left_panels, right_panels));
        threads::try_for_each(batch * along * across, nanos, |block| {
            let (mut own, left_panels, right_panels) = shared.get();
            let pair = pairs.start + block / (across * along);
            let (left, top) = (block % across * columns, block / across % along * rows);
            own.sizes = [rows.min(m - top), k, columns.min(n - left)];
            let [at_left, at_right, at_out] = offsets(pair);
            own.left.matrix = own.left.matrix.at(at_left).skip(top, 0);
            own.right.matrix = own.right.matrix.at(at_right).skip(0, left);
            let packed = [
                left_panels.map(|it| it.skip(pair, top / PANEL_ROWS)),
                right_panels.map(|it| it.skip(pair, left / PANEL_ROWS)),
            ];
            let Some((output_tiles, transposed)) = output_tiles else {
                own.out.matrix = own.out.matrix.at(at_out).skip(top, left);
                // SAFETY: the block covers rows and columns of pair `pair` inside the product that this function's
                // contract covers.
                return unsafe { own.block(packed) };
            };
            let (rows, columns) = (top..top + own.sizes[0], left..left + own.sizes[2]);
            let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
            let compute = |to: Matrix<*mut u8>| {
                let size = own.out.dtype.size() as isize;
                let to = Matrix { first: to.first, steps: to.steps.map(|it| it * size) };
                own.out.matrix = if transposed { to.transposed() } else { to };
                // SAFETY: the block covers rows and columns of pair `pair`, and `to` has room for the block.
                unsafe { own.block(packed) }
            };
            // SAFETY: `compute` writes every element of the tile, and `partition` made tiles of whole rows where
            // `by_rows` requires them.
            unsafe { output_tiles.run(&OutputTile { product: pair, rows, columns }, compute) }
        })
    }

    /// Multiplies one block on the calling thread, with micro-panels of packed operands where they are given.
    ///
    /// # Safety
    /// The conditions of [`Product::run`] hold for this block of a product.
    unsafe fn block(self, [left_panels, right_panels]: [Option<Panels>; 2]) -> Result<()> {
        let [m, k, n] = self.sizes;
        (0..m).step_by(ROWS).try_for_each(|top| {
            let mut own = self;
            own.sizes = [ROWS.min(m - top), k, n];
            own.left.matrix = self.left.matrix.skip(top, 0);
            own.out.matrix = self.out.matrix.skip(top, 0);
            let packed = [left_panels.map(|it| it.skip(0, top / PANEL_ROWS)), right_panels];
            // SAFETY: rows `top..top + ROWS` lie inside the block, and this machine has the engine by this function's
            // contract.
            unsafe {
                match self.engine {
                    Engine::None => unreachable!("products are packed for an engine"),
                    #[cfg(any(test, feature = "emulation"))]
                    Engine::Tiles(Implementation::Emulated) => own.strip::<tiles::Emulated>(packed),
                    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                    Engine::Tiles(Implementation::Native) => own.strip::<tiles::Native>(packed),
                    #[cfg(any(test, feature = "emulation"))]
                    Engine::Dots(Implementation::Emulated) => own.strip::<dots::Emulated>(packed),
                    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                    Engine::Dots(Implementation::Native) => own.strip::<dots::Native>(packed),
                }
            }
        })
    }

    /// Multiplies a block of at most [`ROWS`] rows.
    ///
    /// # Safety
    /// The conditions of [`Product::block`] hold, and `U` is the block's engine.
    unsafe fn strip<U: EngineState>(self, [left_panels, right_panels]: [Option<Panels>; 2]) -> Result<()> {
        let Self { sizes: [m, k, n], left, right, out, .. } = self;
        let (rows, columns) = (left.matrix, right.matrix.transposed());
        let (left, right) = (left.packing, right.packing);
        let k_blocks = k.div_ceil(left.k_block());
        // The K blocks are partitioned into passes of about equal depth.
        let passes = k_blocks.div_ceil(MAX_K_BLOCKS / left.components.max(right.components));
        let at_once = k_blocks.div_ceil(passes);
        let keeps_sums = !out.is_direct() && passes > 1;
        let width = if keeps_sums { COLUMNS.min(n) } else { n };
        let sums_width = if keeps_sums { width.next_multiple_of(PANEL_ROWS) } else { PANEL_ROWS };
        let lens = [
            if left_panels.is_none() { m.div_ceil(PANEL_ROWS) * left.panel_words(at_once) } else { 0 },
            if right_panels.is_none() { right.panel_words(at_once) } else { 0 },
            if keeps_sums { m.next_multiple_of(PANEL_ROWS) } else { PANEL_ROWS } * sums_width,
        ];
        let room = Storage::uninit(lens.iter().sum::<usize>().saturating_mul(size_of::<u32>()))?;
        let rows_room = room.device_ptr().cast::<u32>();
        let columns_room = rows_room.wrapping_add(lens[0]);
        let sums_room = columns_room.wrapping_add(lens[1]);
        // SAFETY: `room` has `lens` words for micro-panels and sums. The packed rows, columns and K indices are below
        // `m`, `n` and `k`, so they are elements of the operands. No other `U` is live on this thread, as it runs one
        // block at a time.
        unsafe {
            // Edge tiles also compute padding, which reads initialised sums.
            sums_room.write_bytes(0, lens[2]);
            let (mut state, kernel) = (U::start(), U::kernel(self.split));
            let offsets: [usize; MAX_K_BLOCKS] = std::array::from_fn(|it| right.panel_words(it));
            let mut packed_rows = None;
            for (first_column, start) in
                (0..n).step_by(width).flat_map(|it| (0..k_blocks).step_by(at_once).map(move |start| (it, start)))
            {
                let count = at_once.min(k_blocks - start);
                let is_first = start == 0 && !self.accumulate;
                let pass = Pass { kernel, is_first, is_last: start + count == k_blocks };
                let (first, depth) = (start * left.k_block(), (k - start * left.k_block()).min(count * left.k_block()));
                let own_rows = |top: usize| rows_room.add(top / PANEL_ROWS * left.panel_words(count));
                let row_panel = |top: usize| match left_panels {
                    Some(it) => it.panel(top / PANEL_ROWS, left.panel_words(start)),
                    None => own_rows(top).cast_const(),
                };
                if left_panels.is_none() && packed_rows != Some(start) {
                    for top in (0..m).step_by(PANEL_ROWS) {
                        left.pack(rows.skip(top, first), PANEL_ROWS.min(m - top), depth, own_rows(top));
                    }
                    packed_rows = Some(start);
                }
                for at in (first_column..n.min(first_column + width)).step_by(PANEL_ROWS) {
                    let column_panel = right_panels.map(|it| it.panel(at / PANEL_ROWS, right.panel_words(start)));
                    let column_panel = column_panel.unwrap_or_else(|| {
                        right.pack(columns.skip(at, first), PANEL_ROWS.min(n - at), depth, columns_room);
                        columns_room.cast_const()
                    });
                    // The tiles of one micro-panel of columns together prefetch the next one.
                    let lines = (right.panel_words(1) / LINE).div_ceil(m.div_ceil(PANEL_ROWS));
                    let next = right_panels.filter(|_| at + PANEL_ROWS < n.min(first_column + width));
                    let next = next.map(|it| it.panel(at / PANEL_ROWS + 1, right.panel_words(start)));
                    for top in (0..m).step_by(PANEL_ROWS) {
                        let prefetch = next.map_or(Prefetch::NONE, |it| Prefetch {
                            first: it.wrapping_add(top / PANEL_ROWS * lines * count * LINE),
                            lines,
                        });
                        let sizes = [m - top, n - at].map(|it| it.min(PANEL_ROWS));
                        let sums = if keeps_sums { top * sums_width + at - first_column } else { 0 };
                        let sums = (sums_room.add(sums), sums_width);
                        let panels = (row_panel(top), Columns::packed(column_panel, &offsets[..count], prefetch));
                        tile(&mut state, &pass, panels, sizes, sums, out.skip(top, at));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A pass over consecutive K blocks.
struct Pass<U> {
    kernel: Kernel<U>,
    /// Whether sums start at zero: in the first pass, unless the product accumulates.
    is_first: bool,
    /// Whether this is the last pass, after which the sums are the result.
    is_last: bool,
}

/// Multiplies a micro-panel of rows and one of columns, of which the first `sizes` belong to the result. `sums` is a
/// buffer for edge tiles and for results of other types; `width` is its row stride in words.
///
/// # Safety
/// The micro-panels have the K blocks of the pass. The result has `sizes` rows and columns, and `sums` has
/// [`PANEL_ROWS`] initialised rows and columns.
unsafe fn tile<U>(
    state: &mut U,
    pass: &Pass<U>,
    (rows, columns): (*const u32, Columns<'_>),
    sizes: [usize; 2],
    (sums, width): (*mut u32, usize),
    out: Output,
) {
    const WORD: usize = size_of::<u32>();
    // SAFETY: the kernel writes a whole tile: to the result if that has all `PANEL_ROWS` rows and columns, otherwise to
    // `sums`. Copies touch only the first `sizes` elements of both.
    unsafe {
        if out.is_direct() && sizes == [PANEL_ROWS; 2] {
            let Matrix { first, steps } = out.matrix;
            return (pass.kernel)(state, rows, columns, pass.is_first, first.cast(), steps[0]);
        }
        if out.is_direct() && !pass.is_first {
            for row in 0..sizes[0] {
                let from = out.skip(row, 0).matrix.first.cast::<u32>();
                sums.add(row * width).copy_from_nonoverlapping(from, sizes[1]);
            }
        }
        (pass.kernel)(state, rows, columns, pass.is_first, sums, (width * WORD) as isize);
        if out.is_direct() || pass.is_last {
            out.write(sizes, (sums, width));
        }
    }
}

/// Returns the rows and columns of a block, which are multiples of [`PANEL_ROWS`] where there are several blocks.
/// `output_tiles` are those of [`Product::multiply`].
fn partition([m, n]: [usize; 2], batch: usize, output_tiles: Option<(&OutputTiles<'_>, bool)>) -> [usize; 2] {
    // A tile of whole rows stays in a core's cache, and has enough rows to amortise reading the columns.
    const ELEMENTS: usize = 256 << 10;
    let desired = match threads::count() {
        1 => 1,
        threads => (threads * BLOCKS_PER_THREAD).div_ceil(batch),
    };
    let blocks = |size: usize, count: usize| size.div_ceil(count).next_multiple_of(PANEL_ROWS);
    match output_tiles.map(|(it, transposed)| (it.by_rows(), transposed)) {
        Some((true, false)) => [blocks(m, desired).min((ELEMENTS / n).max(PANEL_ROWS) / PANEL_ROWS * PANEL_ROWS), n],
        Some((true, true)) => [m, blocks(n, desired).min((ELEMENTS / m).max(PANEL_ROWS) / PANEL_ROWS * PANEL_ROWS)],
        _ => {
            // With fewer than two micro-panels of rows, packing columns takes as long as multiplying.
            let rows = blocks(m, m.div_ceil(ROWS).max(desired.min(m.div_ceil(2 * PANEL_ROWS))));
            let across = desired.div_ceil(m.div_ceil(rows)).min(n.div_ceil(4 * PANEL_ROWS));
            let across = if output_tiles.is_some() { across.max(n.div_ceil(TILE_COLUMNS)) } else { across };
            [rows, blocks(n, across)]
        }
    }
}
