//! Reading files, and their parts from the front.

use super::state_dict::refuse;
use ms_core::{Code, Error, Result};
use std::io::ErrorKind;
use std::path::Path;

/// The content of a file.
///
/// # Errors
/// [`Code::Io`] when it cannot be read, [`Code::Memory`] when the system has no memory for it.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::OutOfMemory => Error::new(Code::Memory, format!("no memory holds `{}`", path.display())),
        _ => refuse(path, "read", error),
    })
}

/// The first bytes of a slice, which then starts after them.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) =
        bytes.split_at_checked(count).ok_or_else(|| format!("it ends {} bytes early", count - bytes.len()))?;
    *bytes = rest;
    Ok(taken)
}

/// The first bytes of a slice as an array, which then starts after them.
pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    Ok(take(bytes, N)?.try_into().expect("so many were taken"))
}
