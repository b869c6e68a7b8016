//! Fuzzes the reader of compile-cache entry files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ms_cache::fuzzing::entry(bytes);
});
