//! Activations as layers.

use super::init::filled_parameter;
use crate::prelude::*;
use ms_core::error::called;

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident => |$x:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        #[cell]
        #[derive(Clone, Copy, Default, Debug)]
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
    ReLU => |x| ops::relu(x);
    /// `1 / (1 + e^-x)`.
    Sigmoid => |x| ops::sigmoid(x);
    /// The hyperbolic tangent.
    Tanh => |x| ops::tanh(x);
    /// `x Φ(x)` with the exact normal distribution function.
    GELU => |x| ops::gelu(x);
    /// Softmax over the last axis.
    Softmax => |x| ops::softmax(x, -1);
    /// Logarithm of the softmax over the last axis.
    LogSoftmax => |x| ops::log_softmax(x, -1);
    /// `log(1 / (1 + e^-x))`.
    LogSigmoid => |x| ops::logsigmoid(x);
    /// `min(max(x, 0), 6)`.
    ReLU6 => |x| ops::relu6(x);
    /// `x / (1 + e^-x)`.
    SiLU => |x| ops::silu(x);
    /// `x tanh(log(1 + e^x))`.
    Mish => |x| ops::mish(x);
    /// The self-normalising unit ([`ops::selu`]).
    SELU => |x| ops::selu(x);
    /// `min(max(x + 3, 0), 6) / 6`.
    HSigmoid => |x| ops::hsigmoid(x);
    /// `x hsigmoid(x)`.
    HSwish => |x| ops::hswish(x);
    /// `x / (1 + |x|)`.
    Softsign => |x| ops::softsign(x);
}

macro_rules! with_number {
    ($(
        $(#[$doc:meta])*
        $name:ident($(#[$field_doc:meta])* $field:ident = $default:expr) => |$x:ident, $it:ident| $body:expr;
    )*) => {$(
        $(#[$doc])*
        #[cell]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(#[$field_doc])*
            pub $field: f64,
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $field: $default }
            }
        }

        #[cell]
        impl $name {
            fn construct(&self, $x: &Tensor) -> Tensor {
                let $it = self.$field;
                $body
            }
        }
    )*};
}

with_number! {
    /// `x` where it is positive, else `slope x`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::LeakyReLU { slope: 0.25 }.call(&tensor![2.0, -4.0]);
    /// assert_eq!(y.to_vec::<f32>(), [2.0, -1.0]);
    /// ```
    LeakyReLU(
        /// The slope of negative numbers; 0.01 by default, as in PyTorch (0.2 in MindSpore).
        slope = 0.01
    ) => |x, it| ops::leaky_relu(x, it);
    /// `x` where it is positive, else `alpha (e^x - 1)`.
    ELU(
        /// The negative of the limit; 1 by default.
        alpha = 1.0
    ) => |x, it| ops::elu(x, it);
    /// `x` where it is positive, else `alpha (e^(x / alpha) - 1)`.
    CELU(
        /// The negative of the limit; 1 by default.
        alpha = 1.0
    ) => |x, it| ops::celu(x, it);
    /// `log(1 + e^(beta x)) / beta`, and `x` where `beta x` exceeds 20.
    Softplus(
        /// The sharpness; 1 by default.
        beta = 1.0
    ) => |x, it| ops::softplus(x, it, 20.0);
}

/// `x` where it is positive, else `weight x`, with one weight for all channels of `x` `[n, channels, ..]`,
/// or one for each.
///
/// ```
/// use ms::prelude::*;
/// let y = nn::PReLU::new(2).call(&tensor![[2.0, -4.0]]);
/// assert_eq!(y.to_vec::<f32>(), [2.0, -1.0]);
/// ```
#[cell]
#[derive(Debug)]
pub struct PReLU {
    /// `[1]` or `[channels]`, 0.25 at first.
    pub weight: Parameter,
}

impl PReLU {
    /// A layer of this many weights: one, or the number of channels.
    #[track_caller]
    pub fn new(weights: usize) -> Self {
        Self { weight: filled_parameter(&[weights], 0.25) }
    }

    #[track_caller]
    fn scaled(&self, x: &Tensor) -> Tensor {
        let _called = called("PReLU");
        let weight = self.weight.value();
        let weight = if x.rank() > 2 && weight.dims()[0] != 1 {
            weight.expand_dims(&(1..x.rank() as isize - 1).collect::<Vec<_>>())
        } else {
            weight
        };
        ops::select(x.gt(0.0), x, x * weight)
    }
}

#[cell]
impl PReLU {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.scaled(x)
    }
}
