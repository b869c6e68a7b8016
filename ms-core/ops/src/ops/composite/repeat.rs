//! Repetition, rotation and padding, composed of views, `concat` and `gather`.

use crate::ops::core::axis::{named, refusal};
use crate::ops::core::rules::check_not_zero;
use crate::ops::primitive::slice::narrow;
use crate::ops::{
    IntoAxes, arange, broadcast_to, clamp_min, concat, flatten, full_of, minimum, normalize_axis, remainder, reshape,
    update, wrapping,
};
use crate::tensor::{AsTensor, DType, Dim, Dims, IntoDims, Scalar, Tensor, try_room};
use ms_ir::MapVec;
use ms_ir::error::{Code, OrRaise, called, raise};

/// Repeats `x` `reps[i]` times along axis `i`, as NumPy's `tile`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::tile(tensor![1, 2], &[2]).to_vec::<i64>(), [1, 2, 1, 2]);
/// ```
#[track_caller]
pub fn tile(x: impl AsTensor, reps: &[usize]) -> Tensor {
    let _called = called("tile");
    let x = x.as_tensor();
    let rank = x.rank().max(reps.len());
    let one = Dim::new(1);
    let pad = |it: Dims| -> Dims { std::iter::repeat_n(one, rank - it.len()).chain(it).collect() };
    let (shape, reps) = (pad(x.dims()), pad(reps.into_dims()));
    // Each axis becomes a pair: repetitions outside, the axis inside.
    let pairs = |sizes: &dyn Fn(usize) -> [Dim; 2]| (0..rank).flat_map(sizes).collect::<Dims>();
    let single = reshape(&*x, pairs(&|axis| [one, shape[axis]]));
    let repeated = broadcast_to(single, pairs(&|axis| [reps[axis], shape[axis]]));
    reshape(repeated, (0..rank).map(|axis| reps[axis] * shape[axis]).collect::<Dims>())
}

/// Repeats each position along `axis` `repeats` times in a row, as NumPy's `repeat`.
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::repeat(tensor![1, 2], 2, 0).to_vec::<i64>(), [1, 1, 2, 2]);
/// ```
#[track_caller]
pub fn repeat(x: impl AsTensor, repeats: usize, axis: isize) -> Tensor {
    let _called = called("repeat");
    let x = x.as_tensor();
    let axis = normalize_axis(axis, x.rank()).map_err(|it| named("repeat", &[&x], it)).or_raise();
    let mut shape = x.dims();
    shape.insert(axis + 1, Dim::new(1));
    let single = reshape(&*x, &shape);
    shape[axis + 1] = repeats.into();
    let repeated = broadcast_to(single, &shape);
    let count = shape.remove(axis + 1);
    shape[axis] = shape[axis] * count;
    reshape(repeated, shape)
}

/// Repeats each position along `axis` as often as its entry of `repeats` says.
///
/// # Panics
/// Raises [`Code::Argument`] unless there is one count for each position.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::repeat_each(tensor![1, 2, 3], &[1, 0, 2], 0).to_vec::<i64>(), [1, 3, 3]);
/// ```
#[track_caller]
pub fn repeat_each(x: impl AsTensor, repeats: &[usize], axis: isize) -> Tensor {
    let _called = called("repeat_each");
    let x = x.as_tensor();
    let at = normalize_axis(axis, x.rank()).map_err(|it| named("repeat", &[&x], it)).or_raise();
    if repeats.len() != x.shape()[at] {
        let message = format!("{} counts for {} positions along axis {at}", repeats.len(), x.shape()[at]);
        raise(refusal("repeat", &[&x], Code::Argument, message));
    }
    let count = repeats.iter().try_fold(0usize, |all, &it| all.checked_add(it));
    let room = try_room::<i64>(count.unwrap_or(usize::MAX));
    let mut positions = room.map_err(|it| named("repeat", &[&x], it)).or_raise();
    for (i, &count) in repeats.iter().enumerate() {
        positions.resize(positions.len() + count, i as i64);
    }
    let positions = Tensor::try_from_slice(positions.len(), &positions);
    wrapping::gather(&*x, positions.map_err(|it| named("repeat", &[&x], it)).or_raise(), axis)
}

