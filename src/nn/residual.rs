//! Residual connections.

use crate::prelude::*;
use ms_core::error::called;

/// A residual block (He et al. 2015, <https://arxiv.org/abs/1512.03385>): `body(x) + x`, or `body(x) + shortcut(x)`,
/// optionally followed by an activation.
///
/// In the naming conventions of other frameworks, the body adds no path step: its layer `conv1` is called `conv1`.
/// The first layer of the shortcut is called `shortcut.0`.
///
/// ```
/// use ms::prelude::*;
/// let body = || nn::sequential![nn::Dense::new(4, 4), nn::ReLU, nn::Dense::new(4, 4)];
/// let block = nn::Residual::new(body()).activation(nn::ReLU);
/// assert_eq!(block.call(&Tensor::ones([3, 4])).shape(), [3, 4]);
/// let wider = nn::Residual::new(nn::Dense::new(4, 8)).shortcut(nn::Dense::new(4, 8));
/// assert_eq!(wider.call(&Tensor::ones([3, 4])).shape(), [3, 8]);
/// ```
///
/// # Panics
/// A call raises [`Code::Shape`](crate::Code::Shape) if the two results do not broadcast.
#[cell]
#[derive(Debug)]
pub struct Residual {
    body: Box<dyn Layer>,
    shortcut: Option<Box<dyn Layer>>,
    activation: Option<Box<dyn Layer>>,
}

#[cell]
impl Residual {
    /// Creates a block that adds the operand to the result of `body`.
    pub fn new(body: impl Layer + 'static) -> Self {
        Self { body: Box::new(body), shortcut: None, activation: None }
    }

    /// Sets the shortcut: its result is added in place of the operand.
    pub fn shortcut(mut self, layer: impl Layer + 'static) -> Self {
        self.shortcut = Some(Box::new(layer));
        self
    }

    /// Sets the activation after the sum.
    pub fn activation(mut self, layer: impl Layer + 'static) -> Self {
        self.activation = Some(Box::new(layer));
        self
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let y = self.body.forward(x);
        let around = self.shortcut.as_ref().map_or_else(|| x.clone(), |it| it.forward(x));
        let sum = {
            let _called = called("Residual");
            y + around
        };
        self.activation.as_ref().map_or_else(|| sum.clone(), |it| it.forward(&sum))
    }
}
