//! `gather` and `index_add`: reads of, and additions to, whole slices at positions along an axis.

use super::class_index::existing;
use super::from_zero::from_zero;
use super::scatter::kept;
use crate::ops::core::axis::{named, stored_axis};
use crate::ops::core::host::{Axis, ScatterReduction, dense, positions, replace_axis};
use crate::ops::core::indices::{check_dtypes, check_index};
use crate::ops::core::rules::may_equal;
use crate::ops::{
    AxisAttrs, Batching, Derivative, Effects, Lowering, OpDef, PartialGradient, Sample, SampleInput, TransformRules,
    move_axis, reshape, wrapping,
};
use crate::tensor::{Array, AsTensor, DType, Dim, OpInfo, Tensor, Type, apply1, refused};
use ms_ir::error::{Code, Error, called};
use smallvec::smallvec;

/// Gathers the slices of the first operand at the positions along `axis` in the second one, as NumPy's `take`. The axes
/// of the second operand replace `axis`. Negative positions count from the end; a position out of range is an error at
/// run time.
pub static GATHER: OpDef = OpDef {
    info: OpInfo { number: 380, name: "gather", attrs: AxisAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (x, index, axis) = (inputs[0], inputs[1], AxisAttrs::of(attrs).axis());
        check_index(index)?;
        stored_axis(axis, x.rank())?;
        let dims = x.dims[..axis].iter().chain(&index.dims).chain(&x.dims[axis + 1..]).copied().collect();
        Ok(smallvec![Type::new(x.dtype, dims)])
    },
    eval: |attrs, inputs| {
        let (x, axis) = (dense(inputs[0])?, AxisAttrs::of(attrs).axis());
        let index = positions(inputs[1], axis, x.shape())?;
        let whole = Axis::of(x.shape(), axis);
        let mut out = Array::zeros(&replace_axis(x.shape(), axis, inputs[1].shape()), x.dtype());
        // There may be too many empty rows to iterate over.
        let count = if out.numel() == 0 { 0 } else { whole.outer };
        let mut rows = out.elements_mut();
        for outer in 0..count {
            for (row, &at) in index.iter().enumerate() {
                let to = (outer * index.len() + row) * whole.inner;
                rows.copy(to, x.elements(), (outer * whole.size + at) * whole.inner, whole.inner);
            }
        }
        Ok(smallvec![out])
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Gather(|attrs| AxisAttrs::of(attrs).axis()),
    samples: || {
        let of = |axis: usize, x: &[usize], index: &[usize]| {
            let last = x[axis] as f64 - 1.0;
            let index = SampleInput::of(DType::I64, index, -last - 1.0, last);
            Sample::new([SampleInput::f32(x, -2.0, 2.0), index]).attrs(AxisAttrs::attrs(axis))
        };
        vec![of(0, &[4, 3], &[5]), of(1, &[2, 5, 3], &[2, 2]), of(0, &[3], &[]), of(1, &[2, 3], &[0])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Read(|it| {
            rows_read(&it.inputs[0], AxisAttrs::of(it.attrs).axis(), &it.inputs[1], it.cotangent())
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| {
            let axis = AxisAttrs::of(it.attrs).axis() as isize;
            match it.mapped {
                [true, false] => it.apply(&it.shifted("axis"), it.inputs),
                [false, _] => Ok(smallvec![move_axis(it.apply(it.attrs, it.inputs)?.remove(0), axis, 0)]),
                _ => {
                    let x = move_axis(&it.inputs[0], axis + 1, 1);
                    let picked = wrapping::gather_nd(x, it.places(1));
                    // The axes before the indexed one are after the axes of the index here.
                    let index = it.rank(1) as isize;
                    let front: Vec<isize> = (0..axis).map(|it| 1 + index + it).collect();
                    let back = 1 + index + axis..picked.rank() as isize;
                    let order = std::iter::once(0).chain(front).chain(1..=index).chain(back);
                    Ok(smallvec![crate::ops::permute(picked, order.collect::<Vec<_>>())])
                }
            }
        }),
        body: None,
    },
};

/// Adds the slices of the third operand to the first one at the positions along `axis` in the second one. Slices at
/// equal positions are all added.
pub static INDEX_ADD: OpDef = OpDef {
    info: OpInfo { number: 381, name: "index_add", attrs: AxisAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (x, index, source, axis) = (inputs[0], inputs[1], inputs[2], AxisAttrs::of(attrs).axis());
        check_index(index)?;
        check_dtypes(x, source)?;
        stored_axis(axis, x.rank())?;
        let wanted = replace_axis(&x.dims, axis, &index.dims);
        if index.rank() != 1 || !may_equal(&source.dims, &wanted) {
            return Err(Error::new(
                Code::Shape,
                format!("{source} holds no slices of {x} along axis {axis} for {index}"),
            ));
        }
        Ok(smallvec![x.clone()])
    },
    eval: |attrs, inputs| {
        let (mut out, source, axis) =
            (inputs[0].on_host()?.duplicate(), dense(inputs[2])?, AxisAttrs::of(attrs).axis());
        let index = positions(inputs[1], axis, out.shape())?;
        let whole = Axis::of(out.shape(), axis);
        let count = if source.numel() == 0 { 0 } else { whole.outer };
        let mut sums = out.elements_mut();
        for outer in 0..count {
            for (row, &at) in index.iter().enumerate() {
                let to = (outer * whole.size + at) * whole.inner;
                let from = (outer * index.len() + row) * whole.inner;
                for inner in 0..whole.inner {
                    ScatterReduction::Add.apply(&mut sums, to + inner, source.elements(), from + inner);
                }
            }
        }
        Ok(smallvec![out])
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Update,
    samples: || {
        let of = |axis: usize, x: &[usize], count: usize| {
            let source = replace_axis(x, axis, &[count]);
            let index = SampleInput::of(DType::I64, &[count], 0.0, x[axis] as f64 - 1.0);
            Sample::new([SampleInput::f32(x, -2.0, 2.0), index, SampleInput::f32(&source, -2.0, 2.0)])
                .attrs(AxisAttrs::attrs(axis))
        };
        vec![of(0, &[4, 3], 6), of(1, &[2, 3, 2], 5)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let g = it.cotangent();
            let source = it.needs[2].then(|| apply1(GATHER.op(), it.attrs, &[g, &it.inputs[1]]));
            smallvec![it.needs[0].then(|| kept(it, AxisAttrs::of(it.attrs).axis())), None, source]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| {
            if !it.mapped[1] {
                return it.apply(&it.shifted("axis"), &[it.spread(0), it.inputs[1].clone(), it.spread(2)]);
            }
            let axis = AxisAttrs::of(it.attrs).axis() as isize + 1;
            let (x, source) = (move_axis(it.spread(0), axis, 1), move_axis(it.spread(2), axis, 1));
            Ok(smallvec![move_axis(wrapping::scatter_nd_add(x, it.places(1), source), 1, axis)])
        }),
        body: None,
    },
};

/// Returns the gradient of `x` from the gradients of its slices at the positions `index` along an axis.
pub(in crate::ops) fn rows_read(x: &Tensor, axis: usize, index: &Tensor, gradient: &Tensor) -> PartialGradient {
    let count: Dim = index.dims().into_iter().product();
    let source = reshape(gradient, replace_axis(&x.dims(), axis, &[count]));
    PartialGradient::rows(x, axis, reshape(index, [count]), &source)
}

/// Returns the slices of `x` at positions along `axis`, as NumPy's `take(x, index, axis)`. The axes of `index` replace
/// the axis.
///
/// # Panics
/// Raises [`Code::DType`] unless `index` is of integers, and [`Code::OutOfRange`] for a position or an axis that does
/// not exist. A negative position does not exist, as in PyTorch; in [`wrapping::gather`](crate::ops::wrapping::gather)
/// it counts from the end.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::gather(tensor![[1, 2], [3, 4]], tensor![1, 0, 1], 0).to_vec::<i64>(), [3, 4, 1, 2, 3, 4]);
/// ```
#[track_caller]
pub fn gather(x: impl AsTensor, index: impl AsTensor, axis: isize) -> Tensor {
    wrapping::gather(x, from_zero(&index.as_tensor(), "gather"), axis)
}

/// Applies [`gather`] to the positions of a one-dimensional index.
///
/// # Panics
/// Panics in the cases of [`gather`], and raises [`Code::Shape`] unless `index` has rank 1.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::index_select(tensor![[1, 2], [3, 4]], tensor![1, 1], 1).to_vec::<i64>(), [2, 2, 4, 4]);
/// ```
#[track_caller]
pub fn index_select(x: impl AsTensor, index: impl AsTensor, axis: isize) -> Tensor {
    let _called = called("index_select");
    let index = index.as_tensor();
    propagate_poison!(index);
    if index.rank() != 1 {
        let error = Error::new(Code::Shape, "the index has one axis");
        return refused(named("index_select", &[&x.as_tensor(), &index], error));
    }
    gather(x, &*index, axis)
}

/// Adds the slices of `source` to `x` at the positions along `axis` in the one-dimensional `index`. Slices at equal
/// positions are all added.
///
/// # Panics
/// Panics in the cases of [`gather`], and raises [`Code::Shape`] unless `source` has one slice for each position.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::index_add(tensor![0., 0.], tensor![1, 1], tensor![2., 3.], 0).to_vec::<f32>(), [0., 5.]);
/// ```
#[track_caller]
pub fn index_add(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor, axis: isize) -> Tensor {
    wrapping::index_add(x, from_zero(&index.as_tensor(), "index_add"), source, axis)
}

/// Returns the one-hot encoding of `index` in f32. A new last axis of size `classes` has 1 at the position in each
/// element and 0 elsewhere.
///
/// # Panics
/// Raises [`Code::DType`] unless `index` is of integers, and [`Code::OutOfRange`] for an element that is negative or
/// not less than `classes`, as in PyTorch.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::one_hot(tensor![2, 0], 3).to_vec::<f32>(), [0., 0., 1., 1., 0., 0.]);
/// ```
#[track_caller]
pub fn one_hot(index: impl AsTensor, classes: usize) -> Tensor {
    let _called = called("one_hot");
    let index = index.as_tensor();
    propagate_poison!(index);
    or_poison!(check_index(&index.ty()).map_err(|it| named("one_hot", &[&index], it)));
    let index = existing(&index, Dim::new(classes), None, "one_hot");
    let places = crate::ops::iota([classes], 0, DType::I64);
    crate::ops::cast(crate::ops::equal(crate::ops::expand_dims(index, -1), places), DType::F32)
}
