//! Embedding: rows of a table.

use crate::ops::{expand_dims, gather, not_equal, select, stop_gradient};
use crate::tensor::{AsTensor, Tensor};

/// The rows of `table` `[rows, features]` that `index` names, as a new last axis. The row
/// `padding_idx` gets no gradient.
///
/// # Panics
/// Raises [`Code::DType`](crate::Code::DType) unless `index` holds integers,
/// [`Code::OutOfRange`](crate::Code::OutOfRange) for a row that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::embedding(tensor![1, 0], tensor![[1., 2.], [3., 4.]], None).to_vec::<f32>(), [3., 4., 1., 2.]);
/// ```
#[track_caller]
pub fn embedding(index: impl AsTensor, table: impl AsTensor, padding_idx: Option<usize>) -> Tensor {
    let index = index.as_tensor();
    let rows = gather(table, &*index, 0);
    match padding_idx {
        None => rows,
        Some(padding) => {
            let trained = expand_dims(not_equal(&*index, padding), -1);
            select(trained, &rows, stop_gradient(&rows))
        }
    }
}
