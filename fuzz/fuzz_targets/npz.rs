//! Fuzzes the reader of NumPy archives.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("npz")(bytes);
});
