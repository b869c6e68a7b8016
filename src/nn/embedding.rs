//! Embedding tables.

use super::init::parameter;
use crate::prelude::*;
use ms_core::error::raise;
use ms_core::{Code, Error};

/// An embedding table: a call returns the rows of the given indices, `[.., features]` ([`ops::embedding`]).
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::Embedding::new(10, 4).padding_idx(0);
/// let y = layer.call(&tensor![[1, 0]]);
/// assert_eq!(y.shape(), [1, 2, 4]);
/// assert_eq!(y.i((0, 1)).to_vec::<f32>(), [0.0; 4]);
/// ```
#[cell]
#[derive(Debug)]
pub struct Embedding {
    /// The table of embeddings, `[rows, features]`.
    pub table: Parameter,
    padding_idx: Option<usize>,
}

impl Embedding {
    /// Creates a table of normally distributed entries with a standard deviation of 0.02.
    #[track_caller]
    pub fn new(rows: usize, features: usize) -> Self {
        let shape = [rows, features];
        Self { table: parameter(&shape, || random::normal(shape, 0.0, 0.02)), padding_idx: None }
    }

    /// Sets the initial table, a function of its shape; see [`init`](crate::nn::init).
    #[track_caller]
    pub fn weight_init(self, init: impl FnOnce(&[usize]) -> Tensor) -> Self {
        let shape = self.table.load().shape().to_vec();
        let padding = self.padding_idx;
        Self { table: parameter(&shape, || without_row(init(&shape), padding)), ..self }
    }

    /// Sets the row of the padding token: it is zero at first, and not trained.
    ///
    /// # Panics
    /// Raises [`Code::OutOfRange`] for a row that does not exist.
    #[track_caller]
    pub fn padding_idx(self, padding_idx: usize) -> Self {
        let table = self.table.load();
        if padding_idx >= table.shape()[0] {
            let message = format!("`padding_idx` is {padding_idx}, but there are {} rows", table.shape()[0]);
            raise(Error::new(Code::OutOfRange, message).with_op("Embedding"));
        }
        let table = parameter(table.shape(), || without_row(table.clone(), Some(padding_idx)));
        Self { table, padding_idx: Some(padding_idx) }
    }
}

/// Returns the table with zeros in this row.
fn without_row(table: Tensor, row: Option<usize>) -> Tensor {
    match row {
        Some(row) => table.set_at(row as i64, 0.0),
        None => table,
    }
}

#[cell]
impl Embedding {
    fn construct(&self, x: &Tensor) -> Tensor {
        ops::embedding(x, &self.table, self.padding_idx)
    }
}
