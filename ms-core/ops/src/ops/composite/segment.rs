//! Segment reductions and scatter reductions: elements with a common position are reduced to one.

use crate::ops::core::axis::refusal;
use crate::ops::core::rules::may_equal;
use crate::ops::{
    arange, broadcast_to, clamp_min, full_of, gather_nd, ones_like, reshape, scatter_add, scatter_max, scatter_min,
    scatter_mul, zeros_like,
};
use crate::tensor::{AsTensor, DType, Dim, Dims, Kind, Scalar, Tensor};
use ms_ir::error::{Code, called, raise};
use smallvec::smallvec;

/// The reduction of elements with a common position.
///
/// ```
/// use ms_core::{ops::{self, Segment}, tensor};
/// let x = tensor![1., 2., 3.];
/// assert_eq!(ops::segment(&x, tensor![0, 2, 0], 3, Segment::Sum).to_vec::<f32>(), [4., 0., 2.]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// The sum; zero for no elements.
    Sum,
    /// The mean, of floats only; zero for no elements.
    Mean,
    /// The product; one for no elements.
    Prod,
    /// The maximum. For no elements, the lowest value of the dtype, which is minus infinity for floats.
    Max,
    /// The minimum. For no elements, the highest value of the dtype, which is infinity for floats.
    Min,
}

impl Segment {
    /// Returns the result for no elements.
    fn identity(self, dtype: DType) -> Scalar {
        let unused_bits = 64 - 8 * dtype.size() as u32;
        let unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
        match (self, dtype.kind()) {
            (Self::Sum | Self::Mean, _) => Scalar::Int(0),
            (Self::Prod, _) => Scalar::Int(1),
            (Self::Max, Kind::Float) => Scalar::Float(f64::NEG_INFINITY),
            (Self::Min, Kind::Float) => Scalar::Float(f64::INFINITY),
            (it, Kind::Bool) => Scalar::Bool(it == Self::Min),
            (Self::Max, Kind::Int) if unsigned => Scalar::Int(0),
            (Self::Max, Kind::Int) => Scalar::Int(i64::MIN >> unused_bits),
            (Self::Min, Kind::Int) if unsigned => Scalar::UInt(u64::MAX >> unused_bits),
            (Self::Min, Kind::Int) => Scalar::Int(i64::MAX >> unused_bits),
        }
    }
}

/// Reduces each element of `source` into the element of `x` at its position along `axis` in `index`, as PyTorch's
/// `scatter_reduce`. A mean includes the element of `x`.
///
/// # Panics
/// Panics in the cases of [`scatter_add`], and raises [`Code::DType`] for a mean of integers.
///
/// ```
/// use ms_core::{ops::{self, Segment}, tensor};
/// let reduced = |by| ops::scatter_reduce(tensor![1., 5.], tensor![0, 0, 1], tensor![3., 2., 4.], 0, by).to_vec::<f32>();
/// assert_eq!(reduced(Segment::Sum), [6., 9.]);
/// assert_eq!(reduced(Segment::Mean), [2., 4.5]);
/// assert_eq!(reduced(Segment::Prod), [6., 20.]);
/// assert_eq!(reduced(Segment::Max), [3., 5.]);
/// ```
#[track_caller]
pub fn scatter_reduce(
    x: impl AsTensor,
    index: impl AsTensor,
    source: impl AsTensor,
    axis: isize,
    reduction: Segment,
) -> Tensor {
    let _called = called("scatter_reduce");
    let (x, index, source) = (&*x.as_tensor(), &*index.as_tensor(), &*source.as_tensor());
    match reduction {
        Segment::Sum => scatter_add(x, index, source, axis),
        Segment::Prod => scatter_mul(x, index, source, axis),
        Segment::Max => scatter_max(x, index, source, axis),
        Segment::Min => scatter_min(x, index, source, axis),
        Segment::Mean => {
            refuse_integers("scatter_reduce", x);
            let count = scatter_add(ones_like(x), index, ones_like(source), axis);
            scatter_add(x, index, source, axis) / count
        }
    }
}

