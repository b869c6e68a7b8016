//! The corpus of the fuzz target, as it is and with every byte changed.

use std::path::Path;

#[test]
fn the_corpus_finds_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/entry");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the corpus is part of the repository") {
        let bytes = std::fs::read(file.expect("a readable folder").path()).expect("a readable file");
        ms_cache::fuzzing::entry(&bytes);
        for at in 0..bytes.len().min(1000) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                ms_cache::fuzzing::entry(&changed);
            }
            ms_cache::fuzzing::entry(&bytes[..at]);
        }
        count += 1;
    }
    assert!(count >= 6, "{count} files");
}
