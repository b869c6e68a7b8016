//! Fourier transforms as differentiable ops on tensors.

use super::plans::{complex, from_real, to_real};
use crate::custom::{AnyView, AnyViewMut, BatchedCall, Outputs, Type, Vjp};
use crate::ops;
use crate::reals::{by_dtype, check_reals};
use crate::{Code, Error, Result, Tensor};
use ms_core::error::{OrRaise, called};
use ms_core::tensor::{AsTensor, Dim};

/// Returns the size of the transformed axis of a complex tensor.
fn complex_size(x: &Type) -> Result<Dim> {
    check_reals("transformed elements", x)?;
    match &x.dims[..] {
        [.., size, pair] if pair.may_equal(Dim::new(2)) && *size != Dim::new(0) => Ok(*size),
        _ => {
            let message = format!("{x} has no elements that are complex numbers, a last axis of 2");
            Err(Error::new(Code::Shape, message))
        }
    }
}

crate::custom_op! {
    /// Computes the unnormalised complex transform along the next-to-last axis; the last axis holds the complex pairs.
    fn transform(x: &Tensor, inverse: bool) -> Tensor;

    const VERSION: u32 = 1;

    fn types(x: &Type, _inverse: bool) -> Result<Type> {
        complex_size(x).map(|_| x.clone())
    }

    fn run(x: AnyView<'_>, inverse: bool, mut y: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), complex(&x, inverse, &mut y))
    }

    // The transform matrix is symmetric, so its adjoint is the inverse transform without a factor.
    fn derivative(it: &Vjp<'_>, inverse: bool) -> Tensor {
        transform(it.cotangent(), !inverse)
    }

    fn batching(lanes: &BatchedCall<'_>, _inverse: bool) -> Result<Outputs> {
        lanes.apply(lanes.attrs, lanes.inputs)
    }
}

crate::custom_op! {
    /// Computes the unnormalised half spectrum of real numbers along the last axis.
    fn transform_real(x: &Tensor) -> Tensor;

    const VERSION: u32 = 1;

    fn types(x: &Type) -> Result<Type> {
        check_reals("transformed elements", x)?;
        match &x.dims[..] {
            [batch @ .., size] if *size != Dim::new(0) => {
                let last = [*size / 2 + 1, Dim::new(2)];
                Ok(Type::new(x.dtype, batch.iter().copied().chain(last).collect()))
            }
            _ => Err(Error::new(Code::Shape, format!("{x} has no elements along an axis"))),
        }
    }

    fn run(x: AnyView<'_>, mut y: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), from_real(&x, &mut y))
    }

    // `transform_to_real` adds each inner frequency twice, once as its conjugate, so inner frequencies count half.
    fn derivative(it: &Vjp<'_>) -> Tensor {
        let size = known(it.inputs[0].dim(-1)).or_raise();
        transform_to_real(&(it.cotangent() * multiplicities(size, 0.5, it.cotangent())), size)
    }

    fn batching(lanes: &BatchedCall<'_>) -> Result<Outputs> {
        lanes.apply(lanes.attrs, lanes.inputs)
    }
}

crate::custom_op! {
    /// Computes `size` real numbers from a half spectrum, without a factor.
    fn transform_to_real(x: &Tensor, size: usize) -> Tensor;

    const VERSION: u32 = 1;

    fn types(x: &Type, size: usize) -> Result<Type> {
        let half = complex_size(x)?;
        if size == 0 || !half.may_equal(Dim::new(size / 2 + 1)) {
            let message = format!("{size} numbers have a spectrum of {}, and {x} is of {half}", size / 2 + 1);
            return Err(Error::new(Code::Shape, message));
        }
        let batch = &x.dims[..x.rank() - 2];
        Ok(Type::new(x.dtype, batch.iter().copied().chain([Dim::new(size)]).collect()))
    }

    fn run(x: AnyView<'_>, _size: usize, mut y: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), to_real(&x, &mut y))
    }

    fn derivative(it: &Vjp<'_>, size: usize) -> Tensor {
        transform_real(it.cotangent()) * multiplicities(size, 2.0, it.cotangent())
    }

    fn batching(lanes: &BatchedCall<'_>, _size: usize) -> Result<Outputs> {
        lanes.apply(lanes.attrs, lanes.inputs)
    }
}

/// Returns the weights of a half spectrum, `[size / 2 + 1, 1]`. Frequency zero and frequency `size / 2` are real and
/// have weight 1. All other frequencies also stand for their conjugates and have weight `conjugate_weight`.
fn multiplicities(size: usize, conjugate_weight: f64, like: &Tensor) -> Tensor {
    let count = |at: usize| if at == 0 || 2 * at == size { 1.0 } else { conjugate_weight };
    let values: Vec<f64> = (0..=size / 2).map(count).collect();
    Tensor::from_slice([values.len(), 1], &values).cast(like.dtype())
}

