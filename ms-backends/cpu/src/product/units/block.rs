//! Blocked GEMM on a matrix engine.
//!
//! A result is partitioned into blocks for threads, blocks into strips of rows, and strips into tiles of one
//! micro-panel by another. Every sum accumulates its K blocks in order, independently of the partition.

use super::kernel::{Ahead, Columns, Kernel, LINE, Terms, Unit};
use super::packed::{Packed, Panels};
use super::split::{PANEL, Packing};
use super::{By, Units, WHOLE, dots, tiles};
use crate::isa::Isa;
use crate::product::tile::Wide;
use crate::product::{Addresses, Matrix, Part, Parts, Shared, scatter};
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, DType, Element, Scalar};
use ms_core::with_element;
use std::ops::Range;
use std::slice::from_raw_parts;

/// Maximum number of rows that are packed at once: [some K blocks](GROUPS) of them use a part of the L2 cache.
const ROWS: usize = 256;

/// Maximum number of split components of K blocks that are packed at once.
const GROUPS: usize = 48;

/// Maximum number of bytes of a packed left operand that stays in the L2 caches until blocks multiply it.
const SMALL: usize = 4 << 20;

/// Maximum number of columns of a block whose sums are accumulated in a separate buffer.
const COLUMNS: usize = 512;

/// Maximum number of columns of an output tile that epilogues read.
const PART_COLUMNS: usize = 1024;

/// Number of blocks per thread, which balances the load of threads.
const BLOCKS_PER_THREAD: usize = 2;

/// An operand of a GEMM, with strides in bytes.
#[derive(Clone, Copy)]
pub struct Side {
    pub matrix: Matrix<*const u8>,
    pub dtype: DType,
    pub packing: Packing,
}

/// The result of a GEMM, with strides in bytes.
#[derive(Clone, Copy)]
pub struct Out {
    pub matrix: Matrix<*mut u8>,
    pub dtype: DType,
    /// The instruction set of the code that rounds sums.
    pub isa: Isa,
}

impl Addresses for Side {}
impl Addresses for Out {}

impl Out {
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
    pub units: Units,
    pub terms: Terms,
    /// `[m, k, n]`
    pub sizes: [usize; 3],
    pub left: Side,
    pub right: Side,
    pub out: Out,
    /// Whether products are added to the sums in the result, which must be [direct](Out::is_direct).
    pub accumulate: bool,
}

impl Addresses for Product {}

