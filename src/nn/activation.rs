//! Activations as layers.

use crate::prelude::*;

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident => |$x:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        #[cell]
        #[derive(Clone, Copy, Default)]
        pub struct $name;

        #[cell]
        impl $name {
            fn construct(&self, $x: &Tensor) -> Tensor {
                $body
            }
        }
    )*};
}

activations! {
    /// `max(x, 0)`.
    Relu => |x| ops::relu(x);
    /// `1 / (1 + e^-x)`.
    Sigmoid => |x| ops::sigmoid(x);
    /// The hyperbolic tangent.
    Tanh => |x| ops::tanh(x);
    /// `x Φ(x)` with the exact normal distribution function.
    Gelu => |x| ops::gelu(x);
    /// Softmax over the last axis.
    Softmax => |x| ops::softmax(x, -1);
    /// Logarithm of the softmax over the last axis.
    LogSoftmax => |x| ops::log_softmax(x, -1);
}
