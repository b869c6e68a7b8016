//! Defines shapes, strides and the index arithmetic of views.

use crate::error::{Code, Error, Result};
use smallvec::SmallVec;
use std::fmt::Debug;

/// Sizes of the dimensions, outermost first.
///
/// ```
/// use ms_core::tensor::{Shape, count};
/// let shape = Shape::from_slice(&[2, 3]);
/// assert_eq!(count(&shape), Some(6));
/// ```
pub type Shape = SmallVec<[usize; 4]>;

/// Strides: distances between neighbours along each dimension, in elements. Zero repeats, negative runs backwards.
///
/// See the example of [`Layout`].
pub type Strides = SmallVec<[isize; 4]>;

/// The positions of the elements of an array in its storage.
///
/// ```
/// use ms_core::tensor::Layout;
/// let rows = Layout::contiguous(&[2, 3]);
/// let columns = rows.permute(&[1, 0]);
/// assert_eq!((rows.strides(), columns.strides()), (&[3, 1][..], &[1, 3][..]));
/// assert_eq!(columns.offsets().collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
/// ```
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    shape: Shape,
    strides: Strides,
    offset: usize,
}

impl Clone for Layout {
    #[inline]
    fn clone(&self) -> Self {
        Self { shape: small_copy(&self.shape), strides: small_copy(&self.strides), offset: self.offset }
    }
}

/// Copies a slice. A few elements are copied one by one, which takes fewer instructions than a call of `memcpy`.
#[inline]
fn small_copy<T: Copy + Default>(slice: &[T]) -> SmallVec<[T; 4]> {
    if slice.len() > 4 {
        return SmallVec::from_slice(slice);
    }
    let element = |at: usize| slice.get(at).copied().unwrap_or_default();
    SmallVec::from_buf_and_len([element(0), element(1), element(2), element(3)], slice.len())
}

impl Layout {
    /// Returns the row-major layout without gaps, from the first element of the storage.
    pub fn contiguous(shape: &[usize]) -> Self {
        Self { strides: contiguous_strides(shape), shape: small_copy(shape), offset: 0 }
    }

    /// Creates a layout from its parts.
    ///
    /// # Panics
    /// Panics unless there are as many strides as dimensions.
    pub fn new(shape: Shape, strides: Strides, offset: usize) -> Self {
        assert_eq!(shape.len(), strides.len(), "every dimension has a stride");
        Self { shape, strides, offset }
    }

    /// Returns the sizes of the dimensions.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the strides in elements.
    #[inline]
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Returns the position of element `[0, 0, ...]`, in elements.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements: their [`count`] if it does not overflow, as in every array, and modulo 2⁶⁴
    /// otherwise.
    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.iter().fold(1, |all, &size| all.wrapping_mul(size))
    }

    /// Returns whether every element is among the first `elements` of the storage, and their number fits `usize`. An
    /// empty view always fits.
    pub fn fits(&self, elements: usize) -> bool {
        match count(&self.shape) {
            None => false,
            Some(0) => true,
            Some(_) => {
                let (first, last) = self.reach();
                first >= 0 && last < elements as i128
            }
        }
    }

    /// Returns the offsets of the first element in memory and of the end of the last one, for a view of an array. They
    /// are equal if the view is empty.
    pub fn range(&self) -> (usize, usize) {
        if self.numel() == 0 {
            return (0, 0);
        }
        let (first, last) = self.reach();
        (first as usize, last as usize + 1)
    }

    /// Returns the least and the greatest offset of an element.
    fn reach(&self) -> (i128, i128) {
        let (mut first, mut last) = (self.offset as i128, self.offset as i128);
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            // Neither factor has more than 64 bits, but sums of such products may have more than 128.
            let reach = (size as i128 - 1) * stride as i128;
            first = first.saturating_add(reach.min(0));
            last = last.saturating_add(reach.max(0));
        }
        (first, last)
    }

    /// Returns whether elements are in row-major order without gaps. Axes of size one may have any stride.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if size != 1 && stride != step {
                return size == 0 || self.numel() == 0;
            }
            // The product wraps only for shapes without elements, for which strides do not matter.
            step = step.wrapping_mul(size as isize);
        }
        true
    }

    /// Broadcasts the layout to `shape` by NumPy's rules.
    ///
    /// # Errors
    /// [`Code::Shape`] when this shape does not broadcast to `shape`.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        let refuse = || Error::new(Code::Shape, format!("shape {:?} does not broadcast to {shape:?}", self.shape()));
        let extra = shape.len().checked_sub(self.rank()).ok_or_else(refuse)?;
        let mut strides: Strides = SmallVec::from_elem(0, extra);
        for (axis, &size) in shape[extra..].iter().enumerate() {
            match self.shape[axis] {
                it if it == size => strides.push(self.strides[axis]),
                1 => strides.push(0),
                _ => return Err(refuse()),
            }
        }
        Ok(Self { shape: shape.into(), strides, offset: self.offset })
    }

    /// Permutes the dimensions to the order of `axes`, which is a permutation.
    pub fn permute(&self, axes: &[usize]) -> Self {
        Self {
            shape: axes.iter().map(|&axis| self.shape[axis]).collect(),
            strides: axes.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// Slices `axis`: `size` elements from `start`, `step` apart. `step` may be negative.
    pub fn slice(&self, axis: usize, start: usize, size: usize, step: isize) -> Self {
        let mut out = self.clone();
        // The offset of an empty view stays, since it might move outside the storage.
        if size > 0 && !self.shape.contains(&0) {
            let moved = (start as isize).saturating_mul(self.strides[axis]);
            out.offset = out.offset.saturating_add_signed(moved);
        }
        out.shape[axis] = size;
        // Without a second element any stride is valid, and a huge step would overflow.
        if size > 1 {
            out.strides[axis] = out.strides[axis].saturating_mul(step);
        }
        out
    }

    /// Slices each axis: `sizes` elements from `starts`, `steps` apart.
    pub fn slice_all(&self, starts: &[usize], sizes: &[usize], steps: &[isize]) -> Self {
        (0..self.rank()).fold(self.clone(), |layout, axis| layout.slice(axis, starts[axis], sizes[axis], steps[axis]))
    }

    /// Returns the same elements in row-major order under another shape, if that needs no copy.
    pub fn reshape(&self, shape: &[usize]) -> Option<Self> {
        if self.numel() == 0 {
            return Some(Self { offset: self.offset, ..Self::contiguous(shape) });
        }
        // Merge runs of dense dimensions, then split them according to the new shape.
        let mut runs: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            if size == 1 {
                continue;
            }
            match runs.last_mut() {
                Some((total, inner)) if *inner == stride * size as isize => {
                    *total *= size;
                    *inner = stride;
                }
                _ => runs.push((size, stride)),
            }
        }
        let mut strides: Strides = SmallVec::from_elem(0, shape.len());
        let mut axis = shape.len();
        for &(total, stride) in runs.iter().rev() {
            let mut left = total;
            let mut step = stride;
            while left > 1 {
                axis = axis.checked_sub(1)?;
                let size = shape[axis];
                strides[axis] = step;
                if left % size != 0 {
                    return None;
                }
                left /= size;
                step *= size as isize;
            }
        }
        Some(Self { shape: shape.into(), strides, offset: self.offset })
    }

    /// Returns the positions of all elements in row-major order.
    pub fn offsets(&self) -> Offsets<'_> {
        Offsets {
            layout: self,
            index: SmallVec::from_elem(0, self.rank()),
            at: self.offset as isize,
            left: self.numel(),
        }
    }
}

