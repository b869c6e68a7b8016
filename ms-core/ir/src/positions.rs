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

/// Checks that all positions in an integer array are in range for an axis; negative ones count from the end.
///
/// # Errors
/// [`Code::OutOfRange`] with the first position that is out of range.
pub fn check_positions(index: &Array, axis: usize, shape: &[usize]) -> Result<()> {
    let size = shape[axis] as i64;
    // As unsigned numbers, negative ones are the largest.
    let exists = |at: i64| (at.wrapping_add(size) as u64) < 2 * size as u64;
    let index = index.on_host()?;
    let first = with_element!(index.dtype(), T => {
        let at = |it: T| it.to_scalar().as_i64();
        match index.as_slice::<T>() {
            // Without an early exit, the loop is vectorised.
            Ok(all) if all.iter().fold(true, |inside, &it| inside & exists(at(it))) => None,
            _ => index.iter::<T>().map(at).find(|&it| !exists(it)),
        }
    });
    first.map_or(Ok(()), |it| Err(outside(it, axis, shape)))
}

#[cold]
fn outside(at: i64, axis: usize, shape: &[usize]) -> Error {
    let size = shape[axis] as i64;
    Error::new(Code::OutOfRange, format!("index {at} is outside axis {axis} of shape {shape:?}")).help(format!(
        "indices of this axis go from {} to {}",
        -size,
        size - 1
    ))
}
