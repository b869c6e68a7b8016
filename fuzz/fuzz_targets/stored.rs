//! Any bytes as a stored value of the compile cache.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ms_core::session::fuzzing::stored(bytes);
});
