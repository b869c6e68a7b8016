//! Creates a temporary folder for one test.

use std::path::PathBuf;

/// A folder in the system's temporary folder, removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates an empty folder for the test of this name.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ms training {} {name}", std::process::id()));
        std::fs::create_dir(&path).expect("no other test has this name");
        Self(path)
    }

    /// Writes a file in the folder.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("the folder is writable");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
