//! Softmax and related ops, shifted by the largest entry to prevent overflow.

use crate::ops::primitive::reduction::axes_of;
use crate::ops::{ReduceAxes, exp, log, max, select, stop_gradient, sum};
use crate::tensor::{AsTensor, Tensor};

/// The largest entries over axes, without gradient; zero where they are infinite, so that
/// differences are not nan, and without entries.
#[track_caller]
fn shift(x: &Tensor, axes: impl ReduceAxes) -> Tensor {
    if x.dims().iter().any(|&it| it == 0) {
        return sum(x, axes, true);
    }
    let largest = stop_gradient(max(x, axes, true));
    select(largest.isfinite(), &largest, 0.0)
}

/// `e^x / Σ e^x` along an axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::softmax(tensor![[1., 1.], [200., 0.]], 1).to_vec::<f32>(), [0.5, 0.5, 1., 0.]);
/// ```
#[track_caller]
pub fn softmax(x: impl AsTensor, axis: isize) -> Tensor {
    let x = &*x.as_tensor();
    let powers = exp(x - shift(x, axis));
    &powers / sum(&powers, axis, true)
}

/// `x - log Σ e^x` along an axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::log_softmax(tensor![200., 0.], 0).to_vec::<f32>(), [0., -200.]);
/// ```
#[track_caller]
pub fn log_softmax(x: impl AsTensor, axis: isize) -> Tensor {
    let x = &*x.as_tensor();
    let shifted = x - shift(x, axis);
    &shifted - log(sum(exp(&shifted), axis, true))
}

/// `log Σ e^x` over axes, which are kept with size one if `keepdims`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::logsumexp(tensor![1000., 0.], (), false).to_vec::<f32>(), [1000.]);
/// ```
#[track_caller]
pub fn logsumexp(x: impl AsTensor, axes: impl ReduceAxes, keepdims: bool) -> Tensor {
    let x = &*x.as_tensor();
    propagate_poison!(x);
    let axes: Vec<isize> = or_poison!(axes_of("logsumexp", x, axes)).into_iter().map(|it| it as isize).collect();
    let shift = shift(x, &*axes);
    let out = log(sum(exp(x - &shift), &*axes, true)) + shift;
    if keepdims { out } else { out.squeeze(&*axes) }
}

impl Tensor {
    /// `e^x / Σ e^x` along an axis.
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Self {
        softmax(self, axis)
    }

    /// `x - log Σ e^x` along an axis.
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Self {
        log_softmax(self, axis)
    }

    /// `log Σ e^x` over axes, which are kept with size one if `keepdims`.
    #[track_caller]
    pub fn logsumexp(&self, axes: impl ReduceAxes, keepdims: bool) -> Self {
        logsumexp(self, axes, keepdims)
    }
}
