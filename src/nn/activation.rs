//! Activation functions as layers.

use super::init::filled_parameter;
use crate::prelude::*;
use ms_core::error::called;

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident => |$x:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// `x` is a float tensor of any shape; the result has the same shape and dtype.
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
    /// The rectified linear unit, `max(x, 0)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::ReLU.call(&tensor![-1.0, 2.0]).to_vec::<f32>(), [0.0, 2.0]);
    /// ```
    ReLU => |x| ops::relu(x);
    /// The sigmoid, `1 / (1 + e^-x)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::Sigmoid.call(&tensor![0.0]).to_vec::<f32>(), [0.5]);
    /// ```
    Sigmoid => |x| ops::sigmoid(x);
    /// The hyperbolic tangent, elementwise.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::Tanh.call(&tensor![0.5]);
    /// assert!((y.item::<f32>() - 0.5f32.tanh()).abs() < 1e-6);
    /// ```
    Tanh => |x| ops::tanh(x);
    /// The Gaussian error linear unit, `x Φ(x)`, where `Φ` is the exact normal distribution function.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::GELU.call(&tensor![1.0]);
    /// assert!((y.item::<f32>() - 0.841345).abs() < 1e-6);
    /// ```
    GELU => |x| ops::gelu(x);
    /// The softmax over the last axis.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::Softmax.call(&tensor![0.0, 0.0]).to_vec::<f32>(), [0.5, 0.5]);
    /// ```
    Softmax => |x| ops::softmax(x, -1);
    /// The logarithm of the softmax over the last axis.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::LogSoftmax.call(&tensor![0.0, 0.0]).to_vec::<f32>();
    /// assert!(y.iter().all(|it| (it + 2f32.ln()).abs() < 1e-6));
    /// ```
    LogSoftmax => |x| ops::log_softmax(x, -1);
    /// The logarithm of the sigmoid, `log(1 / (1 + e^-x))`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::LogSigmoid.call(&tensor![0.0]);
    /// assert!((y.item::<f32>() - 0.5f32.ln()).abs() < 1e-6);
    /// ```
    LogSigmoid => |x| ops::logsigmoid(x);
    /// The rectified linear unit capped at six, `min(max(x, 0), 6)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::ReLU6.call(&tensor![-1.0, 3.0, 9.0]).to_vec::<f32>(), [0.0, 3.0, 6.0]);
    /// ```
    ReLU6 => |x| ops::relu6(x);
    /// The sigmoid linear unit (swish), `x / (1 + e^-x)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::SiLU.call(&tensor![1.0]);
    /// assert!((y.item::<f32>() - 0.731059).abs() < 1e-6);
    /// ```
    SiLU => |x| ops::silu(x);
    /// The Mish activation, `x tanh(log(1 + e^x))`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::Mish.call(&tensor![1.0]);
    /// assert!((y.item::<f32>() - 0.865098).abs() < 1e-6);
    /// ```
    Mish => |x| ops::mish(x);
    /// The scaled exponential linear unit ([`ops::selu`]).
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::SELU.call(&tensor![1.0]);
    /// assert!((y.item::<f32>() - 1.050701).abs() < 1e-6);
    /// ```
    SELU => |x| ops::selu(x);
    /// The hard sigmoid, `min(max(x + 3, 0), 6) / 6`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::HSigmoid.call(&tensor![-4.0, 0.0, 4.0]).to_vec::<f32>(), [0.0, 0.5, 1.0]);
    /// ```
    HSigmoid => |x| ops::hsigmoid(x);
    /// The hard swish, `x hsigmoid(x)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::HSwish.call(&tensor![-4.0, 0.0, 4.0]).to_vec::<f32>(), [0.0, 0.0, 4.0]);
    /// ```
    HSwish => |x| ops::hswish(x);
    /// The softsign, `x / (1 + |x|)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::Softsign.call(&tensor![1.0, -3.0]).to_vec::<f32>(), [0.5, -0.75]);
    /// ```
    Softsign => |x| ops::softsign(x);
}

macro_rules! with_number {
    ($(
        $(#[$doc:meta])*
        $name:ident($(#[$field_doc:meta])* $field:ident = $default:expr) => |$x:ident, $it:ident| $body:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// `x` is a float tensor of any shape; the result has the same shape and dtype.
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
    /// The leaky ReLU: `x` where it is positive, else `slope x`.
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
    /// The exponential linear unit: `x` where it is positive, else `alpha (e^x - 1)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::ELU { alpha: 2.0 }.call(&tensor![3.0, -50.0]);
    /// assert_eq!(y.to_vec::<f32>(), [3.0, -2.0]);
    /// ```
    ELU(
        /// The negated limit for `x` towards `-inf`; 1 by default.
        alpha = 1.0
    ) => |x, it| ops::elu(x, it);
    /// The continuously differentiable exponential linear unit: `x` where it is positive, else
    /// `alpha (e^(x / alpha) - 1)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::CELU { alpha: 2.0 }.call(&tensor![3.0, -200.0]);
    /// assert_eq!(y.to_vec::<f32>(), [3.0, -2.0]);
    /// ```
    CELU(
        /// The negated limit for `x` towards `-inf`; 1 by default.
        alpha = 1.0
    ) => |x, it| ops::celu(x, it);
    /// The softplus, `log(1 + e^(beta x)) / beta`. It is `x` where `beta x` exceeds 20.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let y = nn::Softplus::default().call(&tensor![0.0]);
    /// assert!((y.item::<f32>() - 2f32.ln()).abs() < 1e-6);
    /// ```
    Softplus(
        /// The sharpness; 1 by default.
        beta = 1.0
    ) => |x, it| ops::softplus(x, it, 20.0);
}

/// The parametric ReLU: `x` where it is positive, else `weight x` (He et al. 2015, "Delving Deep into Rectifiers"). The
/// weight is trained: one for all channels of `x` `[n, channels, ..]`, or one per channel.
///
/// ```
/// use ms::prelude::*;
/// let y = nn::PReLU::new(2).call(&tensor![[2.0, -4.0]]);
/// assert_eq!(y.to_vec::<f32>(), [2.0, -1.0]);
/// ```
#[cell]
#[derive(Debug)]
pub struct PReLU {
    /// The weight, `[1]` or `[channels]`, initially 0.25.
    pub weight: Parameter,
}

impl PReLU {
    /// Creates a layer with this many weights: one, or the number of channels.
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
