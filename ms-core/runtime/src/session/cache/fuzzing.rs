//! Provides entry points for fuzzers: bytes are either a stored value that can be used, or rejected.

use super::entry::Entry;
use super::pure::PureEntry;
use ms_compile::exec::stored_program;
use ms_ir::stored::{Reader, Stored, read_all};

/// Decodes bytes as a stored value of the compile cache, and returns whether they are valid. The program of an entry is
/// then checked and loaded, or rejected, like one from a file.
pub fn stored(bytes: &[u8]) -> bool {
    let mut from = Reader::new(bytes);
    let entry = Entry::read(&mut from);
    if let Some(entry) = &entry {
        check_written(entry);
        stored_program(from.rest());
    }
    let pure = read_all::<PureEntry>(bytes);
    pure.iter().for_each(check_written);
    entry.is_some() || pure.is_some()
}

/// Checks that writing a value reproduces the bytes from which it was read.
fn check_written<T: Stored>(value: &T) {
    let written = |value: &T| {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        bytes
    };
    let once = written(value);
    let again = read_all(&once).expect("what was written is read");
    assert!(written(&again) == once, "what was written is read as the same");
}
