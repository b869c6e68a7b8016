//! Activation functions.

use crate::ops::core::rules::{Interval, check_divisor, check_interval};
use crate::ops::{Batching, Derivative, Sample, SampleInput, erfc, exp, expm1, log1p, relu, select, sigmoid, tanh};
use crate::tensor::{AsTensor, Attrs, DType, Tensor, apply1};
use ms_ir::error::called;
use smallvec::smallvec;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, FRAC_2_SQRT_PI};

composite! {
    /// `x Φ(x)` with the cumulative normal distribution function `Φ`.
    GELU = 820: "gelu", &[];
    body |_, inputs| {
        let x = inputs[0];
        // Φ(x) = erfc(-x / sqrt 2) / 2, which is accurate where it is small.
        smallvec![0.5 * x * erfc(x * -FRAC_1_SQRT_2)]
    };
    // Φ(x) + x φ(x), with the density φ(x) = e^(-x² / 2) / sqrt(2 pi)
    derivative Derivative::Rule(|it| {
        let x = &it.inputs[0];
        let density = exp(x * x * -0.5) * (FRAC_1_SQRT_2 * FRAC_2_SQRT_PI / 2.0);
        smallvec![Some(it.cotangent() * (0.5 * erfc(x * -FRAC_1_SQRT_2) + x * density))]
    }), finite: true;
    batching Batching::Rule(|it| it.apply(it.attrs, it.inputs));
    samples samples;
}

composite! {
    /// `x (1 + tanh u) / 2` with `u = sqrt(2 / pi) (x + 0.044715 x³)`.
    GELU_TANH = 821: "gelu_tanh", &[];
    body |_, inputs| {
        let x = inputs[0];
        let inner = FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x);
        // (1 + tanh u) / 2 = 1 / (1 + e^-2u), which is accurate where it is small.
        smallvec![x * sigmoid(inner * 2.0)]
    };
    // s + 2 x s (1 - s) u' with s = 1 / (1 + e^-2u). The factor s (1 - s) comes first: powers of x may be infinite
    // where it is zero.
    derivative Derivative::Rule(|it| {
        let (x, root) = (&it.inputs[0], FRAC_2_PI.sqrt());
        let s = sigmoid(root * (x + 0.044715 * x * x * x) * 2.0);
        let slope = x * (&s * (1.0 - &s)) * (2.0 * root);
        let cubic = 3.0 * 0.044715 * (&slope * x * x);
        smallvec![Some(it.cotangent() * (s + slope + cubic))]
    }), finite: true;
    batching Batching::Rule(|it| it.apply(it.attrs, it.inputs));
    samples samples;
}

fn samples() -> Vec<Sample> {
    let of = |dtype, shape: &[usize]| Sample::new([SampleInput::of(dtype, shape, -3.0, 3.0)]);
    let shapes = [of(DType::F32, &[3, 4]), of(DType::F32, &[]), of(DType::F32, &[0, 2])];
    shapes.into_iter().chain([DType::F64, DType::F16, DType::BF16].map(|it| of(it, &[7]))).collect()
}

/// Returns `x Φ(x)` with the cumulative normal distribution function `Φ` (Hendrycks and Gimpel 2016, "Gaussian Error
/// Linear Units").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::gelu(tensor![0., 9., -20.]).to_vec::<f32>(), [0., 9., 0.]);
/// ```
#[track_caller]
pub fn gelu(x: impl AsTensor) -> Tensor {
    let _called = called("gelu");
    apply1(GELU.op(), &Attrs::none(), &[&*x.as_tensor()])
}

/// Approximates [`gelu`] by `tanh`, as in the same paper.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::gelu_tanh(tensor![0., 9., -20.]).to_vec::<f32>(), [0., 9., 0.]);
/// ```
#[track_caller]
pub fn gelu_tanh(x: impl AsTensor) -> Tensor {
    let _called = called("gelu_tanh");
    apply1(GELU_TANH.op(), &Attrs::none(), &[&*x.as_tensor()])
}

/// Returns `x / (1 + e^-x)` (Elfwing et al. 2018, "Sigmoid-Weighted Linear Units for Neural Network Function
/// Approximation in Reinforcement Learning").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::silu(tensor![0., 90.]).to_vec::<f32>(), [0., 90.]);
/// ```
#[track_caller]
pub fn silu(x: impl AsTensor) -> Tensor {
    let _called = called("silu");
    let x = &*x.as_tensor();
    compute_wide!(x => silu(x));
    x * sigmoid(x)
}

/// Returns `log(1 + e^(beta x)) / beta`, and `x` where `beta x` exceeds `threshold`.
///
/// # Panics
/// Raises [`Code::Argument`](crate::Code::Argument) unless `beta` is finite and not zero, and for a `threshold` that is
/// NaN.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::softplus(tensor![50., -200.], 1., 20.).to_vec::<f32>(), [50., 0.]);
/// ```
#[track_caller]
pub fn softplus(x: impl AsTensor, beta: f64, threshold: f64) -> Tensor {
    let _called = called("softplus");
    let x = &*x.as_tensor();
    propagate_poison!(x);
    or_poison!(check_divisor("softplus", "beta", beta));
    or_poison!(check_interval("softplus", "threshold", threshold, &Interval::NUMBER));
    compute_wide!(x => softplus(x, beta, threshold));
    let scaled = x * beta;
    select(scaled.gt(threshold), x, softplus_pair(&scaled).0 / beta)
}

