//! Fuzzes the reader of ONNX models.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = ms::io::untrusted::reader("onnx")(bytes);
});
