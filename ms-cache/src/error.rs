//! Defines errors and misses. A miss is not an error, and no error costs a result.

use crate::{Defect, Distrust, Secret};
use std::path::PathBuf;
use std::{fmt, io};

/// The result of operations that change or list a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why [`Store::get`](crate::Store::get) returns no entry.
#[derive(Debug)]
#[non_exhaustive]
pub enum Miss {
    /// There is no such entry.
    Absent,
    /// The file may have been written by another user.
    Distrusted(Distrust),
    /// The file is damaged.
    Damaged(Defect),
    /// The file is the entry of another key.
    OtherKey,
    /// The file cannot be read.
    Io(io::Error),
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the cache has no such entry"),
            Self::Distrusted(reason) => write!(f, "the entry is ignored: {reason}"),
            Self::Damaged(defect) => write!(f, "the entry is ignored: {defect}"),
            Self::OtherKey => f.write_str("the entry is ignored: it belongs to another key"),
            Self::Io(error) => write!(f, "the entry cannot be read: {error}"),
        }
    }
}

impl std::error::Error for Miss {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// The reason why a store cannot be opened, changed or listed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is a file or a link where the directory should be.
    NotADirectory(PathBuf),
    /// The directory may be written by another user.
    Distrusted(PathBuf, Distrust),
    /// The directory was removed.
    Gone(PathBuf),
    /// The disk is full or the quota exceeded.
    Full(PathBuf),
    /// The disk or the directory is read-only.
    ReadOnly(PathBuf),
    /// An entry is larger than the cap of the whole store.
    TooLarge {
        /// The size of the entry in bytes.
        bytes: u64,
        /// The cap of the store.
        max_bytes: u64,
    },
    /// A key file is so short that its secret could be guessed.
    ShortSecret(PathBuf, usize),
    /// Another user may have read or written a key file.
    DistrustedKey(PathBuf, Distrust),
    /// A key file cannot be read.
    KeyFile(PathBuf, io::Error),
    /// The statistics file cannot be read.
    Statistics(PathBuf, Miss),
    /// A file is not an exported store.
    NotAnExport(PathBuf),
    /// Another I/O error occurred.
    Io(PathBuf, io::Error),
}

impl Error {
    /// Converts an I/O error in the directory `path`.
    pub(crate) fn of_io(path: impl Into<PathBuf>, error: impl Into<io::Error>) -> Self {
        let (path, error) = (path.into(), error.into());
        match error.kind() {
            io::ErrorKind::NotFound => Self::Gone(path),
            io::ErrorKind::NotADirectory => Self::NotADirectory(path),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(path),
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::ReadOnly(path),
            _ => Self::Io(path, error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADirectory(path) => write!(f, "the cache path `{}` is not a directory", path.display()),
            Self::Distrusted(path, reason) => {
                write!(f, "the cache path `{}` is not used: {reason}", path.display())
            }
            Self::Gone(path) => write!(f, "the cache directory `{}` was removed", path.display()),
            Self::Full(path) => write!(f, "no space is left for the cache in `{}`", path.display()),
            Self::ReadOnly(path) => write!(f, "the cache directory `{}` cannot be written", path.display()),
            Self::TooLarge { bytes, max_bytes } => {
                write!(f, "an entry of {bytes} bytes does not fit a cache of {max_bytes} bytes")
            }
            Self::ShortSecret(path, bytes) => {
                write!(f, "the key file `{}` has {bytes} bytes, fewer than {}", path.display(), Secret::MIN_BYTES)
            }
            Self::DistrustedKey(path, reason) => write!(f, "the key file `{}` is not used: {reason}", path.display()),
            Self::KeyFile(path, error) => write!(f, "the key file `{}` cannot be read: {error}", path.display()),
            Self::Statistics(path, why) => {
                let path = path.display();
                match why {
                    Miss::Distrusted(reason) => write!(f, "the statistics `{path}` are not used: {reason}"),
                    Miss::Io(error) => write!(f, "the statistics `{path}` cannot be read: {error}"),
                    other => write!(f, "the statistics `{path}` cannot be read: {other}"),
                }
            }
            Self::NotAnExport(path) => write!(f, "`{}` is not a cache that was exported", path.display()),
            Self::Io(path, error) => write!(f, "the cache path `{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) | Self::KeyFile(_, error) => Some(error),
            Self::Statistics(_, why) => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn reports_of_the_system_have_names() {
        let check = |errno: Errno, expected: &str| {
            let error = Error::of_io("a b", errno);
            assert_eq!(error.to_string(), expected, "{error:?}");
        };
        check(Errno::NOSPC, "no space is left for the cache in `a b`");
        check(Errno::DQUOT, "no space is left for the cache in `a b`");
        check(Errno::ROFS, "the cache directory `a b` cannot be written");
        check(Errno::ACCESS, "the cache directory `a b` cannot be written");
        check(Errno::NOENT, "the cache directory `a b` was removed");
        check(Errno::NOTDIR, "the cache path `a b` is not a directory");
        assert!(matches!(Error::of_io("a b", Errno::IO), Error::Io(..)));
    }
}
