//! Tests shared stores: secrets, exported files, and statistics.

mod common;

use common::{Scratch, file_of, key, overwrite};
use ms_cache::{Contents, Defect, Distrust, Error, Miss, Options, Secret, Store};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

fn with_secret(scratch: &Scratch, byte: u8) -> Store {
    let options = Options { secret: Some(Secret::of(&[byte; 32])), ..Options::default() };
    Store::open(scratch.cache(), &options).expect("the directory can be made")
}

#[test]
fn code_is_mapped_by_pages() {
    let scratch = Scratch::new();
    let store = scratch.store();
    for len in [0usize, 1, 4095, 4096, 10_000] {
        let code: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let contents = Contents { notes: &[("function", "f")], data: b"data", code: &code };
        store.put(&key("g"), &contents).expect("a writable directory");
        let mapped = store.get(&key("g")).expect("the entry just put");
        assert_eq!((mapped.data(), mapped.code()), (&b"data"[..], &code[..]));
        let entry = store.entries().expect("a readable directory").entries.remove(0);
        assert_eq!((entry.note("function"), entry.note("other")), (Some("f"), None));
        match mapped.executable() {
            Some(pages) => {
                assert_eq!(pages[..], code[..]);
                assert_eq!(pages.as_ptr().align_offset(4096), 0);
            }
            None => assert_eq!(len, 0, "or the disk of temporary files is mounted `noexec`"),
        }
    }
}

#[test]
fn entries_of_another_secret_are_ignored() {
    let scratch = Scratch::new();
    let (ours, theirs) = (with_secret(&scratch, 1), with_secret(&scratch, 2));
    ours.put(&key("g"), &Contents { code: b"code", ..Contents::data(b"data") }).expect("a writable directory");
    let mapped = ours.get(&key("g")).expect("the entry just put");
    assert_eq!((mapped.data(), mapped.code()), (&b"data"[..], &b"code"[..]));
    assert!(mapped.executable().is_none(), "pages that others may write are copied before they are run");
    assert!(matches!(theirs.get(&key("g")), Err(Miss::Damaged(Defect::Header))));
    let plain = scratch.store();
    assert!(matches!(plain.get(&key("g")), Err(Miss::Damaged(Defect::Keyed(true)))));
    plain.put(&key("g"), &Contents::data(b"forged")).expect("a writable directory");
    assert!(matches!(ours.get(&key("g")), Err(Miss::Damaged(Defect::Keyed(false)))));
}

#[test]
fn a_secret_replaces_the_trust_in_owners() {
    let scratch = Scratch::new();
    let store = with_secret(&scratch, 1);
    let set_mode = |path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    set_mode(store.path(), 0o777);
    store.put(&key("g"), &Contents::data(b"data")).expect("a writable directory");
    set_mode(&file_of(&store, &key("g")), 0o666);
    assert_eq!(with_secret(&scratch, 1).get(&key("g")).expect("its tag is right").data(), b"data");
    assert!(Store::open(store.path(), &Options::default()).is_err(), "without a secret nobody else may write");
}

#[test]
fn a_key_file_is_long_and_private() {
    let scratch = Scratch::new();
    let file = scratch.join("key");
    let check = |bytes: &[u8], mode, accept: fn(&Result<Secret, Error>) -> bool| {
        overwrite(&file, bytes, mode);
        let read = Secret::read(&file);
        assert!(accept(&read), "{mode:o}: {read:?}");
    };
    check(&[7; 32], 0o600, |it| *it.as_ref().expect("a private file") == Secret::of(&[7; 32]));
    check(&[7; 32], 0o400, Result::is_ok);
    check(&[7; 32], 0o440, |it| matches!(it, Err(Error::DistrustedKey(..))));
    check(&[7; 32], 0o602, |it| matches!(it, Err(Error::DistrustedKey(..))));
    check(&[7; 31], 0o600, |it| matches!(it, Err(Error::ShortSecret(_, 31))));
    assert!(matches!(Secret::read(&scratch.join("missing")), Err(Error::KeyFile(..))));
}

#[test]
fn an_export_is_imported_elsewhere() {
    let scratch = Scratch::new();
    let store = scratch.store();
    let file = scratch.join("warm cache");
    for name in ["a", "b", "c"] {
        store.put(&key(name), &Contents { code: &[7; 100], ..Contents::data(name.as_bytes()) }).expect("writable");
    }
    // A damaged entry is not exported.
    let damaged = file_of(&store, &key("b"));
    let mut bytes = std::fs::read(&damaged).expect("the entry just put");
    *bytes.last_mut().expect("an entry is not empty") ^= 1;
    overwrite(&damaged, &bytes, 0o400);
    assert_eq!(store.export(&file).expect("a writable directory"), 2);
    assert_eq!(store.verify().expect("a readable directory").0, 2);

    let elsewhere = Scratch::new();
    let other = elsewhere.store();
    let imported = other.import(&file).expect("the file just written");
    assert_eq!((imported.entries, imported.ignored), (2, 0));
    for name in ["a", "c"] {
        assert_eq!(other.get(&key(name)).expect("it was imported").data(), name.as_bytes());
    }
    assert!(matches!(other.get(&key("b")), Err(Miss::Absent)));
    assert_eq!(with_secret(&Scratch::new(), 1).import(&file).expect("a readable file").ignored, 2);

    // However the file is damaged, nothing invalid is imported, and nothing panics.
    let whole = std::fs::read(&file).expect("the file just written");
    let strange = elsewhere.join("strange");
    for at in (0..whole.len()).step_by(97).chain(0..24) {
        for change in [&whole[..at], &{
            let mut flipped = whole.clone();
            flipped[at] ^= 0x55;
            flipped
        }] {
            other.clear().expect("a writable directory");
            overwrite(&strange, change, 0o600);
            // The result is an error, or the entries that are valid.
            let _ = other.import(&strange);
            let (_, ignored) = other.verify().expect("a readable directory");
            assert!(ignored.is_empty(), "{ignored:?} at {at}");
        }
    }
}

#[test]
fn a_pipe_is_not_imported() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let scratch = Scratch::new();
    let pipe = scratch.join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).expect("the folder is writable");
    assert!(matches!(scratch.store().import(&pipe), Err(ms_cache::Error::NotAnExport(_))));
}

#[test]
fn statistics_are_sums_over_all_that_use_a_store() {
    let scratch = Scratch::new();
    let statistics = || scratch.store().statistics();
    assert_eq!(statistics().expect("there are none"), Default::default());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| scratch.store().record(2, 1, Duration::from_millis(3)).expect("a writable directory"));
        }
    });
    let sums = statistics().expect("they were written");
    assert_eq!((sums.hits, sums.misses, sums.saved), (8, 4, Duration::from_millis(12)));
    std::fs::remove_file(scratch.cache().join("statistics")).expect("it was written");
    std::os::unix::fs::symlink("/etc/passwd", scratch.cache().join("statistics")).expect("a writable directory");
    assert!(matches!(statistics(), Err(Error::Statistics(_, Miss::Distrusted(Distrust::Link)))));
    scratch.store().record(1, 0, Duration::ZERO).expect("the link is replaced, not followed");
    assert_eq!(statistics().expect("they were written").hits, 1);
    std::fs::remove_file(scratch.cache().join("statistics")).expect("it was written");
    std::fs::create_dir(scratch.cache().join("statistics")).expect("a writable directory");
    for result in [statistics().map(drop), scratch.store().record(1, 0, Duration::ZERO)] {
        let error = result.expect_err("a directory holds no sums").to_string();
        assert!(error.contains("statistics` are not used: it is not a regular file"), "{error}");
    }
}
