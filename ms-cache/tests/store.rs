//! Tests the store in the absence of failures.

mod common;

use common::{Scratch, file_of, key, open, set_used};
use ms_cache::{Contents, Error, KeyBuilder, Miss, Options, Store};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

#[test]
fn what_is_put_is_got() {
    let scratch = Scratch::new();
    let store = scratch.store();
    for len in [0, 1, 63, 64, 4096, 100_000] {
        let payload: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let key = key(&format!("of {len} bytes"));
        assert!(matches!(store.get(&key), Err(Miss::Absent)));
        store.put(&key, &Contents::data(&payload)).expect("a writable directory");
        let mapped = store.get(&key).expect("the entry just put");
        assert_eq!(mapped.data(), payload);
        let again = scratch.store();
        assert_eq!(again.get(&key).expect("another store in the same directory").data(), payload);
    }
}

#[test]
fn a_payload_outlives_its_entry_and_its_store() {
    let scratch = Scratch::new();
    let store = scratch.store();
    store.put(&key("g"), &Contents::data(b"first")).expect("a writable directory");
    let first = store.get(&key("g")).expect("the entry just put");
    store.put(&key("g"), &Contents::data(b"second")).expect("entries are replaced");
    let second = store.get(&key("g")).expect("the entry that replaced it");
    assert!(store.remove(&key("g")).expect("the entry can be removed"));
    assert!(!store.remove(&key("g")).expect("a second removal is no error"));
    assert!(matches!(store.get(&key("g")), Err(Miss::Absent)));
    drop(store);
    assert_eq!((first.data(), second.data()), (&b"first"[..], &b"second"[..]));
}

#[test]
fn directories_and_entries_are_for_their_owner_only() {
    let scratch = Scratch::new();
    let path = scratch.join("with spaces/and more/of them");
    let store = open(&path, 1 << 20);
    assert_eq!(store.path(), path);
    store.put(&key("g"), &Contents::data(b"payload")).expect("a writable directory");
    let mode = |path| std::fs::metadata(path).expect("it was just made").mode() & 0o7777;
    assert_eq!(mode(path), 0o700);
    assert_eq!(mode(file_of(&store, &key("g"))), 0o400);
}

#[test]
fn a_store_lists_its_entries_by_use() {
    let scratch = Scratch::new();
    let store = scratch.store();
    for (name, used) in [("a", 20), ("b", 30), ("c", 10)] {
        store.put(&key(name), &Contents::data(name.as_bytes())).expect("a writable directory");
        set_used(&store, &key(name), used);
    }
    std::fs::write(store.path().join("README"), "not an entry").expect("a writable directory");
    let listing = store.entries().expect("a readable directory");
    let keys: Vec<_> = listing.entries.iter().map(|entry| entry.key.clone()).collect();
    assert_eq!(keys, [key("b"), key("a"), key("c")]);
    assert!(listing.entries.iter().all(|entry| entry.payload_bytes == 1 && entry.file_bytes > 64));
    assert!(listing.ignored.is_empty());

    store.get(&key("c")).expect("the entry is there");
    assert_eq!(store.entries().expect("a readable directory").entries[0].key, key("c"));

    assert_eq!(store.clear().expect("a writable directory").entries, 3);
    assert!(store.entries().expect("a readable directory").entries.is_empty());
    assert!(store.path().join("README").exists(), "only entries are removed");
}

