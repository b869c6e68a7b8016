//! Creation of tensors by ops, which are part of the graph while tracing.

use crate::ops::core::axis::refusal;
use crate::ops::primitive::iota::spaced;
use crate::ops::{full, full_of, iota};
use crate::tensor::{AsTensor, DType, Dim, IntoDims, Number, Scalar, Tensor, bf16, f16, is_host_only};
use ms_ir::error::{Code, called, raise};

/// Returns zeros in f32.
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::zeros([2]).to_vec::<f32>(), [0., 0.]);
/// ```
#[track_caller]
pub fn zeros(shape: impl IntoDims) -> Tensor {
    let _called = called("zeros");
    full_of(shape, 0.0, DType::F32)
}

/// Returns ones in f32.
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::ones([2]).to_vec::<f32>(), [1., 1.]);
/// ```
#[track_caller]
pub fn ones(shape: impl IntoDims) -> Tensor {
    let _called = called("ones");
    full_of(shape, 1.0, DType::F32)
}

/// Returns zeros of the shape and dtype of `x`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::zeros_like(tensor![1, 2]).to_vec::<i64>(), [0, 0]);
/// ```
#[track_caller]
pub fn zeros_like(x: impl AsTensor) -> Tensor {
    let _called = called("zeros_like");
    full_like(x, 0)
}

/// Returns ones of the shape and dtype of `x`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::ones_like(tensor![5, 6]).to_vec::<i64>(), [1, 1]);
/// ```
#[track_caller]
pub fn ones_like(x: impl AsTensor) -> Tensor {
    let _called = called("ones_like");
    full_like(x, 1)
}

/// Returns a tensor filled with `value`, of the shape and dtype of `x`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::full_like(tensor![1., 2.], 7).to_vec::<f32>(), [7., 7.]);
/// ```
#[track_caller]
pub fn full_like(x: impl AsTensor, value: impl Into<Scalar>) -> Tensor {
    let _called = called("full_like");
    let x = x.as_tensor();
    let full = full_of(x.dims(), value, x.dtype());
    match x.as_array() {
        Some(array) if !is_host_only() => full.to(array.device()),
        _ => full,
    }
}

/// The end of [`arange`]: a number, or the size of an axis.
///
/// ```
/// use ms_core::ops;
/// let x = ops::zeros([3, 2]);
/// assert_eq!(ops::arange(x.dim(0)).to_vec::<i64>(), [0, 1, 2]);
/// assert_eq!(ops::arange(2).to_vec::<i64>(), [0, 1]);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// A number.
    Number(Scalar),
    /// A size, which may be symbolic.
    Size(Dim),
}

macro_rules! stops {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Stop {
            fn from(number: $ty) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}

stops! { Scalar bool i8 i16 i32 i64 u8 u16 u32 u64 usize f16 bf16 f32 f64 }

impl From<Dim> for Stop {
    fn from(size: Dim) -> Self {
        Self::Size(size)
    }
}

/// Returns `0, 1, 2, ...` up to `stop` (exclusive): i64 for integers and sizes (`x.dim(1)`), f32 for floats.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::arange(3).to_vec::<i64>(), [0, 1, 2]);
/// assert_eq!(ops::arange(tensor![5., 6.].dim(0)).to_vec::<i64>(), [0, 1]);
/// ```
#[track_caller]
pub fn arange(stop: impl Into<Stop>) -> Tensor {
    let _called = called("arange");
    match stop.into() {
        Stop::Number(stop) => arange_of(Scalar::Int(0), stop, Scalar::Int(1), stop.default_dtype()),
        Stop::Size(size) => iota(size, 0, DType::I64),
    }
}

/// Returns `start, start + step, ...` up to `stop` (exclusive), in `dtype`. The values are computed in i64 if all three
/// arguments are integers, else in f64.
///
/// # Panics
/// Raises [`Code::Argument`] when `step` is zero, or a bound is not finite.
///
/// ```
/// use ms_core::{DType, ops};
/// assert_eq!(ops::arange_of(2, 9, 3, DType::I64).to_vec::<i64>(), [2, 5, 8]);
/// ```
#[track_caller]
pub fn arange_of(start: impl Into<Scalar>, stop: impl Into<Scalar>, step: impl Into<Scalar>, dtype: DType) -> Tensor {
    let _called = called("arange_of");
    let (start, stop, step) = (start.into(), stop.into(), step.into());
    let count = ((stop.as_f64() - start.as_f64()) / step.as_f64()).ceil();
    if !count.is_finite() {
        let message = format!("no finite number of steps of {step} from {start} to {stop}");
        raise(refusal("arange", &[], Code::Argument, message));
    }
    let float = [start, stop, step].iter().any(|it| matches!(it, Scalar::Float(_)));
    let compute = if float && dtype.is_int() { DType::F64 } else { dtype };
    crate::ops::cast(spaced([count.max(0.0) as usize], 0, start, step, compute), dtype)
}

impl Tensor {
    /// Returns zeros in f32; see [`Tensor::zeros_of`] for other dtypes.
    #[track_caller]
    pub fn zeros(shape: impl IntoDims) -> Self {
        zeros(shape)
    }

    /// Returns zeros of a dtype.
    #[track_caller]
    pub fn zeros_of(shape: impl IntoDims, dtype: DType) -> Self {
        full_of(shape, 0, dtype)
    }

    /// Returns ones in f32; see [`Tensor::ones_of`] for other dtypes.
    #[track_caller]
    pub fn ones(shape: impl IntoDims) -> Self {
        ones(shape)
    }

    /// Returns ones of a dtype.
    #[track_caller]
    pub fn ones_of(shape: impl IntoDims, dtype: DType) -> Self {
        full_of(shape, 1, dtype)
    }

    /// Returns a tensor filled with one value, in its Rust type. f64 and i32, the types of unsuffixed literals, become
    /// f32 and i64. See [`ops::full_of`](crate::ops::full_of) for other dtypes.
    #[track_caller]
    pub fn full(shape: impl IntoDims, value: impl Number) -> Self {
        full(shape, value)
    }

    /// Returns zeros of the shape and dtype of `x`.
    #[track_caller]
    pub fn zeros_like(x: impl AsTensor) -> Self {
        zeros_like(x)
    }

    /// Returns ones of the shape and dtype of `x`.
    #[track_caller]
    pub fn ones_like(x: impl AsTensor) -> Self {
        ones_like(x)
    }

    /// Returns a tensor filled with `value`, of the shape and dtype of `x`.
    #[track_caller]
    pub fn full_like(x: impl AsTensor, value: impl Into<Scalar>) -> Self {
        full_like(x, value)
    }

    /// Returns `0, 1, 2, ...` up to `stop` (exclusive).
    #[track_caller]
    pub fn arange(stop: impl Into<Stop>) -> Self {
        arange(stop)
    }

    /// Returns `num` evenly spaced f32 values from `start` to `stop`, both included.
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, num: usize) -> Self {
        crate::ops::linspace(start, stop, num)
    }

    /// Returns the `n` by `n` identity matrix in f32.
    #[track_caller]
    pub fn eye(n: impl Into<Dim>) -> Self {
        crate::ops::eye(n)
    }
}
