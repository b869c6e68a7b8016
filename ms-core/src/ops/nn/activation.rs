//! Activations.

use crate::ops::{clamp, erfc, exp, expm1, log1p, maximum, minimum, select, sigmoid, tanh};
use crate::tensor::{AsTensor, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// `x Φ(x)` with the normal distribution function (Hendrycks and Gimpel 2016, "Gaussian Error
/// Linear Units").
#[track_caller]
pub fn gelu(x: impl AsTensor) -> Tensor {
    let x = &*x.as_tensor();
    // Φ(x) = erfc(-x / sqrt 2) / 2, which loses no digit where it is small.
    0.5 * x * erfc(x * -FRAC_1_SQRT_2)
}

/// [`gelu`] with the same paper's approximation by tanh.
#[track_caller]
pub fn gelu_tanh(x: impl AsTensor) -> Tensor {
    let x = &*x.as_tensor();
    let inner = FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x);
    // (1 + tanh u) / 2 = 1 / (1 + e^-2u), which loses no digit where it is small.
    x * sigmoid(inner * 2.0)
}

/// `x / (1 + e^-x)`.
#[track_caller]
pub fn silu(x: impl AsTensor) -> Tensor {
    let x = &*x.as_tensor();
    x * sigmoid(x)
}

/// `log(1 + e^(beta x)) / beta`, and `x` where `beta x` exceeds `threshold`.
#[track_caller]
pub fn softplus(x: impl AsTensor, beta: f64, threshold: f64) -> Tensor {
    let x = &*x.as_tensor();
    let scaled = x * beta;
    // log(1 + e^t) = max(t, 0) + log(1 + e^-|t|), which does not overflow for any threshold.
    let smooth = maximum(&scaled, 0.0) + log1p(exp(-scaled.abs()));
    select(scaled.gt(threshold), x, smooth / beta)
}

/// `log(1 / (1 + e^-x))`, without overflow.
#[track_caller]
pub fn logsigmoid(x: impl AsTensor) -> Tensor {
    let x = &*x.as_tensor();
    minimum(x, 0.0) - log1p(exp(-x.abs()))
}

/// `x tanh(log(1 + e^x))` (Misra 2019, "Mish").
#[track_caller]
pub fn mish(x: impl AsTensor) -> Tensor {
    let x = &*x.as_tensor();
    x * tanh(softplus(x, 1.0, 20.0))
}

/// `x` where it is positive, else `alpha (e^x - 1)`.
#[track_caller]
pub fn elu(x: impl AsTensor, alpha: f64) -> Tensor {
    let x = &*x.as_tensor();
    select(x.gt(0.0), x, alpha * expm1(minimum(x, 0.0)))
}

/// `scale elu(x, alpha)` with the constants that keep mean zero and variance one (Klambauer et al.
/// 2017, "Self-Normalizing Neural Networks").
#[track_caller]
pub fn selu(x: impl AsTensor) -> Tensor {
    elu(x, 1.6732632423543772) * 1.0507009873554805
}

/// `x` where it is positive, else `alpha (e^(x / alpha) - 1)`.
#[track_caller]
pub fn celu(x: impl AsTensor, alpha: f64) -> Tensor {
    let x = &*x.as_tensor();
    select(x.gt(0.0), x, alpha * expm1(minimum(x, 0.0) / alpha))
}

/// `x` where it is positive, else `slope x`.
#[track_caller]
pub fn leaky_relu(x: impl AsTensor, slope: f64) -> Tensor {
    let x = &*x.as_tensor();
    select(x.gt(0.0), x, x * slope)
}

/// `min(max(x, 0), 6)`.
#[track_caller]
pub fn relu6(x: impl AsTensor) -> Tensor {
    clamp(x, 0.0, 6.0)
}

/// `min(max(x + 3, 0), 6) / 6`.
#[track_caller]
pub fn hsigmoid(x: impl AsTensor) -> Tensor {
    clamp(&*x.as_tensor() + 3.0, 0.0, 6.0) / 6.0
}

/// `x hsigmoid(x)`.
#[track_caller]
pub fn hswish(x: impl AsTensor) -> Tensor {
    let x = &*x.as_tensor();
    x * hsigmoid(x)
}

/// `x / (1 + |x|)`.
#[track_caller]
pub fn softsign(x: impl AsTensor) -> Tensor {
    let x = &*x.as_tensor();
    x / (x.abs() + 1.0)
}
