//! `sort` and `topk`: sorted elements along an axis, all or the first ones, and their original positions.

use super::slice::narrow;
use crate::ops::core::axis::{named, refusal, stored_axis};
use crate::ops::core::host::{Axis, dense};
use crate::ops::{
    AxisAttrs, Batching, Cotangents, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules, Vjp,
    normalize_axis,
};
use crate::tensor::{
    Array, AsTensor, DType, Elements, ElementsMut, OpInfo, Scalar, Shape, Tensor, Type, apply, apply1, try_room,
};
use ms_ir::error::{Code, Error, OrExhausted, OrRaise, called, raise};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`SORT`].
    pub struct SortAttrs { axis: usize, descending: bool }
}

/// Sorts the elements along `axis` in ascending order, or descending if `descending` is set, and returns their original
/// positions as i64. The sort is stable; NaN is above all numbers.
pub static SORT: OpDef = OpDef {
    info: OpInfo { number: 390, name: "sort", attrs: SortAttrs::DECLARED },
    infer: |attrs, inputs| {
        stored_axis(SortAttrs::of(attrs).axis(), inputs[0].rank())?;
        Ok(smallvec![inputs[0].clone(), Type::new(DType::I64, inputs[0].dims.clone())])
    },
    eval: |attrs, inputs| {
        let it = SortAttrs::of(attrs);
        let (x, axis, descending) = (dense(inputs[0])?, it.axis(), it.descending());
        let mut values = Array::zeros(x.shape(), x.dtype());
        let mut positions = Array::zeros(x.shape(), DType::I64);
        let axis = Axis::of(x.shape(), axis);
        sort_rows(x.elements(), values.elements_mut(), positions.as_mut_slice(), axis, axis.size, descending);
        Ok(smallvec![values, positions])
    },
    effects: Effects::NONE,
    lowering: Lowering::Library,
    samples: || {
        let of = |axis: usize, descending: bool| {
            Sample::new([SampleInput::f32(&[3, 4, 2], -2.0, 2.0)]).attrs(SortAttrs::attrs(axis, descending))
        };
        vec![of(1, false), of(2, true)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| scattered(it, SortAttrs::of(it.attrs).axis())),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
        body: None,
    },
};

attributes! {
    /// The attributes of [`TOPK`].
    pub struct TopkAttrs { axis: usize, count: usize where 0..=i64::MAX, descending: bool }
}

/// Returns the first `count` elements of [`SORT`] along an axis of constant size, and their original positions.
pub static TOPK: OpDef = OpDef {
    info: OpInfo { number: 391, name: "topk", attrs: TopkAttrs::DECLARED },
    infer: |attrs, inputs| {
        let it = TopkAttrs::of(attrs);
        let (axis, count, mut dims) = (it.axis(), it.count(), inputs[0].dims.clone());
        stored_axis(axis, dims.len())?;
        if dims[axis].as_const().is_none_or(|size| count > size) {
            return Err(Error::new(Code::Argument, format!("axis {axis} has no {count} elements")));
        }
        dims[axis] = count.into();
        Ok(smallvec![Type::new(inputs[0].dtype, dims.clone()), Type::new(DType::I64, dims)])
    },
    eval: |attrs, inputs| {
        let it = TopkAttrs::of(attrs);
        let (x, axis, count) = (dense(inputs[0])?, it.axis(), it.count());
        let mut shape = Shape::from_slice(x.shape());
        shape[axis] = count;
        let mut values = Array::zeros(&shape, x.dtype());
        let mut positions = Array::zeros(&shape, DType::I64);
        let axis = Axis::of(x.shape(), axis);
        sort_rows(x.elements(), values.elements_mut(), positions.as_mut_slice(), axis, count, it.descending());
        Ok(smallvec![values, positions])
    },
    effects: Effects::NONE,
    lowering: Lowering::Library,
    samples: || {
        let of = |axis: usize, count: usize, descending: bool| {
            let attrs = TopkAttrs::attrs(axis, count, descending);
            Sample::new([SampleInput::f32(&[3, 4, 2], -2.0, 2.0)]).attrs(attrs)
        };
        vec![of(1, 3, false), of(2, 1, true), of(0, 3, true), of(1, 0, true)]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| scattered(it, TopkAttrs::of(it.attrs).axis())),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
        body: None,
    },
};

/// Returns the gradient of an op that selects elements along an axis, and whose second output has their positions.
fn scattered(it: &Vjp<'_>, axis: usize) -> Cotangents {
    let Some(g) = &it.cotangents[0] else { return smallvec![None] };
    let zeros = crate::ops::zeros_like(&it.inputs[0]);
    smallvec![Some(apply1(crate::ops::SCATTER_ADD.op(), &AxisAttrs::attrs(axis), &[&zeros, &it.outputs[1], g]))]
}

