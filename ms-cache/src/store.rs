//! The store: get and put bytes by key.

use crate::directory::{self, Directory};
use crate::entry::{Header, decode_header, encode_header};
use crate::evict::Usage;
use crate::{Error, Key, Miss, Result};
use memmap2::Mmap;
use std::fs::{File, Metadata};
use std::ops::Deref;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// The ending of the name of an entry; before it stands the hash of the key.
const ENTRY: &str = ".entry";

/// How a [`Store`] behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The bytes that all entries together may take; the least recently used go first. 2 GiB.
    pub max_bytes: u64,
    /// The age from which an unfinished file is taken for one whose writer was killed. One hour.
    pub abandoned_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_bytes: 2 << 30, abandoned_after: Duration::from_secs(60 * 60) }
    }
}

/// A directory of entries, shared by any number of threads and processes.
///
/// One file per key, written under a temporary name, flushed and renamed (mode 0400), and never
/// edited afterwards. What is mapped stays as it is when the entry is replaced or evicted. Files
/// that another user owns or may write, links, and damaged files are misses.
#[derive(Debug)]
pub struct Store {
    pub(crate) directory: Directory,
    pub(crate) options: Options,
    pub(crate) usage: Mutex<Usage>,
}

impl Store {
    /// Opens the store in a directory, which is made (mode 0700) if it is missing.
    ///
    /// The directory stays open: renaming it or changing the working directory changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::NotADirectory`] for a file or a link, [`Error::Distrusted`] for the directory of
    /// another user or one that others may write, [`Error::ReadOnly`] and the like where it cannot
    /// be made.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let directory = Directory::open(path.as_ref())?;
        Ok(Self { directory, options: options.clone(), usage: Mutex::default() })
    }

    /// Where the store is; absolute.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The payload of an entry, mapped and verified; the entry counts as used now.
    pub fn get(&self, key: &Key) -> Result<Mapped, Miss> {
        let found = self.read(&entry_name(key))?;
        if found.header.key != *key {
            return Err(Miss::OtherKey);
        }
        found.header.payload(&found.map)?;
        directory::touch(&found.file);
        Ok(Mapped { map: found.map, start: found.header.payload_start() })
    }

    /// Stores a payload, replacing what the key had; the least recently used entries make room.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] for an entry beyond the cap; [`Error::Full`], [`Error::ReadOnly`] or
    /// [`Error::Gone`] if the disk refuses. The old entry, if any, is then still there.
    pub fn put(&self, key: &Key, payload: &[u8]) -> Result<()> {
        let header = encode_header(key, payload);
        let bytes = (header.len() + payload.len()) as u64;
        if bytes > self.options.max_bytes {
            return Err(Error::TooLarge { bytes, max_bytes: self.options.max_bytes });
        }
        let name = entry_name(key);
        self.directory.write_file(&name, &[&header, payload])?;
        // The entry is stored; making room is tried again with the next one.
        let _ = self.make_room(bytes, &name);
        Ok(())
    }

    /// Removes an entry; false if there is none.
    pub fn remove(&self, key: &Key) -> Result<bool> {
        self.directory.remove_file(&entry_name(key))
    }

    /// The file of this name with its header verified, and not yet its payload.
    pub(crate) fn read(&self, name: &str) -> Result<Found, Miss> {
        let (file, metadata) = self.directory.open_file(name)?;
        // SAFETY: Only this user can write the file (`open_file` checks owner and mode), and a
        // store never edits or shortens an entry: it replaces and removes them as a whole, which
        // leaves the pages of a mapping as they are.
        let map = unsafe { Mmap::map(&file) }.map_err(Miss::Io)?;
        let header = decode_header(&map)?;
        Ok(Found { file, metadata, map, header })
    }
}

/// An entry as it is on disk.
pub(crate) struct Found {
    file: File,
    pub metadata: Metadata,
    map: Mmap,
    pub header: Header,
}

/// The name of the file of a key.
pub(crate) fn entry_name(key: &Key) -> String {
    format!("{}{ENTRY}", key.hash())
}

/// Whether a name is one that [`entry_name`] gives.
pub(crate) fn is_entry_name(name: &str) -> bool {
    name.strip_suffix(ENTRY).is_some_and(|hash| {
        hash.len() == 2 * crate::Digest::LEN && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// The payload of an entry in memory, read-only; it outlives the entry and the store.
///
/// It starts at a multiple of 64 bytes.
#[derive(Debug)]
pub struct Mapped {
    map: Mmap,
    start: usize,
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.start..]
    }
}
