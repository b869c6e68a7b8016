//! Mean, variance, and norms.

use crate::ops::composite::largest::largest_finite;
use crate::ops::core::rules::{Interval, check_interval};
use crate::ops::primitive::reduction::axes_of;
use crate::ops::{Keepdims, ReduceAxes, max, maximum, min, over_size, select, size, sqrt, sum_axes};
use crate::tensor::{AsTensor, DType, Dim, Tensor};
use ms_ir::MapVec;
use ms_ir::error::{OrRaise, called};
use smallvec::SmallVec;

/// The arguments of a reduction: a tensor of floats, the reduced axes, the number of elements per result, and the dtype
/// of the result. f16 and bf16 are reduced in f32; bools and integers are converted to f32.
struct Reduced {
    x: Tensor,
    axes: SmallVec<[usize; 4]>,
    keepdims: bool,
    count: Dim,
    dtype: DType,
}

impl Reduced {
    #[track_caller]
    fn new(op: &str, x: &Tensor, axes: impl ReduceAxes) -> Self {
        let keepdims = axes.keepdims();
        let axes = axes_of(op, x, axes).or_raise();
        let count = axes.iter().map(|&axis| x.dims()[axis]).product();
        let dtype = if x.dtype().is_float() { x.dtype() } else { DType::F32 };
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        Self { x: x.cast(wide), axes, keepdims, count, dtype }
    }

    fn mean(&self, keepdims: bool) -> Tensor {
        over_size(&sum_axes(&self.x, &self.axes, keepdims), self.count)
    }

    fn var(&self, ddof: usize) -> Tensor {
        let distance = &self.x - self.mean(true);
        let squares = sum_axes(&distance.square(), &self.axes, self.keepdims);
        match self.count.as_const() {
            Some(count) => squares / (count as f64 - ddof as f64).max(0.0),
            None => squares / maximum(size(self.count - ddof, self.x.dtype()), 0.0),
        }
    }
}

