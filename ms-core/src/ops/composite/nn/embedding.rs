//! Embedding: rows of a table.

use crate::error::Code;
use crate::ops::core::axis::refusal;
use crate::ops::{expand_dims, gather, not_equal, select, stop_gradient};
use crate::tensor::{AsTensor, Tensor, refused};

/// The rows of `table` `[rows, features]` at the positions in `index`, as a new last axis. The row
/// `padding_idx` has no gradient.
///
/// # Panics
/// Raises [`Code::DType`](crate::Code::DType) unless `index` is of integers,
/// [`Code::OutOfRange`] for a row that does not exist, [`Code::Shape`] unless the table has two axes.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::embedding(tensor![1, 0], tensor![[1., 2.], [3., 4.]], None).to_vec::<f32>(), [3., 4., 1., 2.]);
/// ```
#[track_caller]
pub fn embedding(index: impl AsTensor, table: impl AsTensor, padding_idx: Option<usize>) -> Tensor {
    let (index, table) = (index.as_tensor(), table.as_tensor());
    propagate_poison!(index, table);
    let refusal = |code, message: String| refused(refusal("embedding", &[&index, &table], code, message));
    if table.rank() != 2 {
        return refusal(Code::Shape, format!("the table is {}, but has to have rows and features", table.ty()));
    }
    if let (Some(padding), Some(rows)) = (padding_idx, table.dims()[0].as_const())
        && padding >= rows
    {
        return refusal(Code::OutOfRange, format!("`padding_idx` is {padding}, but there are {rows} rows"));
    }
    let rows = gather(&*table, &*index, 0);
    match padding_idx {
        None => rows,
        Some(padding) => {
            let trained = expand_dims(not_equal(&*index, padding), -1);
            select(trained, &rows, stop_gradient(&rows))
        }
    }
}
