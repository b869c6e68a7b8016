//! Fuzzes the reader of MindSpore checkpoints.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("ckpt")(bytes);
});
