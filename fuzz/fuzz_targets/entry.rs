//! Any bytes as the file of an entry of the compile cache.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ms_cache::fuzzing::entry(bytes);
});
