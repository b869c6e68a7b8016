//! Fuzzes the reader of PyTorch files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("pytorch")(bytes);
});
