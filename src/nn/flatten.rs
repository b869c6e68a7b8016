//! Flattening.

use crate::prelude::*;

/// `[n, a, b, ..]` to `[n, a b ..]`.
#[cell]
#[derive(Clone, Default, Debug)]
pub struct Flatten {}

#[cell]
impl Flatten {
    /// The layer.
    pub fn new() -> Self {
        Self {}
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        x.flatten(1)
    }
}
