//! Tests damaged files and unsuitable directories.

mod common;

use common::{Scratch, file_of, key, open, overwrite};
use ms_cache::{Contents, Defect, Distrust, Error, Miss, Options, Store};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Stores one small entry and passes its file to `change`. Then the entry must be a miss that `expected` accepts,
/// listed as ignored for the same reason. The next put must replace it.
fn check(change: impl FnOnce(&Path), expected: impl Fn(&Miss) -> bool) {
    let scratch = Scratch::new();
    let store = scratch.store();
    store.put(&key("g"), &Contents::data(b"payload")).expect("a writable directory");
    change(&file_of(&store, &key("g")));
    let miss = store.get(&key("g")).expect_err("the entry was changed");
    assert!(expected(&miss), "{miss:?}");
    let listing = store.entries().expect("a readable directory");
    assert!(listing.entries.is_empty());
    assert!(expected(&listing.ignored[0].reason), "{listing:?}");
    store.put(&key("g"), &Contents::data(b"payload")).expect("put replaces what is not believed");
    assert_eq!(store.get(&key("g")).expect("the entry is whole again").data(), b"payload");
}

#[test]
fn files_that_others_may_write_are_ignored() {
    for mode in [0o420, 0o402, 0o666] {
        let change = |file: &Path| {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("the entry is ours");
        };
        check(change, |miss| matches!(miss, Miss::Distrusted(Distrust::Writable(found)) if *found == mode));
    }
}

#[test]
fn files_of_another_user_are_ignored() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let change = |file: &Path| std::os::unix::fs::chown(file, Some(12345), None).expect("root may give files away");
    check(change, |miss| matches!(miss, Miss::Distrusted(Distrust::ForeignOwner(12345))));
}

#[test]
fn links_are_not_followed() {
    let change = |file: &Path| {
        let target = file.with_extension("moved");
        std::fs::rename(file, &target).expect("the entry is there");
        symlink(target, file).expect("a writable directory");
    };
    check(change, |miss| matches!(miss, Miss::Distrusted(Distrust::Link)));
}

#[test]
fn a_pipe_in_the_place_of_an_entry_does_not_block() {
    let change = |file: &Path| {
        std::fs::remove_file(file).expect("the entry is there");
        let made = std::process::Command::new("mkfifo").arg("-m").arg("400").arg(file).status();
        assert!(made.expect("mkfifo is part of every Unix").success());
    };
    check(change, |miss| matches!(miss, Miss::Distrusted(Distrust::NotAFile)));
}

#[test]
fn the_entry_of_another_key_is_ignored() {
    let change = |file: &Path| {
        let other = Scratch::new();
        let store = other.store();
        store.put(&key("h"), &Contents::data(b"another payload")).expect("a writable directory");
        let contents = std::fs::read(file_of(&store, &key("h"))).expect("the entry just put");
        overwrite(file, &contents, 0o400);
    };
    check(change, |miss| matches!(miss, Miss::OtherKey));
}

#[test]
fn an_empty_file_is_ignored() {
    check(|file| overwrite(file, b"", 0o400), |miss| matches!(miss, Miss::Damaged(Defect::Short)));
}

#[test]
fn every_truncation_and_every_flipped_byte_is_a_miss() {
    let scratch = Scratch::new();
    let store = scratch.store();
    store.put(&key("g"), &Contents::data(b"payload")).expect("a writable directory");
    let file = file_of(&store, &key("g"));
    let contents = std::fs::read(&file).expect("the entry just put");
    for len in 0..contents.len() {
        overwrite(&file, &contents[..len], 0o400);
        let miss = store.get(&key("g")).expect_err("the entry is short");
        assert!(matches!(miss, Miss::Damaged(Defect::Short)), "{miss:?} at {len}");
    }
    for at in 0..contents.len() {
        let mut flipped = contents.clone();
        flipped[at] ^= 0xff;
        overwrite(&file, &flipped, 0o400);
        let miss = store.get(&key("g")).expect_err("the entry is damaged");
        assert!(matches!(miss, Miss::Damaged(_)), "{miss:?} at {at}");
    }
    overwrite(&file, &contents, 0o400);
    assert_eq!(store.get(&key("g")).expect("the entry as it was written").data(), b"payload");
}

#[test]
fn a_file_or_a_link_is_no_directory() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("file"), "").expect("a writable directory");
    std::fs::create_dir(scratch.join("elsewhere")).expect("a writable directory");
    symlink(scratch.join("elsewhere"), scratch.join("link")).expect("a writable directory");
    symlink(scratch.join("nowhere"), scratch.join("dangling")).expect("a writable directory");
    for name in ["file", "file/below", "link", "dangling"] {
        let refused = Store::open(scratch.join(name), &Options::default());
        assert!(matches!(refused, Err(Error::NotADirectory(_))), "{name}: {refused:?}");
    }
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    let scratch = Scratch::new();
    drop(scratch.store());
    std::fs::set_permissions(scratch.cache(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let refused = Store::open(scratch.cache(), &Options::default());
    assert!(matches!(refused, Err(Error::Distrusted(_, Distrust::Writable(0o777)))), "{refused:?}");
}

#[test]
fn a_directory_removed_while_open_loses_entries_and_nothing_else() {
    let scratch = Scratch::new();
    let store = scratch.store();
    store.put(&key("g"), &Contents::data(b"payload")).expect("a writable directory");
    let mapped = store.get(&key("g")).expect("the entry just put");
    std::fs::remove_dir_all(store.path()).expect("the directory is ours");
    assert!(matches!(store.get(&key("g")), Err(Miss::Absent)));
    assert!(matches!(store.put(&key("g"), &Contents::data(b"payload")), Err(Error::Gone(_))));
    assert!(store.entries().is_ok_and(|listing| listing.entries.is_empty()));
    assert!(!store.remove(&key("g")).expect("there is nothing to remove"));
    assert_eq!(mapped.data(), b"payload");
    open(&scratch.cache(), 1 << 20)
        .put(&key("g"), &Contents::data(b"payload"))
        .expect("opening makes the directory again");
}

#[test]
fn a_directory_that_cannot_be_written_is_read() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root writes whatever the mode says");
        return;
    }
    let scratch = Scratch::new();
    let store = scratch.store();
    store.put(&key("g"), &Contents::data(b"payload")).expect("a writable directory");
    std::fs::set_permissions(store.path(), std::fs::Permissions::from_mode(0o500)).expect("it is ours");
    assert!(matches!(store.put(&key("h"), &Contents::data(b"payload")), Err(Error::ReadOnly(_))));
    assert_eq!(scratch.store().get(&key("g")).expect("reading is allowed").data(), b"payload");
    std::fs::set_permissions(store.path(), std::fs::Permissions::from_mode(0o700)).expect("it is ours");
}
