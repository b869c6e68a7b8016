//! The transforms as ops of tensors.

use super::plans::{complex, from_real, to_real};
use crate::custom::{AnyView, AnyViewMut, BatchedCall, Outputs, Type, Vjp};
use crate::ops;
use crate::reals::{by_dtype, check_reals};
use crate::{Code, Error, Result, Tensor};
use ms_core::error::{OrRaise, called};
use ms_core::tensor::{AsTensor, Dim};

/// The size of the transformed axis of complex numbers.
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
    /// The transform along the axis before that of the pairs, without a factor.
    fn transform(x: &Tensor, inverse: bool) -> Tensor;

    const VERSION: u32 = 1;

    fn types(x: &Type, _inverse: bool) -> Result<Type> {
        complex_size(x).map(|_| x.clone())
    }

    fn run(x: AnyView<'_>, inverse: bool, mut y: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), complex(&x, inverse, &mut y))
    }

    // The adjoint of the matrix of a transform is the matrix of the inverse one.
    fn derivative(it: &Vjp<'_>, inverse: bool) -> Tensor {
        transform(it.cotangent(), !inverse)
    }

    fn batching(lanes: &BatchedCall<'_>, _inverse: bool) -> Result<Outputs> {
        lanes.apply(lanes.attrs, lanes.inputs)
    }
}

crate::custom_op! {
    /// The first half of the transform of real numbers along the last axis, without a factor.
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

    // Frequencies that are transformed back twice, as their conjugates are, count half.
    fn derivative(it: &Vjp<'_>) -> Tensor {
        let size = known(it.inputs[0].dim(-1)).or_raise();
        transform_to_real(&(it.cotangent() * multiplicities(size, 0.5, it.cotangent())), size)
    }

    fn batching(lanes: &BatchedCall<'_>) -> Result<Outputs> {
        lanes.apply(lanes.attrs, lanes.inputs)
    }
}

crate::custom_op! {
    /// The `size` real numbers of a half of a spectrum, without a factor.
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

/// `of_others` for the frequencies of `size` real numbers that have a conjugate beside them, and 1 for the first one
/// and that in the middle, which are real: `[size / 2 + 1, 1]`.
fn multiplicities(size: usize, of_others: f64, like: &Tensor) -> Tensor {
    let count = |at: usize| if at == 0 || 2 * at == size { 1.0 } else { of_others };
    let values: Vec<f64> = (0..=size / 2).map(count).collect();
    Tensor::from_slice([values.len(), 1], &values).cast(like.dtype())
}

fn known(size: Dim) -> Result<usize> {
    size.as_const().ok_or_else(|| {
        Error::new(Code::SymbolicShape, "the gradient of `rfft` needs a size that does not vary between calls")
    })
}

/// Applies `op` with an axis moved to the end, which `behind` axes of the operand and of the result follow.
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

/// The transform along an axis: `x` is `[.., 2]`, f32 or f64, with complex numbers along the last axis, and so is the
/// result.
///
/// # Panics
/// Raises [`Code::Shape`] unless the last axis has the size 2, and for an axis without elements, [`Code::DType`] for
/// other dtypes, [`Code::OutOfRange`] for an axis that does not exist.
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

/// The inverse of [`fft`](fn@fft).
///
/// # Panics
/// As there.
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

/// The transform of real numbers along an axis of `n`: the first `n / 2 + 1` frequencies, of which the others are
/// conjugates, as complex numbers along a new last axis of two. f32 or f64.
///
/// # Panics
/// Raises [`Code::Shape`] for an axis without elements, [`Code::DType`] for other dtypes, [`Code::OutOfRange`] for an
/// axis that does not exist, and its gradient [`Code::SymbolicShape`] for a size that varies between calls.
///
/// ```
/// use ms::{fft::rfft, prelude::*};
/// assert_eq!(rfft(tensor![1.0, 2.0], -1).to_vec::<f32>(), [3.0, 0.0, -1.0, 0.0]);
/// ```
#[track_caller]
pub fn rfft(x: impl AsTensor, axis: isize) -> Tensor {
    along("rfft", &x.as_tensor(), axis, [0, 1], |x| transform_real(x))
}

/// The inverse of [`rfft`]: `size` real numbers from `size / 2 + 1` frequencies along an axis, complex numbers along
/// the last axis of two. The imaginary parts of the first frequency, and of the last one if `size` is even, are not
/// read.
///
/// # Panics
/// Raises [`Code::Shape`] unless there are as many frequencies and the last axis has the size 2, [`Code::DType`] for
/// other dtypes, [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms::{fft::irfft, prelude::*};
/// assert_eq!(irfft(tensor![[3.0, 0.0], [-1.0, 0.0]], 2, -1).to_vec::<f32>(), [1.0, 2.0]);
/// ```
#[track_caller]
pub fn irfft(x: impl AsTensor, size: usize, axis: isize) -> Tensor {
    along("irfft", &x.as_tensor(), axis, [1, 0], |x| transform_to_real(x, size) * (1.0 / size as f64))
}