/// Shifts the elements cyclically by `shifts[i]` positions along `axes[i]`.
///
/// # Panics
/// Raises [`Code::Argument`] unless there is one shift for each axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::roll(tensor![1, 2, 3, 4], &[1], 0).to_vec::<i64>(), [4, 1, 2, 3]);
/// ```
#[track_caller]
pub fn roll(x: impl AsTensor, shifts: &[isize], axes: impl IntoAxes) -> Tensor {
    let _called = called("roll");
    let x = x.as_tensor();
    let axes = axes.into_axes();
    if shifts.len() != axes.len() {
        let message = format!("{} shifts for {} axes", shifts.len(), axes.len());
        raise(refusal("roll", &[&x], Code::Argument, message));
    }
    let mut out = x.into_owned();
    for (&shift, &axis) in shifts.iter().zip(&axes) {
        let axis = normalize_axis(axis, out.rank()).map_err(|it| named("roll", &[&out], it)).or_raise();
        let size = out.dims()[axis];
        let shift = match size.as_const() {
            Some(0) => 0.into(),
            Some(size) => Dim::new(shift.rem_euclid(size as isize) as usize),
            None => {
                // Nothing moves along an axis without elements.
                let (shift, size) = (Dim::signed(shift as i64), size + 1 - size.smaller(Dim::new(1)));
                shift - size * (shift / size)
            }
        };
        if shift != 0 {
            let (head, tail) = (narrow(&out, axis, 0usize, size - shift), narrow(&out, axis, size - shift, shift));
            out = concat(&[tail, head], axis as isize);
        }
    }
    out
}

/// The source of the elements of padding.
///
/// ```
/// use ms_core::{ops, tensor};
/// use ops::PadMode;
/// let padded = |mode| ops::pad(tensor![1, 2, 3], &[(1, 1)], mode).to_vec::<i64>();
/// assert_eq!(padded(PadMode::Constant(0.into())), [0, 1, 2, 3, 0]);
/// assert_eq!(padded(PadMode::Reflect), [2, 1, 2, 3, 2]);
/// assert_eq!(padded(PadMode::Edge), [1, 1, 2, 3, 3]);
/// assert_eq!(padded(PadMode::Wrap), [3, 1, 2, 3, 1]);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PadMode {
    /// A constant value.
    Constant(Scalar),
    /// The elements mirrored at the border; the border element is not repeated.
    Reflect,
    /// The element at the border.
    Edge,
    /// The elements from the opposite end, periodically.
    Wrap,
}

impl PadMode {
    /// Returns the source position of each element of an axis of `size` that is padded with `before` elements in front
    /// and `after` at the end.
    fn sources(self, size: Dim, (before, after): (usize, usize)) -> Tensor {
        let at = arange(size + before + after) - before as i64;
        let size = |more: i64| crate::ops::size(size, DType::I64) + more;
        match self {
            Self::Edge => minimum(clamp_min(at, 0), size(-1)),
            Self::Wrap => remainder(at, size(0)),
            Self::Constant(_) | Self::Reflect => {
                // For one element the period is zero, and so is the remainder.
                let period = size(-1) * 2;
                let phase = remainder(at, &period);
                minimum(&phase, period - &phase)
            }
        }
    }
}

/// Pads `x` with `pads[i] = (before, after)` elements along each axis.
///
/// # Panics
/// Raises [`Code::Argument`] unless there is one pair for each axis. Raises it also for padding that takes elements
/// from an empty axis.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = ops::pad(tensor![1, 2], &[(1, 2)], ops::PadMode::Edge);
/// assert_eq!(x.to_vec::<i64>(), [1, 1, 2, 2, 2]);
/// ```
#[track_caller]
pub fn pad(x: impl AsTensor, pads: &[(usize, usize)], mode: PadMode) -> Tensor {
    let _called = called("pad");
    let x = x.as_tensor();
    let shape = x.dims();
    if pads.len() != shape.len() {
        let message = format!("{} pairs of widths for {} axes", pads.len(), shape.len());
        raise(refusal("pad", &[&x], Code::Argument, message));
    }
    if pads.iter().all(|&it| it == (0, 0)) {
        return x.into_owned();
    }
    if let PadMode::Constant(value) = mode {
        let padded: Dims = shape.iter().zip(pads).map(|(&size, &(before, after))| size + before + after).collect();
        let starts: Vec<i64> = pads.map_vec(|it| it.0 as i64);
        return update(&full_of(padded, value, x.dtype()), &x, &*starts, &vec![1; shape.len()]);
    }
    let mut out = x.clone().into_owned();
    for (axis, &(before, after)) in pads.iter().enumerate().filter(|(_, it)| **it != (0, 0)) {
        if shape[axis] == 0 {
            let message = format!("axis {axis} has no element to pad with");
            raise(refusal("pad", &[&x], Code::Argument, message));
        }
        check_not_zero(shape[axis]);
        out = wrapping::gather(&out, mode.sources(shape[axis], (before, after)), axis as isize);
    }
    out
}

/// Applies [`repeat`] to the flattened elements.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::repeat_flat(tensor![[1, 2]], 2).to_vec::<i64>(), [1, 1, 2, 2]);
/// ```
#[track_caller]
pub fn repeat_flat(x: impl AsTensor, repeats: usize) -> Tensor {
    let _called = called("repeat_flat");
    repeat(flatten(x, 0), repeats, 0)
}
