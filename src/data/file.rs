//! Reading files, and what all formats of files share.

pub(super) use crate::io::bytes::{take, take_array};
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
