//! Datasets of text lines.

use super::dataset::{Dataset, check_index};
use super::epoch::Epoch;
use super::file::{read, refuse};
use ms_core::Result;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The lines of text files, in order, without line ends. Clones share the text.
///
/// ```
/// use ms::data::{Epoch, TextFileDataset};
/// use ms::prelude::*;
/// # let path = std::env::temp_dir().join(format!("ms doc text {}", std::process::id()));
/// std::fs::write(&path, "one line\nand another\n").expect("the folder is writable");
/// let lines = TextFileDataset::read([&path])?;
/// assert_eq!((lines.len(), lines.get(Epoch::new(0, 0), 1)?.as_str()), (2, "and another"));
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TextFileDataset {
    files: Arc<[TextFile]>,
    len: usize,
}

#[derive(Debug)]
struct TextFile {
    path: PathBuf,
    text: String,
    lines: Vec<Range<usize>>,
}

impl TextFileDataset {
    /// Reads UTF-8 text files.
    ///
    /// # Errors
    /// [`Code::Io`](ms_core::Code::Io) if a file cannot be read, [`Code::Parse`](ms_core::Code::Parse) with the line
    /// number for text that is not UTF-8.
    pub fn read(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self> {
        let files = paths.into_iter().map(|it| TextFile::read(it.as_ref())).collect::<Result<Arc<[_]>>>()?;
        Ok(Self { len: files.iter().map(|it| it.lines.len()).sum(), files })
    }

    /// Returns the file of an index in range, and the line in it.
    fn find(&self, mut index: usize) -> (&TextFile, usize) {
        for file in &*self.files {
            match index.checked_sub(file.lines.len()) {
                Some(rest) => index = rest,
                None => return (file, index),
            }
        }
        unreachable!("the index is below the number of lines")
    }
}

impl TextFile {
    fn read(path: &Path) -> Result<Self> {
        let text = String::from_utf8(read(path)?).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.iter().filter(|it| **it == b'\n').count() + 1;
            refuse(path, format!("line {line} is not UTF-8")).with_op("TextFileDataset")
        })?;
        let start = |line: &str| line.as_ptr() as usize - text.as_ptr() as usize;
        let lines = text.lines().map(|it| start(it)..start(it) + it.len()).collect();
        Ok(Self { path: path.to_owned(), text, lines })
    }
}

impl Dataset for TextFileDataset {
    type Sample = String;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, _: Epoch, index: usize) -> Result<String> {
        check_index(index, self.len)?;
        let (file, line) = self.find(index);
        Ok(file.text[file.lines[line].clone()].to_owned())
    }

    fn name(&self, _: Epoch, index: usize) -> String {
        if index >= self.len {
            return format!("sample {index}");
        }
        let (file, line) = self.find(index);
        format!("line {} of `{}`", line + 1, file.path.display())
    }
}
