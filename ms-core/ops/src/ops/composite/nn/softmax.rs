//! Softmax and related ops, shifted by the largest entry to prevent overflow.

use crate::ops::composite::largest::largest_finite;
use crate::ops::core::axis::named;
use crate::ops::primitive::reduction::axes_of;
use crate::ops::{
    AxisAttrs, Batching, Derivative, OpDef, ReduceAxes, Sample, SampleInput, exp, keepdims, log, max, normalize_axis,
    select, stop_gradient, sum,
};
use crate::tensor::{AsTensor, Attrs, DType, Outputs, Tensor, apply1};
use ms_ir::error::called;
use smallvec::smallvec;

/// Returns the largest entries over axes, without gradient; zero for no entries. An infinite largest entry minus itself
/// is NaN, and so is every element of that softmax.
#[track_caller]
fn largest(x: &Tensor, axes: impl ReduceAxes) -> Tensor {
    if x.dims().iter().any(|&it| it == 0) {
        return sum(x, keepdims(axes));
    }
    stop_gradient(max(x, keepdims(axes)))
}

composite! {
    /// `e^x / Σ e^x` along `axis`.
    SOFTMAX = 800: "softmax", AxisAttrs::DECLARED;
    body softmax_body;
    // y (g - Σ g y)
    derivative Derivative::Rule(|it| {
        let (y, g) = (&it.outputs[0], it.cotangent());
        smallvec![Some(y * (g - sum(g * y, keepdims(axis_of(it.attrs)))))]
    }), finite: true;
    batching Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs));
    samples samples;
}

composite! {
    /// `x - log Σ e^x` along `axis`.
    LOG_SOFTMAX = 801: "log_softmax", AxisAttrs::DECLARED;
    body log_softmax_body;
    // g - e^y Σ g
    derivative Derivative::Rule(|it| {
        let (y, g) = (&it.outputs[0], it.cotangent());
        smallvec![Some(g - exp(y) * sum(g, keepdims(axis_of(it.attrs))))]
    }), finite: true;
    batching Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs));
    samples samples;
}

fn softmax_body(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let (x, axis) = (inputs[0], axis_of(attrs));
    let powers = exp(x - largest(x, axis));
    smallvec![&powers / sum(&powers, keepdims(axis))]
}

/// Returns the softmax of scores, and zeros where all scores are minus infinity, which excludes them. No gradient is
/// NaN there.
#[track_caller]
pub(super) fn softmax_of_used(scores: &Tensor, axis: isize) -> Tensor {
    let largest = largest(scores, axis);
    let powers = exp(scores - select(largest.eq(f64::NEG_INFINITY), 0.0, &largest));
    let sum = sum(&powers, keepdims(axis));
    // The sum is zero only if all scores are excluded; otherwise one power is one.
    powers / select(sum.eq(0.0), 1.0, &sum)
}

fn log_softmax_body(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    smallvec![LogSoftmax::of(inputs[0], axis_of(attrs) as isize).logs]
}

/// The logarithms of a softmax, and the statistics of which they are computed.
pub(super) struct LogSoftmax {
    /// `x - shift - log sum`.
    pub logs: Tensor,
    /// The largest entries along the axis, without gradient.
    pub shift: Tensor,
    /// `Σ e^(x - shift)`.
    pub sum: Tensor,
}

impl LogSoftmax {
    #[track_caller]
    pub fn of(x: &Tensor, axis: isize) -> Self {
        let shift = largest(x, axis);
        let shifted = x - &shift;
        let sum = sum(exp(&shifted), keepdims(axis));
        Self { logs: shifted - log(&sum), shift, sum }
    }
}

fn axis_of(attrs: &Attrs) -> usize {
    AxisAttrs::of(attrs).axis()
}

fn samples() -> Vec<Sample> {
    let sample = |dtype, shape: &[usize], axis: usize| {
        Sample::new([SampleInput::of(dtype, shape, -3.0, 3.0)]).attrs(AxisAttrs::attrs(axis))
    };
    let shapes: [(&[usize], usize); 4] = [(&[3, 4], 1), (&[2, 3, 2], 0), (&[5], 0), (&[2, 0], 1)];
    let shapes = shapes.into_iter().map(|(shape, axis)| sample(DType::F32, shape, axis));
    shapes.chain([DType::F64, DType::F16, DType::BF16].map(|it| sample(it, &[2, 5], 1))).collect()
}

/// Applies a composite along an axis.
#[track_caller]
fn apply_along(def: &'static OpDef, x: &Tensor, axis: isize) -> Tensor {
    propagate_poison!(x);
    let axis = or_poison!(normalize_axis(axis, x.rank()).map_err(|it| named(def.name(), &[x], it)));
    apply1(def.op(), &AxisAttrs::attrs(axis), &[x])
}

/// Returns `e^x / Σ e^x` along an axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::softmax(tensor![[1., 1.], [200., 0.]], 1).to_vec::<f32>(), [0.5, 0.5, 1., 0.]);
/// ```
#[track_caller]
pub fn softmax(x: impl AsTensor, axis: isize) -> Tensor {
    let _called = called("softmax");
    apply_along(&SOFTMAX, &x.as_tensor(), axis)
}

/// Returns `x - log Σ e^x` along an axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::log_softmax(tensor![200., 0.], 0).to_vec::<f32>(), [0., -200.]);
/// ```
#[track_caller]
pub fn log_softmax(x: impl AsTensor, axis: isize) -> Tensor {
    let _called = called("log_softmax");
    apply_along(&LOG_SOFTMAX, &x.as_tensor(), axis)
}

/// Returns `log Σ e^x` over axes, as in [`mean`](crate::ops::mean).
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::logsumexp(tensor![1000., 0.], ()).to_vec::<f32>(), [1000.]);
/// ```
#[track_caller]
pub fn logsumexp(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor {
    let _called = called("logsumexp");
    let x = &*x.as_tensor();
    propagate_poison!(x);
    compute_wide!(x => logsumexp(x, axes));
    let kept = axes.keepdims();
    let axes = or_poison!(axes_of("logsumexp", x, axes));
    // `largest_finite` keeps the sum infinite or zero instead of NaN where the largest element is infinite.
    let shift = largest_finite(x, &axes, false);
    let axes: Vec<isize> = axes.into_iter().map(|it| it as isize).collect();
    let out = log(sum(exp(x - &shift), keepdims(&*axes))) + shift;
    if kept { out } else { out.squeeze(&*axes) }
}

impl Tensor {
    /// Returns `e^x / Σ e^x` along an axis.
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Self {
        softmax(self, axis)
    }

    /// Returns `x - log Σ e^x` along an axis.
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Self {
        log_softmax(self, axis)
    }

    /// Returns `log Σ e^x` over axes.
    #[track_caller]
    pub fn logsumexp(&self, axes: impl ReduceAxes) -> Self {
        logsumexp(self, axes)
    }
}
