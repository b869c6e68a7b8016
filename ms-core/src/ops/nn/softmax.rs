//! Softmax and its kin, shifted by the largest entry so that nothing overflows.

use crate::ops::{exp, log, max, select, stop_gradient, sum};
use crate::tensor::{AsTensor, Tensor};

/// The largest entries along an axis, without gradient; zero where they are infinite, so that the
/// difference with them is not nan.
fn shift(x: &Tensor, axis: isize) -> Tensor {
    let largest = stop_gradient(max(x, axis, true));
    select(largest.isfinite(), &largest, 0.0)
}

/// `e^x / Σ e^x` along an axis.
#[track_caller]
pub fn softmax(x: impl AsTensor, axis: isize) -> Tensor {
    let x = &*x.as_tensor();
    let powers = exp(x - shift(x, axis));
    &powers / sum(&powers, axis, true)
}

/// `x - log Σ e^x` along an axis.
#[track_caller]
pub fn log_softmax(x: impl AsTensor, axis: isize) -> Tensor {
    let x = &*x.as_tensor();
    let shifted = x - shift(x, axis);
    &shifted - log(sum(exp(&shifted), axis, true))
}

/// `log Σ e^x` along an axis, which stays with size one if `keepdims`.
#[track_caller]
pub fn logsumexp(x: impl AsTensor, axis: isize, keepdims: bool) -> Tensor {
    let x = &*x.as_tensor();
    let shift = shift(x, axis);
    let out = log(sum(exp(x - &shift), axis, true)) + shift;
    if keepdims { out } else { out.squeeze(axis) }
}
