//! Positions along an axis, as elements of integer arrays.

use crate::data::{Array, Element, try_room};
use crate::error::{Code, Error, Result};
use crate::with_element;

/// Reads an integer array as positions along an axis of `shape`; negative ones count from the end.
///
/// # Errors
/// [`Code::OutOfRange`] for a position outside the axis.
pub fn positions(index: &Array, axis: usize, shape: &[usize]) -> Result<Vec<usize>> {
    let size = shape[axis];
    let position = |at: i64| {
        let wrapped = if at < 0 { at + size as i64 } else { at };
        if wrapped < 0 || wrapped >= size as i64 {
            return Err(outside(at, axis, shape));
        }
        Ok(wrapped as usize)
    };
    let mut out = try_room(index.numel())?;
    let index = index.on_host()?;
    with_element!(index.dtype(), T => {
        for it in index.iter::<T>() {
            out.push(position(it.to_scalar().as_i64())?);
        }
    });
    Ok(out)
}

/// Returns the error of an index outside an axis of a shape.
#[cold]
pub(crate) fn outside(at: i64, axis: usize, shape: &[usize]) -> Error {
    let size = shape[axis] as i64;
    Error::new(Code::OutOfRange, format!("index {at} is outside axis {axis} of shape {shape:?}")).help(format!(
        "indices of this axis go from {} to {}",
        -size,
        size - 1
    ))
}
