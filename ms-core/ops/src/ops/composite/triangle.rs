//! Triangles and diagonals of matrices, and masks.

use crate::ops::core::axis::refusal;
use crate::ops::primitive::iota::spaced;
use crate::ops::{IntoOperand, concat, eye_of, full_of, greater_equal, iota, reshape, select, size, wrapping};
use crate::tensor::{AsTensor, DType, Dim, Scalar, Tensor, WithStep};
use ms_ir::error::{Code, called, raise};

/// Creates an `n` by `m` mask that is true where column minus row is at most `k`.
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

/// Returns the matrices of the last two axes with zeros above the diagonal `k`.
///
/// # Panics
/// Raises [`Code::Shape`] for a rank below 2.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::tril(tensor![[1, 2], [3, 4]], 0).to_vec::<i64>(), [1, 0, 3, 4]);
/// ```
#[track_caller]
pub fn tril(x: impl AsTensor, k: isize) -> Tensor {
    let _called = called("tril");
    let x = x.as_tensor();
    let matrix = matrix("tril", &x);
    select(lower_mask(matrix, k), &*x, zero_of(&x))
}

/// Returns the matrices of the last two axes with zeros below the diagonal `k`.
///
/// # Panics
/// Raises [`Code::Shape`] for a rank below 2.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::triu(tensor![[1, 2], [3, 4]], 0).to_vec::<i64>(), [1, 2, 0, 4]);
/// ```
#[track_caller]
pub fn triu(x: impl AsTensor, k: isize) -> Tensor {
    let _called = called("triu");
    let x = x.as_tensor();
    let matrix = matrix("triu", &x);
    select(lower_mask(matrix, k.saturating_sub(1)), zero_of(&x), &*x)
}

#[track_caller]
fn zero_of(x: &Tensor) -> Tensor {
    full_of((), 0, x.dtype())
}

/// Implements NumPy's `diag`. A vector gives the square matrix with the vector on diagonal `k`, and a matrix gives its
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
    let _called = called("diag");
    let x = x.as_tensor();
    match *x.dims() {
        [n] => {
            let away = k.unsigned_abs();
            let size = n + away;
            // Below the main diagonal, the column of an element is its position in `x`; elsewhere it is the row.
            let dims = if k < 0 { (Dim::new(1), size) } else { (size, Dim::new(1)) };
            let whole = if k == 0 { x.clone().into_owned() } else { concat(&[&*x, &full_of(away, 0, x.dtype())], 0) };
            select(eye_of(size, size, k, DType::Bool), reshape(&whole, dims), zero_of(&x))
        }
        [n, m] => diagonal(&x, [n, m], k),
        _ => raise(refusal("diag", &[&x], Code::Shape, "a vector or a matrix is needed")),
    }
}

/// Returns the diagonal `k` of the last two axes, `n` by `m`, as a new last axis.
#[track_caller]
pub(in crate::ops) fn diagonal(x: &Tensor, [n, m]: [Dim; 2], k: isize) -> Tensor {
    let (down, right) = (k.min(0).unsigned_abs(), k.max(0).unsigned_abs());
    let mut dims = x.dims();
    dims.truncate(dims.len() - 2);
    dims.push(n * m);
    let flat = reshape(x, dims);
    if let (Some(n), Some(m)) = (n.as_const(), m.as_const()) {
        let count = n.saturating_sub(down).min(m.saturating_sub(right));
        let start = if count == 0 { 0 } else { down * m + right };
        let stop = if count == 0 { 0 } else { start + (count - 1) * (m + 1) + 1 };
        return flat.i((crate::tensor::Ellipsis, (start..stop).step(m as isize + 1)));
    }
    let count = (n - down).or_zero().smaller((m - right).or_zero());
    // The step between rows is symbolic, which a slice does not support.
    let step = size(m + 1, DType::I64);
    let places = iota((count,), 0, DType::I64) * step + size(m * down + right, DType::I64);
    wrapping::gather(&flat, &places, -1)
}

/// Returns `x` with `value` where `mask` is true; both broadcast.
///
/// # Panics
/// Raises [`Code::Shape`] when they do not broadcast, and [`Code::DType`] when `value` does not fit the dtype of `x`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::masked_fill(tensor![1., 2.], tensor![true, false], -1.).to_vec::<f32>(), [-1., 2.]);
/// ```
#[track_caller]
pub fn masked_fill(x: impl AsTensor, mask: impl AsTensor, value: impl IntoOperand) -> Tensor {
    let _called = called("masked_fill");
    select(mask, value, &*x.as_tensor())
}
