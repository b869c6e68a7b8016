//! Composition of layers.

use crate::prelude::*;

/// Calls its layers in order, each on the result of the one before.
///
/// ```
/// use ms::prelude::*;
/// let net = nn::sequential![nn::Dense::new(4, 8), nn::ReLU, nn::Dense::new(8, 2)];
/// assert_eq!(net.call(&Tensor::ones([3, 4])).shape(), [3, 2]);
/// ```
#[cell]
#[derive(Default, Debug)]
pub struct Sequential {
    layers: Vec<Box<dyn Layer>>,
}

#[cell]
impl Sequential {
    /// No layers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a layer.
    pub fn push(mut self, layer: impl Layer + 'static) -> Self {
        self.layers.push(Box::new(layer));
        self
    }

    /// Number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.layers.iter().fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

/// A [`Sequential`](crate::nn::Sequential) of these layers.
#[macro_export]
macro_rules! sequential {
    ($($layer:expr),* $(,)?) => {
        $crate::nn::Sequential::new()$(.push($layer))*
    };
}
