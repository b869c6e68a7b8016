//! Checkpoints: the parameters of a cell in a file.

use super::replace::replace;
use super::safetensors;
use ms_core::error::in_op;
use ms_core::trace::Cell;
use ms_core::{Code, Error, Result, Tensor};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

fn refuse(path: &Path, what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("cannot {what} `{}`: {why}", path.display()))
}

/// Writes every parameter of a cell under its path (`fc1.weight`) into one safetensors file. An
/// existing file is replaced atomically, and durably when this returns: a reader sees the old file
/// or the new one, also after a crash, whatever other threads or processes save there.
///
/// # Errors
/// [`Code::Io`] when the file cannot be written, or when `path` is not a regular file or a link to
/// one; [`Code::DuplicateName`] when two parameters have the same name.
pub fn save_checkpoint(net: &impl Cell, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let mut arrays = BTreeMap::new();
    for (name, parameter) in net.named_parameters()? {
        arrays.insert(name, parameter.load().try_array()?);
    }
    replace(path, |out| safetensors::write(&arrays, out)).map_err(|error| refuse(path, "write", error))
}

/// Reads every parameter of a cell from a safetensors file. Nothing is changed unless all of them
/// fit.
///
/// # Errors
/// [`Code::Io`] when the file cannot be read or has another format, [`Code::Memory`] when the
/// system has no memory for it, [`Code::Argument`] with all names when parameters are missing in
/// the file or in the cell, or differ in shape or dtype.
pub fn load_checkpoint(net: &impl Cell, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let arrays = in_op(|| {
        let bytes = std::fs::read(path).map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => Error::new(Code::Memory, format!("no memory holds `{}`", path.display())),
            _ => refuse(path, "read", error),
        })?;
        safetensors::deserialize(&bytes).map_err(|why| refuse(path, "read", why))
    });
    let mut arrays = arrays.map_err(|it| it.with_op("load_checkpoint"))?;
    let (mut loaded, mut wrong) = (Vec::new(), Vec::new());
    for (name, parameter) in net.named_parameters()? {
        let wanted = parameter.load().ty();
        match arrays.remove(&name) {
            None => wrong.push(format!("`{name}` is not in the file")),
            Some(array) if array.ty() == wanted => loaded.push((parameter, Tensor::from_array(array))),
            Some(array) => wrong.push(format!("`{name}` is {wanted}, in the file {}", array.ty())),
        }
    }
    wrong.extend(arrays.into_keys().map(|name| format!("`{name}` is not in the cell")));
    if !wrong.is_empty() {
        let message = format!("`{}` does not fit the cell: {}", path.display(), wrong.join("; "));
        return Err(Error::new(Code::Argument, message));
    }
    for (parameter, value) in loaded {
        parameter.try_set(&value)?;
    }
    Ok(())
}
