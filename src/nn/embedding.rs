//! Lookup in a table of embeddings.

use crate::prelude::*;

/// The rows of a table with the given indices, `[.., features]` ([`ops::embedding`]).
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::Embedding::new(10, 4);
/// assert_eq!(layer.call(&tensor![[1, 2, 3]]).shape(), [1, 3, 4]);
/// ```
#[cell]
pub struct Embedding {
    /// `[rows, features]`.
    pub table: Parameter,
}

#[cell]
impl Embedding {
    /// A table whose entries are normally distributed with a standard deviation of 0.02.
    pub fn new(rows: usize, features: usize) -> Self {
        let init = || random::normal([rows, features], 0.0, 0.02);
        Self { table: Parameter::init("", [rows, features], DType::F32, init) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        ops::embedding(x, &self.table, None)
    }
}
