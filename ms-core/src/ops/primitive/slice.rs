//! `slice`: evenly spaced positions along every axis.

use crate::error::{Code, Error, Result};
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Part, Sample, SampleInput};
use crate::tensor::{AsTensor, Attrs, Dim, Dims, OpInfo, Selection, Strides, Tensor, Type, apply1};
use smallvec::smallvec;

/// `sizes` positions along each axis from `starts` in `steps`, which may be negative.
pub static SLICE: OpDef = OpDef {
    info: OpInfo { number: 357, name: "slice", attrs: &["starts", "sizes", "steps"] },
    infer: |attrs, inputs| {
        check_ranges(&inputs[0].dims, &attrs.dims(0), &attrs.dims(1), attrs.ints(2))?;
        Ok(smallvec![Type::new(inputs[0].dtype, attrs.dims(1))])
    },
    eval: |attrs, inputs| {
        let layout = inputs[0].layout().slice_all(&attrs.sizes(0), &attrs.sizes(1), &steps(attrs));
        Ok(smallvec![inputs[0].with_layout(layout).on_host()?.to_contiguous()])
    },
    derivative: Derivative::Read(|it| Part::slice(&it.inputs[0], it.attrs.ints(0), it.attrs.ints(2), it.cotangent())),
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Rule(|it| {
        it.apply(&it.fronted(&[(0, Dim::new(0)), (1, it.size), (2, Dim::new(1))]), it.inputs)
    }),
    lowering: Lowering::View(|attrs, layout| Some(layout.slice_all(&attrs.sizes(0), &attrs.sizes(1), &steps(attrs)))),
    samples: || {
        let of = |starts: &[i64], sizes: &[i64], steps: &[i64]| {
            let attrs = Attrs::new([starts.into(), sizes.into(), steps.into()]);
            Sample::new([SampleInput::f32(&[5, 7], -2.0, 2.0)]).attrs(attrs)
        };
        vec![of(&[1, 0], &[2, 3], &[2, 3]), of(&[4, 6], &[5, 3], &[-1, -2]), of(&[0, 0], &[0, 7], &[1, 1])]
    },
};

fn steps(attrs: &Attrs) -> Strides {
    attrs.ints(2).iter().map(|&it| it as isize).collect()
}

/// Checks that ranges are inside `shape`; those of symbolic size are checked in calls.
///
/// # Errors
/// [`Code::Shape`] unless there is one per axis, [`Code::OutOfRange`] if one is outside its axis.
pub(in crate::ops) fn check_ranges(shape: &[Dim], starts: &[Dim], sizes: &[Dim], steps: &[i64]) -> Result<()> {
    let rank = shape.len();
    if [starts.len(), sizes.len(), steps.len()] != [rank; 3] {
        return Err(Error::new(Code::Shape, format!("one range for each of {rank} axes is needed")));
    }
    for axis in 0..rank {
        if [shape[axis], starts[axis], sizes[axis]].iter().any(|it| it.is_symbolic()) {
            continue;
        }
        let (start, size, step) = (starts[axis].raw(), sizes[axis].raw(), steps[axis]);
        let last = start as i128 + (size as i128 - 1) * step as i128;
        let inside = |it: i128| it >= 0 && it < shape[axis].raw() as i128;
        if size < 0 || step == 0 || (size > 0 && !(inside(start as i128) && inside(last))) {
            let message = format!("{size} positions from {start} by {step} leave axis {axis} of shape {shape:?}");
            return Err(Error::new(Code::OutOfRange, message));
        }
    }
    Ok(())
}

/// The part of `x` of `sizes` elements along each axis from `starts` on: MindSpore's `slice`.
/// [`Tensor::i`] has ranges with steps and from the end.
///
/// # Panics
/// Raises [`Code::Shape`] unless there is a range for each axis, [`Code::OutOfRange`] for one that
/// is outside its axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::slice(tensor![[1, 2, 3], [4, 5, 6]], &[0, 1], &[2, 2]).to_vec::<i64>(), [2, 3, 5, 6]);
/// ```
#[track_caller]
pub fn slice(x: impl AsTensor, starts: &[usize], sizes: &[usize]) -> Tensor {
    let steps = vec![1i64; starts.len()];
    apply1(SLICE.op(), &Attrs::new([starts.into(), sizes.into(), (&*steps).into()]), &[&x.as_tensor()])
}

/// The part of `x` in a selection, with all of its axes.
#[track_caller]
pub(in crate::ops) fn select_ranges(x: &Tensor, selection: &Selection) -> Tensor {
    if selection.is_whole(&x.dims()) {
        return x.clone();
    }
    let steps: Vec<i64> = selection.steps.iter().map(|&it| it as i64).collect();
    let attrs = Attrs::new([(&*selection.starts).into(), (&*selection.sizes).into(), (&*steps).into()]);
    apply1(SLICE.op(), &attrs, &[x])
}

/// `size` positions of one axis from `start`.
#[track_caller]
pub(crate) fn narrow(x: &Tensor, axis: usize, start: impl Into<Dim>, size: impl Into<Dim>) -> Tensor {
    let (mut sizes, size) = (x.dims(), size.into());
    if size == sizes[axis] {
        return x.clone();
    }
    let mut starts: Dims = smallvec![Dim::new(0); sizes.len()];
    (starts[axis], sizes[axis]) = (start.into(), size);
    let attrs = Attrs::new([(&*starts).into(), (&*sizes).into(), (&*vec![1i64; sizes.len()]).into()]);
    apply1(SLICE.op(), &attrs, &[x])
}
