//! Ops with data-dependent result sizes: eager without a size, and in graphs with a given size.

use crate::ops::core::axis::{named, refusal};
use crate::ops::{
    IntoOperand, arange, broadcast_to, cast, cumsum, full_of, maximum, minimum, reshape, select, stack, wrapping,
};
use crate::tensor::{
    Array, AsTensor, DType, Element, HostArray, IntoShape, Tensor, broadcast_shapes, try_filled, try_room,
};
use ms_ir::error::{Code, OrRaise, Result, called, raise};
use ms_ir::with_element;

/// Returns the positions of the nonzero elements, in row-major order: i64 `[count, rank]`.
///
/// # Panics
/// Raises [`Code::DataDependentShape`] while tracing, as the number of rows depends on data; [`nonzero_sized`] takes it
/// as an argument.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::nonzero(tensor![[0, 5], [7, 0]]).to_vec::<i64>(), [0, 1, 1, 0]);
/// ```
#[track_caller]
pub fn nonzero(x: impl AsTensor) -> Tensor {
    let _called = called("nonzero");
    let x = x.as_tensor();
    refuse_traced("nonzero", &x);
    let array = x.elements().and_then(Array::into_host).or_raise();
    let rank = array.layout().rank();
    let hits = with_element!(array.dtype(), T => hits::<T>(&array));
    let places = hits.and_then(|hits| {
        let places = places(&hits, array.shape())?;
        Tensor::try_from_slice([hits.len(), rank].into_shape(), &places)
    });
    places.map_err(|it| named("nonzero", &[&x], it)).or_raise()
}

/// Returns the row-major indices of the elements that are not zero.
fn hits<T: Element>(array: &HostArray<'_>) -> Result<Vec<usize>> {
    let mut hits = try_room(array.iter::<T>().filter(|it| it.to_scalar().as_bool()).count())?;
    for (at, it) in array.iter::<T>().enumerate() {
        if it.to_scalar().as_bool() {
            hits.push(at);
        }
    }
    Ok(hits)
}

/// Converts row-major indices of elements to positions along every axis.
fn places(hits: &[usize], shape: &[usize]) -> Result<Vec<i64>> {
    let mut out = try_filled(0i64, hits.len().saturating_mul(shape.len()))?;
    for (row, &hit) in out.chunks_mut(shape.len().max(1)).zip(hits) {
        let mut rest = hit;
        for (to, &size) in row.iter_mut().zip(shape).rev() {
            *to = (rest % size) as i64;
            rest /= size;
        }
    }
    Ok(out)
}

/// Returns the first `size` rows of [`nonzero`], padded with rows of `fill`: i64 `[size, rank]`. The shape does not
/// depend on data, so graphs can contain it.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[0, 5], [7, 0]];
/// assert_eq!(ops::nonzero_sized(&x, 3, -1).to_vec::<i64>(), [0, 1, 1, 0, -1, -1]);
/// assert_eq!(ops::nonzero_sized(&x, 1, -1).to_vec::<i64>(), [0, 1]);
/// ```
#[track_caller]
pub fn nonzero_sized(x: impl AsTensor, size: usize, fill: i64) -> Tensor {
    let _called = called("nonzero_sized");
    let x = x.as_tensor();
    let shape = x.shape();
    if shape.is_empty() || x.numel() == 0 {
        return full_of([size, shape.len()], fill, DType::I64);
    }
    let places = first_places(&cast(&*x, DType::Bool), size);
    let missing = places.lt(0);
    let mut stride = x.numel();
    let columns = shape.iter().map(|&size| {
        stride /= size;
        select(&missing, fill, places.floor_div(stride).remainder(size))
    });
    stack(&columns.collect::<Vec<_>>(), 1)
}

/// Returns the elements of `x` where `mask` is true, in row-major order; both broadcast.
///
/// # Panics
/// Raises [`Code::DataDependentShape`] while tracing, as the number of elements depends on data;
/// [`masked_select_sized`] takes it as an argument. Raises [`Code::DType`] unless `mask` is of bools, and
/// [`Code::Shape`] when the shapes do not broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![1., 2., 3.];
/// assert_eq!(ops::masked_select(&x, x.gt(1.5)).to_vec::<f32>(), [2., 3.]);
/// ```
#[track_caller]
pub fn masked_select(x: impl AsTensor, mask: impl AsTensor) -> Tensor {
    let _called = called("masked_select");
    let (x, mask) = (x.as_tensor(), mask.as_tensor());
    refuse_traced("masked_select", &mask);
    let [x, mask] = flat_pair("masked_select", &x, &mask);
    wrapping::gather(x, reshape(nonzero(mask), [-1]), 0)
}

/// Returns the first `size` elements of [`masked_select`], padded with `fill`. The shape does not depend on data, so
/// graphs can contain it.
///
/// # Panics
/// Raises [`Code::DType`] unless `mask` is of bools and `fill` fits the dtype of `x`,
/// [`Code::Shape`] when the shapes do not broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![1., 2., 3.];
/// assert_eq!(ops::masked_select_sized(&x, x.gt(1.5), 3, 0.).to_vec::<f32>(), [2., 3., 0.]);
/// ```
#[track_caller]
pub fn masked_select_sized(x: impl AsTensor, mask: impl AsTensor, size: usize, fill: impl IntoOperand) -> Tensor {
    let _called = called("masked_select_sized");
    let [x, mask] = flat_pair("masked_select_sized", &x.as_tensor(), &mask.as_tensor());
    if x.numel() == 0 {
        let fill = fill.operand().into_tensor(x.dtype()).or_raise();
        return broadcast_to(&*fill, [size]);
    }
    let places = first_places(&mask, size);
    select(places.lt(0), fill, wrapping::gather(x, maximum(&places, 0), 0))
}

/// Returns the positions of the first `size` true elements of a nonempty flat mask, padded with -1.
#[track_caller]
fn first_places(mask: &Tensor, size: usize) -> Tensor {
    let flat = reshape(mask, [-1]);
    // Each true element is written at its ordinal among the true ones; all others go to a position after them.
    let rank = cumsum(cast(&flat, DType::I64), 0) - 1;
    let to = minimum(select(&flat, rank, size), size);
    let places = wrapping::scatter(full_of([size + 1], -1, DType::I64), to, arange(mask.numel()), 0);
    crate::ops::slice::narrow(&places, 0, 0, size)
}

/// Broadcasts a tensor and a mask to their common shape, and flattens both.
#[track_caller]
fn flat_pair(op: &str, x: &Tensor, mask: &Tensor) -> [Tensor; 2] {
    if mask.dtype() != DType::Bool {
        let message = format!("a mask holds bools, not {}", mask.dtype());
        raise(refusal(op, &[x, mask], Code::DType, message));
    }
    let shape = broadcast_shapes(x.shape(), mask.shape()).map_err(|it| named(op, &[x, mask], it)).or_raise();
    [x, mask].map(|it| reshape(broadcast_to(it, &shape), [-1]))
}

#[track_caller]
fn refuse_traced(op: &str, x: &Tensor) {
    if x.is_traced() {
        let error = refusal(op, &[x], Code::DataDependentShape, "the size of the result depends on data");
        raise(error.help(format!("say how many results there are with `{op}_sized`, or keep the shape and `select`")));
    }
}
