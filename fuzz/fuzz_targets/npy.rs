//! Any bytes as an array of NumPy.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("npy")(bytes);
});
