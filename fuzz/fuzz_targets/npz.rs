//! Any bytes as an archive of arrays.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("npz")(bytes);
});
