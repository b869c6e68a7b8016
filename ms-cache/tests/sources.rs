//! Tests the hash of the compiler's and a backend's sources that build scripts compute.

mod common;

use common::Scratch;
use ms_cache::{Digest, hash_sources};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder").map(|it| it.expect("a readable folder").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Changes a copy of a crate in every way that affects the compiler. Each change must change the hash. `folders` must
/// be among the changed files.
fn check(name: &str, folders: &[&str]) {
    let scratch = Scratch::new();
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let copy = scratch.join("workspace/crate");
    for file in files(&original.join("src")).into_iter().chain([original.join("Cargo.toml")]) {
        let to = copy.join(file.strip_prefix(&original).expect("a file of the crate"));
        fs::create_dir_all(to.parent().expect("a file is in a folder")).expect("a writable directory");
        fs::copy(file, to).expect("a writable directory");
    }
    fs::write(scratch.join("workspace/Cargo.lock"), "version = 4\n").expect("a writable directory");
    let facts = [("rustc".to_owned(), b"1.95.0".to_vec()), ("TARGET".to_owned(), b"x86_64".to_vec())];
    let hash = |facts: &[(String, Vec<u8>)]| hash_sources(&copy, facts).expect("a readable folder");
    let first = hash(&facts);
    let mut met = vec![first];
    let mut differs = |hash: Digest, what: &dyn std::fmt::Display| {
        assert!(!met.contains(&hash), "{name}: a change of {what} is not seen");
        met.push(hash);
    };

    // Any byte of any file counts.
    let sources = files(&copy.join("src"));
    for file in sources.iter().chain([&copy.join("Cargo.toml"), &scratch.join("workspace/Cargo.lock")]) {
        let mut bytes = fs::read(file).expect("just copied");
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(file, &bytes).expect("a writable directory");
        differs(hash(&facts), &file.display());
        bytes[at] ^= 1;
        fs::write(file, &bytes).expect("a writable directory");
    }
    assert_eq!(hash(&facts), first, "everything is as it was");
    for folder in folders {
        let inside = sources.iter().filter(|it| it.starts_with(copy.join("src").join(folder))).count();
        assert!(inside > 0, "{name} has no sources in {folder}");
    }

    // Added, removed, renamed and swapped files count.
    let [one, other] = [&sources[0], &sources[sources.len() / 2]];
    let added = copy.join("src/added.rs");
    fs::write(&added, "").expect("a writable directory");
    differs(hash(&facts), &"the number of files");
    fs::remove_file(&added).expect("just written");
    fs::rename(one, &added).expect("a writable directory");
    differs(hash(&facts), &"a name");
    fs::rename(other, one).and_then(|()| fs::rename(&added, other)).expect("a writable directory");
    differs(hash(&facts), &"two names");
    fs::remove_file(one).expect("just moved");
    differs(hash(&facts), &"the number of files, by one less");

    // Features, the compiler and the target count.
    differs(hash(&facts[..1]), &"the facts");
    differs(hash(&[facts[0].clone(), ("TARGET".to_owned(), b"aarch64".to_vec())]), &"the target");
    differs(hash(&[("rustc".to_owned(), b"1.96.0".to_vec()), facts[1].clone()]), &"the compiler");
}

#[test]
fn every_byte_of_the_compiler_counts() {
    check("ms-core/ir", &["data", "error", "kernel", "math", "op", "stored"]);
    check("ms-core/ops", &["tensor", "ops", "ops/core/reference"]);
    check("ms-core/compile", &["target", "optimize", "lower", "exec"]);
    check("ms-core/trace", &["trace", "transform", "effects", "passes"]);
    check("ms-core/runtime", &["optimize", "session"]);
}

#[test]
fn every_byte_of_the_backend_counts() {
    check("ms-backends/x64", &["code", "codegen", "gemm", "interp", "threads"]);
    check("ms-backends/cpu", &["backend", "library"]);
}

#[test]
fn the_crates_are_built_with_it() {
    let core = ["ir", "ops", "compile", "trace", "runtime"].map(|it| format!("ms-core/{it}"));
    for name in core.iter().map(String::as_str).chain(["ms-backends/x64", "ms-backends/cpu"]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("build.rs");
        assert!(fs::read_to_string(script).expect("the crate has a build script").contains("ms_cache::emit_sources("));
    }
}
