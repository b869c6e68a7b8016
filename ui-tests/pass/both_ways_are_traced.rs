//! Both arms of a branch on a tensor run once while they are traced; eagerly, one of them runs.
use ms::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

static TAKEN: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

fn take(way: usize) {
    TAKEN[way].fetch_add(1, Ordering::Relaxed);
}

#[jit]
fn f(x: &Tensor) -> Tensor {
    if x > 0.0 {
        take(0);
        x + 1.0
    } else {
        take(1);
        x - 1.0
    }
}

#[test]
fn main() {
    let run = |x: f32, jit| ms::with_context(Context { jit, ..ms::context() }, || f(&Tensor::scalar(x)).item::<f32>());
    let taken = || [0, 1].map(|it| TAKEN[it].swap(0, Ordering::Relaxed));
    assert_eq!([run(1.0, true), run(-1.0, true)], [2.0, -2.0]);
    assert_eq!(taken(), [1, 1]);
    assert_eq!([run(1.0, false), run(2.0, false), run(-1.0, false)], [2.0, 3.0, -2.0]);
    assert_eq!(taken(), [2, 1]);
}