/// Returns `log(1 + e^x)` and `log(1 + e^-x)` without overflow. Their derivatives of every order exist also at zero,
/// where `max(x, 0)` and `|x|` have none.
#[track_caller]
pub(super) fn softplus_pair(x: &Tensor) -> (Tensor, Tensor) {
    let positive = x.gt(0.0);
    let rest = log1p(exp(select(&positive, -x, x)));
    (select(&positive, x + &rest, &rest), select(&positive, &rest, &rest - x))
}

/// Returns `log(1 / (1 + e^-x))`, without overflow.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::logsigmoid(tensor![-50., 200.]).to_vec::<f32>(), [-50., 0.]);
/// ```
#[track_caller]
pub fn logsigmoid(x: impl AsTensor) -> Tensor {
    let _called = called("logsigmoid");
    let x = &*x.as_tensor();
    compute_wide!(x => logsigmoid(x));
    // A negation would return minus zero where the sum is zero.
    0.0 - softplus_pair(x).1
}

/// Returns `x tanh(log(1 + e^x))` (Misra 2019, "Mish").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::mish(tensor![0., 50.]).to_vec::<f32>(), [0., 50.]);
/// ```
#[track_caller]
pub fn mish(x: impl AsTensor) -> Tensor {
    let _called = called("mish");
    let x = &*x.as_tensor();
    compute_wide!(x => mish(x));
    x * tanh(softplus(x, 1.0, 20.0))
}

/// Returns `x` where it is positive, else `alpha (e^x - 1)` (Clevert et al. 2016, "Fast and Accurate Deep Network
/// Learning by Exponential Linear Units").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::elu(tensor![2., -50.], 0.5).to_vec::<f32>(), [2., -0.5]);
/// ```
#[track_caller]
pub fn elu(x: impl AsTensor, alpha: f64) -> Tensor {
    let _called = called("elu");
    let x = &*x.as_tensor();
    compute_wide!(x => elu(x, alpha));
    let positive = x.gt(0.0);
    // `min` of both would share the gradient at zero.
    select(&positive, x, alpha * expm1(select(&positive, 0.0, x)))
}

/// Returns `scale elu(x, alpha)` with the constants that preserve mean zero and variance one (Klambauer et al. 2017,
/// "Self-Normalizing Neural Networks").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::selu(tensor![0., 1.]).to_vec::<f32>(), [0., 1.050701]);
/// ```
#[track_caller]
pub fn selu(x: impl AsTensor) -> Tensor {
    let _called = called("selu");
    let x = &*x.as_tensor();
    compute_wide!(x => selu(x));
    elu(x, 1.6732632423543772) * 1.0507009873554805
}

/// Returns `x` where it is positive, else `alpha (e^(x / alpha) - 1)` (Barron 2017, "Continuously Differentiable
/// Exponential Linear Units").
///
/// # Panics
/// Raises [`Code::Argument`](crate::Code::Argument) unless `alpha` is finite and not zero.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::celu(tensor![2., -50.], 0.5).to_vec::<f32>(), [2., -0.5]);
/// ```
#[track_caller]
pub fn celu(x: impl AsTensor, alpha: f64) -> Tensor {
    let _called = called("celu");
    let x = &*x.as_tensor();
    propagate_poison!(x);
    or_poison!(check_divisor("celu", "alpha", alpha));
    compute_wide!(x => celu(x, alpha));
    let positive = x.gt(0.0);
    select(&positive, x, alpha * expm1(select(&positive, 0.0, x) / alpha))
}

/// Returns `x` where it is positive, else `slope x` (Maas et al. 2013, "Rectifier Nonlinearities Improve Neural Network
/// Acoustic Models").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::leaky_relu(tensor![2., -4.], 0.25).to_vec::<f32>(), [2., -1.]);
/// ```
#[track_caller]
pub fn leaky_relu(x: impl AsTensor, slope: f64) -> Tensor {
    let _called = called("leaky_relu");
    let x = &*x.as_tensor();
    select(x.gt(0.0), x, x * slope)
}

/// Returns `min(max(x, 0), 6)`, with a gradient of zero at zero and at 6, as in PyTorch and JAX.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::relu6(tensor![-1., 3., 9.]).to_vec::<f32>(), [0., 3., 6.]);
/// ```
#[track_caller]
pub fn relu6(x: impl AsTensor) -> Tensor {
    let _called = called("relu6");
    let x = &*x.as_tensor();
    select(x.ge(6.0), 6.0, relu(x))
}

/// Returns `min(max(x + 3, 0), 6) / 6` (Howard et al. 2019, "Searching for MobileNetV3").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::hsigmoid(tensor![-4., 0., 4.]).to_vec::<f32>(), [0., 0.5, 1.]);
/// ```
#[track_caller]
pub fn hsigmoid(x: impl AsTensor) -> Tensor {
    let _called = called("hsigmoid");
    let x = &*x.as_tensor();
    compute_wide!(x => hsigmoid(x));
    relu6(x + 3.0) / 6.0
}

/// Returns `x hsigmoid(x)` (Howard et al. 2019, "Searching for MobileNetV3").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::hswish(tensor![-4., 0., 4.]).to_vec::<f32>(), [0., 0., 4.]);
/// ```
#[track_caller]
pub fn hswish(x: impl AsTensor) -> Tensor {
    let _called = called("hswish");
    let x = &*x.as_tensor();
    compute_wide!(x => hswish(x));
    x * hsigmoid(x)
}

/// Returns `x / (1 + |x|)`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::softsign(tensor![1., -3.]).to_vec::<f32>(), [0.5, -0.75]);
/// ```
#[track_caller]
pub fn softsign(x: impl AsTensor) -> Tensor {
    let _called = called("softsign");
    let x = &*x.as_tensor();
    compute_wide!(x => softsign(x));
    x / (x.abs() + 1.0)
}