/// The iterator of [`Layout::offsets`].
pub struct Offsets<'a> {
    layout: &'a Layout,
    index: Shape,
    at: isize,
    left: usize,
}

impl Iterator for Offsets<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let here = self.at;
        for axis in (0..self.index.len()).rev() {
            self.index[axis] += 1;
            self.at += self.layout.strides[axis];
            if self.index[axis] < self.layout.shape[axis] {
                break;
            }
            self.at -= self.layout.strides[axis] * self.layout.shape[axis] as isize;
            self.index[axis] = 0;
        }
        Some(here as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Offsets<'_> {}

/// Returns the strides of a row-major array without gaps.
#[inline]
pub fn contiguous_strides(shape: &[usize]) -> Strides {
    let mut strides = match shape.len() {
        rank @ 0..=4 => Strides::from_buf_and_len([1; 4], rank),
        rank => Strides::from_elem(1, rank),
    };
    for axis in (1..shape.len()).rev() {
        // Strides overflow only for a shape that no array has, or one without elements.
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1) as isize);
    }
    strides
}

/// Returns the number of elements of a shape, unless it exceeds `usize::MAX`.
///
/// ```
/// use ms_core::tensor::count;
/// assert_eq!((count(&[2, 3]), count(&[]), count(&[usize::MAX, 2])), (Some(6), Some(1), None));
/// ```
#[inline]
pub fn count(shape: &[usize]) -> Option<usize> {
    let (mut all, mut overflows) = (1usize, false);
    for &size in shape {
        let (product, overflow) = all.overflowing_mul(size);
        (all, overflows) = (product, overflows | overflow);
    }
    match overflows {
        false => Some(all),
        true => shape.contains(&0).then_some(0),
    }
}

/// Returns the shape of an elementwise op on two shapes, by NumPy's rules.
///
/// ```
/// use ms_core::tensor::broadcast_shapes;
/// assert_eq!(broadcast_shapes(&[2, 1], &[3])?[..], [2, 3]);
/// assert!(broadcast_shapes(&[2], &[3]).is_err());
/// # Ok::<(), ms_core::Error>(())
/// ```
///
/// # Errors
/// [`Code::Shape`] when sizes differ and neither is one.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Result<Shape> {
    broadcast_sizes(a, b)
}

