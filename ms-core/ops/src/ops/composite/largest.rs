//! Maxima as constants, by which others are shifted or scaled.

use crate::ops::core::wide::Inner;
use crate::ops::{
    Batching, Derivative, Sample, SampleInput, full_like, keepdims, max, select, stop_gradient, sum_axes,
};
use crate::tensor::{AttrRange, DType, Tensor, apply1};
use ms_ir::MapVec;
use smallvec::smallvec;

attributes! {
    /// The attributes of [`LARGEST_FINITE`].
    struct LargestAttrs { axes: [i64] where 0..=AttrRange::FACTOR, positive: bool }
}

composite! {
    /// Returns the maxima over `axes`, which remain with size 1, without gradient. The result is zero where the maximum
    /// is infinite or NaN, and for empty axes. If `positive` is set, the result is one there, and where the maximum is
    /// not above zero.
    LARGEST_FINITE = 802: "largest_finite", LargestAttrs::DECLARED;
    body |attrs, inputs| {
        let it = LargestAttrs::of(attrs);
        smallvec![largest_of(inputs[0], &it.axes().sizes(), it.positive())]
    };
    derivative Derivative::Zero, finite: true;
    inner Inner::OperandDtype;
    batching Batching::Rule(|it| it.apply(&it.shifted("axes"), it.inputs));
    samples || {
        let of = |dtype, shape: &[usize], axes: &[usize], positive: bool| {
            Sample::new([SampleInput::of(dtype, shape, -2.0, 2.0)]).attrs(LargestAttrs::attrs(axes, positive))
        };
        vec![
            of(DType::F32, &[3, 4], &[1], false),
            of(DType::F32, &[2, 3, 2], &[0, 2], true),
            of(DType::F32, &[2, 0], &[1], false),
            of(DType::F32, &[0, 2], &[0], true),
            of(DType::F64, &[5], &[0], true),
            of(DType::F16, &[2, 3], &[0], false),
        ]
    };
}

/// The body of [`LARGEST_FINITE`].
#[track_caller]
fn largest_of(x: &Tensor, axes: &[usize], positive: bool) -> Tensor {
    let otherwise = if positive { 1.0 } else { 0.0 };
    // `max` of an empty axis is an error. The op refuses an axis that does not exist.
    if axes.iter().any(|&axis| x.dims().get(axis).is_some_and(|it| *it == 0)) {
        return full_like(sum_axes(x, axes, true), otherwise);
    }
    let axes: Vec<isize> = axes.map_vec(|&it| it as isize);
    let largest = stop_gradient(max(x, keepdims(&*axes)));
    let is_finite = largest.isfinite();
    let is_valid = if positive { is_finite.logical_and(largest.gt(0.0)) } else { is_finite };
    select(is_valid, &largest, otherwise)
}

/// Applies [`LARGEST_FINITE`] over axes in ascending order. For an axis of symbolic size, emptiness is decided when the
/// size is known.
#[track_caller]
pub(in crate::ops) fn largest_finite(x: &Tensor, axes: &[usize], positive: bool) -> Tensor {
    apply1(LARGEST_FINITE.op(), &LargestAttrs::attrs(axes, positive), &[x])
}
