//! Softmax and related ops, shifted by the largest entry to prevent overflow.

use crate::error::Result;
use crate::ops::core::axis::{named, stored_axis};
use crate::ops::core::composite::{evaluate_composite, same_float, to_float};
use crate::ops::primitive::reduction::axes_of;
use crate::ops::{
    AxisAttrs, Batching, Derivative, Effects, Lowering, OpDef, ReduceAxes, Sample, SampleInput, Types, exp, log, max,
    normalize_axis, select, stop_gradient, sum,
};
use crate::tensor::{AsTensor, Attrs, DType, OpInfo, Outputs, Tensor, Type, apply1};
use smallvec::smallvec;

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

/// `e^x / Σ e^x` along `axis`, of floats.
pub static SOFTMAX: OpDef = OpDef {
    info: OpInfo { number: 800, name: "softmax", attrs: AxisAttrs::DECLARED },
    infer: same_along_axis,
    eval: |attrs, inputs| evaluate_composite(softmax_body, attrs, inputs),
    // y (g - Σ g y)
    derivative: Derivative::Rule(|it| {
        let (y, g) = (&it.outputs[0], it.cotangent());
        smallvec![Some(y * (g - sum(g * y, axis_of(it.attrs), true)))]
    }),
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
    lowering: Lowering::Composite(softmax_body),
    samples,
};

/// `x - log Σ e^x` along `axis`, of floats.
pub static LOG_SOFTMAX: OpDef = OpDef {
    info: OpInfo { number: 801, name: "log_softmax", attrs: AxisAttrs::DECLARED },
    infer: same_along_axis,
    eval: |attrs, inputs| evaluate_composite(log_softmax_body, attrs, inputs),
    // g - e^y Σ g
    derivative: Derivative::Rule(|it| {
        let (y, g) = (&it.outputs[0], it.cotangent());
        smallvec![Some(g - exp(y) * sum(g, axis_of(it.attrs), true))]
    }),
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
    lowering: Lowering::Composite(log_softmax_body),
    samples,
};

fn softmax_body(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let (x, axis) = (inputs[0], axis_of(attrs));
    let powers = exp(x - shift(x, axis));
    smallvec![&powers / sum(&powers, axis, true)]
}

fn log_softmax_body(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let (x, axis) = (inputs[0], axis_of(attrs));
    let shifted = x - shift(x, axis);
    smallvec![&shifted - log(sum(exp(&shifted), axis, true))]
}

fn axis_of(attrs: &Attrs) -> usize {
    AxisAttrs::of(attrs).axis()
}

/// The type of the operand, of floats, which has the axis.
fn same_along_axis(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    stored_axis(axis_of(attrs), inputs[0].rank())?;
    same_float(inputs[0])
}

fn samples() -> Vec<Sample> {
    let sample = |dtype, shape: &[usize], axis: usize| {
        Sample::new([SampleInput::of(dtype, shape, -3.0, 3.0)]).attrs(AxisAttrs::attrs(axis))
    };
    let shapes: [(&[usize], usize); 4] = [(&[3, 4], 1), (&[2, 3, 2], 0), (&[5], 0), (&[2, 0], 1)];
    let shapes = shapes.into_iter().map(|(shape, axis)| sample(DType::F32, shape, axis));
    shapes.chain([DType::F64, DType::F16, DType::BF16].map(|it| sample(it, &[2, 5], 1))).collect()
}

/// Applies a composite along an axis; bools and integers become f32 first.
#[track_caller]
fn apply_along(def: &'static OpDef, x: &Tensor, axis: isize) -> Tensor {
    propagate_poison!(x);
    let axis = or_poison!(normalize_axis(axis, x.rank()).map_err(|it| named(def.name(), &[x], it)));
    apply1(def.op(), &AxisAttrs::attrs(axis), &[&to_float(x)])
}

/// `e^x / Σ e^x` along an axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::softmax(tensor![[1., 1.], [200., 0.]], 1).to_vec::<f32>(), [0.5, 0.5, 1., 0.]);
/// ```
#[track_caller]
pub fn softmax(x: impl AsTensor, axis: isize) -> Tensor {
    apply_along(&SOFTMAX, &x.as_tensor(), axis)
}

/// `x - log Σ e^x` along an axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::log_softmax(tensor![200., 0.], 0).to_vec::<f32>(), [0., -200.]);
/// ```
#[track_caller]
pub fn log_softmax(x: impl AsTensor, axis: isize) -> Tensor {
    apply_along(&LOG_SOFTMAX, &x.as_tensor(), axis)
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
