//! `ms cache` on caches that processes have filled.

use crate::process::{Scratch, run};
use std::path::Path;
use std::process::{Command, Output};

fn ms(cache: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ms"));
    command.arg("cache").args(arguments).env("MS_COMPILER_CACHE_PATH", cache);
    command.output().expect("the command was built for this test")
}

/// Runs a command that has to succeed; what it prints holds each of these.
fn check(cache: &Path, arguments: &[&str], wanted: &[&str]) -> String {
    let output = ms(cache, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}{text}", String::from_utf8_lossy(&output.stderr));
    for want in wanted {
        assert!(text.contains(want), "{arguments:?}: `{want}` is not in\n{text}");
    }
    text
}

fn check_refused(cache: &Path, arguments: &[&str], wanted: &str) {
    let output = ms(cache, arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(wanted), "{arguments:?}: {text}");
}

#[test]
fn a_cache_is_looked_at_and_tended() {
    let scratch = Scratch::new();
    let cache = scratch.cache();
    let place = cache.to_str().expect("a path in the directory of temporary files");
    check(&cache, &["path"], &[place]);
    check_refused(&cache, &["stat"], "MS150");
    assert!(!cache.exists(), "looking makes nothing");

    run(&["shape", "3"], &cache);
    run(&["shape", "3"], &cache);
    check(&cache, &["explain", "doubled"], &["doubled", "f32[3]", "only entry"]);
    run(&["dtype", "1"], &cache);
    run(&["pure", "1", "2"], &cache);
    check(&cache, &["stat"], &["entries  4", "ignored  0", "hits     1", "misses   3", "saved"]);
    check(&cache, &["ls"], &["doubled", "f32[3]", "i32[3]", "pure (pure)"]);
    check(&cache, &["explain", "doubled"], &["signature: f32[3] -> i32[3]", "  graph"]);
    check_refused(&cache, &["explain", "nobody"], "no entry of `nobody`");
    check(&cache, &["verify"], &["4 entries whole, 0 ignored"]);
    check(&cache, &["gc"], &["removed 0 entries"]);

    let file = scratch.path().join("warm cache");
    let file = file.to_str().expect("a path in the directory of temporary files");
    check(&cache, &["export", file], &["wrote 4 entries"]);
    let other = scratch.path().join("another machine");
    check(&other, &["import", file], &["added 4 entries, left out 0"]);
    assert_eq!(run(&["shape", "3"], &other).misses, 0, "what was imported is used");

    check(&cache, &["clear"], &["removed 4 entries"]);
    check(&cache, &["stat", "--path", other.to_str().expect("as above")], &["entries  4"]);
    check(&cache, &["stat"], &["entries  0"]);
    check_refused(&other, &["import", "/dev/null"], "not a cache that was exported");
}

#[test]
fn damage_is_named() {
    let scratch = Scratch::new();
    run(&["shape", "3"], &scratch.cache());
    let files = std::fs::read_dir(scratch.cache()).expect("the cache was made").flatten().map(|it| it.path());
    let file = files.into_iter().find(|it| it.extension().is_some_and(|it| it == "entry")).expect("an entry");
    let mut bytes = std::fs::read(&file).expect("the entry just written");
    *bytes.last_mut().expect("an entry is not empty") ^= 1;
    std::fs::remove_file(&file).and_then(|()| std::fs::write(&file, bytes)).expect("a writable directory");
    check_refused(&scratch.cache(), &["verify"], "cannot be believed");
}
