//! Defines 32-byte hashes.

use std::fmt;
use std::io::{self, Read};

/// A blake3 hash, printed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; Self::LEN]);

impl Digest {
    /// The length in bytes.
    pub const LEN: usize = 32;

    /// Returns the hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the hash of all bytes of a reader, without holding them in memory together.
    ///
    /// # Errors
    /// The errors of the reader.
    ///
    /// ```
    /// use ms_cache::Digest;
    /// assert_eq!(Digest::of_reader(&b"abc"[..])?, Digest::of(b"abc"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn of_reader(reader: impl Read) -> io::Result<Self> {
        Ok(Self(*blake3::Hasher::new().update_reader(reader)?.finalize().as_bytes()))
    }

    /// Returns the bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Creates the hash with these bytes.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 2 * Self::LEN];
        for (digits, byte) in text.chunks_exact_mut(2).zip(self.0) {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        f.write_str(std::str::from_utf8(&text).expect("digits are ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
