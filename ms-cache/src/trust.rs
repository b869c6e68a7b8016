//! Whose files are believed: what the store maps may be run as code.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Why a file or directory is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Distrust {
    /// It is a symbolic link.
    Link,
    /// An entry that is no regular file.
    NotAFile,
    /// It belongs to the user of this number, not to the one who runs this process.
    ForeignOwner(u32),
    /// Its mode lets the group or everyone write.
    Writable(u32),
    /// A secret whose mode lets the group or everyone read.
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

/// Checks that only the user who runs this process can have written it.
pub(crate) fn check(metadata: &Metadata) -> Result<(), Distrust> {
    check_owner(metadata.uid(), metadata.mode(), rustix::process::geteuid().as_raw())
}

/// Checks that only the user who runs this process can have read or written it.
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
    fn only_what_the_user_alone_can_write_is_believed() {
        for mode in 0..=0o777 {
            let expected = if mode & 0o022 == 0 { Ok(()) } else { Err(Distrust::Writable(mode)) };
            assert_eq!(check_owner(1000, 0o100000 | mode, 1000), expected);
            assert_eq!(check_owner(0, mode, 1000), Err(Distrust::ForeignOwner(0)));
            assert_eq!(check_owner(1000, mode, 0), Err(Distrust::ForeignOwner(1000)));
        }
    }
}
