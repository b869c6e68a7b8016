//! Cells in a row, as one part of a network.

use crate::prelude::*;
use ms_core::trace::{Arg, Sink};
use std::ops::{Deref, DerefMut};

/// A list of cells of one type, which a network holds and calls as it likes. Their parameters are
/// named by position: `blocks[0].weight`.
///
/// It derefs to a slice. Cells of different types are boxed: `CellList<Box<dyn Layer>>`.
///
/// ```
/// use ms::prelude::*;
/// let layers: nn::CellList<nn::Dense> = (0..3).map(|_| nn::Dense::new(4, 4)).collect();
/// let x = layers.iter().fold(Tensor::ones([2, 4]), |x, layer| layer.call(&x));
/// assert_eq!(x.shape(), [2, 4]);
/// assert_eq!(layers.named_parameters().expect("names differ")[2].0, "[1].weight");
/// ```
#[derive(Clone, Debug)]
pub struct CellList<C> {
    cells: Vec<C>,
}

impl<C: Cell> CellList<C> {
    /// No cells.
    pub fn new() -> Self {
        Self { cells: Vec::new() }
    }

    /// Adds a cell at the end.
    pub fn push(&mut self, cell: C) {
        self.cells.push(cell);
    }

    /// Adds a cell before the one at `index`.
    ///
    /// # Panics
    /// When `index` is beyond the end, as `Vec::insert`.
    pub fn insert(&mut self, index: usize, cell: C) {
        self.cells.insert(index, cell);
    }
}

impl<C: Cell> Default for CellList<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Deref for CellList<C> {
    type Target = [C];

    fn deref(&self) -> &[C] {
        &self.cells
    }
}

impl<C> DerefMut for CellList<C> {
    fn deref_mut(&mut self) -> &mut [C] {
        &mut self.cells
    }
}

impl<C> From<Vec<C>> for CellList<C> {
    fn from(cells: Vec<C>) -> Self {
        Self { cells }
    }
}

impl<C> FromIterator<C> for CellList<C> {
    fn from_iter<I: IntoIterator<Item = C>>(cells: I) -> Self {
        Self { cells: Vec::from_iter(cells) }
    }
}

impl<C> Extend<C> for CellList<C> {
    fn extend<I: IntoIterator<Item = C>>(&mut self, cells: I) {
        self.cells.extend(cells);
    }
}

impl<'a, C> IntoIterator for &'a CellList<C> {
    type Item = &'a C;
    type IntoIter = std::slice::Iter<'a, C>;

    fn into_iter(self) -> Self::IntoIter {
        self.cells.iter()
    }
}

impl<C: Cell> Arg for CellList<C> {
    fn visit(&self, sink: &mut dyn Sink) {
        self.cells.visit(sink);
    }
}

impl<C: Cell> Cell for CellList<C> {}
