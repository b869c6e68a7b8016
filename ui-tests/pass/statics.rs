//! A local whose name differs from that of a static leaves the static unchanged.
use ms::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

static VALUE: AtomicI64 = AtomicI64::new(5);

#[jit]
fn f(x: &Tensor) -> Tensor {
    let value = 1.0f32;
    ops::add(x, &Tensor::scalar(value))
}

#[test]
fn main() {
    assert_eq!(f(&Tensor::scalar(1.0)).item::<f32>(), 2.0);
    assert_eq!(VALUE.load(Ordering::Relaxed), 5);
}
