//! Reads regular files, and parses byte slices from the front.

use ms_core::error::in_op;
use ms_core::{Code, Error, Result, catch};
use std::fs::{File, metadata};
use std::io::{self, ErrorKind, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Creates the error for a file that cannot be read or written.
pub(crate) fn refuse(path: &Path, what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("cannot {what} `{}`: {why}", path.display()))
}

/// Opens a regular file, and returns its size. Every reader opens files with this function: a pipe or a device could
/// block, or never end.
///
/// # Errors
/// An I/O error, also for a path that is neither a regular file nor a link to one.
pub(crate) fn open(path: &Path) -> io::Result<(File, u64)> {
    let regular = |is_file: bool| is_file.then_some(()).ok_or_else(|| io::Error::other("it is no regular file"));
    // Opening a pipe would block until it has a writer.
    regular(metadata(path)?.is_file())?;
    let file = File::open(path)?;
    let about = file.metadata()?;
    regular(about.is_file())?;
    Ok((file, about.len()))
}

/// Reads the content of a regular file.
///
/// # Errors
/// [`Code::Io`] if the file cannot be read, [`Code::Memory`] if the system has no memory for it.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let content = open(path).and_then(|(mut file, size)| {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX)).map_err(|_| ErrorKind::OutOfMemory)?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    content.map_err(|error| match error.kind() {
        ErrorKind::OutOfMemory => Error::new(Code::Memory, format!("no memory holds `{}`", path.display())),
        _ => refuse(path, "read", error),
    })
}

/// Runs a reader of the file at `path`. A file that makes the reader panic is rejected, and the program continues. Such
/// a panic is a defect of the reader.
///
/// # Errors
/// The errors that the reader returns or raises, and [`Code::Io`] for a panic.
pub(super) fn guarded<T>(path: &Path, reader: impl FnOnce() -> Result<T>) -> Result<T> {
    let read = catch_unwind(AssertUnwindSafe(|| catch(|| in_op(reader)).and_then(|it| it)));
    read.unwrap_or_else(|_| Err(refuse(path, "read", "it is damaged in a way that the reader does not know")))
}

/// Splits the first `count` bytes off a slice.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) =
        bytes.split_at_checked(count).ok_or_else(|| format!("it ends {} bytes early", count - bytes.len()))?;
    *bytes = rest;
    Ok(taken)
}

/// Splits the first `N` bytes off a slice, as an array.
pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    Ok(take(bytes, N)?.try_into().expect("so many were taken"))
}

/// Returns whether the brackets of a JSON text, outside of strings, are nested at most `deepest` deep.
pub(crate) fn is_flat(text: &str, deepest: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for it in text.bytes() {
        match it {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' if depth == deepest => return false,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_reader_is_an_error_of_the_file() {
        type Reader = fn() -> Result<u8>;
        let cases: [(Reader, Code); 4] = [
            (|| panic!("a defect"), Code::Io),
            (|| [1u8, 2].get(2).map_or_else(|| unreachable!("a defect"), |it| Ok(*it)), Code::Io),
            (|| Err(Error::new(Code::Parse, "refused")), Code::Parse),
            (|| ms_core::error::raise(Error::new(Code::Shape, "raised")), Code::Shape),
        ];
        for (read, wanted) in cases {
            assert_eq!(guarded(Path::new("a file"), read).map_err(|error| error.code()), Err(wanted));
        }
        assert_eq!(guarded(Path::new("a file"), || Ok(1)).ok(), Some(1));
    }
}
