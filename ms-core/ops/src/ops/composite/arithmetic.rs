//! Composed arithmetic functions.

use crate::ops::core::operand::Operand;
use crate::ops::core::rules::{Interval, check_interval};
use crate::ops::core::wide::{result_dtype, rounded, widened};
use crate::ops::{
    IntoOperand, ReduceAxes, abs, add, broadcast_to, div, equal, exp, expand_dims, greater, isfinite, isinf,
    less_equal, log, log1p, logical_and, logical_or, matmul, mul, pow, reshape, select, squeeze, sub, sum,
};
use crate::tensor::{AsTensor, Tensor, broadcast_shapes};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, called, raise};
use std::borrow::Cow;
use std::f64::consts::{LN_2, LN_10};

/// Returns the sum of all tensors, with broadcasting.
///
/// # Panics
/// Raises [`Code::Argument`] for an empty list, and [`Code::Shape`] when the shapes do not broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::addn(&[tensor![1, 2], tensor![3, 4], tensor![5, 6]]).to_vec::<i64>(), [9, 12]);
/// ```
#[track_caller]
pub fn addn<T: AsTensor>(tensors: &[T]) -> Tensor {
    let _called = called("addn");
    let given: Vec<Tensor> = tensors.map_vec(|it| it.as_tensor().into_owned());
    if let (2.., Some(dtype)) = (given.len(), result_dtype(given.iter().map(Some))) {
        return rounded(addn(&given.map_vec(widened)), dtype);
    }
    let mut all = given.into_iter();
    let Some(first) = all.next() else {
        raise(Error::new(Code::Argument, "at least one tensor is needed").with_op("addn"));
    };
    all.fold(first, |sum, it| add(sum, it))
}

/// Returns `x + value a b`; all broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::addcmul(tensor![1., 2.], tensor![3., 4.], tensor![5., 6.], 0.5).to_vec::<f32>(), [8.5, 14.]);
/// ```
#[track_caller]
pub fn addcmul(x: impl AsTensor, a: impl AsTensor, b: impl AsTensor, value: impl IntoOperand) -> Tensor {
    let _called = called("addcmul");
    let (x, a, b, _value) = (&*x.as_tensor(), &*a.as_tensor(), &*b.as_tensor(), tensor_of(&value));
    let _value = _value.as_deref();
    compute_wide!(x, a, b; _value => addcmul(x, a, b, value));
    add(x, mul(mul(a, b), value))
}

/// Returns `x + value a / b`; all broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::addcdiv(tensor![1., 2.], tensor![3., 4.], tensor![2., 8.], 2.).to_vec::<f32>(), [4., 3.]);
/// ```
#[track_caller]
pub fn addcdiv(x: impl AsTensor, a: impl AsTensor, b: impl AsTensor, value: impl IntoOperand) -> Tensor {
    let _called = called("addcdiv");
    let (x, a, b, _value) = (&*x.as_tensor(), &*a.as_tensor(), &*b.as_tensor(), tensor_of(&value));
    let _value = _value.as_deref();
    compute_wide!(x, a, b; _value => addcdiv(x, a, b, value));
    add(x, mul(div(a, b), value))
}

/// Returns `start + weight (end - start)`; all broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::lerp(tensor![0., 10.], tensor![4., 20.], 0.25).to_vec::<f32>(), [1., 12.5]);
/// ```
#[track_caller]
pub fn lerp(start: impl AsTensor, end: impl AsTensor, weight: impl IntoOperand) -> Tensor {
    let _called = called("lerp");
    let (start, end, _weight) = (&*start.as_tensor(), &*end.as_tensor(), tensor_of(&weight));
    let _weight = _weight.as_deref();
    compute_wide!(start, end; _weight => lerp(start, end, weight));
    add(start, mul(sub(end, start), weight))
}

/// Returns `2^x`; bools and integers are converted to f32.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::exp2(tensor![3., -1.]).to_vec::<f32>(), [8., 0.5]);
/// ```
#[track_caller]
pub fn exp2(x: impl AsTensor) -> Tensor {
    let _called = called("exp2");
    pow(2.0, float(&x.as_tensor()))
}

