//! Fuzzes kernels, interpreted and as machine code. The input is the text of a kernel, or the choices of a random one.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ms_x64::testing::kernel(bytes);
});
