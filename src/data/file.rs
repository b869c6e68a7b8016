//! Helpers of all file formats: reading and error construction.

pub(super) use crate::io::bytes::{read, take, take_array};
use ms_core::error::in_op;
use ms_core::{Code, Error, Result};
use std::path::Path;

/// Reads a file and decodes its content with `decode`, whose error message describes the defect of the file.
///
/// # Errors
/// The errors of [`read`]; [`Code::Parse`] with the path for an error of `decode`; [`Code::Memory`].
pub(super) fn decoded<T>(path: &Path, decode: impl FnOnce(&[u8]) -> Result<T, String>) -> Result<T> {
    let bytes = read(path)?;
    in_op(|| decode(&bytes).map_err(|why| refuse(path, why)))
}

/// Creates the error for a malformed file.
pub(super) fn refuse(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(Code::Parse, format!("`{}`: {why}", path.display()))
}