/// Returns the logarithm to base 2.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::log2(tensor![1., 0.]).to_vec::<f32>(), [0., f32::NEG_INFINITY]);
/// ```
#[track_caller]
pub fn log2(x: impl AsTensor) -> Tensor {
    let _called = called("log2");
    let x = &*x.as_tensor();
    compute_wide!(x => log2(x));
    log(x) / LN_2
}

/// Returns the logarithm to base 10.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::log10(tensor![1., 0.]).to_vec::<f32>(), [0., f32::NEG_INFINITY]);
/// ```
#[track_caller]
pub fn log10(x: impl AsTensor) -> Tensor {
    let _called = called("log10");
    let x = &*x.as_tensor();
    compute_wide!(x => log10(x));
    log(x) / LN_10
}

/// Returns `log(e^a + e^b)` without overflow; operands broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::logaddexp(tensor![1000., f32::NEG_INFINITY], tensor![0., 5.]).to_vec::<f32>(), [1000., 5.]);
/// ```
#[track_caller]
pub fn logaddexp(a: impl AsTensor, b: impl AsTensor) -> Tensor {
    let _called = called("logaddexp");
    let (a, b) = (&*a.as_tensor(), &*b.as_tensor());
    compute_wide!(a, b => logaddexp(a, b));
    // The formula by `max` and `abs` would have no second derivative where the operands are equal.
    let above = greater(a, b);
    let (larger, smaller) = (select(&above, a, b), select(&above, b, a));
    // The difference of equal infinities is NaN, and so are the derivatives there; the result is the larger one.
    let same = logical_and(isinf(&larger), equal(&larger, &smaller));
    select(same, &larger, &larger + log1p(exp(smaller - &larger)))
}

/// Whether elements differ by at most `atol + rtol |b|`. Equal infinities are close, and so are NaNs if `equal_nan` is
/// set. Operands broadcast; the result is of bools.
///
/// # Panics
/// Raises [`Code::Argument`] for a tolerance that is negative or NaN.
///
/// ```
/// use ms_core::{ops, tensor};
/// let close = ops::isclose(tensor![1., 2., f32::NAN], tensor![1.000001, 2.1, f32::NAN], 1e-5, 1e-8, true);
/// assert_eq!(close.to_vec::<bool>(), [true, false, true]);
/// ```
#[track_caller]
pub fn isclose(a: impl AsTensor, b: impl AsTensor, rtol: f64, atol: f64, equal_nan: bool) -> Tensor {
    let _called = called("isclose");
    for (name, tolerance) in [("rtol", rtol), ("atol", atol)] {
        or_poison!(check_interval("isclose", name, tolerance, &Interval::TOLERANCE));
    }
    let (a, b) = (&float(&a.as_tensor()), &float(&b.as_tensor()));
    compute_wide!(a, b => isclose(a, b, rtol, atol, equal_nan));
    let near = less_equal(abs(sub(a, b)), abs(b) * rtol + atol);
    // If the bound is infinite, only equal infinities are close.
    let close = logical_or(equal(a, b), logical_and(near, isfinite(b)));
    if equal_nan { logical_or(close, logical_and(a.isnan(), b.isnan())) } else { close }
}

/// Returns the outer product `[n, m]` of two vectors.
///
/// # Panics
/// Raises [`Code::Shape`] unless both have rank 1.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::outer(tensor![1, 2], tensor![3, 4]).to_vec::<i64>(), [3, 4, 6, 8]);
/// ```
#[track_caller]
pub fn outer(a: impl AsTensor, b: impl AsTensor) -> Tensor {
    let _called = called("outer");
    let (a, b) = (&*a.as_tensor(), &*b.as_tensor());
    if a.rank() != 1 || b.rank() != 1 {
        raise(crate::ops::axis::refusal("outer", &[a, b], Code::Shape, "two vectors are needed"));
    }
    mul(expand_dims(a, 1), b)
}

