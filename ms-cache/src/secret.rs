//! Reads secrets, which authenticate entries in a directory that others may write.

use crate::{Distrust, Error, Result, trust};
use std::fmt;
use std::io::Read;
use std::path::Path;

/// The key of keyed hashes. Entries that were written with another secret are ignored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// The hash domain of secrets, so that a key file may serve other purposes as well.
const DOMAIN: &str = "ms-cache 2 secret";

impl Secret {
    /// The minimum length of a key file in bytes.
    pub const MIN_BYTES: usize = 32;

    /// The maximum length of a key file in bytes.
    const MAX_BYTES: u64 = 1 << 20;

    /// Derives the secret from these bytes, which must be hard to guess.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::derive_key(DOMAIN, bytes))
    }

    /// Reads the secret of a key file, which has at least [`Secret::MIN_BYTES`] bytes. Only this user may read and
    /// write it.
    ///
    /// # Errors
    /// [`Error::DistrustedKey`] for a file that others own, read or write. [`Error::ShortSecret`] for a file that is
    /// too short. [`Error::KeyFile`] for I/O errors.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |error| Error::KeyFile(path.to_owned(), error);
        let (file, metadata) = trust::open(path).map_err(failed)?;
        let distrust = |reason| Error::DistrustedKey(path.to_owned(), reason);
        if !metadata.is_file() {
            return Err(distrust(Distrust::NotAFile));
        }
        trust::check_private(&metadata).map_err(distrust)?;
        let mut bytes = Vec::new();
        file.take(Self::MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() < Self::MIN_BYTES {
            return Err(Error::ShortSecret(path.to_owned(), bytes.len()));
        }
        Ok(Self::of(&bytes))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
