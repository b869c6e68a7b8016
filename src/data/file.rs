//! Reading files, and what all formats of files share.

use ms_core::error::in_op;
use ms_core::{Code, Error, Result};
use std::io::ErrorKind;
use std::path::Path;

/// The content of a file.
///
/// # Errors
/// [`Code::Io`] when it cannot be read, [`Code::Memory`] when the system has no memory for it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::OutOfMemory => Error::new(Code::Memory, format!("no memory holds `{}`", path.display())),
        _ => Error::new(Code::Io, format!("cannot read `{}`: {error}", path.display())),
    })
}

/// What `decode` makes of the content of a file; its errors say what is wrong with the file.
///
/// # Errors
/// Those of [`read`]; [`Code::Parse`] with the path for an error of `decode`; [`Code::Memory`].
pub(super) fn decoded<T>(path: &Path, decode: impl FnOnce(&[u8]) -> Result<T, String>) -> Result<T> {
    let bytes = read(path)?;
    in_op(|| decode(&bytes).map_err(|why| refuse(path, why)))
}

/// The error for a file that is not what it should be.
pub(super) fn refuse(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(Code::Parse, format!("`{}`: {why}", path.display()))
}

/// The first bytes of a slice, which then starts after them.
pub(super) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) =
        bytes.split_at_checked(count).ok_or_else(|| format!("it ends {} bytes early", count - bytes.len()))?;
    *bytes = rest;
    Ok(taken)
}

/// The first bytes of a slice as an array, which then starts after them.
pub(super) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    Ok(take(bytes, N)?.try_into().expect("so many were taken"))
}
