//! Stores bytes by key in a directory.

use crate::directory::{self, Directory};
use crate::entry::{Contents, Header, decode_header, encode};
use crate::evict::Usage;
use crate::{Digest, Error, Key, Miss, Result, Secret};
use memmap2::{Mmap, MmapMut, MmapOptions};
use std::fs::{File, Metadata};
use std::io::Read;
use std::ops::Deref;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// The suffix of the name of an entry's file, after the hash of the key.
const ENTRY: &str = ".entry";

/// The size up to which files are read: mapping and unmapping costs more than copying them.
const SMALL: u64 = 32 << 10;

/// The options of a [`Store`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The maximum total size of the entries in bytes. The least recently used entries are evicted beyond it. Default:
    /// 2 GiB.
    pub max_bytes: u64,
    /// The age from which the writer of an unfinished file is assumed to be dead. Default: one hour.
    pub abandoned_after: Duration,
    /// The secret that authenticates entries. With one, the directory may be shared with users who have it, too.
    /// Entries are then trusted by their keyed hashes, and not by their owners. Default: none.
    pub secret: Option<Secret>,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_bytes: 2 << 30, abandoned_after: Duration::from_secs(60 * 60), secret: None }
    }
}

/// A directory of entries, shared by any number of threads and processes.
///
/// There is one file per key, written under a temporary name, renamed (mode 0400), and never edited afterwards. A
/// mapping remains valid when its entry is replaced or evicted. If the owner truncates the file in place, the next
/// access to the mapping terminates the process. Links, damaged files, and files that another user owns or may write
/// are misses.
#[derive(Debug)]
pub struct Store {
    pub(crate) directory: Directory,
    pub(crate) options: Options,
    pub(crate) usage: Mutex<Usage>,
}

impl Store {
    /// Opens the store in a directory, which is created (mode 0700) if it is missing.
    ///
    /// The directory stays open: renaming it or changing the working directory has no effect.
    ///
    /// # Errors
    ///
    /// [`Error::NotADirectory`] for a file or a link. [`Error::Distrusted`] for a directory that another user owns or
    /// may write. [`Error::ReadOnly`] and other I/O errors if it cannot be created.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let directory = Directory::open(path.as_ref(), options.secret.is_some())?;
        Ok(Self { directory, options: options.clone(), usage: Mutex::default() })
    }

    /// Returns the absolute path of the store.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the contents of an entry, mapped and verified. Records a use of the entry.
    ///
    /// # Errors
    /// The reason of the miss: [`Miss`].
    pub fn get(&self, key: &Key) -> Result<Mapped, Miss> {
        self.get_by_hash(key.hash())
    }

    /// Returns the contents of the entry whose key has this hash, like [`Store::get`].
    ///
    /// # Errors
    /// The reason of the miss: [`Miss`].
    pub fn get_by_hash(&self, key: &Digest) -> Result<Mapped, Miss> {
        let found = self.read(&name_of(key))?;
        if found.header.key != *key {
            return Err(Miss::OtherKey);
        }
        self.check_payload(&found)?;
        directory::touch(&found.file);
        Ok(Mapped { file: found.file, bytes: found.bytes, shared: found.shared, header: found.header })
    }

    /// Stores an entry, replacing the entry with the same key. Evicts the least recently used entries beyond the cap.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] for an entry beyond the cap. [`Error::Full`], [`Error::ReadOnly`] or [`Error::Gone`] if
    /// writing fails. The old entry, if any, then remains.
    pub fn put(&self, key: &Key, contents: &Contents<'_>) -> Result<()> {
        let encoded = encode(key, contents, SystemTime::now(), self.options.secret.as_ref());
        self.put_file(&entry_name(key), &encoded)
    }

    /// Writes the file of an entry, and evicts others if necessary.
    pub(crate) fn put_file(&self, name: &str, file: &[u8]) -> Result<()> {
        let bytes = file.len() as u64;
        if bytes > self.options.max_bytes {
            return Err(Error::TooLarge { bytes, max_bytes: self.options.max_bytes });
        }
        self.directory.write_file(name, file)?;
        // The entry is stored, and the next one tries the eviction again.
        let _ = self.make_room(bytes, name);
        Ok(())
    }

    /// Removes an entry. Returns `false` if there is none.
    pub fn remove(&self, key: &Key) -> Result<bool> {
        self.directory.remove_file(&entry_name(key))
    }

    /// Reads the file of this name. Its header is verified, but its payload is not.
    pub(crate) fn read(&self, name: &str) -> Result<Found, Miss> {
        let (file, metadata) = self.directory.open_file(name)?;
        let shared = self.directory.is_shared();
        let bytes = if shared || metadata.len() <= SMALL {
            // Reading one more byte lets a single system call detect the end.
            let len = usize::try_from(metadata.len().min(self.options.max_bytes)).unwrap_or(0);
            let mut bytes = Vec::with_capacity(len.saturating_add(1));
            (&file).take(self.options.max_bytes).read_to_end(&mut bytes).map_err(Miss::Io)?;
            Bytes::Copied(bytes)
        } else {
            // SAFETY: only this user can write the file, as `open_file` checks owner and mode. A store never edits or
            // truncates an entry. It replaces and removes entries as a whole, which does not change the pages of a
            // mapping.
            Bytes::Mapped(unsafe { Mmap::map(&file) }.map_err(Miss::Io)?)
        };
        let header = decode_header(&bytes, self.options.secret.as_ref())?;
        Ok(Found { file, metadata, bytes, shared, header })
    }

    /// Verifies the payload of a file with a verified header.
    pub(crate) fn check_payload(&self, found: &Found) -> Result<(), Miss> {
        Ok(found.header.check_payload(&found.bytes, self.options.secret.as_ref())?)
    }
}

