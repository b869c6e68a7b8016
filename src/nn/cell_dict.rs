//! Dictionaries of cells.

use crate::prelude::*;
use ms_core::trace::{Arg, Name, Sink};

/// Named cells of one type, in insertion order. Names become part of parameter names: `branches["left"].weight`.
///
/// For cells of different types, use `CellDict<Box<dyn Layer>>`.
///
/// ```
/// use ms::prelude::*;
/// let mut branches = nn::CellDict::new();
/// branches.insert("left", nn::Dense::new(4, 2));
/// branches.insert("right", nn::Dense::new(4, 2));
/// let y = branches["right"].call(&Tensor::ones([3, 4]));
/// assert_eq!((branches.len(), y.shape()), (2, &[3, 2][..]));
/// assert_eq!(branches.named_parameters().expect("names differ")[0].0, "[\"left\"].weight");
/// ```
#[derive(Clone, Debug)]
pub struct CellDict<C> {
    cells: Vec<(String, C)>,
}

impl<C: Cell> CellDict<C> {
    /// Creates an empty dictionary.
    pub fn new() -> Self {
        Self { cells: Vec::new() }
    }

    /// Adds a cell. Replaces and returns an existing cell of the same name.
    pub fn insert(&mut self, name: impl Into<String>, cell: C) -> Option<C> {
        let name = name.into();
        match self.cells.iter_mut().find(|it| it.0 == name) {
            Some(known) => Some(std::mem::replace(&mut known.1, cell)),
            None => {
                self.cells.push((name, cell));
                None
            }
        }
    }

    /// Removes and returns the cell of a name.
    pub fn remove(&mut self, name: &str) -> Option<C> {
        let at = self.cells.iter().position(|it| it.0 == name)?;
        Some(self.cells.remove(at).1)
    }

    /// Returns the cell of a name.
    pub fn get(&self, name: &str) -> Option<&C> {
        self.cells.iter().find(|it| it.0 == name).map(|it| &it.1)
    }

    /// Iterates over the names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(|it| it.0.as_str())
    }

    /// Iterates over names and cells, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &C)> {
        self.cells.iter().map(|(name, cell)| (name.as_str(), cell))
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns whether the dictionary is empty.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

impl<C: Cell> Default for CellDict<C> {
    fn default() -> Self {
        Self::new()
    }
}

/// Panics if no cell has the name, as the maps of `std` do.
impl<C: Cell> std::ops::Index<&str> for CellDict<C> {
    type Output = C;

    fn index(&self, name: &str) -> &C {
        self.get(name).unwrap_or_else(|| panic!("there is no cell {name:?}"))
    }
}

/// A later cell replaces an earlier one of its name.
impl<C: Cell, N: Into<String>> FromIterator<(N, C)> for CellDict<C> {
    fn from_iter<I: IntoIterator<Item = (N, C)>>(cells: I) -> Self {
        let mut dict = Self::new();
        for (name, cell) in cells {
            dict.insert(name, cell);
        }
        dict
    }
}

#[diagnostic::do_not_recommend]
impl<C: Cell> Arg for CellDict<C> {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.fixed(self.cells.len() as u64);
        for (name, cell) in &self.cells {
            name.visit(sink);
            sink.begin(Name::Key(name));
            cell.visit(sink);
            sink.end();
        }
    }
}

#[diagnostic::do_not_recommend]
impl<C: Cell> Cell for CellDict<C> {}