fn known(size: Dim) -> Result<usize> {
    size.as_const().ok_or_else(|| {
        Error::new(Code::SymbolicShape, "the gradient of `rfft` needs a size that does not vary between calls")
    })
}

/// Moves `axis` to the end, applies `op`, and moves the axis back. `behind` counts the trailing axes after it in the
/// operand and in the result: one for complex pairs, otherwise zero.
#[track_caller]
fn along(
    name: &'static str,
    x: &Tensor,
    axis: isize,
    behind: [isize; 2],
    op: impl FnOnce(&Tensor) -> Tensor,
) -> Tensor {
    let _called = called(name);
    let rank = x.rank() as isize - behind[0];
    if !(-rank..rank).contains(&axis) {
        let message = format!("axis {axis} of {}, whose numbers have {} axes", x.ty(), rank.max(0));
        return Err(Error::new(Code::OutOfRange, message).with_op(name)).or_raise();
    }
    let axis = if axis < 0 { axis + rank } else { axis };
    ops::move_axis(op(&ops::move_axis(x, axis, -1 - behind[0])), -1 - behind[1], axis)
}

/// Computes the discrete Fourier transform along an axis. `x` is `[.., 2]`, f32 or f64, with complex numbers along the
/// last axis; the result has the same shape and dtype.
///
/// # Panics
/// Raises [`Code::Shape`] unless the last axis has the size 2, and for an axis without elements. Raises [`Code::DType`]
/// for other dtypes, and [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms::{fft::fft, prelude::*};
/// let x = tensor![[1.0, 0.0], [0.0, 1.0]];                 // 1 and i
/// assert_eq!(fft(&x, -1).to_vec::<f32>(), [1.0, 1.0, 1.0, -1.0]);
/// ```
#[track_caller]
pub fn fft(x: impl AsTensor, axis: isize) -> Tensor {
    along("fft", &x.as_tensor(), axis, [1, 1], |x| transform(x, false))
}

/// Computes the inverse of [`fft`](fn@fft), with the factor `1 / n`.
///
/// # Panics
/// Raises the errors of [`fft`](fn@fft).
///
/// ```
/// use ms::{fft::{fft, ifft}, prelude::*};
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
/// assert_eq!(ifft(fft(&x, 0), 0).to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn ifft(x: impl AsTensor, axis: isize) -> Tensor {
    along("ifft", &x.as_tensor(), axis, [1, 1], |x| transform(x, true) / ops::size(x.dim(-2), x.dtype()))
}

/// Computes the transform of `n` real numbers along an axis, f32 or f64. The result holds the first `n / 2 + 1`
/// frequencies as complex numbers, along a new last axis of two. The other frequencies are their conjugates.
///
/// # Panics
/// Raises [`Code::Shape`] for an axis without elements, [`Code::DType`] for other dtypes, and [`Code::OutOfRange`] for
/// an axis that does not exist. The gradient raises [`Code::SymbolicShape`] for a size that varies between calls.
///
/// ```
/// use ms::{fft::rfft, prelude::*};
/// assert_eq!(rfft(tensor![1.0, 2.0], -1).to_vec::<f32>(), [3.0, 0.0, -1.0, 0.0]);
/// ```
#[track_caller]
pub fn rfft(x: impl AsTensor, axis: isize) -> Tensor {
    along("rfft", &x.as_tensor(), axis, [0, 1], |x| transform_real(x))
}

/// Computes the inverse of [`rfft`]: `size` real numbers from `size / 2 + 1` frequencies along an axis. The last axis
/// of two holds the complex numbers. The imaginary part of the first frequency is ignored, and so is that of the last
/// one if `size` is even.
///
/// # Panics
/// Raises [`Code::Shape`] unless the axis has `size / 2 + 1` frequencies and the last axis has the size 2. Raises
/// [`Code::DType`] for other dtypes, and [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms::{fft::irfft, prelude::*};
/// assert_eq!(irfft(tensor![[3.0, 0.0], [-1.0, 0.0]], 2, -1).to_vec::<f32>(), [1.0, 2.0]);
/// ```
#[track_caller]
pub fn irfft(x: impl AsTensor, size: usize, axis: isize) -> Tensor {
    along("irfft", &x.as_tensor(), axis, [1, 0], |x| transform_to_real(x, size) * (1.0 / size as f64))
}
