//! Data movement shared by reference evaluations and the libraries of backends: positions, sums of elements, traversal
//! along an axis.

use crate::ops::{Ints, StridedSliceAttrs};
use crate::tensor::{
    Array, Attrs, DType, Element, Elements, ElementsMut, HostArray, Kind, Layout, Scalar, collected, try_room,
};
use ms_ir::error::{Code, Error, Result};
pub use ms_ir::positions;
use ms_ir::with_element;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Converts rows of `k` positions along the first `k` axes of `shape` to the index of each row's slice. Also returns
/// the number of elements of a slice.
///
/// # Errors
/// [`Code::OutOfRange`] for a position outside its axis.
pub fn rows(index: &Array, shape: &[usize]) -> Result<(Vec<usize>, usize)> {
    let k = *index.shape().last().expect("an index has an axis");
    let count: usize = index.shape()[..index.layout().rank() - 1].iter().product();
    let parts = integers(index)?;
    let row = |row: usize| {
        parts[row * k..][..k].iter().zip(shape).enumerate().try_fold(0, |at, (axis, (&part, &size))| {
            let wrapped = if part < 0 { part + size as i64 } else { part };
            if wrapped < 0 || wrapped >= size as i64 {
                let message = format!("index {part} is outside axis {axis} of shape {shape:?}");
                return Err(Error::new(Code::OutOfRange, message));
            }
            Ok(at * size + wrapped as usize)
        })
    };
    let mut rows = try_room(count)?;
    for at in 0..count {
        rows.push(row(at)?);
    }
    Ok((rows, shape[k..].iter().product()))
}

/// Returns the layouts of slices of these sizes in a row-major array of `shape`. Their starts and steps are attributes,
/// by axis, slice after slice.
pub fn slices<'a>(attrs: &Attrs, shape: &[usize], sizes: impl Iterator<Item = &'a [usize]>) -> Vec<Layout> {
    let places = StridedSliceAttrs::of(attrs);
    let (all, rank, starts) = (Layout::contiguous(shape), shape.len(), places.starts().sizes());
    let place = |(at, sizes): (usize, &[usize])| {
        let own = at * rank..(at + 1) * rank;
        let steps = Ints(&places.steps().as_slice()[own.clone()]).steps();
        all.slice_all(&starts[own], sizes, &steps)
    };
    sizes.enumerate().map(place).collect()
}

/// The totals of the runs of an axis, as `cumsum` and `cumprod` combine them in f64.
///
/// [`RUN`](Self::RUN) elements are a run, which has one chain. The totals of [`GROUP`](Self::GROUP) runs have a chain,
/// and so have the totals of groups. A result is `(groups ⊕ runs) ⊕ run`. So a device may compute the chains of all
/// runs at once, then those of all groups.
#[derive(Clone, Copy, Debug)]
pub struct RunTotals {
    start: f64,
    groups: f64,
    runs: f64,
    count: usize,
}

impl RunTotals {
    /// The number of elements of a run.
    pub const RUN: usize = 64;

    /// The number of runs of a group.
    pub const GROUP: usize = 32;

    /// Returns the totals of no runs; `start` is the identity.
    pub fn new(start: f64) -> Self {
        Self { start, groups: start, runs: start, count: 0 }
    }

    /// Adds the total of the next run. Returns the total of all runs, with which the elements of the run after it are
    /// combined.
    pub fn push(&mut self, run: f64, combine: impl Fn(f64, f64) -> f64) -> f64 {
        self.runs = combine(self.runs, run);
        self.count += 1;
        if self.count.is_multiple_of(Self::GROUP) {
            self.groups = combine(self.groups, self.runs);
            self.runs = self.start;
        }
        combine(self.groups, self.runs)
    }
}

/// The function that combines an element with one that is scattered to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterReduction {
    /// The scattered element replaces the other.
    Write,
    /// Their sum by [`plus`].
    Add,
    /// Their product: floats rounded, integers wrapped, bools combined by `and`.
    Mul,
    /// The larger one, NaN if either is NaN; bools combined by `or`.
    Max,
    /// The smaller one, NaN if either is NaN; bools combined by `and`.
    Min,
}

impl ScatterReduction {
    /// Combines `a` with the scattered element `b`.
    #[inline]
    pub fn of<T: Element>(self, a: T, b: T) -> T {
        match self {
            Self::Write => b,
            Self::Add => plus(a, b),
            Self::Mul => T::from_scalar(product(a.to_scalar(), b.to_scalar())),
            Self::Max if replaces(b.to_scalar(), a.to_scalar(), Ordering::Greater) => b,
            Self::Min if replaces(b.to_scalar(), a.to_scalar(), Ordering::Less) => b,
            Self::Max | Self::Min => a,
        }
    }

    /// Combines the element `to` of `out` with the element `at` of `source`.
    pub(crate) fn apply(self, out: &mut ElementsMut<'_>, to: usize, source: Elements<'_>, at: usize) {
        let (a, b) = (out.get(to), source.get(at));
        match self {
            Self::Add => out.set(to, sum(a, b)),
            Self::Mul => out.set(to, product(a, b)),
            Self::Max if !replaces(b, a, Ordering::Greater) => {}
            Self::Min if !replaces(b, a, Ordering::Less) => {}
            Self::Write | Self::Max | Self::Min => out.copy(to, source, at, 1),
        }
    }
}

/// Whether `b` compares with `a` as `order` says, or is NaN and `a` is not.
#[inline]
pub(crate) fn replaces(b: Scalar, a: Scalar, order: Ordering) -> bool {
    match (b, a) {
        (Scalar::Float(b), Scalar::Float(a)) => !a.is_nan() && (b.is_nan() || b.partial_cmp(&a) == Some(order)),
        (Scalar::UInt(b), Scalar::UInt(a)) => b.cmp(&a) == order,
        (b, a) => b.as_i64().cmp(&a.as_i64()) == order,
    }
}

