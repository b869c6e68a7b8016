//! `take_along_axis`, `scatter` and `scatter_add`: reads and writes of single elements at positions along an axis.

use super::from_zero::from_zero;
use crate::ops::core::axis::stored_axis;
use crate::ops::core::host::{ScatterReduction, dense, positions, visit_indexed};
use crate::ops::core::indices::{check_dtypes, check_index};
use crate::ops::core::rules::may_equal;
use crate::ops::{
    Arrays, AxisAttrs, Batching, Derivative, Effects, Lowering, OpDef, PartialGradient, Sample, SampleInput,
    TransformRules, Vjp, depend, full_of, wrapping,
};
use crate::tensor::{Array, AsTensor, Attrs, DType, Dim, OpInfo, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

/// Takes for each element of the second operand the element of the first one at that position along `axis`. The
/// position along the other axes is the same; along these the second operand may be smaller.
pub static TAKE_ALONG_AXIS: OpDef = OpDef {
    info: OpInfo { number: 382, name: "take_along_axis", attrs: AxisAttrs::DECLARED },
    infer: |attrs, inputs| {
        check_along(inputs[0], inputs[1], AxisAttrs::of(attrs).axis())?;
        Ok(smallvec![Type::new(inputs[0].dtype, inputs[1].dims.clone())])
    },
    eval: |attrs, inputs| {
        let (x, axis) = (dense(inputs[0])?, AxisAttrs::of(attrs).axis());
        let index = positions(inputs[1], axis, x.shape())?;
        let mut out = Array::zeros(inputs[1].shape(), x.dtype());
        let mut to = out.elements_mut();
        visit_indexed(x.shape(), axis, inputs[1].shape(), &index, |at, named| to.copy(at, x.elements(), named, 1));
        Ok(smallvec![out])
    },
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Library,
    samples: || {
        let of = |axis: usize, x: &[usize], index: &[usize]| {
            let index = SampleInput::of(DType::I64, index, 0.0, x[axis] as f64 - 1.0);
            Sample::new([SampleInput::f32(x, -2.0, 2.0), index]).attrs(AxisAttrs::attrs(axis))
        };
        vec![of(0, &[4, 3], &[6, 3]), of(1, &[2, 3, 2], &[2, 4, 2]), of(2, &[3, 2, 4], &[2, 2, 3])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Read(|it| {
            PartialGradient::elements(&it.inputs[0], AxisAttrs::of(it.attrs).axis(), &it.inputs[1], it.cotangent())
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), &it.spread_all())),
        body: None,
    },
};

/// Combines the elements of the third operand into the given positions of the first one.
pub(super) fn evaluate_scatter(attrs: &Attrs, inputs: &[&Array], by: ScatterReduction) -> Result<Arrays> {
    let (mut out, source, axis) = (inputs[0].on_host()?.duplicate(), dense(inputs[2])?, AxisAttrs::of(attrs).axis());
    let index = positions(inputs[1], axis, out.shape())?;
    let shape = out.shape_owned();
    let mut to = out.elements_mut();
    visit_indexed(&shape, axis, inputs[1].shape(), &index, |at, named| {
        by.apply(&mut to, named, source.elements(), at);
    });
    Ok(smallvec![out])
}

/// Adds each element of the third operand to the first one, at its position along `axis` in the second one.
pub static SCATTER_ADD: OpDef = OpDef {
    info: OpInfo { number: 383, name: "scatter_add", attrs: AxisAttrs::DECLARED },
    infer: |attrs, inputs| infer_scatter(attrs, inputs),
    eval: |attrs, inputs| evaluate_scatter(attrs, inputs, ScatterReduction::Add),
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Update,
    samples: || {
        let of = |axis: usize, x: &[usize], index: &[usize]| {
            let named = SampleInput::of(DType::I64, index, 0.0, x[axis] as f64 - 1.0);
            Sample::new([SampleInput::f32(x, -2.0, 2.0), named, SampleInput::f32(index, -2.0, 2.0)])
                .attrs(AxisAttrs::attrs(axis))
        };
        vec![of(0, &[4, 3], &[6, 3]), of(1, &[2, 3, 2], &[2, 4, 2]), of(2, &[3, 2, 4], &[2, 2, 3])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let g = it.cotangent();
            let source = it.needs[2].then(|| apply1(TAKE_ALONG_AXIS.op(), it.attrs, &[g, &it.inputs[1]]));
            smallvec![it.needs[0].then(|| kept(it, AxisAttrs::of(it.attrs).axis())), None, source]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), &it.spread_all())),
        body: None,
    },
};

