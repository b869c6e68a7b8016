//! The flattening layer.

use crate::prelude::*;

/// Flattens all axes but the first: `[n, a, b, ..]` to `[n, a b ..]`.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::Flatten::new().call(&Tensor::zeros([8, 3, 4, 5])).shape(), [8, 60]);
/// ```
#[cell]
#[derive(Clone, Default, Debug)]
pub struct Flatten {}

#[cell]
impl Flatten {
    /// Creates the layer.
    pub fn new() -> Self {
        Self {}
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        x.flatten(1)
    }
}
