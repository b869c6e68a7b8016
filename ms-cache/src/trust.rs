//! Decides which files are trusted, as code in mapped files may be executed.

use rustix::fs::OFlags;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens the file at a path that a user names. Does not wait for the writer of a pipe, which the metadata distinguishes
/// from a file.
///
/// # Errors
/// I/O errors.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags as i32).open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// The reason why a file or directory is not trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Distrust {
    /// A symbolic link.
    Link,
    /// An entry that is not a regular file.
    NotAFile,
    /// A file or directory that belongs to the user with this id, not to the user of this process.
    ForeignOwner(u32),
    /// A file or directory with a mode that permits the group or everyone to write.
    Writable(u32),
    /// A secret with a mode that permits the group or everyone to read.
    Readable(u32),
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("it is a symbolic link"),
            Self::NotAFile => f.write_str("it is not a regular file"),
            Self::ForeignOwner(uid) => write!(f, "it belongs to another user ({uid})"),
            Self::Writable(mode) => write!(f, "others may write it (mode {mode:03o})"),
            Self::Readable(mode) => write!(f, "others may read it (mode {mode:03o})"),
        }
    }
}

/// Checks that only the user of this process can have written the file.
pub(crate) fn check(metadata: &Metadata) -> Result<(), Distrust> {
    check_owner(metadata.uid(), metadata.mode(), rustix::process::geteuid().as_raw())
}

/// Checks that only the user of this process can have read or written the file.
pub(crate) fn check_private(metadata: &Metadata) -> Result<(), Distrust> {
    check(metadata)?;
    match metadata.mode() & 0o777 {
        mode if mode & 0o044 != 0 => Err(Distrust::Readable(mode)),
        _ => Ok(()),
    }
}

fn check_owner(uid: u32, mode: u32, euid: u32) -> Result<(), Distrust> {
    if uid != euid {
        return Err(Distrust::ForeignOwner(uid));
    }
    if mode & 0o022 != 0 {
        return Err(Distrust::Writable(mode & 0o777));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_others_cannot_write_are_trusted() {
        for mode in 0..=0o777 {
            let expected = if mode & 0o022 == 0 { Ok(()) } else { Err(Distrust::Writable(mode)) };
            assert_eq!(check_owner(1000, 0o100000 | mode, 1000), expected);
            assert_eq!(check_owner(0, mode, 1000), Err(Distrust::ForeignOwner(0)));
            assert_eq!(check_owner(1000, mode, 0), Err(Distrust::ForeignOwner(1000)));
        }
    }
}
