//! Any bytes as a checkpoint.

#![no_main]

#[path = "../../src/io/safetensors.rs"]
mod safetensors;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(arrays) = safetensors::deserialize(bytes) else { return };
    let mut file = Vec::new();
    safetensors::write(&arrays, &mut file).expect("memory can be written");
    let again = safetensors::deserialize(&file).expect("what was written is read");
    assert!(again.iter().map(|(name, it)| (name, it.ty())).eq(arrays.iter().map(|(name, it)| (name, it.ty()))));
});
