//! `dynamic_update_slice`, an update of adjacent positions from a start that is a tensor, and `dynamic_slice`, which
//! reads them.

use crate::ops::core::axis::{named, stored_axis};
use crate::ops::core::host::{dense, parts};
use crate::ops::core::indices::{check_dtypes, check_index};
use crate::ops::core::rules::may_equal;
use crate::ops::{
    AxisAttrs, BatchedCall, Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules,
    broadcast_to, cast, expand_dims, gather, iota, normalize_axis, reshape, take_along_axis, zeros_like,
};
use crate::tensor::{AsTensor, DType, Dim, Dims, OpInfo, Outputs, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, OrRaise, Result, called};
use smallvec::smallvec;

/// Replaces adjacent positions of the first operand along `axis` by the second operand. The third operand is the start,
/// an integer: one for all, or one for each index of the leading axes.
pub static DYNAMIC_UPDATE_SLICE: OpDef = OpDef {
    info: OpInfo { number: 395, name: "dynamic_update_slice", attrs: AxisAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (x, value) = (inputs[0], inputs[1]);
        let axis = check_start(x, inputs[2], AxisAttrs::of(attrs).axis())?;
        check_dtypes(x, value)?;
        let mut dims = x.dims.clone();
        if value.rank() == x.rank() {
            dims[axis] = value.dims[axis];
            check_size(x, axis, dims[axis])?;
        }
        if !may_equal(&dims, &value.dims) {
            return Err(Error::new(Code::Shape, format!("{value} is no slice of {x} along axis {axis}")));
        }
        Ok(smallvec![x.clone()])
    },
    eval: |attrs, inputs| {
        let (mut out, value) = (inputs[0].on_host()?.duplicate(), dense(inputs[1])?);
        let axis = AxisAttrs::of(attrs).axis();
        let (firsts, length) = parts(inputs[2], axis, out.shape(), value.shape()[axis])?;
        let mut to = out.elements_mut();
        for (at, first) in firsts.into_iter().enumerate() {
            to.copy(first, value.elements(), at * length, length);
        }
        Ok(smallvec![out])
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Update,
    samples: || {
        let of = |x: &[usize], start: &[usize], axis: usize, size: usize| {
            let mut value = x.to_vec();
            value[axis] = size;
            let start = SampleInput::of(DType::I64, start, 0.0, (x[axis] - size) as f64);
            Sample::new([SampleInput::f32(x, -2.0, 2.0), SampleInput::f32(&value, -2.0, 2.0), start])
                .attrs(AxisAttrs::attrs(axis))
        };
        vec![
            of(&[5, 3], &[], 0, 2),
            of(&[2, 6, 3], &[], 1, 4),
            of(&[2, 3, 6], &[2], 2, 1),
            of(&[2, 3, 4], &[2, 3], 2, 3),
        ]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let (g, value, start) = (it.cotangent(), &it.inputs[1], &it.inputs[2]);
            let axis = AxisAttrs::of(it.attrs).axis();
            let kept =
                it.needs[0].then(|| apply1(DYNAMIC_UPDATE_SLICE.op(), it.attrs, &[g, &zeros_like(value), start]));
            let taken = it.needs[1].then(|| slice_from(g, start, value.dims()[axis], axis));
            smallvec![kept, taken, None]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(batched),
        body: None,
    },
};

/// Adds the lane axis as the first axis of all operands; a scalar start that all lanes share remains.
fn batched(it: &BatchedCall<'_>) -> Result<Outputs> {
    let mut inputs = it.spread_all();
    if !it.mapped[2] && it.rank(2) == 0 {
        inputs[2] = it.inputs[2].clone();
    }
    it.apply(&it.shifted("axis"), &inputs)
}

/// Reads `size` positions along `axis` from `start`, which [`check_start`] has accepted.
#[track_caller]
fn slice_from(x: &Tensor, start: &Tensor, size: Dim, axis: usize) -> Tensor {
    let positions = expand_dims(cast(start, DType::I64), -1) + iota(size, 0, DType::I64);
    if start.rank() == 0 {
        return gather(x, positions, axis as isize);
    }
    let mut dims = x.dims();
    dims[axis] = size;
    let kept = |at: usize| if at < start.rank() || at == axis { dims[at] } else { Dim::new(1) };
    let column: Dims = (0..dims.len()).map(kept).collect();
    take_along_axis(x, broadcast_to(reshape(positions, column), dims), axis as isize)
}

/// Checks that `start` is one integer, or one for each index of the leading axes of `x`, before `axis`.
fn check_start(x: &Type, start: &Type, axis: usize) -> Result<usize> {
    check_index(start)?;
    let axis = stored_axis(axis, x.rank())?;
    if start.rank() > axis || !may_equal(&start.dims, &x.dims[..start.rank()]) {
        let message = format!("the start {start} is not one for all, nor one for each first position of {x}");
        return Err(Error::new(Code::Shape, message));
    }
    Ok(axis)
}

fn check_size(x: &Type, axis: usize, size: Dim) -> Result<()> {
    match (size.as_const(), x.dims[axis].as_const()) {
        (Some(size), Some(all)) if size > all => {
            Err(Error::new(Code::Shape, format!("axis {axis} of {x} has no {size} positions")))
        }
        _ => Ok(()),
    }
}

/// Returns `size` adjacent positions along `axis` of `x` from `start`, a tensor of integers. There is one start for
/// all, or one for each index of the leading axes. The cost does not depend on the size of the axis.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for positions outside the axis. Raises [`Code::Shape`] for another shape of `start` or a
/// size that exceeds the axis, and [`Code::DType`] unless `start` is of integers.
///
/// ```
/// use ms_core::{Tensor, ops, tensor};
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// assert_eq!(ops::dynamic_slice(&x, Tensor::scalar(1i64), 2, 1).to_vec::<i64>(), [2, 3, 5, 6]);
/// assert_eq!(ops::dynamic_slice(&x, tensor![0, 2], 1, 1).to_vec::<i64>(), [1, 6]);
/// ```
#[track_caller]
pub fn dynamic_slice(x: impl AsTensor, start: impl AsTensor, size: impl Into<Dim>, axis: isize) -> Tensor {
    let (x, start) = (x.as_tensor(), start.as_tensor());
    let _called = called("dynamic_slice");
    propagate_poison!(x, start);
    let (size, named) = (size.into(), |it| named("dynamic_slice", &[&x, &start], it));
    let axis = normalize_axis(axis, x.rank()).and_then(|it| check_start(&x.ty(), &start.ty(), it));
    let axis = or_poison!(axis.and_then(|it| check_size(&x.ty(), it, size).map(|()| it)).map_err(named));
    slice_from(&x, &start, size, axis)
}

/// Replaces adjacent positions along `axis` of `x` by `value`, from `start`, a tensor of integers. There is one start
/// for all, or one for each index of the leading axes. Compiled functions update `x` in place if it has no other use.
///
/// # Panics
/// Panics in the cases of [`dynamic_slice`], and raises [`Code::Shape`] unless `value` has the shape of `x` off the
/// axis.
///
/// ```
/// use ms_core::{Tensor, ops, tensor};
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// let y = ops::dynamic_update_slice(&x, tensor![[7], [8]], Tensor::scalar(2i64), 1);
/// assert_eq!(y.to_vec::<i64>(), [1, 2, 7, 4, 5, 8]);
/// ```
#[track_caller]
pub fn dynamic_update_slice(x: impl AsTensor, value: impl AsTensor, start: impl AsTensor, axis: isize) -> Tensor {
    let (x, value, start) = (x.as_tensor(), value.as_tensor(), start.as_tensor());
    let fail = |it| named("dynamic_update_slice", &[&x, &value, &start], it);
    let axis = normalize_axis(axis, x.rank()).map_err(fail).or_raise();
    apply1(DYNAMIC_UPDATE_SLICE.op(), &AxisAttrs::attrs(axis), &[&x, &value, &start])
}
