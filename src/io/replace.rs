//! Atomic replacement of files: a reader sees all of the old content or all of the new, also after
//! a power failure, and with concurrent writers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces the content of a file, or creates it, with what `write` writes. If `path` is a symbolic
/// link, its target is replaced. The permissions of an existing file are kept.
///
/// # Errors
/// I/O errors, and a path at which there is something other than a regular file: a directory, a
/// device, a pipe. The old content is then intact, except if only the last step failed, which makes
/// the new one durable.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let (target, old) = target(path)?;
    let folder = target.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (file, part) = create_part(folder)?;
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

/// The path of the file to be replaced, and its metadata, if it exists.
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

/// A file under a unique temporary name, removed on drop unless it was renamed.
struct Part(Option<PathBuf>);

impl Part {
    fn rename(mut self, target: &Path) -> io::Result<()> {
        fs::rename(self.0.as_ref().expect("it is renamed once"), target)?;
        self.0 = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The remains of a failed write are useless; failing to remove them changes nothing.
            let _ = fs::remove_file(path);
        }
    }
}

fn create_part(folder: &Path) -> io::Result<(File, Part)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".ms-{}-{number}.part", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, Part(Some(path)))),
            // Left behind by an earlier process with this id, or in use by one in another
            // container.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
    }
}

/// Makes the names in a folder durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder)?.sync_all() {
        // Some file systems do not support syncing a folder.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}
