//! Fuzzes the reader of safetensors checkpoints.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("safetensors")(bytes);
});
