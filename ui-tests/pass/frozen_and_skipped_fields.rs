//! `Frozen` values are hashed once, and `#[cell(skip)]` excludes a field from the key.
use ms::prelude::*;
use ms::Frozen;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cell]
struct Net {
    table: Frozen<Vec<u64>>,
    #[cell(skip)]
    calls: AtomicUsize,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.calls.fetch_add(1, Ordering::Relaxed);
        x * self.table.iter().sum::<u64>()
    }
}

#[test]
fn main() {
    let net = |table: &[u64]| Net { table: Frozen::new(table.to_vec()), calls: AtomicUsize::new(0) };
    let (six, seven) = (net(&[1, 2, 3]), net(&[3, 4]));
    for _ in 0..3 {
        assert_eq!(six.call(&Tensor::scalar(1.0f32)).item::<f32>(), 6.0);
        assert_eq!(seven.call(&Tensor::scalar(1.0f32)).item::<f32>(), 7.0);
    }
    assert_eq!(six.calls.load(Ordering::Relaxed), 1, "the body runs while it is traced, and not again");
}