/// An entry as it is on disk.
pub(crate) struct Found {
    file: File,
    pub metadata: Metadata,
    pub bytes: Bytes,
    shared: bool,
    pub header: Header,
}

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// A mapping of a file that nobody else may write.
    Mapped(Mmap),
    /// A copy, because the file is small or others may write it. A copy cannot change after it was verified.
    Copied(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Copied(bytes) => bytes,
        }
    }
}

/// Returns the name of a key's file.
pub(crate) fn entry_name(key: &Key) -> String {
    name_of(key.hash())
}

/// Returns the name of the file of the key with this hash.
pub(crate) fn name_of(hash: &Digest) -> String {
    format!("{hash}{ENTRY}")
}

/// Whether [`entry_name`] could have returned this name.
pub(crate) fn is_entry_name(name: &str) -> bool {
    name.strip_suffix(ENTRY).is_some_and(|hash| {
        hash.len() == 2 * crate::Digest::LEN && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// The read-only contents of an entry in memory. They outlive the entry and the store.
#[derive(Debug)]
pub struct Mapped {
    file: File,
    bytes: Bytes,
    shared: bool,
    header: Header,
}

impl Mapped {
    /// Returns the data.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.header.data()]
    }

    /// Returns the code, for reading.
    pub fn code(&self) -> &[u8] {
        &self.bytes[self.header.code()]
    }

    /// Maps the code in executable pages, aligned to the page size. Returns `None` if there is no code, if the
    /// directory is shared, or if the system forbids it (a disk mounted `noexec`). The code of a small file is copied,
    /// so that changes to the file do not affect it. If there is no memory for a copy, or if the file is large, the
    /// file itself is mapped.
    pub fn executable(&self) -> Option<Mmap> {
        let code = self.header.code();
        if code.is_empty() || self.shared {
            return None;
        }
        if let (Bytes::Copied(_), Some(copy)) = (&self.bytes, self.executable_copy()) {
            return Some(copy);
        }
        let mut options = MmapOptions::new();
        options.offset(code.start as u64).len(code.len());
        // SAFETY: only this user can write the file, as `open_file` checks owner and mode. A store never edits an
        // entry, so these pages contain the verified bytes.
        unsafe { options.map_exec(&self.file) }.ok()
    }

    fn executable_copy(&self) -> Option<Mmap> {
        let mut memory = MmapMut::map_anon(self.code().len()).ok()?;
        memory.copy_from_slice(self.code());
        memory.make_exec().ok()
    }

    /// Returns the time of creation.
    pub fn created(&self) -> SystemTime {
        self.header.created
    }
}
