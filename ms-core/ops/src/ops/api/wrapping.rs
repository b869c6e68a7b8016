//! Gathers and scatters in which negative positions count from the end, as in NumPy.
//!
//! The functions of the same names in [`ops`](crate::ops) refuse negative positions, as PyTorch does. Otherwise a
//! padding token of -1 would read and train the last row.
//!
//! ```
//! use ms_core::{ops, tensor};
//! let x = tensor![[1, 2], [3, 4]];
//! assert_eq!(ops::wrapping::gather(&x, tensor![-1], 0).to_vec::<i64>(), [3, 4]);
//! ```

use crate::ops::core::axis::named;
use crate::ops::core::rules::broadcast_dims;
use crate::ops::{
    AxisAttrs, GATHER, GATHER_ND, INDEX_ADD, SCATTER, SCATTER_ADD, SCATTER_ND_ADD, TAKE_ALONG_AXIS, broadcast_to,
    normalize_axis,
};
use crate::tensor::{AsTensor, Attrs, Dims, Tensor, apply1};
use ms_ir::error::{Code, Error, OrRaise, Result};

/// Applies [`ops::gather`](crate::ops::gather); negative positions count from the end.
///
/// # Panics
/// Panics in the cases of [`ops::gather`](crate::ops::gather), except that positions from `-n` are legal.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::wrapping::gather(tensor![[1, 2], [3, 4]], tensor![1, 0, -1], 0).to_vec::<i64>(), [3, 4, 1, 2, 3, 4]);
/// ```
#[track_caller]
pub fn gather(x: impl AsTensor, index: impl AsTensor, axis: isize) -> Tensor {
    let (x, index) = (x.as_tensor(), index.as_tensor());
    propagate_poison!(x, index);
    let axis = or_poison!(normalize_axis(axis, x.rank()).map_err(|it| named("gather", &[&x, &index], it)));
    apply1(GATHER.op(), &AxisAttrs::attrs(axis), &[&x, &index])
}

/// Applies [`ops::index_add`](crate::ops::index_add); negative positions count from the end.
///
/// # Panics
/// Panics in the cases of [`ops::index_add`](crate::ops::index_add), except that positions from `-n` are legal.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::wrapping::index_add(tensor![0., 0.], tensor![-1], tensor![2.], 0).to_vec::<f32>(), [0., 2.]);
/// ```
#[track_caller]
pub fn index_add(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor, axis: isize) -> Tensor {
    let (x, index, source) = (x.as_tensor(), index.as_tensor(), source.as_tensor());
    propagate_poison!(x, index, source);
    let axis = or_poison!(normalize_axis(axis, x.rank()).map_err(|it| named("index_add", &[&x, &index, &source], it)));
    apply1(INDEX_ADD.op(), &AxisAttrs::attrs(axis), &[&x, &index, &source])
}

/// Applies [`ops::gather_nd`](crate::ops::gather_nd); negative positions count from the end.
///
/// # Panics
/// Panics in the cases of [`ops::gather_nd`](crate::ops::gather_nd), except that positions from `-n` are legal.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::wrapping::gather_nd(tensor![[1, 2], [3, 4]], tensor![[-1, 0]]).to_vec::<i64>(), [3]);
/// ```
#[track_caller]
pub fn gather_nd(x: impl AsTensor, index: impl AsTensor) -> Tensor {
    apply1(GATHER_ND.op(), &Attrs::none(), &[&x.as_tensor(), &index.as_tensor()])
}

/// Applies [`ops::scatter_nd_add`](crate::ops::scatter_nd_add); negative positions count from the end.
///
/// # Panics
/// Panics in the cases of [`ops::scatter_nd_add`](crate::ops::scatter_nd_add), except that positions from `-n` are
/// legal.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::wrapping::scatter_nd_add(tensor![0., 0.], tensor![[-1]], tensor![5.]).to_vec::<f32>(), [0., 5.]);
/// ```
#[track_caller]
pub fn scatter_nd_add(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor) -> Tensor {
    apply1(SCATTER_ND_ADD.op(), &Attrs::none(), &[&x.as_tensor(), &index.as_tensor(), &source.as_tensor()])
}

/// Applies [`ops::take_along_axis`](crate::ops::take_along_axis); negative positions count from the end.
///
/// # Panics
/// Panics in the cases of [`ops::take_along_axis`](crate::ops::take_along_axis), except that positions from `-n` are
/// legal.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::wrapping::take_along_axis(tensor![[1, 2]], tensor![[-1]], 1).to_vec::<i64>(), [2]);
/// ```
#[track_caller]
pub fn take_along_axis(x: impl AsTensor, index: impl AsTensor, axis: isize) -> Tensor {
    let (x, index) = (x.as_tensor(), index.as_tensor());
    propagate_poison!(x, index);
    let fail = |it| named("take_along_axis", &[&x, &index], it);
    let axis = normalize_axis(axis, x.rank()).map_err(fail).or_raise();
    if index.rank() != x.rank() {
        let error = Error::new(Code::Shape, "the index has as many axes as the tensor");
        Err(fail(error)).or_raise()
    }
    let common = |from: &Dims, other: &Dims| -> Result<Dims> {
        let mut open = other.clone();
        open[axis] = from[axis];
        broadcast_dims(from, &open)
    };
    let (x_dims, index_dims) = (x.dims(), index.dims());
    let wide = broadcast_to(&*x, common(&x_dims, &index_dims).map_err(fail).or_raise());
    let index_wide = broadcast_to(&*index, common(&index_dims, &x_dims).map_err(fail).or_raise());
    apply1(TAKE_ALONG_AXIS.op(), &AxisAttrs::attrs(axis), &[&wide, &index_wide])
}

/// Applies [`ops::scatter_add`](crate::ops::scatter_add); negative positions count from the end.
///
/// # Panics
/// Panics in the cases of [`ops::scatter_add`](crate::ops::scatter_add), except that positions from `-n` are legal.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::wrapping::scatter_add(tensor![0., 0.], tensor![-1], tensor![2.], 0).to_vec::<f32>(), [0., 2.]);
/// ```
#[track_caller]
pub fn scatter_add(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor, axis: isize) -> Tensor {
    let (x, index, source) = (x.as_tensor(), index.as_tensor(), source.as_tensor());
    propagate_poison!(x, index, source);
    let axis = normalize_axis(axis, x.rank()).map_err(|it| named("scatter_add", &[&x, &index, &source], it)).or_raise();
    apply1(SCATTER_ADD.op(), &AxisAttrs::attrs(axis), &[&x, &index, &source])
}

/// Applies [`ops::scatter`](crate::ops::scatter); negative positions count from the end.
///
/// # Panics
/// Panics in the cases of [`ops::scatter`](crate::ops::scatter), except that positions from `-n` are legal.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::wrapping::scatter(tensor![0., 0.], tensor![-1], tensor![3.], 0).to_vec::<f32>(), [0., 3.]);
/// ```
#[track_caller]
pub fn scatter(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor, axis: isize) -> Tensor {
    let (x, index, source) = (x.as_tensor(), index.as_tensor(), source.as_tensor());
    propagate_poison!(x, index, source);
    let axis = normalize_axis(axis, x.rank()).map_err(|it| named("scatter", &[&x, &index, &source], it)).or_raise();
    apply1(SCATTER.op(), &AxisAttrs::attrs(axis), &[&x, &index, &source])
}
