//! Workloads that several benchmarks share.

use ms::prelude::*;

#[jit]
pub fn add(x: &Tensor, y: &Tensor) -> Tensor {
    x + y
}

/// The MLP of the training step on digits.
#[cell]
pub struct Mlp {
    fc1: nn::Dense,
    fc2: nn::Dense,
}

#[cell]
impl Mlp {
    pub fn new() -> Self {
        Self { fc1: nn::Dense::new(64, 128), fc2: nn::Dense::new(128, 10) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc2(&self.fc1(x).relu())
    }
}
