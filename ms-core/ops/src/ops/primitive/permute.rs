//! `permute`: permutation of axes.

use crate::ops::core::axis::{named, stored_axes};
use crate::ops::{
    Batching, Derivative, Effects, IntoAxes, Lowering, OpDef, Sample, SampleInput, TransformRules, normalize_axes,
    normalize_axis,
};
use crate::tensor::{AsTensor, Attr, AttrRange, OpInfo, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, called};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

attributes! {
    /// The attributes of [`PERMUTE`].
    #[doc(hidden)]
    pub struct PermuteAttrs { axes: [i64] where 0..=AttrRange::FACTOR }
}

/// Permutes the axes of the operand to the order of `axes`.
pub static PERMUTE: OpDef = OpDef {
    info: OpInfo { number: 356, name: "permute", attrs: PermuteAttrs::DECLARED },
    infer: |attrs, inputs| {
        let x = inputs[0];
        let axes = stored_axes(PermuteAttrs::of(attrs).axes().as_slice(), x.rank())?;
        if axes.len() != x.rank() {
            let message = format!("{axes:?} does not name each of the {} axes of {x} once", x.rank());
            return Err(Error::new(Code::Argument, message));
        }
        Ok(smallvec![Type::new(x.dtype, axes.iter().map(|&axis| x.dims[axis]).collect())])
    },
    eval: |attrs, inputs| {
        let layout = inputs[0].layout().permute(&PermuteAttrs::of(attrs).axes().sizes());
        Ok(smallvec![inputs[0].with_layout(layout).on_host()?.to_contiguous()])
    },
    effects: Effects::NONE,
    lowering: Lowering::View(|attrs, layout| Some(layout.permute(&PermuteAttrs::of(attrs).axes().sizes()))),
    samples: || {
        let axes: Attr = (&[2usize, 0, 1][..]).into();
        vec![Sample::new([SampleInput::f32(&[2, 3, 4], -2.0, 2.0)]).attrs(PermuteAttrs::attrs(axes))]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let axes = PermuteAttrs::of(it.attrs).axes().sizes();
            let mut inverse: SmallVec<[usize; 4]> = smallvec![0; axes.len()];
            for (to, &from) in axes.iter().enumerate() {
                inverse[from] = to;
            }
            smallvec![Some(apply1(PERMUTE.op(), &PermuteAttrs::attrs(&*inverse), &[it.cotangent()]))]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| {
            let own = PermuteAttrs::of(it.attrs).axes().sizes();
            let axes: Vec<usize> = std::iter::once(0).chain(own.into_iter().map(|it| it + 1)).collect();
            it.apply(&PermuteAttrs::attrs(&*axes), it.inputs)
        }),
        body: None,
    },
};

/// Permutes the axes of `x` to the order of `axes`, as NumPy's `transpose(axes)`, without a copy.
///
/// # Panics
/// Raises [`Code::Argument`] unless `axes` has each axis once, and [`Code::OutOfRange`] for one that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::permute(tensor![[1, 2], [3, 4]], [1, 0]).to_vec::<i64>(), [1, 3, 2, 4]);
/// ```
#[track_caller]
pub fn permute(x: impl AsTensor, axes: impl IntoAxes) -> Tensor {
    permute_axes(x.as_tensor(), &axes.into_axes())
}

#[track_caller]
fn permute_axes(x: Cow<'_, Tensor>, axes: &[isize]) -> Tensor {
    propagate_poison!(x);
    let axes = or_poison!(normalize_axes(axes, x.rank()).map_err(|it| named("permute", &[&x], it)));
    if axes.iter().copied().eq(0..x.rank()) {
        return x.into_owned();
    }
    apply1(PERMUTE.op(), &PermuteAttrs::attrs(&*axes), &[&*x])
}

/// Exchanges two axes of `x`, without a copy.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::transpose(tensor![[1, 2], [3, 4]], 0, -1).to_vec::<i64>(), [1, 3, 2, 4]);
/// ```
#[track_caller]
pub fn transpose(x: impl AsTensor, axis0: isize, axis1: isize) -> Tensor {
    let _called = called("transpose");
    let x = x.as_tensor();
    propagate_poison!(x);
    let at = |axis| normalize_axis(axis, x.rank()).map_err(|it| named("transpose", &[&x], it));
    let (axis0, axis1) = (or_poison!(at(axis0)), or_poison!(at(axis1)));
    let mut axes: SmallVec<[usize; 4]> = (0..x.rank()).collect();
    axes.swap(axis0, axis1);
    permute(&*x, &*axes)
}

/// Moves one axis of `x` to another position; the others keep their order.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::move_axis(tensor![[[1, 2, 3]]], 2, 0).shape(), [3, 1, 1]);
/// ```
#[track_caller]
pub fn move_axis(x: impl AsTensor, from: isize, to: isize) -> Tensor {
    let _called = called("move_axis");
    let x = x.as_tensor();
    propagate_poison!(x);
    let at = |axis| normalize_axis(axis, x.rank()).map_err(|it| named("move_axis", &[&x], it));
    let (from, to) = (or_poison!(at(from)), or_poison!(at(to)));
    let mut axes: SmallVec<[usize; 4]> = (0..x.rank()).filter(|&it| it != from).collect();
    axes.insert(to, from);
    permute(&*x, &*axes)
}

impl Tensor {
    /// Permutes the axes to the order of `axes`, without a copy; see [`permute`].
    #[track_caller]
    pub fn permute(&self, axes: impl IntoAxes) -> Self {
        permute(self, axes)
    }

    /// Exchanges two axes, without a copy; see [`transpose`].
    #[track_caller]
    pub fn transpose(&self, axis0: isize, axis1: isize) -> Self {
        transpose(self, axis0, axis1)
    }

    /// Reverses the order of the axes, without a copy, as NumPy's `x.T`.
    #[track_caller]
    pub fn t(&self) -> Self {
        let axes: SmallVec<[usize; 4]> = (0..self.rank()).rev().collect();
        permute(self, &*axes)
    }
}
