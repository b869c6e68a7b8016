//! Sliding windows over spatial axes.

use crate::data::{Dim, Dims, IntoDims, Shape};
use crate::error::{Code, Error, Result};
use smallvec::SmallVec;

/// The parameters of windows along the spatial axes, one entry per axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// The stride: the distance between neighbouring windows.
    pub stride: Shape,
    /// The dilation: the distance between neighbouring taps of a window.
    pub dilation: Shape,
    /// Padding before the first element.
    pub before: Shape,
    /// Padding after the last element.
    pub after: Shape,
}

impl Window {
    /// Creates windows with stride 1 along `rank` spatial axes, without padding or dilation.
    pub fn new(rank: usize) -> Self {
        let all = |value| SmallVec::from_elem(value, rank);
        Self { stride: all(1), dilation: all(1), before: all(0), after: all(0) }
    }

    /// Returns the number of windows of `kernel` taps along each of `sizes`.
    ///
    /// # Errors
    /// [`Code::Argument`] if a list has another length, or a stride or dilation is zero. [`Code::Shape`] if a window is
    /// larger than its padded axis.
    pub fn counts(&self, sizes: &[Dim], kernel: &[usize]) -> Result<Dims> {
        self.counts_after(sizes, kernel, &self.after.clone().into_dims())
    }

    /// Counts like [`counts`](Self::counts), with padding after the last element that may be symbolic.
    pub fn counts_after(&self, sizes: &[Dim], kernel: &[usize], after: &[Dim]) -> Result<Dims> {
        self.check_entries(sizes.len(), kernel)?;
        let count = |axis: usize| {
            let reach = self.dilation[axis].saturating_mul(kernel[axis] - 1).saturating_add(1);
            let padded = sizes[axis] + self.before[axis] + after[axis];
            if padded.as_const().is_some_and(|it| it < reach) {
                let message = format!("a window of {reach} does not fit an axis of {padded}, padding included");
                return Err(Error::new(Code::Shape, message));
            }
            Ok((padded - reach) / self.stride[axis] + 1)
        };
        (0..sizes.len()).map(count).collect()
    }
}

impl Window {
    /// Checks that there is an entry for each of `rank` axes, and that kernel sizes, strides and dilations are
    /// positive.
    ///
    /// # Errors
    /// [`Code::Argument`] if a list has another length, or a stride, a dilation or a kernel size is zero.
    pub fn check_entries(&self, rank: usize, kernel: &[usize]) -> Result<()> {
        let lists = [&self.stride[..], &self.dilation, &self.before, &self.after, kernel];
        if lists.iter().any(|it| it.len() != rank) {
            let message = format!("one entry for each of {rank} spatial axes is needed");
            return Err(Error::new(Code::Argument, message));
        }
        if [&self.stride[..], &self.dilation, kernel].iter().any(|it| it.contains(&0)) {
            return Err(Error::new(Code::Argument, "strides, dilations and kernel sizes are above zero"));
        }
        Ok(())
    }

    /// Checks that each window of `kernel` taps has an element along each of `sizes`, as far as these are constant.
    ///
    /// Padding of up to half of a window leaves an element, unless the dilation exceeds the axis. A window with taps at
    /// -1 and 1 contains no element of an axis of size 1.
    ///
    /// # Errors
    /// [`Code::Argument`] if a window is empty, and the errors of [`counts`](Self::counts).
    ///
    /// ```
    /// use ms_core::{ops::Window, tensor::IntoDims};
    /// let mut window = Window::new(1);
    /// (window.before[0], window.after[0], window.dilation[0]) = (1, 1, 2);
    /// assert!(window.check_elements(&[2].into_dims(), &[2]).is_ok());
    /// assert!(window.check_elements(&[1].into_dims(), &[2]).is_err());
    /// ```
    pub fn check_elements(&self, sizes: &[Dim], kernel: &[usize]) -> Result<()> {
        self.check_counted(sizes, kernel, &self.counts(sizes, kernel)?)
    }

    /// Checks like [`check_elements`](Self::check_elements), for a given number of windows along each axis.
    pub fn check_counted(&self, sizes: &[Dim], kernel: &[usize], counts: &[Dim]) -> Result<()> {
        for axis in 0..sizes.len() {
            let (Some(size), Some(count)) = (sizes[axis].as_const(), counts[axis].as_const()) else { continue };
            if let Some(empty) = self.empty_window(axis, size, count, kernel[axis]) {
                let message = format!(
                    "window {empty} along spatial axis {axis} has no element: padding {} before and {} after an axis of                      {size}, kernel {}, stride {}, dilation {}",
                    self.before[axis], self.after[axis], kernel[axis], self.stride[axis], self.dilation[axis]
                );
                return Err(Error::new(Code::Argument, message).help("padding is at most half of the window"));
            }
        }
        Ok(())
    }

    /// Returns the index of an empty window, of `count` windows along an axis of `size`, if there is one.
    fn empty_window(&self, axis: usize, size: usize, count: usize, kernel: usize) -> Option<usize> {
        let [size, count, kernel, stride, dilation, before] =
            [size, count, kernel, self.stride[axis], self.dilation[axis], self.before[axis]].map(|it| it as i128);
        let is_empty = |window: i128| {
            let start = window * stride - before;
            // The first tap that is not before the axis.
            let tap = if start < 0 { -start.div_euclid(dilation) } else { 0 };
            tap >= kernel || start + tap * dilation >= size
        };
        // A window that starts on the axis has an element. The first taps on the axis of windows that start before it
        // repeat after at most `dilation` windows. At most `size` of them are distinct elements, so checking `min(size
        // + 1, dilation)` windows suffices.
        let in_front = before.div_euclid(stride).saturating_add(1).min(count).min(size + 1).min(dilation);
        // Taps no farther apart than the size of the axis cannot step over it, so the first window is the worst.
        let in_front = if dilation <= size { in_front.min(1) } else { in_front };
        let mut windows = (0..in_front).chain((count > 0).then(|| count - 1));
        windows.find(|&it| is_empty(it)).map(|it| it as usize)
    }
}
