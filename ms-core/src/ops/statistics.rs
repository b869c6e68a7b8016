//! Mean and variance.

use super::{ReduceAxes, sqrt, sum_axes};
use crate::error::OrRaise;
use crate::tensor::{AsTensor, Tensor};

/// The number of elements that are folded into one.
fn count(x: &Tensor, axes: &[usize]) -> f64 {
    axes.iter().map(|&axis| x.shape()[axis]).product::<usize>() as f64
}

/// Integers and bools become f32.
#[track_caller]
fn float(x: &Tensor) -> Tensor {
    if x.dtype().is_float() { x.clone() } else { x.cast(crate::DType::F32) }
}

/// The mean over axes; of nothing it is nan.
#[track_caller]
pub fn mean(x: impl AsTensor, axes: impl ReduceAxes, keepdims: bool) -> Tensor {
    let x = float(&x.as_tensor());
    let axes = axes.resolve(x.rank()).or_raise();
    sum_axes(&x, &axes, keepdims) / count(&x, &axes)
}

/// The mean of the squared distances from the mean, divided by `n - ddof` instead of `n`.
#[track_caller]
pub fn var(x: impl AsTensor, axes: impl ReduceAxes, ddof: usize, keepdims: bool) -> Tensor {
    let x = float(&x.as_tensor());
    let axes = axes.resolve(x.rank()).or_raise();
    let distance = &x - sum_axes(&x, &axes, true) / count(&x, &axes);
    sum_axes(&(&distance * &distance), &axes, keepdims) / (count(&x, &axes) - ddof as f64)
}

/// The square root of [`var`].
#[track_caller]
pub fn std(x: impl AsTensor, axes: impl ReduceAxes, ddof: usize, keepdims: bool) -> Tensor {
    sqrt(var(x, axes, ddof, keepdims))
}
