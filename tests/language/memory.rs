//! Helpers of tests of the memory of arguments and results.

use ms::prelude::*;
use ms::{Context, with_context};

/// Returns the address of a tensor's elements.
pub fn place(x: &Tensor) -> usize {
    x.try_array().expect("an array").device_ptr() as usize
}

pub fn data(shape: &[usize], seed: usize) -> Tensor {
    let numel: usize = shape.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_slice(shape.to_vec(), &values)
}

pub fn bits(x: &Tensor) -> Vec<u8> {
    x.try_array().and_then(ms::tensor::Array::into_host).expect("an array").to_bytes()
}

pub fn eagerly<R>(f: impl FnOnce() -> R) -> R {
    with_context(Context { jit: false, ..ms::context() }, f)
}

/// Runs `f` in strict precision, so that compiled code rounds like eager execution.
pub fn strictly(f: impl FnOnce()) {
    with_context(Context { precision: ms::Precision::Strict, ..ms::context() }, f);
}
