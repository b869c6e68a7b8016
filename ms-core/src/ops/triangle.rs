//! Triangles and diagonals of matrices, and masks.

use super::axis::refusal;
use super::iota::spaced;
use super::{IntoOperand, full_of, greater_equal, iota, reshape, select, update};
use crate::error::{Code, raise};
use crate::tensor::{AsTensor, DType, Dim, Scalar, Tensor, WithStep};

/// An `n` by `m` mask that is true where column minus row is at most `k`.
#[track_caller]
fn lower_mask([n, m]: [Dim; 2], k: isize) -> Tensor {
    // The sums of rows and `k` must not overflow.
    let k = (k as i64).clamp(i64::MIN / 2, i64::MAX / 2);
    let last_column = spaced((n, 1), 0, Scalar::Int(k), Scalar::Int(1), DType::I64);
    greater_equal(last_column, iota((1, m), 1, DType::I64))
}

#[track_caller]
fn matrix(op: &str, x: &Tensor) -> [Dim; 2] {
    match *x.dims() {
        [.., n, m] => [n, m],
        _ => raise(refusal(op, &[x], Code::Shape, "a matrix, or a stack of them, is needed")),
    }
}

/// The matrices of the last two axes with zeros above the diagonal `k`.
///
/// # Panics
/// Raises [`Code::Shape`] for fewer than two axes.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::tril(tensor![[1, 2], [3, 4]], 0).to_vec::<i64>(), [1, 0, 3, 4]);
/// ```
#[track_caller]
pub fn tril(x: impl AsTensor, k: isize) -> Tensor {
    let x = x.as_tensor();
    let matrix = matrix("tril", &x);
    select(lower_mask(matrix, k), &*x, zero_of(&x))
}

/// The matrices of the last two axes with zeros below the diagonal `k`.
///
/// # Panics
/// Raises [`Code::Shape`] for fewer than two axes.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::triu(tensor![[1, 2], [3, 4]], 0).to_vec::<i64>(), [1, 2, 0, 4]);
/// ```
#[track_caller]
pub fn triu(x: impl AsTensor, k: isize) -> Tensor {
    let x = x.as_tensor();
    let matrix = matrix("triu", &x);
    select(lower_mask(matrix, k.saturating_sub(1)), zero_of(&x), &*x)
}

#[track_caller]
fn zero_of(x: &Tensor) -> Tensor {
    full_of((), 0, x.dtype())
}

/// NumPy's `diag`: of a vector the square matrix that has it on diagonal `k`, of a matrix its
/// diagonal `k`.
///
/// # Panics
/// Raises [`Code::Shape`] for another rank.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::diag(tensor![1, 2], 0).to_vec::<i64>(), [1, 0, 0, 2]);
/// ```
#[track_caller]
pub fn diag(x: impl AsTensor, k: isize) -> Tensor {
    let x = x.as_tensor();
    match *x.shape() {
        [n] => {
            let size = n.saturating_add(k.unsigned_abs());
            let start = if k < 0 { k.unsigned_abs().saturating_mul(size) } else { k.unsigned_abs() };
            let zeros = full_of([size.saturating_mul(size)], 0, x.dtype());
            let flat = if n == 0 { zeros } else { update(&zeros, &x, &[start as i64], &[size as i64 + 1]) };
            reshape(flat, [size, size])
        }
        [n, m] => diagonal(&x, n, m, k),
        _ => raise(refusal("diag", &[&x], Code::Shape, "a vector or a matrix is needed")),
    }
}

/// The diagonal `k` of the last two axes, `n` by `m`, as a new last axis.
#[track_caller]
pub(super) fn diagonal(x: &Tensor, n: usize, m: usize, k: isize) -> Tensor {
    let (down, right) = (k.min(0).unsigned_abs(), k.max(0).unsigned_abs());
    let count = n.saturating_sub(down).min(m.saturating_sub(right));
    let mut shape = x.shape()[..x.rank() - 2].to_vec();
    shape.push(n * m);
    let start = if count == 0 { 0 } else { down * m + right };
    let stop = if count == 0 { 0 } else { start + (count - 1) * (m + 1) + 1 };
    reshape(x, shape).i((crate::tensor::Ellipsis, (start..stop).step(m as isize + 1)))
}

/// `x` with `value` where `mask` is true; both broadcast.
///
/// # Panics
/// Raises [`Code::Shape`] when they do not, [`Code::DType`] when `value` does not fit the
/// dtype of `x`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::masked_fill(tensor![1., 2.], tensor![true, false], -1.).to_vec::<f32>(), [-1., 2.]);
/// ```
#[track_caller]
pub fn masked_fill(x: impl AsTensor, mask: impl AsTensor, value: impl IntoOperand) -> Tensor {
    select(mask, value, &*x.as_tensor())
}
