//! Fuzzes the reader of CSV tables.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("csv")(bytes);
});
