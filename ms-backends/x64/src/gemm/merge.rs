//! Combines the sums of chunks in the order of [`PairwiseTree`](ms_ir::PairwiseTree).

use super::Matrix;
use super::element::{Accumulator, Stored};
use std::ops::Range;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Earlier sums that a result is combined with: consecutive [slots](ms_ir::PairwiseTree), the first at the result.
///
/// Slot `i` begins `i * distance` elements after the result and has its strides. The last slot is combined first, each
/// by `sum = earlier + sum`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlierSums {
    /// The number of earlier sums.
    pub count: usize,
    /// The distance between earlier sums in elements.
    pub distance: usize,
}

impl EarlierSums {
    /// No earlier sums.
    pub const NONE: Self = Self { count: 0, distance: 0 };
}

/// The slots of the sums of a block.
#[derive(Clone, Copy)]
pub struct Slots<W> {
    /// The result, if it is the first slot.
    pub result: Option<Matrix<*mut W>>,
    /// The memory of the other slots.
    pub room: *mut W,
    /// The rows and columns of a slot in `room`, which have whole tiles.
    pub sizes: [usize; 2],
}

impl<W> Slots<W> {
    /// Returns the slot with a number.
    fn get(&self, number: usize) -> Matrix<*mut W> {
        match self.result {
            Some(Matrix { first, steps }) if number == 0 => Matrix { first, steps },
            _ => {
                let [rows, columns] = self.sizes;
                let before = number - usize::from(self.result.is_some());
                Matrix::dense(self.room.wrapping_add(before * rows * columns), columns)
            }
        }
    }
}

/// How the sums of a chunk are combined with earlier ones, and where they are stored.
pub struct ChunkMerge<W> {
    /// The slots.
    pub slots: Slots<W>,
    /// The slots of [`PairwiseTree::combined`](ms_ir::PairwiseTree::combined).
    pub combined: Range<usize>,
    /// Whether this is the last chunk, after which the sums are the product.
    pub last: bool,
    /// Earlier sums that the product is combined with.
    pub earlier: EarlierSums,
    /// The result.
    pub out: Stored<*mut u8, W>,
}

impl<W: Accumulator> ChunkMerge<W> {
    /// Returns the matrix to which a micro-kernel writes the sums of the chunk. `None` if they are combined with others
    /// or converted, if columns are strided, or if the result has no room for a tile that is not `whole`.
    pub fn destination(&self, whole: bool) -> Option<Matrix<*mut W>> {
        let is_result = self.is_result();
        let is_combined = !self.combined.is_empty() || self.last && self.earlier.count > 0;
        if is_combined || is_result && !(whole && self.out.format.is_accumulator) {
            return None;
        }
        let to = if is_result { self.out.as_accumulators() } else { self.slots.get(self.combined.start) };
        (to.steps[1] == 1).then_some(to)
    }

    /// Whether the sums are stored in the result.
    fn is_result(&self) -> bool {
        self.last || self.combined.start == 0 && self.slots.result.is_some()
    }

    /// Combines a tile of the chunk's sums, which begins at this row and column, with earlier sums, and stores it. The
    /// tile's rows are `width` elements apart.
    ///
    /// # Safety
    /// The tile has these rows and columns, which lie in the block. The slots to combine are initialised there, and so
    /// are the earlier sums if the chunk is the last.
    pub unsafe fn write(&self, [top, left]: [usize; 2], sizes: [usize; 2], (tile, width): (*mut W, usize)) {
        let out = self.out.skip(top, left);
        // SAFETY: the tile, slots, earlier sums and result have these rows and columns, by this function's contract.
        unsafe {
            for slot in self.combined.clone().rev() {
                add(self.slots.get(slot).skip(top, left), sizes, (tile, width));
            }
            if self.last {
                for number in (0..self.earlier.count).rev() {
                    let first = out.as_accumulators().at((number * self.earlier.distance) as isize);
                    add(first, sizes, (tile, width));
                }
            }
            if self.is_result() {
                return (out.format.write)(sizes, (tile, width), out.matrix);
            }
            let to = self.slots.get(self.combined.start).skip(top, left);
            for row in 0..sizes[0] {
                to.skip(row, 0).first.copy_from_nonoverlapping(tile.add(row * width), sizes[1]);
            }
        }
    }
}

/// Adds a tile, whose rows are `width` elements apart, to earlier sums; the tile becomes the sum.
///
/// # Safety
/// The tile and the earlier sums have these rows and columns, are initialised, and do not overlap.
unsafe fn add<W: Accumulator>(earlier: Matrix<*mut W>, [rows, columns]: [usize; 2], (tile, width): (*mut W, usize)) {
    for row in 0..rows {
        let earlier = earlier.skip(row, 0);
        // SAFETY: `row < rows`, and the tile and the earlier sums have `columns` elements in this row, by this
        // function's contract.
        unsafe {
            let tile = from_raw_parts_mut(tile.add(row * width), columns);
            if earlier.steps[1] == 1 {
                let earlier = from_raw_parts(earlier.first.cast_const(), columns);
                tile.iter_mut().zip(earlier).for_each(|(sum, &earlier)| *sum = earlier + *sum);
                continue;
            }
            for (column, sum) in tile.iter_mut().enumerate() {
                *sum = *earlier.skip(0, column).first + *sum;
            }
        }
    }
}
