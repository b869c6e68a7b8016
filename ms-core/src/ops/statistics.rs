//! Mean, variance, and norms.

use super::reduction::axes_of;
use super::{ReduceAxes, max, min, select, sqrt, sum_axes};
use crate::tensor::{AsTensor, DType, Tensor};
use smallvec::SmallVec;

/// A tensor of floats, the axes that are folded, how many elements make one, and the dtype of
/// the result. f16 and bf16 are folded in f32; bools and integers become f32.
struct Folded {
    x: Tensor,
    axes: SmallVec<[usize; 4]>,
    count: f64,
    dtype: DType,
}

impl Folded {
    #[track_caller]
    fn new(op: &str, x: &Tensor, axes: impl ReduceAxes) -> Self {
        let axes = axes_of(op, x, axes);
        let count = axes.iter().map(|&axis| x.shape()[axis]).product::<usize>() as f64;
        let dtype = if x.dtype().is_float() { x.dtype() } else { DType::F32 };
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        Self { x: x.cast(wide), axes, count, dtype }
    }

    fn mean(&self, keepdims: bool) -> Tensor {
        sum_axes(&self.x, &self.axes, keepdims) / self.count
    }

    fn var(&self, ddof: usize, keepdims: bool) -> Tensor {
        let distance = &self.x - self.mean(true);
        sum_axes(&distance.square(), &self.axes, keepdims) / (self.count - ddof as f64)
    }
}

/// The mean over axes; of nothing it is nan.
///
/// `axes` is `()` for all, one axis, or several; negative ones count from the end. They stay with
/// size one if `keepdims`. f16 and bf16 are summed in f32; integers give f32.
#[track_caller]
pub fn mean(x: impl AsTensor, axes: impl ReduceAxes, keepdims: bool) -> Tensor {
    let folded = Folded::new("mean", &x.as_tensor(), axes);
    folded.mean(keepdims).cast(folded.dtype)
}

/// The mean of the squared distances from the mean, divided by `n - ddof` instead of `n`.
/// Axes are as in [`mean`].
#[track_caller]
pub fn var(x: impl AsTensor, axes: impl ReduceAxes, ddof: usize, keepdims: bool) -> Tensor {
    let folded = Folded::new("var", &x.as_tensor(), axes);
    folded.var(ddof, keepdims).cast(folded.dtype)
}

/// The square root of [`var`].
#[track_caller]
pub fn std(x: impl AsTensor, axes: impl ReduceAxes, ddof: usize, keepdims: bool) -> Tensor {
    let folded = Folded::new("std", &x.as_tensor(), axes);
    sqrt(folded.var(ddof, keepdims)).cast(folded.dtype)
}

/// The vector norm of order `p` over axes: `(Σ |x|^p)^(1/p)`, the largest magnitude for
/// infinity, the smallest for minus infinity, and the number of non-zeros for zero. Axes are
/// as in [`mean`].
#[track_caller]
pub fn norm(x: impl AsTensor, p: f64, axes: impl ReduceAxes, keepdims: bool) -> Tensor {
    let folded = Folded::new("norm", &x.as_tensor(), axes);
    let axes: Vec<isize> = folded.axes.iter().map(|&axis| axis as isize).collect();
    let total = |terms: &Tensor| sum_axes(terms, &folded.axes, keepdims);
    let size = folded.x.abs();
    let norm = if p == f64::INFINITY {
        max(&size, &*axes, keepdims)
    } else if p == f64::NEG_INFINITY {
        min(&size, &*axes, keepdims)
    } else if p == 0.0 {
        total(&folded.x.ne(0.0).cast(folded.x.dtype()))
    } else if p == 1.0 {
        total(&size)
    } else if p == 2.0 {
        sqrt(total(&size.square()))
    } else {
        // The power's own gradient is nan at zero, where the norm's is zero.
        let zero = size.eq(0.0);
        total(&select(&zero, 0.0, select(&zero, 1.0, &size).pow(p))).pow(1.0 / p)
    };
    norm.cast(folded.dtype)
}

impl Tensor {
    /// The mean over axes; of nothing it is nan.
    #[track_caller]
    pub fn mean(&self, axes: impl ReduceAxes, keepdims: bool) -> Self {
        mean(self, axes, keepdims)
    }

    /// The variance over axes, divided by `n - ddof`.
    #[track_caller]
    pub fn var(&self, axes: impl ReduceAxes, ddof: usize, keepdims: bool) -> Self {
        var(self, axes, ddof, keepdims)
    }

    /// The standard deviation over axes: the square root of [`Tensor::var`].
    #[track_caller]
    pub fn std(&self, axes: impl ReduceAxes, ddof: usize, keepdims: bool) -> Self {
        std(self, axes, ddof, keepdims)
    }

    /// The vector norm of order `p` over axes.
    #[track_caller]
    pub fn norm(&self, p: f64, axes: impl ReduceAxes, keepdims: bool) -> Self {
        norm(self, p, axes, keepdims)
    }

    /// The position of the largest element along an axis, as i64.
    #[track_caller]
    pub fn argmax(&self, axis: isize) -> Self {
        super::argmax(self, axis)
    }

    /// The position of the smallest element along an axis, as i64.
    #[track_caller]
    pub fn argmin(&self, axis: isize) -> Self {
        super::argmin(self, axis)
    }
}
