//! Elementwise maximum and minimum, and clamping.

use crate::ops::core::elementwise::{elementwise, number1, number2};
use crate::ops::core::rules::{Interval, check_interval};
use crate::ops::{IntoOperand, select};
use crate::tensor::{AsTensor, DType, Tensor};
use ms_ir::error::{Result, called};

elementwise! {
    /// Returns the larger of `a` and `b`, NaN if either is NaN. Equal values share the gradient.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::maximum(tensor![1., 5.], 3.).to_vec::<f32>(), [3., 5.]);
    /// ```
    MAXIMUM = 120: maximum(a, b), Any -> same;
    eval |v| number2(v, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }, Ord::max);
    finite_vjp |g, y| { a: g * share(a, b, y), b: g * share(b, a, y) };
    lower body |[a, b]| if a.dtype() == DType::Bool { a | b } else { a.max(b) };
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Returns the smaller of `a` and `b`, NaN if either is NaN. Equal values share the gradient.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::minimum(tensor![1., 5.], 3.).to_vec::<f32>(), [1., 3.]);
    /// ```
    MINIMUM = 121: minimum(a, b), Any -> same;
    eval |v| number2(v, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }, Ord::min);
    finite_vjp |g, y| { a: g * share(a, b, y), b: g * share(b, a, y) };
    lower body |[a, b]| if a.dtype() == DType::Bool { a & b } else { a.min(b) };
    samples [(-2.0, 2.0), (-2.0, 2.0)];
}

elementwise! {
    /// Returns `max(x, 0)`, NaN for NaN. The gradient at zero is zero, and passes through NaN.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::relu(tensor![-1., 2.]).to_vec::<f32>(), [0., 2.]);
    /// ```
    RELU = 122: relu(x), Numeric -> same;
    eval |v| number1(v, |x| if x.is_nan() { x } else { x.max(0.0) }, |x| x.max(0));
    finite_vjp |g, y| { x: select(y.le(0.0), 0.0, g) };
    lower body |[x]| x.max(0.0);
    samples [(0.1, 2.0)];
}

/// Returns the share of `a` in the gradient: one if it is the result, one half if `b` equals it, else zero.
fn share(a: &Tensor, b: &Tensor, result: &Tensor) -> Tensor {
    let equal = select(a.eq(b), 0.5, 1.0).cast(result.dtype());
    select(a.eq(result), equal, 0.0)
}

/// Clamps `x` to `low..=high`; NaN stays NaN. The gradient is zero beyond the limits, and at limits that are numbers. A
/// limit that is a tensor shares the gradient where `x` equals it. Where `low` is above `high`, the result is `high`.
///
/// # Panics
/// Raises [`Code::Argument`](crate::Code::Argument) for a limit that is a NaN number.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::clamp(tensor![-1., 0.5, 9.], 0., 1.).to_vec::<f32>(), [0., 0.5, 1.]);
/// ```
#[track_caller]
pub fn clamp(x: impl AsTensor, low: impl IntoOperand, high: impl IntoOperand) -> Tensor {
    let _called = called("clamp");
    let x = clamp_min(x, low);
    clamp_max(&x, high)
}

/// Returns `x`, or `low` where `x` is less; NaN stays NaN.
///
/// # Panics
/// Panics in the cases of [`clamp`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::clamp_min(tensor![-1., 0.5], 0.).to_vec::<f32>(), [0., 0.5]);
/// ```
#[track_caller]
pub fn clamp_min(x: impl AsTensor, low: impl IntoOperand) -> Tensor {
    let _called = called("clamp_min");
    let x = &*x.as_tensor();
    propagate_poison!(x);
    or_poison!(limits("clamp_min", "low", &low));
    if low.operand().scalar().is_none() {
        return maximum(x, low);
    }
    select(x.le(&low), low, x)
}

/// Returns `x`, or `high` where `x` is greater; NaN stays NaN.
///
/// # Panics
/// Panics in the cases of [`clamp`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::clamp_max(tensor![0.5, 9.], 1.).to_vec::<f32>(), [0.5, 1.]);
/// ```
#[track_caller]
pub fn clamp_max(x: impl AsTensor, high: impl IntoOperand) -> Tensor {
    let _called = called("clamp_max");
    let x = &*x.as_tensor();
    propagate_poison!(x);
    or_poison!(limits("clamp_max", "high", &high));
    if high.operand().scalar().is_none() {
        return minimum(x, high);
    }
    select(x.ge(&high), high, x)
}

/// Checks that a limit that is a number is not NaN.
fn limits(op: &str, name: &str, limit: &impl IntoOperand) -> Result<()> {
    limit.operand().scalar().map_or(Ok(()), |it| check_interval(op, name, it.as_f64(), &Interval::NUMBER))
}

impl Tensor {
    /// Clamps this tensor to `low..=high`; NaN stays NaN. Beyond the limits the gradient is zero.
    #[track_caller]
    pub fn clamp(&self, low: impl IntoOperand, high: impl IntoOperand) -> Self {
        clamp(self, low, high)
    }

    /// Converts this tensor to another dtype.
    #[track_caller]
    pub fn cast(&self, to: DType) -> Self {
        crate::ops::cast(self, to)
    }
}
