//! Batch-reduce products: sums over groups of terms whose columns are at places of their own, in planes that are split once
//! for all of them (Georganas et al.: High-Performance Deep Learning via a Single Building Block, 2020).
//!
//! The windows of a convolution are such columns. Under one tap, those that are neighbours have neighbouring elements, so
//! that the columns of a tap are where the image is stored, without a matrix of columns.

use super::chosen::{Chosen, Lefts};
use super::kernel::{Ahead, Columns, Terms, Unit};
use super::split::{PANEL, Split, split};
use super::tiles::{ROWS, WORDS};
use super::{By, Units, dots, tiles};

/// Number of rows of a panel of filters, and of columns that are multiplied at once.
pub const TILE: usize = PANEL;

/// Number of channels of a group of terms, which are a block.
pub const BLOCK: usize = 2 * ROWS;

/// Left operands of batch-reduce products: of each row the terms of all taps.
pub struct Filters {
    unit: Chosen,
    packed: Lefts,
}

/// How the elements of channels are stored: for each [block](BLOCK) of channels one plane after the other, each of which has
/// a row of words for each pair of channels. A word has the elements of both at one place.
#[derive(Clone, Copy)]
pub struct Layout {
    planes: usize,
    split: Split,
    /// The number of words of a row.
    pub row: usize,
}

impl Layout {
    /// The number of words of a block.
    pub fn block(self) -> usize {
        self.planes * self.plane()
    }

    /// The number of words of a plane of a block.
    fn plane(self) -> usize {
        ROWS * self.row
    }

    /// Splits the elements of a pair of channels, which are two rows.
    ///
    /// # Safety
    /// The elements are valid for reads; there is room for the block, which has the pair.
    pub unsafe fn split(self, elements: *const f32, pair: usize, block: *mut u32) {
        // SAFETY: by the caller's contract; a machine with the unit has the instruction set, and rows are whole lines.
        unsafe { (self.split)(elements, self.row as isize, self.row, block.add(pair * self.row), self.plane()) };
    }

    /// Stores zeros for a pair of channels that do not exist.
    ///
    /// # Safety
    /// There is room for the block, which has the pair.
    pub unsafe fn clear(self, pair: usize, block: *mut u32) {
        for plane in 0..self.planes {
            // SAFETY: by the caller's contract.
            unsafe { block.add(plane * self.plane() + pair * self.row).write_bytes(0, self.row) };
        }
    }
}

impl Filters {
    /// Those of a unit that were [packed](Chosen::pack) for it.
    pub fn new(unit: Chosen, packed: Lefts) -> Self {
        Self { unit, packed }
    }

    /// The layout of channels with so many places.
    pub fn layout(&self, places: usize) -> Layout {
        let Chosen { isa, terms, .. } = self.unit;
        let planes = terms.planes()[1];
        // Tiles read places after the last one. The rows of a register are in different sets of a cache if they are an odd
        // number of lines apart.
        let lines = (places + TILE).div_ceil(WORDS) | 1;
        Layout { planes, split: split(isa, planes), row: lines * WORDS }
    }

    /// Sets [`TILE`] rows of `to`, which are `step` words apart, to the sums of products of a panel of rows of a left operand,
    /// and of so many [tiles](TILE) of columns, which are neighbouring places. `groups` says where the words of the first
    /// column are in each group: the taps of a block one after the other, then those of the next block.
    ///
    /// # Safety
    /// There are the operand, the panel, and as many groups as it has, whose words were stored in the layout; there is room
    /// for the sums.
    pub unsafe fn multiply(
        &self,
        [operand, panel]: [usize; 2],
        layout: Layout,
        (first, groups): (*const u32, &[usize]),
        tiles: usize,
        (to, step): (*mut u32, usize),
    ) {
        let panels = self.packed.panels().expect("the range of the filters was allowed");
        let rows = panels.skip(operand, panel).panel(0, 0);
        let ahead = Ahead::NONE;
        let columns = Columns { first, groups, plane: layout.plane(), register: WORDS, row: layout.row, ahead };
        let terms = self.unit.terms;
        // SAFETY: the caller's contract is the same, and the unit is that of `Chosen::of`. This thread has no unit, as it runs
        // one product at a time.
        unsafe {
            match self.unit.units {
                Units::None => unreachable!("filters are packed for units"),
                #[cfg(test)]
                Units::Tiles(By::Model) => run::<tiles::Model>(terms, rows, columns, tiles, (to, step)),
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Units::Tiles(By::Processor) => run::<tiles::Processor>(terms, rows, columns, tiles, (to, step)),
                #[cfg(test)]
                Units::Dots(By::Model) => run::<dots::Model>(terms, rows, columns, tiles, (to, step)),
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Units::Dots(By::Processor) => run::<dots::Processor>(terms, rows, columns, tiles, (to, step)),
            }
        }
    }
}

/// [`Filters::multiply`] on a unit.
///
/// # Safety
/// As [`Filters::multiply`]; this machine has the unit, and this thread has no other one.
unsafe fn run<U: Unit>(
    terms: Terms,
    rows: *const u32,
    columns: Columns<'_>,
    tiles: usize,
    (to, step): (*mut u32, usize),
) {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let (mut unit, kernel) = (U::start(), U::kernel(terms));
        for at in (0..tiles).map(|it| it * TILE) {
            let columns = Columns { first: columns.first.add(at), ..columns };
            kernel(&mut unit, rows, columns, true, to.add(at), (step * size_of::<u32>()) as isize);
        }
    }
}
