//! Fuzzes the decoder of values stored in the compile cache.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ms_core::session::fuzzing::stored(bytes);
});
