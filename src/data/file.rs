//! Reading files, and what all formats of files share.

pub(super) use crate::io::bytes::{read, take, take_array};
use ms_core::error::in_op;
use ms_core::{Code, Error, Result};
use std::path::Path;

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