/// Returns the product of two matrices for each entry of a batch: `[batch, n, k]` times `[batch, k, m]`.
///
/// # Panics
/// Raises [`Code::Shape`] unless both have rank 3 and the sizes match.
///
/// ```
/// use ms_core::{ops, tensor};
/// let y = ops::bmm(tensor![[[1., 2.]], [[3., 4.]]], tensor![[[1.], [1.]], [[2.], [0.]]]);
/// assert_eq!(y.to_vec::<f32>(), [3., 6.]);
/// ```
#[track_caller]
pub fn bmm(a: impl AsTensor, b: impl AsTensor) -> Tensor {
    let _called = called("bmm");
    let (a, b) = (&*a.as_tensor(), &*b.as_tensor());
    if a.rank() != 3 || b.rank() != 3 {
        raise(crate::ops::axis::refusal("bmm", &[a, b], Code::Shape, "two batches of matrices are needed"));
    }
    matmul(a, b)
}

/// Returns grids of coordinates: each vector broadcast over the axes of all, where the `i`-th varies along axis `i`
/// (NumPy's `meshgrid` with `indexing="ij"`).
///
/// # Panics
/// Raises [`Code::Shape`] unless all have rank 1.
///
/// ```
/// use ms_core::{ops, tensor};
/// let grids = ops::meshgrid(&[tensor![1, 2], tensor![3, 4, 5]]);
/// assert_eq!(grids[0].to_vec::<i64>(), [1, 1, 1, 2, 2, 2]);
/// assert_eq!(grids[1].to_vec::<i64>(), [3, 4, 5, 3, 4, 5]);
/// ```
#[track_caller]
pub fn meshgrid<T: AsTensor>(vectors: &[T]) -> Vec<Tensor> {
    let _called = called("meshgrid");
    let vectors: Vec<_> = vectors.map_vec(|it| it.as_tensor());
    if let Some(other) = vectors.iter().find(|it| it.rank() != 1) {
        raise(crate::ops::axis::refusal("meshgrid", &[other], Code::Shape, "vectors are needed"));
    }
    let open = |at: usize| {
        let mut shape = vec![1; vectors.len()];
        shape[at] = vectors[at].numel();
        reshape(&*vectors[at], shape)
    };
    let open: Vec<Tensor> = (0..vectors.len()).map(open).collect();
    let common =
        open.iter().try_fold(Default::default(), |all: crate::tensor::Shape, it| broadcast_shapes(&all, it.shape()));
    let common = common.map_err(|it| it.with_op("meshgrid")).or_raise();
    open.map_vec(|it| broadcast_to(it, &common))
}

/// Returns the slices along an axis, which is removed.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// let rows = ops::unstack(tensor![[1, 2], [3, 4]], 0);
/// assert_eq!(rows[1].to_vec::<i64>(), [3, 4]);
/// ```
#[track_caller]
pub fn unstack(x: impl AsTensor, axis: isize) -> Vec<Tensor> {
    let _called = called("unstack");
    let x = &*x.as_tensor();
    let at = crate::ops::normalize_axis(axis, x.rank())
        .map_err(|it| crate::ops::axis::named("unstack", &[x], it))
        .or_raise();
    let size = x.dims()[at].as_const().unwrap_or_else(|| x.shape()[at]);
    let mut parts = crate::ops::concat::room("unstack", x, size);
    if size > 0 {
        parts.extend(crate::ops::split(x, size, at as isize).iter().map(|it| squeeze(it, axis)));
    }
    parts
}

/// Counts the nonzero elements over axes, as i64; axes are as in [`sum`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::count_nonzero(tensor![[0., 5.], [7., 8.]], 1).to_vec::<i64>(), [1, 2]);
/// ```
#[track_caller]
pub fn count_nonzero(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor {
    let _called = called("count_nonzero");
    sum(crate::ops::cast(x, crate::DType::Bool), axes)
}

/// Returns the operand if it is a tensor.
fn tensor_of(operand: &impl IntoOperand) -> Option<Cow<'_, Tensor>> {
    match operand.operand() {
        Operand::Tensor(it) => Some(it),
        Operand::Scalar(_) => None,
    }
}

/// Converts to f32 unless the tensor is of floats.
#[track_caller]
fn float(x: &Tensor) -> Tensor {
    if x.dtype().is_float() { x.clone() } else { crate::ops::cast(x, crate::DType::F32) }
}
