//! Replaces files atomically: a reader sees all of the old content or all of the new. This holds after a power failure,
//! and with concurrent writers.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Replaces or creates a file with the content that `write` writes. The target of a symbolic link is replaced. The
/// permissions of an existing file are preserved.
///
/// # Errors
/// I/O errors, also for a path to anything but a regular file, such as a directory, a device or a pipe. The old content
/// is then intact, unless only the last step failed, which makes the new content durable.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let (target, old) = target(path)?;
    let folder = target.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    collect_parts(folder);
    let (file, part) = create_temporary(folder)?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    if let Some(old) = old {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    part.rename(&target)?;
    sync_folder(folder)
}

/// Returns the path of the file to replace, and its metadata if it exists.
fn target(path: &Path) -> io::Result<(PathBuf, Option<fs::Metadata>)> {
    let (target, found) = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            let target = fs::canonicalize(path)?;
            let found = fs::symlink_metadata(&target)?;
            (target, found)
        }
        Ok(found) => (path.to_path_buf(), found),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((path.to_path_buf(), None)),
        Err(error) => return Err(error),
    };
    if !found.is_file() {
        return Err(io::Error::other("what stands there is no regular file"));
    }
    Ok((target, Some(found)))
}

/// A temporary file with a unique name, removed on drop unless it was renamed.
struct TemporaryFile(Option<PathBuf>);

impl TemporaryFile {
    fn rename(mut self, target: &Path) -> io::Result<()> {
        fs::rename(self.0.as_ref().expect("it is renamed once"), target)?;
        self.0 = None;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // A leftover of a failed write is harmless, so a failure to remove it is ignored.
            let _ = fs::remove_file(path);
        }
    }
}

/// The prefix and suffix of temporary files.
const PART_BEGIN: &str = ".ms-";
const PART_END: &str = ".part";

/// Folders with more entries are scanned only once.
const MANY_ENTRIES: usize = 1 << 10;

/// Removes temporary files of killed savers: files without a lock. A failure is left to the next save.
fn collect_parts(folder: &Path) {
    static LARGE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut large = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    if large.contains(folder) {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut count = 0;
    for entry in entries.flatten() {
        count += 1;
        let is_file = || entry.file_type().is_ok_and(|it| it.is_file());
        if !is_part(&entry.file_name()) || !is_file() {
            continue;
        }
        let path = entry.path();
        let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
    if count > MANY_ENTRIES {
        large.insert(folder.to_path_buf());
    }
}

/// Returns whether a file that was just created was removed before it was locked.
fn is_removed(file: &File) -> io::Result<bool> {
    #[cfg(unix)]
    return Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) == 0);
    // Other platforms do not remove an open file.
    #[cfg(not(unix))]
    return file.metadata().map(|_| false);
}

/// Returns whether a name is a temporary file's: `.ms-PROCESS-NUMBER.part`.
fn is_part(name: &OsStr) -> bool {
    let inner = name.to_str().and_then(|it| it.strip_prefix(PART_BEGIN)?.strip_suffix(PART_END)?.split_once('-'));
    let is_number = |it: &str| it.parse::<u64>().is_ok();
    inner.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn create_temporary(folder: &Path) -> io::Result<(File, TemporaryFile)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{PART_BEGIN}{}-{number}{PART_END}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => {
                let part = TemporaryFile(Some(path));
                // The lock marks a live saver. It waits for a saver that is collecting this file. On file systems
                // without locks, nothing is collected.
                let _ = file.lock();
                match is_removed(&file)? {
                    false => return Ok((file, part)),
                    true => continue,
                }
            }
            // Left by an earlier process with this id, or in use by a process in another container.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
    }
}

/// Makes the directory entries of a folder durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder)?.sync_all() {
        // Some file systems do not support `fsync` on a folder.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unlocked temporary files are removed by the next save, and no other file is.
    #[test]
    fn parts_of_killed_savers_are_collected() {
        let folder = std::env::temp_dir().join(format!("ms parts {}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder is writable");
        let made = |name: &str| {
            fs::write(folder.join(name), "part").expect("the folder is writable");
            folder.join(name)
        };
        let dead = [".ms-1-0.part", ".ms-4294967295-7.part"].map(made);
        let others = ["a.part", ".ms-a-0.part", ".ms-1.part", ".ms-1-2.part.old", "ms-1-2.part"].map(made);
        let held = made(".ms-2-0.part");
        let holder = File::open(&held).expect("it was made");
        holder.try_lock().expect("nobody else has locked it");
        let target = folder.join("checkpoint");
        let save = |inside: &mut dyn FnMut()| {
            let saved = replace(&target, |out| {
                inside();
                out.write_all(b"content")
            });
            saved.expect("the folder is writable");
        };
        // A save during another save leaves the other's temporary file alone.
        let nested = folder.join("other");
        save(&mut || replace(&nested, |out| out.write_all(b"other")).expect("the folder is writable"));
        assert_eq!(dead.map(|it| it.exists()), [false; 2]);
        assert!(others.iter().all(|it| it.exists()) && held.exists());
        drop(holder);
        save(&mut || {});
        assert!(!held.exists());
        assert_eq!(fs::read(&target).expect("it was saved"), b"content");
        assert_eq!(fs::read(&nested).expect("it was saved"), b"other");
        fs::remove_dir_all(&folder).expect("it was made");
    }
}
