//! Implements index expressions: `x.i((.., 0..3, -1))`.

use super::as_tensor::AsTensor;
use super::tensor::Tensor;
use ms_ir::data::{Dim, Dims, Strides};
use ms_ir::error::{Code, Error, Result};
use smallvec::{SmallVec, smallvec};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A part of an index expression.
///
/// ```
/// use ms_core::{tensor, tensor::Index};
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// let last_column = [Index::Ellipsis, Index::At(-1)];
/// assert_eq!(x.i(&last_column[..]).to_vec::<i64>(), [3, 6]);
/// ```
#[derive(Clone, Debug)]
pub enum Index {
    /// A single index, counted from the end when negative. The axis is removed.
    At(isize),
    /// A range as in Python: bounds may be negative or open and are clamped; the axis is kept.
    Slice {
        /// The first position.
        start: Option<isize>,
        /// The position after the last one.
        stop: Option<isize>,
        /// The step, not zero; backwards when negative.
        step: isize,
    },
    /// A new axis of size one.
    NewAxis,
    /// The whole axes that the other parts leave. At most one per expression.
    Ellipsis,
    /// Indices along an axis: integers, counted from the end when negative. Their axes replace it.
    Positions(Tensor),
}

/// A new axis of size one in an index expression.
///
/// ```
/// use ms_core::{tensor, tensor::NewAxis};
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// assert_eq!(x.i((.., NewAxis)).shape(), [2, 1, 3]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewAxis;

/// All axes that the other parts of an index expression leave.
///
/// ```
/// use ms_core::{tensor, tensor::Ellipsis};
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// assert_eq!(x.i((Ellipsis, 0)).to_vec::<i64>(), [1, 4]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ellipsis;

/// A range with a step, from [`WithStep::step`].
///
/// See the example of [`WithStep`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stepped<R>(R, isize);

/// Ranges that can have a step: `x.i((0..10).step(2))`, `x.i((..).step(-1))`.
///
/// ```
/// use ms_core::{tensor, tensor::WithStep};
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// assert_eq!(x.i((0, (..).step(-1))).to_vec::<i64>(), [3, 2, 1]);
/// assert_eq!(x.i((1, (0..3).step(2))).to_vec::<i64>(), [4, 6]);
/// ```
pub trait WithStep: Sized {
    /// Adds a step to the range: every `step`-th position, backwards when negative.
    fn step(self, step: isize) -> Stepped<Self>;
}

/// A conversion to one part of an index expression.
///
/// ```
/// use ms_core::{tensor, tensor::{Index, IntoIndex}};
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// assert!(matches!((..).into_index(), Index::Slice { start: None, stop: None, step: 1 }));
/// assert_eq!(x.i(tensor![1, 0]).to_vec::<i64>(), [4, 5, 6, 1, 2, 3]);
/// ```
pub trait IntoIndex {
    /// The part.
    fn into_index(self) -> Index;
}

/// A conversion to a whole index expression: a part, a tuple of up to eight, or a slice of parts.
///
/// ```
/// use ms_core::{tensor, tensor::IntoIndices};
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// assert_eq!((0, 1..).into_indices().len(), 2);
/// assert_eq!(x.i((0, 1..)).to_vec::<i64>(), [2, 3]);
/// ```
pub trait IntoIndices {
    /// The parts.
    fn into_indices(self) -> SmallVec<[Index; 4]>;
}

impl IntoIndex for Index {
    fn into_index(self) -> Index {
        self
    }
}

impl IntoIndex for NewAxis {
    fn into_index(self) -> Index {
        Index::NewAxis
    }
}

impl IntoIndex for Ellipsis {
    fn into_index(self) -> Index {
        Index::Ellipsis
    }
}

impl IntoIndex for RangeFull {
    fn into_index(self) -> Index {
        slice(None, None)
    }
}

impl IntoIndex for Tensor {
    fn into_index(self) -> Index {
        Index::Positions(self)
    }
}

impl<T: AsTensor> IntoIndex for &T {
    fn into_index(self) -> Index {
        Index::Positions(self.as_tensor().into_owned())
    }
}

fn slice(start: Option<isize>, stop: Option<isize>) -> Index {
    Index::Slice { start, stop, step: 1 }
}