/// Writes each element of the third operand to the first one, at its position along `axis` in the second one. The last
/// of several at one position, in row-major order, remains.
pub static SCATTER: OpDef = OpDef {
    info: OpInfo { number: 384, name: "scatter", attrs: AxisAttrs::DECLARED },
    infer: |attrs, inputs| infer_scatter(attrs, inputs),
    eval: |attrs, inputs| evaluate_scatter(attrs, inputs, ScatterReduction::Write),
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Update,
    samples: || {
        let of = |axis: usize, x: &[usize], index: &[usize]| {
            let named = SampleInput::of(DType::I64, index, 0.0, x[axis] as f64 - 1.0);
            Sample::new([SampleInput::f32(x, -2.0, 2.0), named, SampleInput::f32(index, -2.0, 2.0)])
                .attrs(AxisAttrs::attrs(axis))
        };
        vec![of(0, &[4, 3], &[3, 3]), of(1, &[2, 3, 2], &[2, 2, 2])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let (g, index, source) = (it.cotangent(), &it.inputs[1], &it.inputs[2]);
            let kept =
                it.needs[0].then(|| apply1(SCATTER.op(), it.attrs, &[g, index, &crate::ops::zeros_like(source)]));
            // An overwritten element does not contribute to the result.
            let written = it.needs[2].then(|| {
                let count: Dim = source.dims().iter().copied().product();
                let own = crate::ops::reshape(crate::ops::arange(count), source.dims());
                let none = crate::ops::full_of(g.dims(), -1, DType::I64);
                let winner = apply1(SCATTER.op(), it.attrs, &[&none, index, &own]);
                let winner = apply1(TAKE_ALONG_AXIS.op(), it.attrs, &[&winner, index]);
                let taken = apply1(TAKE_ALONG_AXIS.op(), it.attrs, &[g, index]);
                crate::ops::select(crate::ops::equal(winner, own), &taken, crate::ops::zeros_like(&taken))
            });
            smallvec![kept, None, written]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), &it.spread_all())),
        body: None,
    },
};

/// Returns the gradient of the operand to which elements are added at positions along an axis. If the source needs no
/// gradient, this is the only use of the positions, and they have to be checked.
pub(super) fn kept(it: &Vjp<'_>, axis: usize) -> Tensor {
    let g = it.cotangent();
    match it.needs[2] {
        true => g.clone(),
        false => depend(g, wrapping::gather(full_of([g.dim(axis as isize)], 0, DType::U8), &it.inputs[1], 0)),
    }
}

/// Checks that `index` has positions along an axis of `x`, and is not larger along the others.
fn check_along(x: &Type, index: &Type, axis: usize) -> Result<()> {
    check_index(index)?;
    let axis = stored_axis(axis, x.rank())?;
    let fit = |index: Dim, size: Dim| match (index.as_const(), size.as_const()) {
        (Some(index), Some(size)) => index <= size,
        _ => true,
    };
    let fits = index.rank() == x.rank() && (0..x.rank()).all(|it| it == axis || fit(index.dims[it], x.dims[it]));
    if !fits {
        let message = format!("the index {index} does not lie inside {x} off axis {axis}");
        return Err(Error::new(Code::Shape, message));
    }
    Ok(())
}

pub(in crate::ops) fn infer_scatter(attrs: &Attrs, inputs: &[&Type]) -> Result<crate::ops::Types> {
    let (x, index, source) = (inputs[0], inputs[1], inputs[2]);
    check_along(x, index, AxisAttrs::of(attrs).axis())?;
    check_dtypes(x, source)?;
    if !may_equal(&index.dims, &source.dims) {
        return Err(Error::new(
            Code::Shape,
            format!("the index {index} does not have the shape of the source {source}"),
        ));
    }
    Ok(smallvec![x.clone()])
}

/// Returns for each element of `index` the element of `x` at that position along `axis`, as NumPy's `take_along_axis`.
/// The other axes broadcast.
///
/// # Panics
/// Raises [`Code::Shape`] when the other axes do not broadcast, and [`Code::DType`] unless `index` is of integers.
/// Raises [`Code::OutOfRange`] for a position or an axis that does not exist. A negative position does not exist, as in
/// PyTorch; in [`wrapping::take_along_axis`](crate::ops::wrapping::take_along_axis) it counts from the end.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::take_along_axis(tensor![[1, 2], [3, 4]], tensor![[1], [0]], 1).to_vec::<i64>(), [2, 3]);
/// ```
#[track_caller]
pub fn take_along_axis(x: impl AsTensor, index: impl AsTensor, axis: isize) -> Tensor {
    wrapping::take_along_axis(x, from_zero(&index.as_tensor(), "take_along_axis"), axis)
}

/// Adds each element of `source` to `x` at its position along `axis` in `index`. Elements at equal positions are all
/// added.
///
/// # Panics
/// Raises [`Code::Shape`] unless `index` and `source` have the same shape, which does not exceed that of `x` off the
/// axis. Panics in the cases of [`take_along_axis`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::scatter_add(tensor![0., 0.], tensor![1, 1], tensor![2., 3.], 0).to_vec::<f32>(), [0., 5.]);
/// ```
#[track_caller]
pub fn scatter_add(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor, axis: isize) -> Tensor {
    wrapping::scatter_add(x, from_zero(&index.as_tensor(), "scatter_add"), source, axis)
}

/// Writes each element of `source` to `x` at its position along `axis` in `index`. The last of several at one position,
/// in row-major order, remains, and only it has a gradient.
///
/// # Panics
/// Panics in the cases of [`scatter_add`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::scatter(tensor![0., 0.], tensor![1, 1], tensor![2., 3.], 0).to_vec::<f32>(), [0., 3.]);
/// ```
#[track_caller]
pub fn scatter(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor, axis: isize) -> Tensor {
    wrapping::scatter(x, from_zero(&index.as_tensor(), "scatter"), source, axis)
}