/// Returns an integer that compares as the element in the total order of sorting: NaN is above all numbers, and equal
/// to itself.
fn sort_key(element: Scalar) -> u64 {
    const SIGN: u64 = 1 << 63;
    match element {
        Scalar::Bool(it) => it.into(),
        Scalar::UInt(it) => it,
        Scalar::Int(it) => it as u64 ^ SIGN,
        Scalar::Float(it) if it.is_nan() => u64::MAX,
        // Both zeros are equal.
        Scalar::Float(0.0) => SIGN,
        Scalar::Float(it) if it.is_sign_negative() => !it.to_bits(),
        Scalar::Float(it) => it.to_bits() | SIGN,
    }
}

/// Writes the first `count` sorted elements along the axis, and their positions.
fn sort_rows(
    from: Elements<'_>,
    mut to: ElementsMut<'_>,
    positions: &mut [i64],
    axis: Axis,
    count: usize,
    descending: bool,
) {
    let mut row: Vec<(u64, usize)> = try_room(axis.size).or_exhausted();
    for outer in 0..axis.outer {
        for inner in 0..axis.inner {
            let at = |i: usize| (outer * axis.size + i) * axis.inner + inner;
            row.clear();
            for i in 0..axis.size {
                let key = sort_key(from.get(at(i)));
                row.push((if descending { !key } else { key }, i));
            }
            // Positions order equal elements; a stable sort would allocate.
            row.sort_unstable();
            for (i, &(_, place)) in row.iter().take(count).enumerate() {
                let target = (outer * count + i) * axis.inner + inner;
                to.copy(target, from, at(place), 1);
                positions[target] = place as i64;
            }
        }
    }
}

/// Sorts the elements of `x` along `axis`, and returns them with their original positions as i64. The sort is stable;
/// NaN is above all numbers.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (values, positions) = ops::sort(tensor![3., 1., 2.], 0, false);
/// assert_eq!(values.to_vec::<f32>(), [1., 2., 3.]);
/// assert_eq!(positions.to_vec::<i64>(), [1, 2, 0]);
/// ```
#[track_caller]
pub fn sort(x: impl AsTensor, axis: isize, descending: bool) -> (Tensor, Tensor) {
    let x = x.as_tensor();
    let axis = normalize_axis(axis, x.rank()).map_err(|it| named("sort", &[&x], it)).or_raise();
    let mut outputs = apply(SORT.op(), &SortAttrs::attrs(axis, descending), &[&x]).or_raise();
    let positions = outputs.pop().expect("sort has two results");
    (outputs.pop().expect("sort has two results"), positions)
}

/// Returns the positions along `axis` that sort the elements, as i64; see [`sort`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::argsort(tensor![3., 1., 2.], 0, true).to_vec::<i64>(), [0, 2, 1]);
/// ```
#[track_caller]
pub fn argsort(x: impl AsTensor, axis: isize, descending: bool) -> Tensor {
    let _called = called("argsort");
    sort(x, axis, descending).1
}

/// Returns the `k` largest elements along `axis`, or the smallest, in order, and their positions as i64.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist, and [`Code::Argument`] if it has fewer than `k`
/// elements.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (values, positions) = ops::topk(tensor![1., 4., 2.], 2, 0, true);
/// assert_eq!(values.to_vec::<f32>(), [4., 2.]);
/// assert_eq!(positions.to_vec::<i64>(), [1, 2]);
/// ```
#[track_caller]
pub fn topk(x: impl AsTensor, k: usize, axis: isize, largest: bool) -> (Tensor, Tensor) {
    let _called = called("topk");
    let x = x.as_tensor();
    let at = normalize_axis(axis, x.rank()).map_err(|it| named("topk", &[&x], it)).or_raise();
    let Some(size) = x.dims()[at].as_const() else {
        let (values, positions) = sort(&*x, axis, largest);
        return (narrow(&values, at, 0usize, k), narrow(&positions, at, 0usize, k));
    };
    if k > size {
        raise(refusal("topk", &[&x], Code::Argument, format!("axis {at} has no {k} elements")));
    }
    let mut outputs = apply(TOPK.op(), &TopkAttrs::attrs(at, k, largest), &[&x]).or_raise();
    let positions = outputs.pop().expect("topk has two results");
    (outputs.pop().expect("topk has two results"), positions)
}
