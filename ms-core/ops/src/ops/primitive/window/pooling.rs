//! Options of pooling, and the shapes of results.

use super::{PerAxis, Window};
use crate::tensor::{Dim, Dims, Shape, Type};
use ms_ir::error::{Code, Error, Result};
use smallvec::SmallVec;

/// Options of pooling: kernel, stride, padding, and the ceil mode.
///
/// ```
/// use ms_core::{ops, tensor};
/// let options = ops::PoolOptions::new(1, 2).stride(1);
/// assert_eq!(ops::max_pool(tensor![[[1.0, 3.0, 2.0]]], &options).to_vec::<f32>(), [3.0, 3.0]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// The size of the window, by spatial axis.
    pub kernel: Shape,
    /// The stride, by spatial axis.
    pub stride: Shape,
    /// Padding on both sides, by spatial axis.
    pub padding: Shape,
    /// The dilation, by spatial axis; only for `max_pool`.
    pub dilation: Shape,
    /// Whether the last window may extend beyond the end. An axis shorter than a window then has one window.
    pub ceil_mode: bool,
    /// Whether the divisor of a mean includes padding.
    pub count_include_pad: bool,
}

impl PoolOptions {
    /// Creates options for adjacent windows of `kernel` over `rank` spatial axes.
    pub fn new(rank: usize, kernel: impl PerAxis) -> Self {
        let kernel = kernel.per_axis(rank);
        Self {
            stride: kernel.clone(),
            padding: 0.per_axis(rank),
            dilation: 1.per_axis(rank),
            ceil_mode: false,
            count_include_pad: true,
            kernel,
        }
    }

    /// Sets the stride: one number, or one for each spatial axis.
    pub fn stride(mut self, stride: impl PerAxis) -> Self {
        self.stride = stride.per_axis(self.kernel.len());
        self
    }

    /// Sets the padding on both sides: one number, or one for each spatial axis.
    pub fn padding(mut self, padding: impl PerAxis) -> Self {
        self.padding = padding.per_axis(self.kernel.len());
        self
    }

    /// Sets the dilation: one number, or one for each spatial axis.
    pub fn dilation(mut self, dilation: impl PerAxis) -> Self {
        self.dilation = dilation.per_axis(self.kernel.len());
        self
    }

    /// Sets whether the last window may extend beyond the end.
    pub fn ceil_mode(mut self, yes: bool) -> Self {
        self.ceil_mode = yes;
        self
    }

    /// Sets whether the divisor of means includes padding.
    pub fn count_include_pad(mut self, yes: bool) -> Self {
        self.count_include_pad = yes;
        self
    }

    /// Returns the windows over `sizes`, and their number along each axis. In ceil mode the last window starts at an
    /// element or in the padding before. It may need more [padding](Self::after) than the returned windows have.
    pub(in crate::ops) fn window(&self, sizes: &[Dim]) -> Result<(Window, Dims)> {
        let window = Window {
            stride: self.stride.clone(),
            dilation: self.dilation.clone(),
            before: self.padding.clone(),
            after: self.padding.clone(),
        };
        let counts = match self.ceil_mode {
            false => window.counts(sizes, &self.kernel)?,
            true => self.ceil_mode_counts(&window, sizes)?,
        };
        for axis in 0..sizes.len() {
            let reach = self.reach(axis);
            if self.padding[axis] > reach / 2 {
                let message = format!("`padding` is {:?}, but a window reaches over {reach}", self.padding);
                return Err(Error::new(Code::Argument, message).help("padding is at most half of the window"));
            }
        }
        Ok((window, counts))
    }

    /// Counts the windows in ceil mode, which start at an element or in the padding before. The first one that reaches
    /// the end is the last.
    fn ceil_mode_counts(&self, window: &Window, sizes: &[Dim]) -> Result<Dims> {
        window.check_entries(sizes.len(), &self.kernel)?;
        let count = |axis: usize| {
            let (stride, before) = (self.stride[axis], self.padding[axis]);
            let whole = |distance: Dim| (distance + (stride - 1)) / stride;
            let reaching = whole(sizes[axis] + 2 * before - self.reach(axis)) + 1;
            reaching.smaller(whole(sizes[axis] + before))
        };
        let counts: Dims = (0..sizes.len()).map(count).collect();
        if counts.iter().any(|it| it.as_known().is_some_and(|it| it <= 0)) {
            // `counts` returns the error for the window that does not fit.
            return window.counts(sizes, &self.kernel);
        }
        Ok(counts)
    }

    /// Returns the padding after `sizes` that the `counts` of [`window`](Self::window) need.
    pub(in crate::ops) fn after(&self, sizes: &[Dim], counts: &[Dim]) -> Dims {
        let after = |axis: usize| {
            let (stride, padding, reach) = (self.stride[axis], self.padding[axis], self.reach(axis));
            if !self.ceil_mode {
                return Dim::new(padding);
            }
            let over = (counts[axis] - 1) * stride + reach - (sizes[axis] + 2 * padding);
            // The last window extends beyond the end unless the next one would start after the elements. If it does for
            // all sizes, the number of windows computed from this padding is the same expression as the given one.
            let hangs_over = reach >= stride + padding;
            (if hangs_over { over } else { over.or_zero() }) + padding
        };
        (0..sizes.len()).map(after).collect()
    }

    /// Returns the number of elements from the first to the last tap of a window.
    fn reach(&self, axis: usize) -> usize {
        self.dilation[axis].saturating_mul(self.kernel[axis] - 1).saturating_add(1)
    }
}

/// Returns the dimensions of an operand of pooling with windows along the last `rank` axes. Batch and channels precede
/// them in NCHW order. In NHWC order, the channels are the last axis of the windows, with kernel size 1.
pub(in crate::ops) fn check_pooled(x: &Type, rank: usize) -> Result<Dims> {
    let fits = x.rank() == rank + 2 && (1..=3).contains(&rank);
    if !fits && (x.rank() != rank + 1 || !(2..=4).contains(&rank)) {
        return Err(Error::new(Code::Shape, format!("{x} does not have a batch, a channel and {rank} spatial axes")));
    }
    if !x.dtype.is_float() {
        return Err(Error::new(Code::DType, format!("pooling is of floats, not {}", x.dtype)));
    }
    Ok(x.dims.clone())
}

/// Replaces the sizes along the axes of windows.
pub(in crate::ops) fn pooled_shape<S: Copy>(shape: &[S], sizes: &[S]) -> SmallVec<[S; 4]> {
    shape[..shape.len() - sizes.len()].iter().chain(sizes).copied().collect()
}

/// Appends an entry for the channels to a list by spatial axis.
pub(in crate::ops) fn with_channels<S: Copy>(list: &[S], channels: S) -> SmallVec<[S; 4]> {
    list.iter().copied().chain([channels]).collect()
}
