//! Lists the readers of untrusted files, for tests that give them arbitrary bytes.

use super::archive::gunzipped;
use super::exported;
use super::{ckpt, pytorch, safetensors};
use crate::data::csv::{self, CsvOptions};
use crate::data::{images, npy};
use ms_core::error::in_op;
use ms_core::{Code, Error, Result};
use std::path::Path;

/// Reads the content of a file and drops the result.
///
/// # Errors
/// The errors of the reader.
pub type Reader = fn(&[u8]) -> Result<()>;

/// The readers by name. No reader panics, aborts, or takes memory out of proportion to the file size.
pub const READERS: &[(&str, Reader)] = &[
    ("ckpt", |file| dropped(|| ckpt::read(file))),
    ("csv", |file| in_op(|| csv::table(file, Path::new("fuzz"), &CsvOptions::new()).map(drop))),
    ("exported", |file| dropped(|| exported::decode(file))),
    ("idx", |file| dropped(|| images::decode_idx(&gunzipped(file)?))),
    ("npy", |file| dropped(|| npy::decode(file))),
    ("npz", |file| dropped(|| npy::decode_all(file))),
    #[cfg(feature = "onnx")]
    ("onnx", |file| in_op(|| exported::ExportedFunction::from_onnx(file).map(drop))),
    ("pytorch", |file| dropped(|| pytorch::read(file))),
    ("safetensors", |file| in_op(|| again(file))),
    #[cfg(feature = "tokenizers")]
    ("tokenizer", |file| in_op(|| tokens(file))),
];

/// Returns the reader of this name.
///
/// # Panics
/// Panics if there is none.
pub fn reader(name: &str) -> Reader {
    READERS.iter().find(|it| it.0 == name).unwrap_or_else(|| panic!("no reader is called `{name}`")).1
}

fn dropped<T>(read: impl FnOnce() -> Result<T, String>) -> Result<()> {
    in_op(|| read().map(drop).map_err(|why| Error::new(Code::Parse, why)))
}

/// Asserts that writing and reading the arrays again gives the same arrays.
fn again(file: &[u8]) -> Result<()> {
    let wrong = |why| Error::new(Code::Parse, why);
    let arrays = safetensors::deserialize(file).map_err(wrong)?;
    let on_host = arrays.iter().map(|(name, it)| Ok((name.clone(), it.on_host()?))).collect::<Result<_>>()?;
    let mut written = Vec::new();
    safetensors::write(&on_host, &mut written).expect("memory can be written");
    let read = safetensors::deserialize(&written).expect("it was written here");
    assert!(read.iter().map(|(name, it)| (name, it.ty())).eq(arrays.iter().map(|(name, it)| (name, it.ty()))));
    Ok(())
}

/// Reads a tokenizer, encodes a text, and decodes its tokens.
#[cfg(feature = "tokenizers")]
fn tokens(file: &[u8]) -> Result<()> {
    use crate::data::Tokenizer;
    let tokenizer = crate::data::PretrainedTokenizer::of(file).map_err(|why| Error::new(Code::Parse, why))?;
    let tokens = tokenizer.encode("hello w\u{f6}rld hell")?;
    tokenizer.decode(&tokens).map(drop)
}

#[cfg(test)]
mod tests;
