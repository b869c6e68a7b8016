//! Changes of shape that are views, composed of `reshape`, `slice` and `permute`.

use crate::ops::core::axis::named;
use crate::ops::core::rules::check_not_zero;
use crate::ops::primitive::slice::select_ranges;
use crate::ops::{IntoAxes, broadcast_to, normalize_axes, reshape};
use crate::tensor::{AsTensor, Dim, Dims, Index, IntoDims, NewShape, Selection, Tensor, refused};
use ms_ir::error::{Code, Error, OrRaise, Result, called};
use smallvec::SmallVec;

/// Infers the dimension of `-1` from a number of elements.
///
/// # Errors
/// [`Code::Argument`] for a second `-1` or another negative size, or if no size fits.
#[track_caller]
pub(in crate::ops) fn fill(mut dims: Dims, numel: Dim) -> Result<Dims> {
    let refuse = |message: String| Err(Error::new(Code::Argument, message));
    let negative: SmallVec<[usize; 4]> = (0..dims.len()).filter(|&it| dims[it].is_negative()).collect();
    let &[open] = &negative[..] else {
        return if negative.is_empty() {
            Ok(dims)
        } else {
            refuse(format!("{dims:?} is no shape: one size may be -1"))
        };
    };
    if dims[open] != Dim::from(-1) {
        return refuse(format!("{dims:?} is no shape: one size may be -1"));
    }
    let known: Dim = dims.iter().enumerate().filter(|it| it.0 != open).map(|it| *it.1).product();
    let fits = match (numel.as_const(), known.as_const()) {
        (_, Some(0)) => false,
        (Some(numel), Some(known)) => numel.is_multiple_of(known),
        _ => true,
    };
    if !fits {
        return refuse(format!("no size fits -1 in {dims:?} for {numel} elements"));
    }
    // The quotient can lose its divisor, such as `n * 3 / n`.
    check_not_zero(known);
    dims[open] = numel / known;
    Ok(dims)
}

/// Removes the axes `axes`, which have size 1.
///
/// # Panics
/// Raises [`Code::Shape`] when one has another size, and [`Code::OutOfRange`] when one does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::squeeze(tensor![[1, 2]], 0).shape(), [2]);
/// ```
#[track_caller]
pub fn squeeze(x: impl AsTensor, axes: impl IntoAxes) -> Tensor {
    let _called = called("squeeze");
    let x = x.as_tensor();
    propagate_poison!(x);
    let axes = or_poison!(normalize_axes(&axes.into_axes(), x.rank()).map_err(|it| named("squeeze", &[&x], it)));
    let shape = x.dims();
    if let Some(axis) = axes.iter().find(|&&axis| !shape[axis].may_equal(Dim::new(1))) {
        let error = Error::new(Code::Shape, format!("axis {axis} has size {}, not one", shape[*axis]));
        return refused(named("squeeze", &[&x], error));
    }
    let kept: Dims = (0..shape.len()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect();
    // An axis of symbolic size broadcasts to 1 only in calls in which it is 1.
    let one = |axis: usize| if axes.contains(&axis) { Dim::new(1) } else { shape[axis] };
    reshape(broadcast_to(&*x, (0..shape.len()).map(one).collect::<Dims>()), kept)
}

/// Inserts axes of size 1 at `axes` of the result.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis outside the result.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::expand_dims(tensor![1, 2], -1).shape(), [2, 1]);
/// ```
#[track_caller]
pub fn expand_dims(x: impl AsTensor, axes: impl IntoAxes) -> Tensor {
    insert_axes(&x.as_tensor(), &axes.into_axes())
}

#[track_caller]
fn insert_axes(x: &Tensor, axes: &[isize]) -> Tensor {
    let _called = called("expand_dims");
    propagate_poison!(x);
    let rank = x.rank() + axes.len();
    let axes = or_poison!(normalize_axes(axes, rank).map_err(|it| named("expand_dims", &[x], it)));
    let mut sizes = x.dims().into_iter();
    let size = |axis| if axes.contains(&axis) { Some(Dim::new(1)) } else { sizes.next() };
    reshape(x, (0..rank).map_while(size).collect::<Dims>())
}

/// Merges all axes from `start` on into one; `start = 1` keeps the batch axis.
///
/// # Panics
/// Raises [`Code::OutOfRange`] when `start` is above the rank.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::flatten(tensor![[[1, 2], [3, 4]]], 1).shape(), [1, 4]);
/// ```
#[track_caller]
pub fn flatten(x: impl AsTensor, start: usize) -> Tensor {
    let _called = called("flatten");
    let x = x.as_tensor();
    propagate_poison!(x);
    let shape = x.dims();
    if start > shape.len() {
        let error = Error::new(Code::OutOfRange, format!("no axis {start} in a tensor of rank {}", shape.len()));
        return refused(named("flatten", &[&x], error));
    }
    let mut merged: Dims = shape[..start].into();
    merged.push(shape[start..].iter().copied().product());
    reshape(&*x, merged)
}

/// Reverses `x` along `axes`, without a copy.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::flip(tensor![1, 2, 3], 0).to_vec::<i64>(), [3, 2, 1]);
/// ```
#[track_caller]
pub fn flip(x: impl AsTensor, axes: impl IntoAxes) -> Tensor {
    let _called = called("flip");
    let x = x.as_tensor();
    propagate_poison!(x);
    let axes = or_poison!(normalize_axes(&axes.into_axes(), x.rank()).map_err(|it| named("flip", &[&x], it)));
    let part = |axis| Index::Slice { start: None, stop: None, step: if axes.contains(&axis) { -1 } else { 1 } };
    let parts: Vec<Index> = (0..x.rank()).map(part).collect();
    select_ranges(&x, &Selection::resolve(&parts, &x.dims()).or_raise())
}

impl Tensor {
    /// Returns the elements in row-major order with another shape; one size may be -1.
    ///
    /// # Panics
    /// Raises [`Code::Shape`] if the numbers of elements differ.
    #[track_caller]
    pub fn reshape(&self, shape: impl NewShape) -> Self {
        reshape(self, shape)
    }

    /// Removes the axes `axes`, which have size 1; see [`squeeze`].
    #[track_caller]
    pub fn squeeze(&self, axes: impl IntoAxes) -> Self {
        squeeze(self, axes)
    }

    /// Inserts axes of size 1; see [`expand_dims`].
    #[track_caller]
    pub fn expand_dims(&self, axes: impl IntoAxes) -> Self {
        expand_dims(self, axes)
    }

    /// Merges all axes from `start` on into one; see [`flatten`].
    #[track_caller]
    pub fn flatten(&self, start: usize) -> Self {
        flatten(self, start)
    }

    /// Reverses along `axes`, without a copy.
    #[track_caller]
    pub fn flip(&self, axes: impl IntoAxes) -> Self {
        flip(self, axes)
    }

    /// Broadcasts to a shape, without a copy; see [`broadcast_to`](crate::ops::broadcast_to).
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl IntoDims) -> Self {
        crate::ops::broadcast_to(self, shape)
    }
}
