//! Files that are replaced as a whole: who reads one has all of the old content or all of the new,
//! also after the machine has lost power, and however many write it at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces the content of a file, or makes it, by what `write` writes. Where `path` is a symbolic
/// link, that is the file behind it. Permissions of an older file stay.
///
/// # Errors
/// What the system refuses, and a path at which something else stands than a regular file: a
/// directory, a device, a pipe. The old content is there then, except where only the last step
/// failed, which makes the new one last.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
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

/// The path of the file to be replaced, and what is known of it, if it exists.
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

/// A file under a name that no other process and no other call has, removed unless it is renamed.
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
            // What is left of a failed write is of no use; that it cannot be removed changes nothing.
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
            // Left behind by an earlier process of this number, or in use by one of another container.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
    }
}

/// Makes names in a folder last.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder)?.sync_all() {
        // Some file systems keep no names by request.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}
