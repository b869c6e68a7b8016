//! Sliding windows over spatial axes, for convolutions and pooling.

pub(crate) mod attributes;
pub(crate) mod geometry;
pub(crate) mod lanes;
pub(crate) mod pooling;
mod runs;
pub(crate) mod taps;

pub use ms_ir::op::Window;
pub use pooling::PoolOptions;
pub use runs::{Run, WindowAxis, Windows};

use crate::tensor::Shape;
use smallvec::SmallVec;

/// The maximum dilation in attributes. It bounds the search for windows without elements, which visits up to this many
/// windows.
pub(in crate::ops) const MAX_DILATION: i64 = 1 << 20;

/// A value for each axis of windows: at most three spatial axes and, in NHWC order, the channels. Shorter lists are
/// padded in front.
pub(in crate::ops) type Spatial = [usize; 4];

/// Pads a list by axis of windows in front, to four entries.
pub(in crate::ops) fn spatial(list: &[usize], fill: usize) -> Spatial {
    let mut out = [fill; 4];
    out[4 - list.len()..].copy_from_slice(list);
    out
}

/// One number for all spatial axes, or one for each, as in `stride` and `padding`.
///
/// ```
/// use ms_core::ops::PerAxis;
/// assert_eq!([2.per_axis(2), [2, 3].per_axis(2)].map(|it| it.to_vec()), [[2, 2], [2, 3]]);
/// ```
pub trait PerAxis {
    /// Returns one number for each of `rank` axes.
    fn per_axis(&self, rank: usize) -> Shape;
}

impl PerAxis for usize {
    fn per_axis(&self, rank: usize) -> Shape {
        SmallVec::from_elem(*self, rank)
    }
}

impl PerAxis for [usize] {
    fn per_axis(&self, _: usize) -> Shape {
        self.into()
    }
}

impl<const N: usize> PerAxis for [usize; N] {
    fn per_axis(&self, _: usize) -> Shape {
        Shape::from_slice(self)
    }
}

impl<T: PerAxis + ?Sized> PerAxis for &T {
    fn per_axis(&self, rank: usize) -> Shape {
        (**self).per_axis(rank)
    }
}
