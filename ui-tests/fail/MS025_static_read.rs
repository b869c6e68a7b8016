// Reading a mutable static is a warning; constants and locals with such a name cause none.
#![deny(deprecated)]
use ms::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const FIXED: usize = 3;
static LAYERS: AtomicUsize = AtomicUsize::new(3);
static mut CALLS: usize = 0;

#[jit]
fn f(x: &Tensor) -> Tensor {
    let VALUE = FIXED;
    let layers = LAYERS.load(Ordering::Relaxed) + VALUE;
    let calls = unsafe { CALLS };
    x * layers as f64 + calls as f64
}

fn main() {}