/// Returns the product of two elements of one dtype, before it is rounded or wrapped: bools are combined by `and`.
#[inline]
fn product(a: Scalar, b: Scalar) -> Scalar {
    match a.kind() {
        Kind::Float => Scalar::Float(a.as_f64() * b.as_f64()),
        Kind::Int => Scalar::Int(a.as_i64().wrapping_mul(b.as_i64())),
        Kind::Bool => Scalar::Bool(a.as_bool() && b.as_bool()),
    }
}

/// Returns the sum of two elements of one dtype, before it is rounded or wrapped: bools are combined by `or`.
#[inline]
pub(crate) fn sum(a: Scalar, b: Scalar) -> Scalar {
    match a.kind() {
        Kind::Float => Scalar::Float(a.as_f64() + b.as_f64()),
        Kind::Int => Scalar::Int(a.as_i64().wrapping_add(b.as_i64())),
        Kind::Bool => Scalar::Bool(a.as_bool() || b.as_bool()),
    }
}

/// Returns `a + b` in the dtype: floats rounded, integers wrapped, bools combined by `or`.
#[inline]
pub fn plus<T: Element>(a: T, b: T) -> T {
    T::from_scalar(sum(a.to_scalar(), b.to_scalar()))
}

/// Returns the elements of `array` in row-major order on the host. Copies them only if they are elsewhere or strided.
///
/// # Errors
/// The errors of [`Array::on_host`].
pub fn dense(array: &Array) -> Result<HostArray<'_>> {
    let host = array.on_host()?;
    if host.layout().is_contiguous() { Ok(host) } else { host.duplicate().into_host() }
}

/// Returns the elements of a dense array.
///
/// # Panics
/// If the array is not dense or of another dtype.
pub fn elements<'a, T: Element>(array: &'a HostArray<'_>) -> &'a [T] {
    array.as_slice().expect("a dense array of this dtype")
}

/// Returns the elements of a float array as f64, in row-major order.
///
/// # Errors
/// The errors of [`Array::on_host`].
pub fn wide_floats(array: &Array) -> Result<Vec<f64>> {
    let array = array.on_host()?;
    Ok(with_element!(array.dtype(), T => collected(array.iter::<T>().map(|it| it.to_scalar().as_f64()))))
}

/// Returns the elements of an array of bools or integers as i64, in row-major order.
///
/// # Errors
/// The errors of [`Array::on_host`].
pub(crate) fn integers(array: &Array) -> Result<Vec<i64>> {
    let array = array.on_host()?;
    Ok(with_element!(array.dtype(), T => collected(array.iter::<T>().map(|it| it.to_scalar().as_i64()))))
}

/// Creates a row-major array of f64 values rounded to `dtype`.
pub fn narrow_floats(values: &[f64], shape: &[usize], dtype: DType) -> Array {
    Array::from_scalars(shape, dtype, &mut |i| Scalar::Float(values[i]))
}

/// A row-major shape viewed as `[outer, size, inner]` around one axis.
#[derive(Clone, Copy)]
pub struct Axis {
    /// The product of the sizes before the axis.
    pub outer: usize,
    /// The size of the axis.
    pub size: usize,
    /// The product of the sizes after the axis.
    pub inner: usize,
}

impl Axis {
    /// Splits `shape` around `axis`.
    pub fn of(shape: &[usize], axis: usize) -> Self {
        Self { outer: shape[..axis].iter().product(), size: shape[axis], inner: shape[axis + 1..].iter().product() }
    }
}

/// Visits the elements of an index array of positions along an axis of a row-major array of `shape`. Passes the offset
/// of each element in the index array, and the offset of the element at its position.
pub fn visit_indexed(
    shape: &[usize],
    axis: usize,
    index_shape: &[usize],
    index: &[usize],
    mut visit: impl FnMut(usize, usize),
) {
    let mut strides = Layout::contiguous(shape).strides().to_vec();
    let step = std::mem::replace(&mut strides[axis], 0) as usize;
    let lines = Layout::new(index_shape.into(), strides.into(), 0);
    for (at, (line, position)) in lines.offsets().zip(index).enumerate() {
        visit(at, line + position * step);
    }
}

/// Returns the offsets of the contiguous parts with `size` positions along `axis` in a row-major array of `shape`, and
/// their length.
///
/// `start` has the first position: one for all parts, or one for each index of the leading axes.
///
/// # Errors
/// [`Code::OutOfRange`] for positions outside the axis.
pub fn parts(start: &Array, axis: usize, shape: &[usize], size: usize) -> Result<(Vec<usize>, usize)> {
    let Axis { outer, size: all, inner } = Axis::of(shape, axis);
    let mut firsts = try_room(outer)?;
    let last = all
        .checked_sub(size)
        .ok_or_else(|| Error::new(Code::OutOfRange, format!("axis {axis} of {shape:?} has no {size} positions")))?;
    let repeats = outer / start.numel().max(1);
    for first in integers(start)? {
        let Some(first) = usize::try_from(first).ok().filter(|&it| it <= last) else {
            let message = format!("{size} positions from {first} are outside axis {axis} of {shape:?}");
            return Err(Error::new(Code::OutOfRange, message));
        };
        for _ in 0..repeats {
            firsts.push((firsts.len() * all + first) * inner);
        }
    }
    Ok((firsts, size * inner))
}

/// Returns `shape` with one axis replaced by `sizes`.
pub fn replace_axis<S: Copy>(shape: &[S], axis: usize, sizes: &[S]) -> SmallVec<[S; 4]> {
    shape[..axis].iter().chain(sizes).chain(&shape[axis + 1..]).copied().collect()
}
