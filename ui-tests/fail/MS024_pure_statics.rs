// A pure function cannot read a mutable static; constants are not mistaken for one.
use ms::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

const FIXED: usize = 3;
static PLAIN: usize = 3;
static LAYERS: AtomicUsize = AtomicUsize::new(3);
static TABLE: Mutex<Vec<f64>> = Mutex::new(Vec::new());
static SEED: LazyLock<u64> = LazyLock::new(|| 3);

#[jit(pure)]
fn statics(x: &Tensor) -> Tensor {
    let layers = LAYERS.load(Ordering::Relaxed) + FIXED + PLAIN;
    let first = TABLE.lock().expect("nobody panics")[0];
    x * first + *SEED as f64 + layers as f64
}

fn main() {}