/// Reduces the rows of `x` that have the same number in `ids` to one row for each number below `count`. This covers
/// MindSpore's `unsorted_segment_sum` and its variants. `x` is `[n, ..]`, `ids` is of integers `[n]` in any order, and
/// the result is `[count, ..]`.
///
/// # Panics
/// Raises [`Code::Shape`] unless `ids` has one element for each row. Raises [`Code::DType`] unless `ids` is of
/// integers, and for a mean of integers. Raises [`Code::OutOfRange`] for an id that is negative or not below `count`.
///
/// ```
/// use ms_core::{ops::{self, Segment}, tensor};
/// let x = tensor![[1., 2.], [3., 4.], [5., 6.]];
/// let of = |by| ops::segment(&x, tensor![1, 0, 1], 2, by).to_vec::<f32>();
/// assert_eq!(of(Segment::Max), [3., 4., 5., 6.]);
/// assert_eq!(of(Segment::Mean), [3., 4., 3., 4.]);
/// assert_eq!(of(Segment::Prod), [3., 4., 5., 12.]);
/// ```
#[track_caller]
pub fn segment(x: impl AsTensor, ids: impl AsTensor, count: impl Into<Dim>, reduction: Segment) -> Tensor {
    let _called = called("segment");
    let (x, ids) = (&*x.as_tensor(), &*ids.as_tensor());
    propagate_poison!(x);
    propagate_poison!(ids);
    if x.rank() == 0 || ids.rank() != 1 {
        raise(refusal("segment", &[x, ids], Code::Shape, "takes one integer for each row of a tensor with rows"));
    }
    let mut dims: Dims = x.dims();
    let index = over_rows(ids, &dims);
    dims[0] = count.into();
    let start = full_of(&dims, reduction.identity(x.dtype()), x.dtype());
    if reduction != Segment::Mean {
        return scatter_reduce(start, index, x, 0, reduction);
    }
    refuse_integers("segment", x);
    let counted = scatter_add(zeros_like(&start), &index, ones_like(x), 0);
    scatter_add(start, index, x, 0) / clamp_min(counted, 1.0)
}

/// Reduces the slices of `source` into the slices of `x` at the positions in the rows of `index`. This covers
/// MindSpore's `tensor_scatter_max` and its variants. The shapes are as in
/// [`scatter_nd_add`](crate::ops::scatter_nd_add).
///
/// # Panics
/// Panics in the cases of [`scatter_nd_add`](crate::ops::scatter_nd_add), and raises [`Code::DType`] for a mean of
/// integers.
///
/// ```
/// use ms_core::{ops::{self, Segment}, tensor};
/// let x = tensor![[1., 2.], [3., 4.]];
/// let y = ops::scatter_nd_reduce(&x, tensor![[1, 0], [1, 0]], tensor![7., 5.], Segment::Max);
/// assert_eq!(y.to_vec::<f32>(), [1., 2., 7., 4.]);
/// ```
#[track_caller]
pub fn scatter_nd_reduce(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor, reduction: Segment) -> Tensor {
    let _called = called("scatter_nd_reduce");
    let (x, index, source) = (&*x.as_tensor(), &*index.as_tensor(), &*source.as_tensor());
    propagate_poison!(x);
    propagate_poison!(index);
    let dims = x.dims();
    let depth = index.dims().last().and_then(|it| it.as_const()).filter(|&it| it <= dims.len());
    let Some(depth) = depth else {
        raise(refusal("scatter_nd_reduce", &[x, index, source], Code::Shape, "a row of the index is no position"));
    };
    let count = |of: &[Dim]| of.iter().copied().product::<Dim>();
    let (outer, inner) = (count(&dims[..depth]), count(&dims[depth..]));
    // A gather from the row-major indices of all slices checks the positions along each axis.
    let rows = gather_nd(reshape(arange(outer), &dims[..depth]), index);
    let sources: Dims = rows.dims().iter().chain(&dims[depth..]).copied().collect();
    if !may_equal(&sources, &source.dims()) {
        raise(refusal("scatter_nd_reduce", &[x, index, source], Code::Shape, "the source has not one slice a row"));
    }
    let source = reshape(source, [count(&rows.dims()), inner]);
    let rows = over_rows(&reshape(&rows, [source.dim(0)]), &source.dims());
    reshape(scatter_reduce(reshape(x, [outer, inner]), rows, source, 0, reduction), dims)
}

/// Broadcasts one integer per row to every element of rows of these dimensions.
fn over_rows(ids: &Tensor, dims: &Dims) -> Tensor {
    let mut column: Dims = smallvec![Dim::new(1); dims.len()];
    column[0] = ids.dim(0);
    let mut wide = dims.clone();
    wide[0] = ids.dim(0);
    broadcast_to(reshape(ids, column), wide)
}

#[track_caller]
fn refuse_integers(op: &str, x: &Tensor) {
    if !x.dtype().is_float() {
        raise(refusal(op, &[x], Code::DType, "the mean of integers is no integer; cast them to floats"));
    }
}
