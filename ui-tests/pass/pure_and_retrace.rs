//! `#[jit(pure)]`, constants and immutable statics, and `ms::retrace`.
use ms::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

const TWO: i64 = 2;
static THREE: i64 = 3;
static CHANGES: AtomicI64 = AtomicI64::new(1);

#[jit(pure)]
fn pure(x: &Tensor, times: usize) -> Tensor {
    (0..times).fold(x.clone(), |x, _| x * TWO + THREE)
}

#[jit]
#[allow(deprecated, reason = "reads a static that changes, on purpose")]
fn reads(x: &Tensor) -> Tensor {
    x * CHANGES.load(Ordering::Relaxed)
}

#[test]
fn main() {
    let x = Tensor::scalar(1.0f32);
    assert_eq!([pure(&x, 1), pure(&x, 2)].map(|it| it.item::<f32>()), [5.0, 13.0]);
    assert_eq!(reads(&x).item::<f32>(), 1.0);
    CHANGES.store(5, Ordering::Relaxed);
    assert_eq!(reads(&x).item::<f32>(), 1.0);
    ms::retrace(reads);
    assert_eq!(reads(&x).item::<f32>(), 5.0);
}
