//! Reads external tensor data from files in the model's folder.

use crate::io::bytes::open;
use ms_core::tensor::try_room;
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// The folder of a model; `None` for a model that was not read from a file.
pub struct Folder<'a>(pub Option<&'a Path>);

impl Folder<'_> {
    /// Reads the `size` bytes that the external-data entries of a tensor describe.
    ///
    /// # Errors
    /// A description of the defect: a path that leads outside of the folder, also by a link, or a file that is too
    /// short.
    pub fn data(&self, entries: &BTreeMap<String, String>, size: usize) -> Result<Vec<u8>, String> {
        let location = entries.get("location").ok_or("it does not say in which file")?;
        let number = |key: &str| {
            let number = entries.get(key).map(|it| it.parse::<u64>().map_err(|_| format!("its {key} is `{it}`")));
            number.transpose()
        };
        let (start, length) = (number("offset")?.unwrap_or(0), number("length")?);
        if length.is_some_and(|it| it != size as u64) {
            return Err(format!("it takes {size} bytes, and is said to have {}", length.unwrap_or_default()));
        }
        let within = |why: String| format!("`{location}` {why}");
        let (mut file, length_of) =
            open(&self.path(location)?).map_err(|it| within(format!("cannot be opened: {it}")))?;
        let end = start.checked_add(size as u64).filter(|&it| it <= length_of);
        if end.is_none() || (length.is_none() && end != Some(length_of)) {
            return Err(within(format!("has {length_of} bytes, of which it takes {size} from {start} on")));
        }
        let mut bytes = try_room(size).map_err(|it| it.report().message.clone())?;
        file.seek(SeekFrom::Start(start)).map_err(|it| within(format!("cannot be read: {it}")))?;
        file.take(size as u64).read_to_end(&mut bytes).map_err(|it| within(format!("cannot be read: {it}")))?;
        match bytes.len() == size {
            true => Ok(bytes),
            false => Err(within(format!("ended after {} bytes while it was read", bytes.len()))),
        }
    }

    /// Resolves the path of a file in the folder.
    fn path(&self, location: &str) -> Result<PathBuf, String> {
        let folder = self.0.ok_or("the model is in no folder")?;
        let outside = || format!("`{location}` is outside of the folder of the model");
        let inner = Path::new(location);
        if !inner.components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir)) {
            return Err(outside());
        }
        let missing = |it: std::io::Error| format!("`{location}` cannot be found: {it}");
        let (whole, path) =
            (folder.canonicalize().map_err(missing)?, folder.join(inner).canonicalize().map_err(missing)?);
        if path.starts_with(whole) { Ok(path) } else { Err(outside()) }
    }
}
