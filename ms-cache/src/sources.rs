//! Hashes everything that a crate is built from, for build scripts.

use crate::Digest;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Sets the environment variable `name` of the crate that is being built to a hash of everything that determines its
/// behaviour. This is [`hash_sources`] with its features, the target, and the compiler.
///
/// # Errors
/// I/O errors while reading the sources.
pub fn emit_sources(name: &str) -> io::Result<()> {
    let var = |name: &str| env::var(name).unwrap_or_default();
    let root = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    // If the compiler does not run, the build fails anyway.
    let version = Command::new(var("RUSTC")).arg("-vV").output().map(|it| it.stdout).unwrap_or_default();
    let mut facts = vec![("rustc".to_owned(), version)];
    for (name, value) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_FEATURE_") || name == "CARGO_CFG_TARGET_FEATURE" || name == "TARGET" {
            facts.push((name, value.as_encoded_bytes().to_vec()));
        }
    }
    facts.sort();
    println!("cargo::rustc-env={name}={}", hash_sources(&root, &facts)?);
    for path in [root.join("src"), root.join("Cargo.toml")].into_iter().chain(lock(&root)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    Ok(())
}

/// Returns a hash of the crate in the folder `root`. It covers all files below `src` with their names, the manifest,
/// the lock file, and `facts`.
///
/// A registry's copy of the crate has no lock file. So the manifest must pin the dependencies that affect results.
///
/// # Errors
/// I/O errors while reading the files.
pub fn hash_sources(root: &Path, facts: &[(String, Vec<u8>)]) -> io::Result<Digest> {
    let mut hasher = blake3::Hasher::new();
    let mut add = |name: &str, bytes: &[u8]| {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for path in files(&root.join("src"))? {
        let inside = path.strip_prefix(root).unwrap_or(&path);
        add(&inside.to_string_lossy(), &fs::read(&path)?);
    }
    add("manifest", &fs::read(root.join("Cargo.toml"))?);
    if let Some(lock) = lock(root) {
        add("lock", &fs::read(lock)?);
    }
    facts.iter().for_each(|(name, bytes)| add(name, bytes));
    Ok(Digest::from_bytes(*hasher.finalize().as_bytes()))
}

/// Returns the lock file of a crate's workspace.
fn lock(root: &Path) -> Option<PathBuf> {
    root.ancestors().map(|it| it.join("Cargo.lock")).find(|it| it.is_file())
}

/// Returns every file below a folder, sorted.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}