/// Broadcasts sizes of any kind like [`broadcast_shapes`].
///
/// ```
/// use ms_core::tensor::{Dim, broadcast_sizes};
/// let (batch, three) = (Dim::symbol("batch"), Dim::new(3));
/// assert_eq!(broadcast_sizes(&[batch, Dim::new(1)], &[three])?[..], [batch, three]);
/// # Ok::<(), ms_core::Error>(())
/// ```
///
/// # Errors
/// See [`broadcast_shapes`].
pub fn broadcast_sizes<S>(a: &[S], b: &[S]) -> Result<SmallVec<[S; 4]>>
where
    S: Copy + PartialEq + PartialEq<usize> + Debug,
{
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let extra = long.len() - short.len();
    let mut out: SmallVec<[S; 4]> = long.into();
    for (axis, &size) in short.iter().enumerate() {
        let other = &mut out[extra + axis];
        if *other == 1 {
            *other = size;
        } else if size != 1 && size != *other {
            return Err(Error::new(Code::Shape, format!("shapes {a:?} and {b:?} do not broadcast"))
                .help("sizes must be equal or one, counted from the last axis"));
        }
    }
    Ok(out)
}

/// A conversion to a shape: from arrays, slices and vectors of `usize`, one `usize`, and `()`.
///
/// ```
/// use ms_core::{Tensor, tensor::IntoShape};
/// assert_eq!([[2, 3].into_shape(), vec![2, 3].into_shape()].map(|it| it.to_vec()), [[2, 3]; 2]);
/// assert_eq!(Tensor::from_slice(2, &[1.0f32, 2.0]).shape(), [2]);
/// ```
pub trait IntoShape {
    /// The shape.
    fn into_shape(self) -> Shape;
}

impl IntoShape for &[usize] {
    fn into_shape(self) -> Shape {
        self.into()
    }
}

impl<const N: usize> IntoShape for [usize; N] {
    fn into_shape(self) -> Shape {
        Shape::from_slice(&self)
    }
}

impl<const N: usize> IntoShape for &[usize; N] {
    fn into_shape(self) -> Shape {
        Shape::from_slice(self)
    }
}

impl IntoShape for Vec<usize> {
    fn into_shape(self) -> Shape {
        Shape::from_vec(self)
    }
}

impl IntoShape for &Vec<usize> {
    fn into_shape(self) -> Shape {
        Shape::from_slice(self)
    }
}

impl IntoShape for Shape {
    fn into_shape(self) -> Shape {
        self
    }
}

impl IntoShape for &Shape {
    fn into_shape(self) -> Shape {
        self.clone()
    }
}

impl IntoShape for usize {
    fn into_shape(self) -> Shape {
        Shape::from_slice(&[self])
    }
}

impl IntoShape for () {
    fn into_shape(self) -> Shape {
        Shape::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_without_elements_stay_inside() {
        let empty = Layout::contiguous(&[0, 3]);
        for view in [empty.slice(1, 2, 1, 1), empty.slice(1, 2, 3, -1), Layout::contiguous(&[2]).slice(0, 2, 0, 1)] {
            assert!(view.fits(0), "{view:?}");
        }
    }

    #[test]
    fn reshape_keeps_order_or_refuses() {
        let base = Layout::contiguous(&[4, 6]);
        assert_eq!(base.reshape(&[2, 2, 6]).map(|it| it.offsets().collect::<Vec<_>>()), Some((0..24).collect()));
        assert!(base.permute(&[1, 0]).reshape(&[24]).is_none());
        assert!(base.slice(1, 0, 3, 1).reshape(&[4, 3, 1]).is_some());
        assert!(base.slice(1, 0, 3, 1).reshape(&[12]).is_none());
        assert_eq!(base.slice(0, 1, 2, 1).reshape(&[12]).map(|it| it.offset()), Some(6));
    }

    #[test]
    fn a_view_fits_up_to_its_last_place() {
        let base = Layout::contiguous(&[4, 6]);
        let cases = [
            base.clone(),
            base.permute(&[1, 0]),
            base.slice(0, 3, 4, -1),
            base.slice(1, 4, 2, -3),
            Layout::contiguous(&[]).broadcast_to(&[9, 9]).expect("a broadcast"),
        ];
        for layout in cases {
            let last = layout.offsets().max().expect("the view has places");
            assert!(layout.fits(last + 1) && !layout.fits(last), "{layout:?}");
        }
        assert!(Layout::contiguous(&[0]).fits(0));
        assert!(!Layout::new([2][..].into(), [-1][..].into(), 0).fits(9), "no place lies before the storage");
    }

    #[test]
    fn broadcasting() {
        assert_eq!(broadcast_shapes(&[2, 1], &[3]).ok().as_deref(), Some(&[2, 3][..]));
        assert_eq!(broadcast_shapes(&[], &[0]).ok().as_deref(), Some(&[0][..]));
        assert!(broadcast_shapes(&[2, 3], &[4]).is_err());
        let layout = Layout::contiguous(&[3]).broadcast_to(&[2, 3]).ok();
        assert_eq!(layout.map(|it| it.offsets().collect::<Vec<_>>()), Some(vec![0, 1, 2, 0, 1, 2]));
    }
}