/// Returns the mean over axes; NaN for no elements.
///
/// `axes` is `()` for all, one axis, or several; negative ones count from the end. In
/// [`keepdims`](crate::ops::keepdims) they remain with size 1. f16 and bf16 are summed in f32; the mean of integers is
/// f32.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::mean(tensor![[1., 2.], [3., 4.]], 0).to_vec::<f32>(), [2., 3.]);
/// ```
#[track_caller]
pub fn mean(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor {
    let _called = called("mean");
    let reduced = Reduced::new("mean", &x.as_tensor(), axes);
    reduced.mean(reduced.keepdims).cast(reduced.dtype)
}

/// Returns the variance over axes: the sum of squared distances from the mean, divided by `n - ddof`. The divisor is
/// zero when `ddof` is above `n`. Axes are as in [`mean`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::var(tensor![1., 3.], (), 0).to_vec::<f32>(), [1.]);
/// ```
#[track_caller]
pub fn var(x: impl AsTensor, axes: impl ReduceAxes, ddof: usize) -> Tensor {
    let _called = called("var");
    let reduced = Reduced::new("var", &x.as_tensor(), axes);
    reduced.var(ddof).cast(reduced.dtype)
}

/// Returns the square root of [`var`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::std(tensor![1., 5.], (), 0).to_vec::<f32>(), [2.]);
/// ```
#[track_caller]
pub fn std(x: impl AsTensor, axes: impl ReduceAxes, ddof: usize) -> Tensor {
    let _called = called("std");
    let reduced = Reduced::new("std", &x.as_tensor(), axes);
    root(reduced.var(ddof), sqrt).cast(reduced.dtype)
}

/// Applies a root to nonnegative numbers, with a gradient of zero instead of infinity at zero.
#[track_caller]
pub(in crate::ops) fn root(x: Tensor, root: impl Fn(Tensor) -> Tensor) -> Tensor {
    let zero = x.eq(0.0);
    select(&zero, 0.0, root(select(&zero, 1.0, x)))
}

/// Returns the vector norm of order `p` over axes: `(Σ |x|^p)^(1/p)`. Infinity selects the largest magnitude, minus
/// infinity the smallest, and zero the number of nonzero elements. Axes are as in [`mean`].
///
/// For `p > 0` the elements are first scaled by the largest magnitude, so that no power overflows or underflows. If all
/// elements are zero, so is the gradient.
///
/// # Panics
/// Raises [`Code::Argument`](crate::Code::Argument) if `p` is NaN.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::norm(tensor![3., -4.], 2., ()).to_vec::<f32>(), [5.]);
/// ```
#[track_caller]
pub fn norm(x: impl AsTensor, p: f64, axes: impl ReduceAxes) -> Tensor {
    let _called = called("norm");
    let x = &*x.as_tensor();
    propagate_poison!(x);
    or_poison!(check_interval("norm", "p", p, &Interval::NUMBER));
    let reduced = Reduced::new("norm", x, axes);
    let axes: Vec<isize> = reduced.axes.map_vec(|&axis| axis as isize);
    let total = |terms: &Tensor| sum_axes(terms, &reduced.axes, reduced.keepdims);
    let size = reduced.x.abs();
    let norm = if p == f64::INFINITY {
        max(&size, Keepdims::when(reduced.keepdims, &*axes))
    } else if p == f64::NEG_INFINITY {
        min(&size, Keepdims::when(reduced.keepdims, &*axes))
    } else if p == 0.0 {
        total(&reduced.x.ne(0.0).cast(reduced.x.dtype()))
    } else if p == 1.0 {
        total(&size)
    } else if p > 0.0 {
        // Zero, infinity and NaN cannot be divisors.
        let scale = largest_finite(&size, &reduced.axes, true);
        // The square of an absolute value would have no second derivative at zero.
        let powers = if p == 2.0 { (&reduced.x / &scale).square() } else { root(&size / &scale, |it| it.pow(p)) };
        let norm = root(total(&powers), |it| if p == 2.0 { sqrt(it) } else { it.pow(1.0 / p) });
        norm * if reduced.keepdims { scale } else { scale.squeeze(&*axes) }
    } else {
        let zero = size.eq(0.0);
        let norm = total(&select(&zero, 1.0, size).pow(p)).pow(1.0 / p);
        select(total(&zero.cast(norm.dtype())).gt(0.0), 0.0, norm)
    };
    norm.cast(reduced.dtype)
}

impl Tensor {
    /// Returns the mean over axes; NaN for no elements.
    #[track_caller]
    pub fn mean(&self, axes: impl ReduceAxes) -> Self {
        mean(self, axes)
    }

    /// Returns the variance over axes, divided by `n - ddof`.
    #[track_caller]
    pub fn var(&self, axes: impl ReduceAxes, ddof: usize) -> Self {
        var(self, axes, ddof)
    }

    /// Returns the standard deviation over axes: the square root of [`Tensor::var`].
    #[track_caller]
    pub fn std(&self, axes: impl ReduceAxes, ddof: usize) -> Self {
        std(self, axes, ddof)
    }

    /// Returns the vector norm of order `p` over axes.
    #[track_caller]
    pub fn norm(&self, p: f64, axes: impl ReduceAxes) -> Self {
        norm(self, p, axes)
    }

    /// Returns the position of the largest element over axes, as i64; see [`argmax`](crate::ops::argmax).
    #[track_caller]
    pub fn argmax(&self, axes: impl ReduceAxes) -> Self {
        crate::ops::argmax(self, axes)
    }

    /// Returns the position of the smallest element over axes, as i64; see [`argmin`](crate::ops::argmin).
    #[track_caller]
    pub fn argmin(&self, axes: impl ReduceAxes) -> Self {
        crate::ops::argmin(self, axes)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::core::testing::run;
    use crate::ops::{argmax, cumprod, cumsum_of, keepdims, logsumexp, norm};
    use crate::tensor;
    use crate::tensor::{DType, Tensor};

    #[track_caller]
    fn check(got: Tensor, shape: &[usize], dtype: DType, want: &[f64]) {
        assert_eq!((got.shape(), got.dtype()), (shape, dtype));
        let got: Vec<f64> = got
            .try_array()
            .and_then(crate::tensor::Array::into_host)
            .expect("an array")
            .scalars()
            .into_iter()
            .map(|it| it.as_f64())
            .collect();
        let same = |(got, want): (&f64, &f64)| got == want || (got.is_nan() && want.is_nan());
        assert!(got.iter().zip(want).all(same) && got.len() == want.len(), "{got:?}, not {want:?}");
    }

    #[test]
    fn reductions_of_unusual_operands() {
        use DType::*;
        run(|| {
            let bytes = tensor![[200u8, 100], [1, 2]];
            check(bytes.sum(()), &[], U64, &[303.0]);
            check(bytes.prod(keepdims(0)), &[1, 2], U64, &[200.0, 200.0]);
            check(bytes.argmax(keepdims(0)), &[1, 2], I64, &[0.0, 0.0]);
            check(bytes.argmin(keepdims(())), &[1, 1], I64, &[2.0]);
            check(bytes.mean(keepdims([0, 1])), &[1, 1], F32, &[75.75]);
            check(tensor![true, true, false].sum(-1), &[], I64, &[2.0]);
            check(tensor![0, 3].any(()), &[], Bool, &[1.0]);
            check(tensor![1., f32::NAN].max(()), &[], F32, &[f64::NAN]);
            check(argmax(tensor![1., f32::NAN, 3.], 0), &[], I64, &[1.0]);
            // The sum of a mean of f16 does not overflow.
            let halves = tensor![60000., 60000.].cast(F16);
            check(halves.mean(()), &[], F16, &[60000.0]);
            check(halves.var((), 0), &[], F16, &[0.0]);
            // Without elements, and without axes.
            let none = Tensor::zeros([0, 2]);
            check(none.sum(0), &[2], F32, &[0.0, 0.0]);
            check(none.prod(0), &[2], F32, &[1.0, 1.0]);
            check(none.mean(0), &[2], F32, &[f64::NAN, f64::NAN]);
            check(none.max(1), &[0], F32, &[]);
            check(tensor![1., 2.].sum([0isize; 0]), &[2], F32, &[1.0, 2.0]);
            check(Tensor::scalar(3.0).sum(keepdims(())), &[], F32, &[3.0]);
        });
    }

    #[test]
    fn norms_and_accumulations() {
        use DType::*;
        run(|| {
            let x = tensor![3., 0., -4.];
            for (p, want) in [(0.0, 2.0), (1.0, 7.0), (2.0, 5.0), (f64::INFINITY, 4.0), (f64::NEG_INFINITY, 0.0)] {
                check(norm(&x, p, ()), &[], F32, &[want]);
            }
            check(logsumexp(tensor![f32::NEG_INFINITY, f32::NEG_INFINITY], ()), &[], F32, &[f64::NEG_INFINITY]);
            check(logsumexp(tensor![1000., f32::INFINITY], ()), &[], F32, &[f64::INFINITY]);
            check(cumsum_of(tensor![1, 2, 3], 0, true, true), &[3], I64, &[5.0, 3.0, 0.0]);
            check(cumprod(tensor![2, 3, 4], 0), &[3], I64, &[2.0, 6.0, 24.0]);
        });
    }
}