/// Converts an index to a signed number. An index that `isize` cannot represent is past the end of every axis.
fn bound(position: impl TryInto<isize>) -> isize {
    position.try_into().unwrap_or(isize::MAX)
}

/// Returns one past an inclusive end; `None` for `-1`, the last index.
fn past(end: isize) -> Option<isize> {
    (end != -1).then_some(end.saturating_add(1))
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl IntoIndex for $ty {
            fn into_index(self) -> Index {
                Index::At(bound(self))
            }
        }
        impl IntoIndex for Range<$ty> {
            fn into_index(self) -> Index {
                slice(Some(bound(self.start)), Some(bound(self.end)))
            }
        }
        impl IntoIndex for RangeInclusive<$ty> {
            fn into_index(self) -> Index {
                slice(Some(bound(*self.start())), past(bound(*self.end())))
            }
        }
        impl IntoIndex for RangeFrom<$ty> {
            fn into_index(self) -> Index {
                slice(Some(bound(self.start)), None)
            }
        }
        impl IntoIndex for RangeTo<$ty> {
            fn into_index(self) -> Index {
                slice(None, Some(bound(self.end)))
            }
        }
        impl IntoIndex for RangeToInclusive<$ty> {
            fn into_index(self) -> Index {
                slice(None, past(bound(self.end)))
            }
        }
        impl IntoIndices for $ty {
            fn into_indices(self) -> SmallVec<[Index; 4]> {
                smallvec![self.into_index()]
            }
        }
    )*};
}

integers! { usize isize i32 i64 u32 }

macro_rules! single_parts {
    ($($ty:ty $(where $t:ident)?);* $(;)?) => {$(
        impl$(<$t>)? IntoIndices for $ty where $ty: IntoIndex {
            fn into_indices(self) -> SmallVec<[Index; 4]> {
                smallvec![self.into_index()]
            }
        }
    )*};
}

single_parts! {
    Index; NewAxis; Ellipsis; RangeFull; Range<T> where T; RangeInclusive<T> where T; RangeFrom<T> where T;
    RangeTo<T> where T; RangeToInclusive<T> where T; Stepped<T> where T; Tensor;
}

impl<T: AsTensor> IntoIndices for &T {
    fn into_indices(self) -> SmallVec<[Index; 4]> {
        smallvec![self.into_index()]
    }
}

macro_rules! stepped {
    ($($ty:ty $(where $t:ident)?);* $(;)?) => {$(
        impl$(<$t>)? WithStep for $ty where $ty: IntoIndex {
            fn step(self, step: isize) -> Stepped<Self> {
                Stepped(self, step)
            }
        }
    )*};
}

stepped! {
    RangeFull; Range<T> where T; RangeInclusive<T> where T; RangeFrom<T> where T; RangeTo<T> where T;
    RangeToInclusive<T> where T;
}

impl<R: IntoIndex> IntoIndex for Stepped<R> {
    fn into_index(self) -> Index {
        match self.0.into_index() {
            Index::Slice { start, stop, .. } => Index::Slice { start, stop, step: self.1 },
            other => other,
        }
    }
}

impl IntoIndices for &[Index] {
    fn into_indices(self) -> SmallVec<[Index; 4]> {
        self.iter().cloned().collect()
    }
}

