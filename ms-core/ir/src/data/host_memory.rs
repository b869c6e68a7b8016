//! Allocates vectors with program-dependent lengths. Running out of memory is an error, whereas a plain `Vec` aborts
//! the process.

use crate::error::{Code, Error, OrExhausted, Result};

/// Returns an empty vector with capacity for `len` values.
///
/// # Errors
/// [`Code::Memory`] when the system has no memory for them.
///
/// ```
/// assert_eq!(ms_core::tensor::try_room::<u64>(1 << 62).unwrap_err().code(), ms_core::Code::Memory);
/// ```
pub fn try_room<T>(len: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    match room.try_reserve_exact(len) {
        Ok(()) => Ok(room),
        Err(_) => Err(refusal::<T>(len)),
    }
}

/// Returns `len` copies of a value.
///
/// # Errors
/// See [`try_room`].
pub fn try_filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    let mut out = try_room(len)?;
    out.resize(len, value);
    Ok(out)
}

/// Returns `len` copies of a value, inside an op, which reports an error as its own.
///
/// # Panics
/// Raises [`Code::Memory`] outside of ops.
#[track_caller]
pub fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    try_filled(value, len).or_exhausted()
}

/// Collects an iterator of known length, inside an op, which reports an error as its own.
///
/// # Panics
/// Raises [`Code::Memory`] outside of ops.
#[track_caller]
pub fn collected<T>(values: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut out = try_room(values.len()).or_exhausted();
    out.extend(values);
    out
}

/// Appends a value to a vector with program-dependent length, inside an op, which reports an error as its own.
///
/// # Panics
/// Raises [`Code::Memory`] outside of ops.
#[track_caller]
#[inline]
pub fn push<T>(values: &mut Vec<T>, value: T) {
    if values.try_reserve(1).is_err() {
        Err(refusal::<T>(values.len() + 1)).or_exhausted()
    }
    values.push(value);
}

#[cold]
fn refusal<T>(len: usize) -> Error {
    Error::new(Code::Memory, format!("the system has no memory for {len} values of {} bytes", size_of::<T>()))
}
