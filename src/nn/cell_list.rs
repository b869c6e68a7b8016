//! Lists of cells.

use crate::prelude::*;
use ms_core::trace::{Apply, Arg, Bound, Carry, OnTensor, Sink, switch};
use std::ops::{Deref, DerefMut};

/// A list of cells of one type. Their parameters are named by position: `blocks[0].weight`.
///
/// A list derefs to a slice. For cells of different types, use `CellList<Box<dyn Layer>>`.
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
    /// Creates an empty list.
    pub fn new() -> Self {
        Self { cells: Vec::new() }
    }

    /// Appends a cell.
    pub fn push(&mut self, cell: C) {
        self.cells.push(cell);
    }

    /// Inserts a cell before the one at `index`.
    ///
    /// # Panics
    /// Panics if `index` is greater than the length, like `Vec::insert`.
    pub fn insert(&mut self, index: usize, cell: C) {
        self.cells.insert(index, cell);
    }

    /// Selects the cell at `index`, a number or a tensor of one number, clamped to the list. With a tensor, the graph
    /// contains all cells, and only the selected one runs.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let layers: Vec<Box<dyn Layer>> = vec![Box::new(nn::ReLU), Box::new(nn::Tanh)];
    /// let layers = nn::CellList::from(layers);
    /// let x = tensor![-1.0, 2.0];
    /// assert_eq!(layers.select(&Tensor::scalar(0i64)).call(&x).to_vec::<f32>(), [0.0, 2.0]);
    /// ```
    pub fn select(&self, index: impl Into<Bound>) -> Selected<'_, C> {
        Selected { cells: &self.cells, index: index.into() }
    }
}

/// A cell of a [`CellList`], selected at the time of the call.
///
/// See the example of [`CellList::select`].
pub struct Selected<'a, C> {
    cells: &'a [C],
    index: Bound,
}

impl<C> Selected<'_, C> {
    /// Calls the cell with one argument. The results of all cells must have the same types.
    ///
    /// # Panics
    /// Raises [`Code::Argument`](crate::Code::Argument) for an empty list, and
    /// [`Code::TypeChange`](crate::Code::TypeChange) for results of different types.
    #[track_caller]
    pub fn call<'x, A: Clone, R>(&self, argument: A) -> R
    where
        OnTensor: Carry<R>,
        C: Apply<'x, Argument = A, Output = R>,
    {
        self.with(|cell| cell.apply(argument.clone()))
    }

    /// Applies `f` to the cell: for cells with several arguments, and for other methods.
    ///
    /// # Panics
    /// Raises the errors of [`Selected::call`].
    #[track_caller]
    pub fn with<R>(&self, f: impl Fn(&C) -> R) -> R
    where
        OnTensor: Carry<R>,
    {
        let branches: Vec<_> = self.cells.iter().map(|cell| |_: &()| f(cell)).collect();
        let branches: Vec<&dyn Fn(&()) -> R> = branches.iter().map(|it| it as _).collect();
        switch(self.index.clone(), &branches, &())
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

#[diagnostic::do_not_recommend]
impl<C: Cell> Arg for CellList<C> {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.cells.visit(sink);
    }
}

#[diagnostic::do_not_recommend]
impl<C: Cell> Cell for CellList<C> {}
