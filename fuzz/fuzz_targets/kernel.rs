//! Any bytes as a kernel: its text, or the choices of a random one; interpreted and as machine code.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ms_cpu::testing::kernel(bytes);
});
