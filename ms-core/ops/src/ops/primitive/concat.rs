//! `concat`: concatenation of tensors along an axis.

use super::slice::narrow;
use crate::ops::core::axis::{named, refusal, stored_axis};
use crate::ops::{
    AxisAttrs, Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, Slices, TransformRules,
    expand_dims, normalize_axis, reshape,
};
use crate::tensor::{Array, AsTensor, Attrs, Dim, Layout, OpInfo, Tensor, Type, apply1, try_room};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result, called, raise};
use smallvec::smallvec;
use std::borrow::Cow;

/// Concatenates the operands along `axis`; their other sizes and dtypes are equal.
pub static CONCAT: OpDef = OpDef {
    info: OpInfo { number: 360, name: "concat", attrs: AxisAttrs::DECLARED },
    infer: |attrs, inputs| {
        let axis = AxisAttrs::of(attrs).axis();
        let Some(first) = inputs.first() else {
            return Err(Error::new(Code::Argument, "at least one tensor is needed"));
        };
        let mut shape = first.dims.clone();
        stored_axis(axis, shape.len())?;
        for other in &inputs[1..] {
            if other.dtype != first.dtype {
                return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", first.dtype, other.dtype)));
            }
            let sizes = &other.dims;
            let fits =
                sizes.len() == shape.len() && (0..shape.len()).all(|it| it == axis || sizes[it].may_equal(shape[it]));
            if !fits {
                return Err(Error::new(Code::Shape, format!("{first} and {other} differ off axis {axis}")));
            }
            shape[axis] = shape[axis] + sizes[axis];
        }
        Ok(smallvec![Type::new(first.dtype, shape)])
    },
    eval: |attrs, inputs| {
        let axis = AxisAttrs::of(attrs).axis();
        let mut shape = inputs[0].shape_owned();
        shape[axis] = inputs.iter().map(|it| it.shape()[axis]).sum();
        let mut out = Array::zeros(&shape, inputs[0].dtype());
        let shapes: Vec<&[usize]> = inputs.iter().map(|it| it.shape()).collect();
        let slices = slices(attrs, &shapes, out.layout());
        for (slice, input) in slices.iter().zip(inputs) {
            out.assign(slice, &input.on_host()?);
        }
        Ok(smallvec![out])
    },
    effects: Effects::NONE,
    lowering: Lowering::Slices(slices),
    samples: || {
        let of = |axis: usize, shapes: &[&[usize]]| {
            let inputs = shapes.iter().map(|shape| SampleInput::f32(shape, -2.0, 2.0));
            Sample::new(inputs).attrs(AxisAttrs::attrs(axis))
        };
        vec![of(0, &[&[2, 3], &[4, 3]]), of(1, &[&[2, 3], &[2, 0], &[2, 1]]), of(0, &[&[3]])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let axis = AxisAttrs::of(it.attrs).axis();
            let mut start = Dim::new(0);
            let mut part = |(x, &needed): (&Tensor, &bool)| {
                let (from, size) = (start, x.dims()[axis]);
                start = start + size;
                needed.then(|| narrow(it.cotangent(), axis, from, size))
            };
            it.inputs.iter().zip(it.needs).map(&mut part).collect()
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), &it.spread_all())),
        body: None,
    },
};

/// Returns the layouts of the operands in the result.
fn slices(attrs: &Attrs, shapes: &[&[usize]], out: &Layout) -> Slices {
    let axis = AxisAttrs::of(attrs).axis();
    let mut start = 0;
    let slice = |shape: &&[usize]| {
        let slice = out.slice(axis, start, shape[axis], 1);
        start += shape[axis];
        slice
    };
    shapes.iter().map(slice).collect()
}

/// Concatenates tensors along `axis`; dtypes promote.
///
/// # Panics
/// Raises [`Code::Argument`] for an empty list, [`Code::Shape`] when sizes off the axis differ, and
/// [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::concat(&[tensor![1, 2], tensor![3]], 0).to_vec::<i64>(), [1, 2, 3]);
/// ```
#[track_caller]
pub fn concat<T: AsTensor>(tensors: &[T], axis: isize) -> Tensor {
    let tensors = or_poison!(unified("concat", tensors));
    propagate_poison!(&tensors[0]);
    let axis = or_poison!(normalize_axis(axis, tensors[0].rank()).map_err(|it| named("concat", &[&tensors[0]], it)));
    match &tensors[..] {
        [one] => one.clone(),
        all => apply1(CONCAT.op(), &AxisAttrs::attrs(axis), &all.iter().collect::<Vec<_>>()),
    }
}

