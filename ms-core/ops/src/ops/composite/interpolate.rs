//! Interpolation: resizing of images.

use crate::ops::core::axis::refusal;
use crate::ops::core::rules::check_not_zero;
use crate::ops::{arange, cast, clamp_min, floor_div, minimum, reshape, size, wrapping};
use crate::tensor::{AsTensor, DType, Dim, Dims, IntoDims, Tensor};
use ms_ir::error::{Code, called, raise};

/// The interpolation between elements.
///
/// See the example of [`interpolate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// Takes the element at `floor(position * size / new_size)`.
    Nearest,
    /// Takes the mean of the two neighbouring elements along each axis, weighted by distance.
    Linear {
        /// Whether the centres of the outermost elements are aligned instead of their outer edges.
        align_corners: bool,
    },
}

/// Resizes `x` `[n, c, spatial..]` to other spatial sizes, which may be symbolic.
///
/// # Panics
/// Raises [`Code::Shape`] unless `sizes` has one entry for each spatial axis, and [`Code::Argument`] for an axis
/// without elements, or integers in linear mode.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::interpolate(tensor![[[1., 2.]]], &[4], ops::Interpolation::Nearest).to_vec::<f32>(), [1., 1., 2., 2.]);
/// ```
#[track_caller]
pub fn interpolate(x: impl AsTensor, sizes: impl IntoDims, mode: Interpolation) -> Tensor {
    let _called = called("interpolate");
    let x = x.as_tensor();
    let sizes = sizes.into_dims();
    if x.rank() != sizes.len() + 2 {
        let message = format!("sizes {sizes:?} do not fit the {} spatial axes", x.rank().saturating_sub(2));
        raise(refusal("interpolate", &[&x], Code::Shape, message));
    }
    if x.dims()[2..].iter().any(|&it| it == 0) || (mode != Interpolation::Nearest && !x.dtype().is_float()) {
        raise(refusal("interpolate", &[&x], Code::Argument, "nothing lies between these elements"));
    }
    for &size in &x.dims()[2..] {
        check_not_zero(size);
    }
    if let Interpolation::Linear { .. } = mode {
        let x = &*x;
        compute_wide!(x => interpolate(x, &*sizes, mode));
    }
    sizes.iter().enumerate().fold(x.into_owned(), |x, (at, &size)| match mode {
        Interpolation::Nearest => nearest(&x, at + 2, size),
        Interpolation::Linear { align_corners } => linear(&x, at + 2, size, align_corners),
    })
}

#[track_caller]
fn nearest(x: &Tensor, axis: usize, to: Dim) -> Tensor {
    let index = floor_div(arange(to) * size(x.dims()[axis], DType::I64), size(to, DType::I64));
    wrapping::gather(x, index, axis as isize)
}

#[track_caller]
fn linear(x: &Tensor, axis: usize, to: Dim, align_corners: bool) -> Tensor {
    let from = x.dims()[axis];
    if from == to {
        return x.clone();
    }
    let sizes = [from, to].map(|it| size(it, DType::F64));
    let place = cast(arange(to), DType::F64);
    let source = match align_corners {
        true => place * (&sizes[0] - 1.0) / clamp_min(&sizes[1] - 1.0, 1.0),
        false => clamp_min((place + 0.5) * &sizes[0] / &sizes[1] - 0.5, 0.0),
    };
    let below = cast(&source, DType::I64);
    let above = minimum(&below + 1, size(from, DType::I64) - 1);
    let mut shape = Dims::from_elem(Dim::new(1), x.rank());
    shape[axis] = to;
    let weight = source - cast(&below, DType::F64);
    let part = |index: Tensor, weight: Tensor| {
        wrapping::gather(x, index, axis as isize) * cast(reshape(weight, &shape), x.dtype())
    };
    part(below, 1.0 - &weight) + part(above, weight)
}
