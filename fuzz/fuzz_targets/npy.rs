//! Fuzzes the reader of NumPy arrays.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("npy")(bytes);
});