impl Product {
    /// Multiplies the pairs of matrices with these indices, on several threads if there is enough work. `places`
    /// returns the byte offsets of a pair's matrices. `of_left` are micro-panels of left operands that were packed
    /// before.
    ///
    /// # Safety
    /// The conditions of [`run`](crate::product::run) hold. This machine has the engine and the instruction sets of the
    /// packings.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn run(
        self,
        pairs: Range<usize>,
        places: impl Fn(usize) -> [isize; 3] + Sync,
        of_left: Option<Panels>,
    ) -> Result<()> {
        // SAFETY: `pack` and `multiply` require what this function's contract states, and `own` lives until `multiply`
        // returns.
        unsafe {
            let own = self.pack(&pairs, pairs.len() == 1, &places, [of_left.is_some(), false], None)?;
            let [own_left, of_right] = own.each_ref().map(|it| it.as_ref().map(Packed::panels));
            self.multiply(pairs, places, [of_left.or(own_left), of_right], None)
        }
    }

    /// Packs the operands whose micro-panels several blocks would pack otherwise, and a small left operand.
    ///
    /// Packing also finds the range of the elements, which saves a scan. `is_given` marks operands that are packed
    /// already; `is_same` says that all pairs share the right operand.
    ///
    /// # Safety
    /// The conditions of [`Product::run`] hold.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed operands.
    pub unsafe fn pack(
        self,
        pairs: &Range<usize>,
        is_same: bool,
        places: impl Fn(usize) -> [isize; 3],
        is_given: [bool; 2],
        parts: Option<(&Parts<'_>, bool)>,
    ) -> Result<[Option<Packed>; 2]> {
        let ([m, k, n], batch) = (self.sizes, pairs.len());
        let [rows, columns] = cut([m, n], batch, parts);
        let first = places(pairs.start);
        let is_small = Packed::bytes(self.left.packing, [k, m], 1) <= SMALL;
        let packs_left = !is_given[0] && batch == 1 && (n > columns || is_small);
        let packs_right = !is_given[1] && is_same && (batch > 1 || m > rows.min(ROWS));
        let turned = Side { matrix: self.left.matrix.transposed(), ..self.left };
        let of_sides = [(packs_left, turned, first[0], [k, m]), (packs_right, self.right, first[1], [k, n])];
        let mut packed = [None, None];
        for (packed, (packs, side, at, sizes)) in packed.iter_mut().zip(of_sides) {
            let side = Side { matrix: side.matrix.at(at), ..side };
            if packs && Packed::bytes(side.packing, sizes, 1) <= WHOLE {
                // SAFETY: the first pair's operand has `sizes` readable elements by this function's contract, and
                // `count` is 1.
                *packed = Some(unsafe { Packed::new(side, sizes, 1)? });
            }
        }
        Ok(packed)
    }

    /// Multiplies the pairs of matrices with these indices, with micro-panels of packed operands where they are given.
    ///
    /// `parts` are the output tiles that epilogues read; the flag says that they tile the transposed result.
    ///
    /// # Safety
    /// The conditions of [`Product::run`] hold, and the micro-panels pack the operands.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for packed operands or for output tiles.
    pub unsafe fn multiply(
        self,
        pairs: Range<usize>,
        places: impl Fn(usize) -> [isize; 3] + Sync,
        [of_left, of_right]: [Option<Panels>; 2],
        parts: Option<(&Parts<'_>, bool)>,
    ) -> Result<()> {
        let ([m, k, n], batch) = (self.sizes, pairs.len());
        debug_assert!(!self.accumulate || self.out.is_direct());
        let [rows, columns] = cut([m, n], batch, parts);
        let [along, across] = [m.div_ceil(rows), n.div_ceil(columns)];
        // One nanosecond covers several hundred component products.
        let nanos = (batch * m * n).saturating_mul(k) / 512 * self.terms.products();
        let shared = Shared::new((self, of_left, of_right));
        threads::try_for_each(batch * along * across, nanos, |block| {
            let (mut own, of_left, of_right) = shared.get();
            let pair = pairs.start + block / (across * along);
            let (left, top) = (block % across * columns, block / across % along * rows);
            own.sizes = [rows.min(m - top), k, columns.min(n - left)];
            let [at_left, at_right, at_out] = places(pair);
            own.left.matrix = own.left.matrix.at(at_left).skip(top, 0);
            own.right.matrix = own.right.matrix.at(at_right).skip(0, left);
            let packed = [of_left.map(|it| it.skip(pair, top / PANEL)), of_right.map(|it| it.skip(pair, left / PANEL))];
            let Some((parts, turned)) = parts else {
                own.out.matrix = own.out.matrix.at(at_out).skip(top, left);
                // SAFETY: the block covers rows and columns of pair `pair` inside the product that this function's
                // contract covers.
                return unsafe { own.block(packed) };
            };
            let (rows, columns) = (top..top + own.sizes[0], left..left + own.sizes[2]);
            let (rows, columns) = if turned { (columns, rows) } else { (rows, columns) };
            let compute = |to: Matrix<*mut u8>| {
                let size = own.out.dtype.size() as isize;
                let to = Matrix { first: to.first, steps: to.steps.map(|it| it * size) };
                own.out.matrix = if turned { to.transposed() } else { to };
                // SAFETY: the block covers rows and columns of pair `pair`, and `to` has room for the block.
                unsafe { own.block(packed) }
            };
            // SAFETY: `compute` writes every element of the tile, and `cut` made tiles of whole rows where `by_rows`
            // requires them.
            unsafe { parts.run(&Part { product: pair, rows, columns }, compute) }
        })
    }

    /// Multiplies one block on the calling thread, with micro-panels of packed operands where they are given.
    ///
    /// # Safety
    /// The conditions of [`Product::run`] hold for this block of a product.
    unsafe fn block(self, [of_left, of_right]: [Option<Panels>; 2]) -> Result<()> {
        let [m, k, n] = self.sizes;
        (0..m).step_by(ROWS).try_for_each(|top| {
            let mut own = self;
            own.sizes = [ROWS.min(m - top), k, n];
            own.left.matrix = self.left.matrix.skip(top, 0);
            own.out.matrix = self.out.matrix.skip(top, 0);
            let packed = [of_left.map(|it| it.skip(0, top / PANEL)), of_right];
            // SAFETY: rows `top..top + ROWS` lie inside the block, and this machine has the engine by this function's
            // contract.
            unsafe {
                match self.units {
                    Units::None => unreachable!("products are made for units"),
                    #[cfg(test)]
                    Units::Tiles(By::Model) => own.strip::<tiles::Model>(packed),
                    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                    Units::Tiles(By::Processor) => own.strip::<tiles::Processor>(packed),
                    #[cfg(test)]
                    Units::Dots(By::Model) => own.strip::<dots::Model>(packed),
                    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                    Units::Dots(By::Processor) => own.strip::<dots::Processor>(packed),
                }
            }
        })
    }

    /// Multiplies a block of at most [`ROWS`] rows.
    ///
    /// # Safety
    /// The conditions of [`Product::block`] hold, and `U` is the block's engine.
    unsafe fn strip<U: Unit>(self, [of_left, of_right]: [Option<Panels>; 2]) -> Result<()> {
        let Self { sizes: [m, k, n], left, right, out, .. } = self;
        let (rows, columns) = (left.matrix, right.matrix.transposed());
        let (left, right) = (left.packing, right.packing);
        let groups = k.div_ceil(left.group());
        // The K blocks are partitioned into passes of about equal depth.
        let passes = groups.div_ceil(GROUPS / left.planes.max(right.planes));
        let at_once = groups.div_ceil(passes);
        let keeps_sums = !out.is_direct() && passes > 1;
        let width = if keeps_sums { COLUMNS.min(n) } else { n };
        let sums_width = if keeps_sums { width.next_multiple_of(PANEL) } else { PANEL };
        let lens = [
            if of_left.is_none() { m.div_ceil(PANEL) * left.panel(at_once) } else { 0 },
            if of_right.is_none() { right.panel(at_once) } else { 0 },
            if keeps_sums { m.next_multiple_of(PANEL) } else { PANEL } * sums_width,
        ];
        // SAFETY: micro-panels are packed and sums are zeroed below before anything reads them.
        let room = unsafe { Array::uninit(&[lens.iter().sum()], DType::U32)? };
        let rows_room = room.device_ptr().cast::<u32>();
        let columns_room = rows_room.wrapping_add(lens[0]);
        let sums_room = columns_room.wrapping_add(lens[1]);
        // SAFETY: `room` has `lens` words for micro-panels and sums. The packed rows, columns and K indices are below
        // `m`, `n` and `k`, so they are elements of the operands. No other `U` is live on this thread, as it runs one
        // block at a time.
        unsafe {
            // Edge tiles also compute padding, which reads initialised sums.
            sums_room.write_bytes(0, lens[2]);
            let (mut unit, kernel) = (U::start(), U::kernel(self.terms));
            let places: [usize; GROUPS] = std::array::from_fn(|it| right.panel(it));
            let mut packed_rows = None;
            for (first_column, start) in
                (0..n).step_by(width).flat_map(|it| (0..groups).step_by(at_once).map(move |start| (it, start)))
            {
                let count = at_once.min(groups - start);
                let is_first = start == 0 && !self.accumulate;
                let pass = Pass { kernel, is_first, is_last: start + count == groups };
                let (first, depth) = (start * left.group(), (k - start * left.group()).min(count * left.group()));
                let own_rows = |top: usize| rows_room.add(top / PANEL * left.panel(count));
                let panel_of_rows = |top: usize| match of_left {
                    Some(it) => it.panel(top / PANEL, left.panel(start)),
                    None => own_rows(top).cast_const(),
                };
                if of_left.is_none() && packed_rows != Some(start) {
                    for top in (0..m).step_by(PANEL) {
                        left.pack(rows.skip(top, first), PANEL.min(m - top), depth, own_rows(top));
                    }
                    packed_rows = Some(start);
                }
                for at in (first_column..n.min(first_column + width)).step_by(PANEL) {
                    let of_columns = of_right.map(|it| it.panel(at / PANEL, right.panel(start)));
                    let of_columns = of_columns.unwrap_or_else(|| {
                        right.pack(columns.skip(at, first), PANEL.min(n - at), depth, columns_room);
                        columns_room.cast_const()
                    });
                    // The tiles of one micro-panel of columns together prefetch the next one.
                    let lines = (right.panel(1) / LINE).div_ceil(m.div_ceil(PANEL));
                    let next = of_right.filter(|_| at + PANEL < n.min(first_column + width));
                    let next = next.map(|it| it.panel(at / PANEL + 1, right.panel(start)));
                    for top in (0..m).step_by(PANEL) {
                        let ahead = next.map_or(Ahead::NONE, |it| Ahead {
                            first: it.wrapping_add(top / PANEL * lines * count * LINE),
                            lines,
                        });
                        let sizes = [m - top, n - at].map(|it| it.min(PANEL));
                        let sums = if keeps_sums { top * sums_width + at - first_column } else { 0 };
                        let sums = (sums_room.add(sums), sums_width);
                        let panels = (panel_of_rows(top), Columns::packed(of_columns, &places[..count], ahead));
                        tile(&mut unit, &pass, panels, sizes, sums, out.skip(top, at));
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
/// The micro-panels have the K blocks of the pass. The result has `sizes` rows and columns, and `sums` has [`PANEL`]
/// initialised rows and columns.
unsafe fn tile<U>(
    unit: &mut U,
    pass: &Pass<U>,
    (rows, columns): (*const u32, Columns<'_>),
    sizes: [usize; 2],
    (sums, width): (*mut u32, usize),
    out: Out,
) {
    const WORD: usize = size_of::<u32>();
    // SAFETY: the kernel writes a whole tile: to the result if that has all `PANEL` rows and columns, otherwise to
    // `sums`. Copies touch only the first `sizes` elements of both.
    unsafe {
        if out.is_direct() && sizes == [PANEL; 2] {
            let Matrix { first, steps } = out.matrix;
            return (pass.kernel)(unit, rows, columns, pass.is_first, first.cast(), steps[0]);
        }
        if out.is_direct() && !pass.is_first {
            for row in 0..sizes[0] {
                let from = out.skip(row, 0).matrix.first.cast::<u32>();
                sums.add(row * width).copy_from_nonoverlapping(from, sizes[1]);
            }
        }
        (pass.kernel)(unit, rows, columns, pass.is_first, sums, (width * WORD) as isize);
        if out.is_direct() || pass.is_last {
            out.write(sizes, (sums, width));
        }
    }
}

/// Returns the rows and columns of a block, which are multiples of [`PANEL`] where there are several blocks. `parts`
/// are those of [`Product::multiply`].
fn cut([m, n]: [usize; 2], batch: usize, parts: Option<(&Parts<'_>, bool)>) -> [usize; 2] {
    // A tile of whole rows stays in a core's cache, and has enough rows to amortise reading the columns.
    const ELEMENTS: usize = 256 << 10;
    let wanted = match threads::count() {
        1 => 1,
        threads => (threads * BLOCKS_PER_THREAD).div_ceil(batch),
    };
    let blocks = |size: usize, count: usize| size.div_ceil(count).next_multiple_of(PANEL);
    match parts.map(|(it, turned)| (it.by_rows(), turned)) {
        Some((true, false)) => [blocks(m, wanted).min((ELEMENTS / n).max(PANEL) / PANEL * PANEL), n],
        Some((true, true)) => [m, blocks(n, wanted).min((ELEMENTS / m).max(PANEL) / PANEL * PANEL)],
        _ => {
            // With fewer than two micro-panels of rows, packing columns takes as long as multiplying.
            let rows = blocks(m, m.div_ceil(ROWS).max(wanted.min(m.div_ceil(2 * PANEL))));
            let across = wanted.div_ceil(m.div_ceil(rows)).min(n.div_ceil(4 * PANEL));
            let across = if parts.is_some() { across.max(n.div_ceil(PART_COLUMNS)) } else { across };
            [rows, blocks(n, across)]
        }
    }
}
