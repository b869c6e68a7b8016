//! `slice`: strided slices along every axis.

use crate::ops::{
    Batching, Derivative, Effects, Extent, Lowering, OpDef, PartialGradient, Sample, SampleInput, TransformRules,
};
use crate::tensor::{AsTensor, Attrs, Dim, Dims, Layout, OpInfo, Selection, Tensor, Type, apply1};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`SLICE`], by axis.
    #[doc(hidden)]
    pub struct SliceAttrs { starts: [Extent], sizes: [Extent], steps: [i64] }
}

/// Takes `sizes` positions along each axis from `starts` in `steps`, which may be negative.
pub static SLICE: OpDef = OpDef {
    info: OpInfo { number: 357, name: "slice", attrs: SliceAttrs::DECLARED },
    infer: |attrs, inputs| {
        let it = SliceAttrs::of(attrs);
        let sizes = it.sizes().dims();
        check_ranges(&inputs[0].dims, &it.starts().dims(), &sizes, it.steps().as_slice())?;
        Ok(smallvec![Type::new(inputs[0].dtype, sizes)])
    },
    eval: |attrs, inputs| {
        let layout = sliced(attrs, inputs[0].layout());
        Ok(smallvec![inputs[0].with_layout(layout).on_host()?.to_contiguous()])
    },
    effects: Effects::NONE,
    lowering: Lowering::View(|attrs, layout| Some(sliced(attrs, layout))),
    samples: || {
        let of = |starts: &[i64], sizes: &[i64], steps: &[i64]| {
            let attrs = SliceAttrs::attrs(starts, sizes, steps);
            Sample::new([SampleInput::f32(&[5, 7], -2.0, 2.0)]).attrs(attrs)
        };
        vec![of(&[1, 0], &[2, 3], &[2, 3]), of(&[4, 6], &[5, 3], &[-1, -2]), of(&[0, 0], &[0, 7], &[1, 1])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Read(|it| {
            let at = SliceAttrs::of(it.attrs);
            PartialGradient::slice(&it.inputs[0], &at.starts().dims(), at.steps().as_slice(), it.cotangent())
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| {
            it.apply(&it.fronted(&[("starts", Dim::new(0)), ("sizes", it.size), ("steps", Dim::new(1))]), it.inputs)
        }),
        body: None,
    },
};

fn sliced(attrs: &Attrs, layout: &Layout) -> Layout {
    let it = SliceAttrs::of(attrs);
    layout.slice_all(&it.starts().sizes(), &it.sizes().sizes(), &it.steps().steps())
}

/// Checks that ranges are inside `shape`; ranges with symbolic sizes are checked in calls.
///
/// # Errors
/// [`Code::Shape`] unless there is one range per axis, [`Code::OutOfRange`] if one is outside its axis.
pub(in crate::ops) fn check_ranges(shape: &[Dim], starts: &[Dim], sizes: &[Dim], steps: &[i64]) -> Result<()> {
    let rank = shape.len();
    if [starts.len(), sizes.len(), steps.len()] != [rank; 3] {
        return Err(Error::new(Code::Shape, format!("one range for each of {rank} axes is needed")));
    }
    for axis in 0..rank {
        let known = (shape[axis].as_known(), starts[axis].as_known(), sizes[axis].as_known());
        let (Some(whole), Some(start), Some(size)) = known else { continue };
        let step = steps[axis];
        let last = start as i128 + (size as i128 - 1) * step as i128;
        let inside = |it: i128| it >= 0 && it < whole as i128;
        if size < 0 || step == 0 || (size > 0 && !(inside(start as i128) && inside(last))) {
            let message = format!("{size} positions from {start} by {step} leave axis {axis} of shape {shape:?}");
            return Err(Error::new(Code::OutOfRange, message));
        }
    }
    Ok(())
}

/// Returns the slice of `x` of `sizes` elements along each axis from `starts` on, as MindSpore's `slice`. See
/// [`Tensor::i`] for ranges with steps and ranges from the end.
///
/// # Panics
/// Raises [`Code::Shape`] unless there is a range for each axis, and [`Code::OutOfRange`] for one that is outside its
/// axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::slice(tensor![[1, 2, 3], [4, 5, 6]], &[0, 1], &[2, 2]).to_vec::<i64>(), [2, 3, 5, 6]);
/// ```
#[track_caller]
pub fn slice(x: impl AsTensor, starts: &[usize], sizes: &[usize]) -> Tensor {
    let steps = vec![1i64; starts.len()];
    apply1(SLICE.op(), &SliceAttrs::attrs(starts, sizes, &*steps), &[&x.as_tensor()])
}

/// Returns the ranges of a selection of `x`, with all of its axes.
#[track_caller]
pub(in crate::ops) fn select_ranges(x: &Tensor, selection: &Selection) -> Tensor {
    if selection.is_whole(&x.dims()) {
        return x.clone();
    }
    let steps: Vec<i64> = selection.steps.map_vec(|&it| it as i64);
    let attrs = SliceAttrs::attrs(&*selection.starts, &*selection.sizes, &*steps);
    apply1(SLICE.op(), &attrs, &[x])
}

/// Returns `size` positions of one axis from `start`.
#[track_caller]
pub(crate) fn narrow(x: &Tensor, axis: usize, start: impl Into<Dim>, size: impl Into<Dim>) -> Tensor {
    narrow_to(x, axis, start.into(), size.into())
}

#[track_caller]
fn narrow_to(x: &Tensor, axis: usize, start: Dim, size: Dim) -> Tensor {
    let mut sizes = x.dims();
    if size == sizes[axis] {
        return x.clone();
    }
    let mut starts: Dims = smallvec![Dim::new(0); sizes.len()];
    (starts[axis], sizes[axis]) = (start, size);
    let attrs = SliceAttrs::attrs(&*starts, &*sizes, &*vec![1i64; sizes.len()]);
    apply1(SLICE.op(), &attrs, &[x])
}
