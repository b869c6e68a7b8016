//! Fuzzes the reader of exported functions.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("exported")(bytes);
});
