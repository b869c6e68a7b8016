//! The larger and the smaller of two numbers, and clamping.

use crate::error::{Result, called};
use crate::ops::core::elementwise::{elementwise, number1, number2};
use crate::ops::core::rules::{Interval, check_interval};
use crate::ops::{IntoOperand, select};
use crate::tensor::{AsTensor, DType, Tensor};

elementwise! {
    /// The larger of `a` and `b`, nan if either is nan. Equal ones share the gradient.
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
    /// The smaller of `a` and `b`, nan if either is nan. Equal ones share the gradient.
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
    /// `max(x, 0)`, nan for nan. The gradient at zero is zero, and passes through nan.
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

/// The fraction of the gradient for `a`: one if it is the result, one half if `b` equals it, else zero.
fn share(a: &Tensor, b: &Tensor, result: &Tensor) -> Tensor {
    let equal = select(a.eq(b), 0.5, 1.0).cast(result.dtype());
    select(a.eq(result), equal, 0.0)
}

/// `x` limited to `low..=high`; nan stays nan. Beyond limits, and at limits that are numbers, the gradient is zero; at
/// those that are tensors both share it. Where `low` is above `high`, everything becomes `high`.
///
/// # Panics
/// Raises [`Code::Argument`](crate::Code::Argument) for a number that is nan as a limit.
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

/// `x`, or `low` where `x` is less; nan stays nan.
///
/// # Panics
/// As [`clamp`].
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

/// `x`, or `high` where `x` is greater; nan stays nan.
///
/// # Panics
/// As [`clamp`].
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

/// Checks that a limit that is a number is not nan.
fn limits(op: &str, name: &str, limit: &impl IntoOperand) -> Result<()> {
    limit.operand().scalar().map_or(Ok(()), |it| check_interval(op, name, it.as_f64(), &Interval::NUMBER))
}

impl Tensor {
    /// This tensor limited to `low..=high`; nan stays nan. Beyond the limits the gradient is zero.
    #[track_caller]
    pub fn clamp(&self, low: impl IntoOperand, high: impl IntoOperand) -> Self {
        clamp(self, low, high)
    }

    /// This tensor in another dtype.
    #[track_caller]
    pub fn cast(&self, to: DType) -> Self {
        crate::ops::cast(self, to)
    }
}