impl IntoIndices for () {
    fn into_indices(self) -> SmallVec<[Index; 4]> {
        SmallVec::new()
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: IntoIndex),+> IntoIndices for ($($name,)+) {
            #[allow(non_snake_case)]
            fn into_indices(self) -> SmallVec<[Index; 4]> {
                let ($($name,)+) = self;
                smallvec![$($name.into_index()),+]
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

/// An index expression applied to a shape: a slice of every axis, then a reshape.
///
/// ```
/// use ms_core::tensor::{Dim, Index, Selection};
/// let of = Selection::resolve(&[Index::At(-1)], &[Dim::new(2), Dim::new(3)])?;
/// assert_eq!((of.starts[0], of.shape[..].to_vec()), (Dim::new(1), vec![Dim::new(3)]));
/// # Ok::<(), ms_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The first position along each axis.
    pub starts: Dims,
    /// The number of positions along each axis.
    pub sizes: Dims,
    /// The distance between indices along each axis.
    pub steps: Strides,
    /// The shape of the result, without the axes that an integer selects and with the new ones.
    pub shape: Dims,
}

impl Selection {
    /// Resolves `indices` against a tensor of `shape`. Axes indexed by a tensor are selected whole. Bounds are clamped
    /// to the axis, as in Python.
    ///
    /// # Errors
    /// [`Code::OutOfRange`] for an integer outside its axis or more parts than axes, [`Code::Argument`] for a step of
    /// zero or a second ellipsis.
    pub fn resolve(indices: &[Index], shape: &[Dim]) -> Result<Self> {
        let used = indices.iter().filter(|it| !matches!(it, Index::NewAxis | Index::Ellipsis)).count();
        let Some(rest) = shape.len().checked_sub(used) else {
            let message = format!("{used} indices for a tensor of {} axes, shape {shape:?}", shape.len());
            return Err(Error::new(Code::OutOfRange, message));
        };
        if indices.iter().filter(|it| matches!(it, Index::Ellipsis)).count() > 1 {
            return Err(Error::new(Code::Argument, "an index expression has one ellipsis at most"));
        }
        let mut out = Self { starts: Dims::new(), sizes: Dims::new(), steps: Strides::new(), shape: Dims::new() };
        for index in indices {
            match *index {
                Index::At(at) => out.position(at, shape)?,
                Index::Slice { start, stop, step } => out.range(start, stop, step, shape)?,
                Index::NewAxis => out.shape.push(Dim::new(1)),
                Index::Ellipsis => out.whole(rest, shape),
                Index::Positions(_) => out.whole(1, shape),
            }
        }
        out.whole(shape.len() - out.starts.len(), shape);
        Ok(out)
    }

    fn position(&mut self, at: isize, shape: &[Dim]) -> Result<()> {
        let axis = self.starts.len();
        self.sizes.push(Dim::new(1));
        self.steps.push(1);
        let Some(size) = shape[axis].as_const() else {
            self.starts.push(place(at, shape[axis]));
            return Ok(());
        };
        let size = size as isize;
        if !(-size..size).contains(&at) {
            let message = format!("index {at} is outside axis {axis} of shape {shape:?}");
            return Err(Error::new(Code::OutOfRange, message).help(format!(
                "indices of this axis go from {} to {}",
                -size,
                size - 1
            )));
        }
        self.starts.push(place(at, shape[axis]));
        Ok(())
    }

    fn range(&mut self, start: Option<isize>, stop: Option<isize>, step: isize, shape: &[Dim]) -> Result<()> {
        if step == 0 {
            return Err(Error::new(Code::Argument, "the step of a slice is not zero"));
        }
        let size = shape[self.starts.len()];
        let Some(size) = size.as_const() else {
            let (start, count) = symbolic_range(start, stop, step, size);
            self.push(start, count, step);
            return Ok(());
        };
        let size = size as isize;
        // Python's clamping: backwards slices may stop before the first position.
        let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let clamp = |bound: isize| if bound < 0 { bound.saturating_add(size).max(low) } else { bound.min(high) };
        let start = start.map_or(if step > 0 { low } else { high }, clamp);
        let stop = stop.map_or(if step > 0 { high } else { low }, clamp);
        let distance = if step > 0 { stop - start } else { start - stop };
        let count = if distance > 0 { (distance as usize).div_ceil(step.unsigned_abs()) } else { 0 };
        self.push(Dim::new(if count == 0 { 0 } else { start as usize }), count.into(), step);
        Ok(())
    }

    fn push(&mut self, start: Dim, count: Dim, step: isize) {
        self.starts.push(start);
        self.sizes.push(count);
        self.steps.push(step);
        self.shape.push(count);
    }

    fn whole(&mut self, axes: usize, shape: &[Dim]) {
        (0..axes).for_each(|_| self.push(Dim::new(0), shape[self.starts.len()], 1));
    }

    /// Returns whether every element is selected, in order.
    pub fn is_whole(&self, shape: &[Dim]) -> bool {
        let one = |size: Dim| size.as_const().is_some_and(|it| it <= 1);
        self.sizes[..] == *shape && self.steps.iter().zip(shape).all(|(&step, &size)| step == 1 || one(size))
    }
}

/// Returns the first position and the length of a range of an axis of symbolic size. The bounds are clamped.
fn symbolic_range(start: Option<isize>, stop: Option<isize>, step: isize, size: Dim) -> (Dim, Dim) {
    // The ends of the axis in the direction of the step: one past the last position, and the clamp of a bound before
    // the axis.
    let (high, low) = if step > 0 { (size, Dim::new(0)) } else { (size - 1, Dim::signed(-1)) };
    let clamp = |bound: isize| match bound < 0 {
        true => size - (size - low).smaller(Dim::new(bound.unsigned_abs())),
        false => high.smaller(Dim::new(bound as usize)),
    };
    let start = start.map_or(if step > 0 { low } else { high }, clamp);
    let stop = stop.map_or(if step > 0 { high } else { low }, clamp);
    let distance = if step > 0 { stop - start } else { start - stop };
    let count = (distance.or_zero() + (step.unsigned_abs() - 1)) / step.unsigned_abs();
    // An empty range can begin before the axis.
    (if step > 0 { start } else { start.or_zero() }, count)
}

/// Returns an index of an axis, counted from its end when negative.
fn place(at: isize, size: Dim) -> Dim {
    if at < 0 { size - at.unsigned_abs() } else { Dim::new(at as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::data::Layout;

    /// Returns the positions that an expression selects from `0..numel` in row-major order, and its shape.
    fn select(shape: &[usize], indices: impl IntoIndices) -> Result<(Vec<usize>, Vec<usize>)> {
        let dims: Dims = shape.iter().map(|&it| Dim::new(it)).collect();
        let it = Selection::resolve(&indices.into_indices(), &dims)?;
        let sizes =
            |dims: Dims| dims.iter().map(|it| it.as_const().expect("the shape is constant")).collect::<Vec<_>>();
        let layout = Layout::contiguous(shape).slice_all(&sizes(it.starts), &sizes(it.sizes), &it.steps);
        Ok((layout.offsets().collect(), sizes(it.shape)))
    }

    fn check(shape: &[usize], indices: impl IntoIndices, places: &[usize], want: &[usize]) {
        let (got, result) = select(shape, indices).expect("the expression is valid");
        assert_eq!((got.as_slice(), result.as_slice()), (places, want));
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn expressions_select_as_in_python() {
        check(&[4], 1, &[1], &[]);
        check(&[4], -1, &[3], &[]);
        check(&[4], 1usize.., &[1, 2, 3], &[3]);
        check(&[4], ..-1, &[0, 1, 2], &[3]);
        check(&[4], ..=-1, &[0, 1, 2, 3], &[4]);
        check(&[4], 1..=2, &[1, 2], &[2]);
        check(&[4], 2..9, &[2, 3], &[2]);
        check(&[4], -9..2, &[0, 1], &[2]);
        check(&[4], 3..1, &[], &[0]);
        check(&[4], (..).step(-1), &[3, 2, 1, 0], &[4]);
        check(&[9], (-2..).step(-2), &[7, 5, 3, 1], &[4]);
        check(&[10], (8..1).step(-3), &[8, 5, 2], &[3]);
        check(&[2, 3], (.., 0..2, NewAxis), &[0, 1, 3, 4], &[2, 2, 1]);
        check(&[2, 3], (Ellipsis, -1), &[2, 5], &[2]);
        check(&[2, 3], (NewAxis, 1), &[3, 4, 5], &[1, 3]);
        check(&[2, 2, 2], (1, Ellipsis, 0), &[4, 6], &[2]);
        check(&[0, 3], (.., 1), &[], &[0]);
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let code = |it: Result<_>| it.expect_err("refused").code();
        assert_eq!(code(select(&[4], 4)), Code::OutOfRange);
        assert_eq!(code(select(&[4], -5)), Code::OutOfRange);
        assert_eq!(code(select(&[4], (0, 0))), Code::OutOfRange);
        assert_eq!(code(select(&[0], 0)), Code::OutOfRange);
        assert_eq!(code(select(&[4], (..).step(0))), Code::Argument);
        assert_eq!(code(select(&[4], (Ellipsis, Ellipsis))), Code::Argument);
    }
}
