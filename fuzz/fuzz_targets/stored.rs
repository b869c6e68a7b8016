//! Any bytes as what the compile cache keeps of a function.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ms_core::session::fuzzing::stored(bytes);
});
