//! Opens, writes, lists and removes files in the directory of a store.

use crate::trust::{self, Distrust};
use crate::{Error, Miss, Result};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The suffix of files that are still being written.
const UNFINISHED: &str = ".part";

/// The maximum length in bytes of a file that [`Directory::revise_file`] updates.
const MAX_TEXT: u64 = 1 << 10;

/// The number of attempts to lock a file. The delay grows by a millisecond with each attempt.
const LOCK_ATTEMPTS: u64 = 16;

/// An open directory that only this user can write, or a shared one.
///
/// Files are opened relative to the open directory, never by path. So an attacker gains nothing by renaming or
/// replacing a parent directory.
#[derive(Debug)]
pub(crate) struct Directory {
    handle: File,
    path: PathBuf,
    /// Whether others may own and write the directory and its files. If so, a secret authenticates their contents.
    shared: bool,
}

impl Directory {
    /// Opens the directory. Creates it (mode 0700) and its parents if they are missing.
    pub fn open(path: &Path, shared: bool) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|error| Error::of_io(path, error))?;
        let handle = match open_directory(&path) {
            Err(Errno::NOENT) => {
                // Another process may create it at the same time, so only opening reports errors.
                let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
                open_directory(&path).map_err(|error| made.err().unwrap_or_else(|| error.into()))
            }
            opened => opened.map_err(Into::into),
        };
        let handle = handle.map_err(|error| Error::of_io(&path, error))?;
        let metadata = handle.metadata().map_err(|error| Error::of_io(&path, error))?;
        if !shared {
            trust::check(&metadata).map_err(|reason| Error::Distrusted(path.clone(), reason))?;
        }
        Ok(Self { handle, path, shared })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether others may write files of the directory while they are read.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Opens a file for reading, if only this user can have written it or the directory is shared.
    pub fn open_file(&self, name: &str) -> Result<(File, Metadata), Miss> {
        // Without `NONBLOCK`, opening a pipe would wait for its writer. Regular files ignore the flag.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, name, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT => Miss::Absent,
            Errno::LOOP => Miss::Distrusted(Distrust::Link),
            other => Miss::Io(other.into()),
        })?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(Miss::Io)?;
        if !metadata.is_file() {
            return Err(Miss::Distrusted(Distrust::NotAFile));
        }
        if !self.shared {
            trust::check(&metadata).map_err(Miss::Distrusted)?;
        }
        Ok((file, metadata))
    }

    /// Returns the size and modification time of an entry's file, without opening it.
    pub fn stat(&self, name: &str) -> Option<(u64, SystemTime)> {
        let found = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let modified = u64::try_from(found.st_mtime).unwrap_or(0);
        let modified = Duration::new(modified, u32::try_from(found.st_mtime_nsec).unwrap_or(0));
        let modified = SystemTime::UNIX_EPOCH.checked_add(modified).unwrap_or(SystemTime::UNIX_EPOCH);
        (FileType::from_raw_mode(found.st_mode) == FileType::RegularFile).then_some((found.st_size as u64, modified))
    }

    /// Updates the text of a small file under a lock. Creates the file if it is missing. Leaves it unchanged if it
    /// stays locked or others may write it.
    ///
    /// The file is not an entry. After a power failure its contents are arbitrary.
    pub fn revise_file(&self, name: &str, revise: impl FnOnce(&str) -> String) -> Result<()> {
        let failed = |error: std::io::Error| Error::of_io(&self.path, error);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | if self.shared { Mode::RGRP | Mode::WGRP } else { Mode::empty() };
        let open = || Ok(File::from(rustix::fs::openat(&self.handle, name, flags, mode)?));
        let file = match open() {
            Err(Errno::LOOP) => {
                self.remove_file(name)?;
                open()
            }
            opened => opened,
        };
        let file = file.map_err(|error: Errno| failed(error.into()))?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() || !self.shared && trust::check(&metadata).is_err() || !lock(&file) {
            return Ok(());
        }
        let mut old = String::new();
        // Text that is not UTF-8 is replaced. Closing the file unlocks it.
        let _ = (&file).take(MAX_TEXT).read_to_string(&mut old);
        let new = revise(&old);
        let written = file.write_all_at(new.as_bytes(), 0).and_then(|()| match new.len() < old.len() {
            true => file.set_len(new.len() as u64),
            false => Ok(()),
        });
        if written.is_err() && metadata.len() == 0 {
            self.remove_file(name)?;
        }
        written.map_err(failed)
    }

    /// Writes a file under a temporary name and renames it. At any time a reader finds the old file, none, or the whole
    /// new one. After a power failure the new one may be torn, which its hashes detect. Waiting for the disk would cost
    /// more than writing it again.
    pub fn write_file(&self, name: &str, contents: &[u8]) -> Result<()> {
        let failed = |error: std::io::Error| Error::of_io(&self.path, error);
        let mode = if self.shared { Mode::RUSR | Mode::RGRP | Mode::ROTH } else { Mode::RUSR };
        let (mut file, unfinished) = self.create_unfinished(mode)?;
        file.write_all(contents).map_err(failed)?;
        // The umask may have cleared bits of the mode.
        let made = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?.st_mode;
        if Mode::from_raw_mode(made) != mode {
            rustix::fs::fchmod(&file, mode).map_err(|error| failed(error.into()))?;
        }
        unfinished.rename(name).map_err(|error| failed(error.into()))
    }

    fn create_unfinished(&self, mode: Mode) -> Result<(File, Unfinished<'_>)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = format!("{}-{}{UNFINISHED}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            match rustix::fs::openat(&self.handle, &name, flags, mode) {
                Ok(file) => return Ok((File::from(file), Unfinished { directory: self, name, renamed: false })),
                // The file was left by an earlier process with this id, or is in use by a process in another container.
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(Error::of_io(&self.path, error)),
            }
        }
    }

    /// Removes a file. Returns `false` if there is none.
    pub fn remove_file(&self, name: &str) -> Result<bool> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(Error::of_io(&self.path, error)),
        }
    }

    /// Returns the names in the directory, in no order. Names that are not UTF-8 are skipped, as the store writes none.
    pub fn names(&self) -> Result<Vec<String>> {
        let failed = |error| Error::of_io(&self.path, error);
        let mut names = Vec::new();
        for file in rustix::fs::Dir::read_from(&self.handle).map_err(failed)? {
            if let Ok(name) = file.map_err(failed)?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Removes unfinished files of killed writers.
    pub fn remove_abandoned(&self, names: &[String], age: Duration) -> Result<()> {
        for name in names.iter().filter(|name| name.ends_with(UNFINISHED)) {
            let Ok((_, metadata)) = self.open_file(name) else { continue };
            // A time in the future means that the clock was set back, so the file may be in use.
            let old = metadata.modified().is_ok_and(|time| time.elapsed().is_ok_and(|elapsed| elapsed >= age));
            if old {
                self.remove_file(name)?;
            }
        }
        Ok(())
    }
}

/// Locks a file for this process. Returns `false` if it stays locked.
fn lock(file: &File) -> bool {
    for attempt in 0..LOCK_ATTEMPTS {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return true,
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(Duration::from_millis(attempt)),
            Err(_) => return false,
        }
    }
    false
}

fn open_directory(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::LOOP) => Err(Errno::NOTDIR),
        opened => opened.map(File::from),
    }
}

/// Records the use of a file in its modification time. Entries are never modified. Few file systems maintain the access
/// time, and every backup changes it.
pub(crate) fn touch(file: &File) {
    let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    // A read-only disk leaves the old time, which costs at most an early eviction.
    let _ = rustix::fs::futimens(file, &Timestamps { last_access: keep, last_modification: now });
}

/// A file under its temporary name. It is removed on drop unless it was renamed.
struct Unfinished<'a> {
    directory: &'a Directory,
    name: String,
    renamed: bool,
}

impl Unfinished<'_> {
    fn rename(self, name: &str) -> Result<(), Errno> {
        let handle = &self.directory.handle;
        rustix::fs::renameat(handle, &self.name, handle, name)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // A file that cannot be removed here is removed as abandoned later.
            let _ = self.directory.remove_file(&self.name);
        }
    }
}
