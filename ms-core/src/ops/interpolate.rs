//! `interpolate`: pictures in another size.

use super::axis::{named, positions, refusal};
use super::{add, gather, mul, reshape};
use crate::error::{Code, OrRaise, raise};
use crate::tensor::{AsTensor, Shape, Tensor};

/// How places between the elements are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// By the element at `floor(place * size / new_size)`.
    Nearest,
    /// By the mean of the two elements around it along each axis, weighted by distance.
    Linear {
        /// Whether the outermost elements stay at the ends; if not, elements are squares whose
        /// outer edges stay.
        align_corners: bool,
    },
}

/// `x` `[n, c, spatial..]` with other spatial sizes.
///
/// # Panics
/// Raises [`Code::Shape`] unless `sizes` has one entry for each spatial axis, and
/// [`Code::Argument`] for an axis without elements, or integers in linear mode.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::interpolate(tensor![[[1., 2.]]], &[4], ops::Interpolation::Nearest).to_vec::<f32>(), [1., 1., 2., 2.]);
/// ```
#[track_caller]
pub fn interpolate(x: impl AsTensor, sizes: &[usize], mode: Interpolation) -> Tensor {
    let x = x.as_tensor();
    if x.rank() != sizes.len() + 2 {
        let message = format!("sizes {sizes:?} do not fit the {} spatial axes", x.rank().saturating_sub(2));
        raise(refusal("interpolate", &[&x], Code::Shape, message));
    }
    if x.dims()[2..].iter().any(|&it| it == 0) || (mode != Interpolation::Nearest && !x.dtype().is_float()) {
        raise(refusal("interpolate", &[&x], Code::Argument, "nothing lies between these elements"));
    }
    sizes.iter().enumerate().fold(x.into_owned(), |x, (at, &size)| match mode {
        Interpolation::Nearest => nearest(&x, at + 2, size),
        Interpolation::Linear { align_corners } => linear(&x, at + 2, size, align_corners),
    })
}

/// The size of an axis, from which positions are computed.
#[track_caller]
fn constant(x: &Tensor, axis: usize) -> usize {
    let refuse = || refusal("interpolate", &[x], Code::Shape, format!("axis {axis} has a symbolic size"));
    x.dims()[axis].as_const().ok_or_else(refuse).or_raise()
}

#[track_caller]
fn nearest(x: &Tensor, axis: usize, size: usize) -> Tensor {
    let from = constant(x, axis);
    let source = |place: usize| (place as u128 * from as u128 / size as u128) as i64;
    let index = positions(size, source).map_err(|it| named("interpolate", &[x], it)).or_raise();
    gather(x, Tensor::from(index), axis as isize)
}

#[track_caller]
fn linear(x: &Tensor, axis: usize, size: usize, align_corners: bool) -> Tensor {
    let from = constant(x, axis);
    if from == size {
        return x.clone();
    }
    let source = |place: usize| match align_corners {
        true => place as f64 * (from - 1) as f64 / (size.max(2) - 1) as f64,
        false => ((place as f64 + 0.5) * from as f64 / size as f64 - 0.5).max(0.0),
    };
    let below = positions(size, |place| source(place) as i64);
    let below = below.map_err(|it| named("interpolate", &[x], it)).or_raise();
    let above: Vec<i64> = below.iter().map(|&it| (it + 1).min(from as i64 - 1)).collect();
    let weights: Vec<f64> = (0..size).map(|place| source(place).fract()).collect();
    let mut shape = Shape::from_elem(1, x.rank());
    shape[axis] = size;
    let part = |index: Vec<i64>, weights: Vec<f64>| {
        let weights = super::cast(reshape(Tensor::from(weights), &shape), x.dtype());
        mul(gather(x, Tensor::from(index), axis as isize), weights)
    };
    let rest = weights.iter().map(|it| 1.0 - it).collect();
    add(part(below, rest), part(above, weights))
}