#[test]
fn a_miss_is_explained_by_the_nearest_entry() {
    let scratch = Scratch::new();
    let store = scratch.store();
    let key = |graph: &str, signature: &str, target: &str| {
        let parts: [(&'static str, &str); 3] = [("graph", graph), ("signature", signature), ("target", target)];
        parts.iter().fold(KeyBuilder::new(1), |key, (name, bytes)| key.part(*name, bytes.as_bytes())).finish()
    };
    assert_eq!(store.explain(&key("g", "f32[2]", "avx2")).expect("a readable directory"), None);

    let stored = [key("g", "f32[2]", "avx2"), key("g", "f32[2]", "avx512"), key("h", "i8[]", "neon")];
    for (used, key) in stored.iter().enumerate() {
        store.put(key, &Contents::data(b"")).expect("a writable directory");
        set_used(&store, key, used as u64);
    }
    let check = |missed, nearest, expected: &[&str]| {
        let explanation = store.explain(&missed).expect("a readable directory").expect("there are entries");
        assert_eq!(explanation.nearest.key, nearest);
        assert_eq!(explanation.differences, expected);
    };
    check(stored[0].clone(), stored[0].clone(), &[]);
    check(key("g", "f32[4]", "avx2"), stored[0].clone(), &["signature"]);
    check(key("g", "f32[2]", "sse2"), stored[1].clone(), &["target"]);
    check(key("h", "f32[4]", "avx2"), stored[2].clone(), &["signature", "target"]);
    check(KeyBuilder::new(2).part("graph", b"h").finish(), stored[2].clone(), &["schema", "signature", "target"]);
}

#[test]
fn the_least_recently_used_entries_are_evicted() {
    let scratch = Scratch::new();
    let store = scratch.store();
    let names = ["a", "b", "c", "d"];
    for (used, name) in names.iter().enumerate() {
        store.put(&key(name), &Contents::data(&[0; 1000])).expect("a writable directory");
        set_used(&store, &key(name), used as u64);
    }
    store.get(&key("a")).expect("it is used again by this");
    let size = store.entries().expect("a readable directory").entries[0].file_bytes;

    let evicted = open(&scratch.cache(), 2 * size).gc().expect("a writable directory");
    assert_eq!((evicted.entries, evicted.bytes), (2, 2 * size));
    let kept: Vec<_> = names.iter().filter(|name| store.get(&key(name)).is_ok()).collect();
    assert_eq!(kept, [&"a", &"d"]);
    assert_eq!(store.gc().expect("a writable directory").entries, 0);
}

#[test]
fn a_clock_that_jumps_changes_the_order_until_the_next_use() {
    let scratch = Scratch::new();
    let store = scratch.store();
    for name in ["future", "now"] {
        store.put(&key(name), &Contents::data(&[0; 1000])).expect("a writable directory");
    }
    set_used(&store, &key("future"), 1 << 33);
    let first = || store.entries().expect("a readable directory").entries[0].key.clone();
    assert_eq!(first(), key("future"));
    store.get(&key("future")).expect("the entry is there");
    set_used(&store, &key("now"), 1 << 32);
    assert_eq!(first(), key("now"));
    let size = store.entries().expect("a readable directory").entries[0].file_bytes;
    assert_eq!(open(&scratch.cache(), size).gc().expect("a writable directory").entries, 1);
}

#[test]
fn a_store_stays_under_its_cap() {
    let scratch = Scratch::new();
    let max_bytes = 20_000;
    let store = open(&scratch.cache(), max_bytes);
    for i in 0..100 {
        store.put(&key(&i.to_string()), &Contents::data(&[i; 1000])).expect("there is always room for one entry");
        store.get(&key(&i.to_string())).expect("the entry just put is never the one evicted");
        let entries = store.entries().expect("a readable directory").entries;
        let bytes: u64 = entries.iter().map(|entry| entry.file_bytes).sum();
        assert!(bytes <= max_bytes, "{bytes} after {i}");
    }
    let refused = store.put(&key("large"), &Contents::data(&[0; 20_000]));
    assert!(matches!(refused, Err(Error::TooLarge { max_bytes: 20_000, .. })), "{refused:?}");
}

#[test]
fn only_abandoned_files_are_swept() {
    let scratch = Scratch::new();
    let store = scratch.store();
    let unfinished = store.path().join("1-0.part");
    common::overwrite(&unfinished, b"half an ent", 0o400);
    store.gc().expect("a writable directory");
    assert!(unfinished.exists(), "its writer may be at work");
    let at_once = Options { abandoned_after: std::time::Duration::ZERO, ..Options::default() };
    Store::open(store.path(), &at_once).expect("the directory is ours").gc().expect("a writable directory");
    assert!(!unfinished.exists());
}

/// Finding an entry does not list the directory: among ten thousand it takes as long as among ten.
#[test]
fn an_entry_is_found_as_fast_among_many() {
    let scratch = Scratch::new();
    let store = scratch.store();
    let median = |entries: usize| {
        let mut times: Vec<Duration> = (0..501)
            .map(|i| {
                let key = key(&format!("{}", i * 7919 % entries));
                let start = Instant::now();
                assert_eq!(store.get(&key).expect("the entry was put").data(), b"payload");
                start.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    let put = |range: std::ops::Range<usize>| {
        for i in range {
            store.put(&key(&format!("{i}")), &Contents::data(b"payload")).expect("a writable directory");
        }
    };
    put(0..10);
    let few = median(10);
    put(10..10_000);
    // Listing the directory would take a hundred times as long.
    let many = median(10_000);
    assert!(many < few * 5, "{few:?} among ten, {many:?} among ten thousand");
}
