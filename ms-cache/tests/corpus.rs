//! Tests the corpus of the fuzz target `entry`: unchanged, with every byte changed, and mutated at random. `MS_BLESS=1`
//! regenerates it for another version of the format. `MS_FUZZ=1000000` sets the number of mutations.

mod common;

use common::{Scratch, key};
use ms_cache::fuzzing::{Mutator, SECRET, entry};
use ms_cache::{Contents, KeyBuilder, Options, Secret, Store};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/entry")
}

/// Writes valid files into the corpus.
fn bless() {
    let scratch = Scratch::new();
    let many = (0..20).fold(KeyBuilder::new(7), |key, i| key.part(format!("part {i}"), b"content")).finish();
    let notes = [("function", "f"), ("signature", "f32[2, 3]"), ("source", "ü")];
    let contents = [
        ("empty", key("g"), Contents::default()),
        ("data", key("g"), Contents::data(&[7; 70])),
        ("code", key("g"), Contents { code: &[0xc3; 70], ..Contents::data(b"data") }),
        ("notes", key("g"), Contents { notes: &notes, ..Contents::data(b"data") }),
        ("long", many, Contents { notes: &notes, ..Contents::data(b"data") }),
    ];
    let write = |store: &Store, name, key, contents| {
        store.put(key, contents).expect("a writable directory");
        let bytes = std::fs::read(common::file_of(store, key)).expect("the entry just put");
        std::fs::write(folder().join(name), bytes).expect("a writable folder");
    };
    for (name, key, contents) in &contents {
        write(&scratch.store(), *name, key, contents);
    }
    let options = Options { secret: Some(Secret::of(SECRET)), ..Options::default() };
    let keyed = Store::open(scratch.join("keyed"), &options).expect("a writable directory");
    write(&keyed, "keyed", &contents[2].1, &contents[2].2);
}

#[test]
fn the_corpus_finds_nothing() {
    if std::env::var_os("MS_BLESS").is_some_and(|it| it == "1") {
        bless();
    }
    let files = std::fs::read_dir(folder()).expect("the corpus is part of the repository");
    let read = |file: std::io::Result<std::fs::DirEntry>| std::fs::read(file.expect("a readable folder").path());
    let corpus: Vec<Vec<u8>> = files.map(|it| read(it).expect("a readable file")).collect();
    let believed = corpus.iter().filter(|it| entry(it)).count();
    assert!(believed >= 6, "{believed} files are entries of this version; MS_BLESS=1 writes new ones");
    for bytes in &corpus {
        for at in 0..bytes.len().min(1000) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                entry(&changed);
            }
            entry(&bytes[..at]);
        }
    }
    let executions = std::env::var("MS_FUZZ").map_or(20_000u64, |it| it.parse().expect("MS_FUZZ is a number"));
    let mut mutator = Mutator::new(1);
    for _ in 0..executions {
        entry(&mutator.mutate(&corpus));
    }
}
