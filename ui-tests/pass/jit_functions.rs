//! `#[jit]` on functions: inputs, host arguments, patterns, early return, bodies of one line.
#![deny(warnings)]
use ms::prelude::*;

#[jit]
fn repeat(x: &Tensor, (times, from): (usize, usize)) -> Tensor {
    if times == 0 {
        return x.clone();
    }
    let mut sum = x.clone();
    for _ in from..times {
        sum = ops::add(&sum, x);
    }
    sum
}

#[rustfmt::skip]
#[jit]
fn doubled(x: &Tensor) -> Tensor { x + x }

#[test]
fn main() {
    let x = Tensor::scalar(2.0);
    assert_eq!(repeat(&x, (0, 0)).item::<f32>(), 2.0);
    assert_eq!(repeat(&x, (3, 0)).item::<f32>(), 8.0);
    assert_eq!(repeat(&x, (3, 1)).item::<f32>(), 6.0);
    assert_eq!(doubled(&x).item::<f32>(), 4.0);
}
