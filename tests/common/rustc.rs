//! Compiles sources against the library of the running test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a call of rustc in a folder, which finds the library and its dependencies.
pub fn rustc(folder: &Path) -> Command {
    let deps = std::env::current_exe().expect("the test runs").parent().expect("a folder").to_owned();
    let files = std::fs::read_dir(&deps).expect("the folder of the test").flatten().map(|it| it.path());
    let is_library = |it: &PathBuf| {
        let name = it.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libms-") && name.ends_with(".rlib")
    };
    let built = |it: &PathBuf| std::fs::metadata(it).and_then(|it| it.modified()).ok();
    let library = files.filter(is_library).max_by_key(built).expect("the library was built before its tests");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.current_dir(folder).args(["--edition=2024", "-Cdebuginfo=0"]);
    rustc.arg(format!("-Ldependency={}", deps.display())).arg(format!("--extern=ms={}", library.display()));
    rustc
}
