//! Provides helpers for the tests of the store.

// Every test binary compiles this module and uses a part of it.
#![allow(dead_code)]

use ms_cache::{Key, KeyBuilder, Options, Store};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// A temporary directory for one test, removed with its contents on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a fresh directory.
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ms-cache-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("no other test has this name");
        Self(path)
    }

    /// Returns a path in the directory.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the path of the test's store.
    pub fn cache(&self) -> PathBuf {
        self.join("cache")
    }

    /// Opens a store in the directory.
    pub fn store(&self) -> Store {
        open(&self.cache(), u64::MAX)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens the store at `path` with this cap.
pub fn open(path: &Path, max_bytes: u64) -> Store {
    Store::open(path, &Options { max_bytes, ..Options::default() }).expect("the directory can be made")
}

/// Returns a key with one part.
pub fn key(graph: &str) -> Key {
    KeyBuilder::new(1).part("graph", graph.as_bytes()).finish()
}

/// Returns the path of an entry's file.
pub fn file_of(store: &Store, key: &Key) -> PathBuf {
    store.path().join(format!("{}.entry", key.hash()))
}

/// Replaces the file of an entry. The new file has this mode.
pub fn overwrite(path: &Path, contents: &[u8], mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::remove_file(path);
    std::fs::write(path, contents).expect("the directory is writable");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("the file is ours");
}

/// Sets the last use of an entry to this many seconds after the Unix epoch.
pub fn set_used(store: &Store, key: &Key, seconds: u64) {
    let file = std::fs::File::open(file_of(store, key)).expect("the entry is there");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("the entry is ours");
}

/// Returns the number of files in the directory of a store, except its statistics.
pub fn count_files(path: &Path) -> usize {
    let files = std::fs::read_dir(path).expect("a readable directory").flatten();
    files.filter(|it| it.file_name() != "statistics").count()
}