/// Stacks tensors of the same shape along a new axis `axis` of the result.
///
/// # Panics
/// Panics in the cases of [`concat`](fn@concat).
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::stack(&[tensor![1, 2], tensor![3, 4]], 1).to_vec::<i64>(), [1, 3, 2, 4]);
/// ```
#[track_caller]
pub fn stack<T: AsTensor>(tensors: &[T], axis: isize) -> Tensor {
    let _called = called("stack");
    let tensors = or_poison!(unified("stack", tensors));
    propagate_poison!(&tensors[0]);
    let rank = tensors[0].rank() + 1;
    let axis = or_poison!(normalize_axis(axis, rank).map_err(|it| named("stack", &[&tensors[0]], it)));
    let parts: Vec<Tensor> = tensors.map_vec(|it| expand_dims(it, axis));
    concat(&parts, axis as isize)
}

#[track_caller]
fn unified<T: AsTensor>(op: &str, tensors: &[T]) -> Result<Vec<Tensor>> {
    let tensors: Vec<Cow<'_, Tensor>> = tensors.map_vec(AsTensor::as_tensor);
    let dtype = tensors.iter().map(|it| it.dtype()).reduce(crate::tensor::promote);
    let dtype = dtype.ok_or_else(|| refusal(op, &[], Code::Argument, "at least one tensor is needed"))?;
    Ok(tensors.map_vec(|it| crate::ops::cast(&**it, dtype)))
}

/// Splits `x` into `sections` equal parts along `axis`, without copies.
///
/// # Panics
/// Raises [`Code::Argument`] when `sections` does not divide the size.
///
/// ```
/// use ms_core::{ops, tensor};
/// let parts = ops::split(tensor![1, 2, 3, 4], 2, 0);
/// assert_eq!(parts[1].to_vec::<i64>(), [3, 4]);
/// ```
#[track_caller]
pub fn split(x: impl AsTensor, sections: usize, axis: isize) -> Vec<Tensor> {
    let _called = called("split");
    let x = x.as_tensor();
    let at = normalize_axis(axis, x.rank()).map_err(|it| named("split", &[&x], it)).or_raise();
    let size = x.dims()[at];
    if sections == 0 || size.as_const().is_some_and(|it| !it.is_multiple_of(sections)) {
        let message = format!("axis {at} of size {size} has no {sections} equal parts");
        raise(refusal("split", &[&x], Code::Argument, message));
    }
    let part = size / sections;
    let x = of_size(&x, at, part * sections);
    parts("split", &x, std::iter::repeat_n(part, sections), at)
}

/// Splits `x` into parts of the given sizes along `axis`, without copies.
///
/// # Panics
/// Raises [`Code::Argument`] when the sizes do not add up to the size of the axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// let parts = ops::split_sizes(tensor![1, 2, 3], &[1, 2], 0);
/// assert_eq!(parts[1].to_vec::<i64>(), [2, 3]);
/// ```
#[track_caller]
pub fn split_sizes(x: impl AsTensor, sizes: &[usize], axis: isize) -> Vec<Tensor> {
    let _called = called("split_sizes");
    let x = x.as_tensor();
    let axis = normalize_axis(axis, x.rank()).map_err(|it| named("split", &[&x], it)).or_raise();
    let sizes: Vec<Dim> = sizes.map_vec(|&it| it.into());
    let sum: Dim = sizes.iter().copied().sum();
    if !sum.may_equal(x.dims()[axis]) {
        let message = format!("parts {sizes:?} do not add up to the size {} of axis {axis}", x.dims()[axis]);
        raise(refusal("split", &[&x], Code::Argument, message));
    }
    parts("split", &of_size(&x, axis, sum), sizes.into_iter(), axis)
}

/// Asserts that `x` has this size along an axis. A call with symbolic sizes for which it has not is an error.
#[track_caller]
fn of_size(x: &Tensor, axis: usize, size: Dim) -> Tensor {
    let mut dims = x.dims();
    dims[axis] = size;
    reshape(x, dims)
}

#[track_caller]
fn parts(op: &str, x: &Tensor, sizes: impl ExactSizeIterator<Item = Dim>, axis: usize) -> Vec<Tensor> {
    let mut parts = room(op, x, sizes.len());
    let mut start = Dim::new(0);
    for size in sizes {
        parts.push(narrow(x, axis, start, size));
        start = start + size;
    }
    parts
}

/// Creates an empty vector with capacity for `count` parts of `x`; raises [`Code::Memory`] if the allocation fails.
#[track_caller]
pub(in crate::ops) fn room(op: &str, x: &Tensor, count: usize) -> Vec<Tensor> {
    try_room(count).map_err(|it| named(op, &[x], it)).or_raise()
}
