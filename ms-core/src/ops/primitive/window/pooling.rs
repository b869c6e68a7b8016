//! Options of pooling, and the shapes of results.

use super::{PerAxis, Window};
use crate::error::{Code, Error, Result};
use crate::tensor::{Dim, Dims, Shape, Type};
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
    /// Sizes of the window, by spatial axis.
    pub kernel: Shape,
    /// The stride, by spatial axis.
    pub stride: Shape,
    /// Padding on both sides, by spatial axis.
    pub padding: Shape,
    /// The dilation, by spatial axis; only for `max_pool`.
    pub dilation: Shape,
    /// Whether the last window may extend beyond the end.
    pub ceil_mode: bool,
    /// Whether the divisor of a mean includes padding.
    pub count_include_pad: bool,
}

impl PoolOptions {
    /// Adjacent windows of `kernel` over `rank` spatial axes.
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

    /// With a stride: one number, or one for each spatial axis.
    pub fn stride(mut self, stride: impl PerAxis) -> Self {
        self.stride = stride.per_axis(self.kernel.len());
        self
    }

    /// With padding on both sides: one number, or one for each spatial axis.
    pub fn padding(mut self, padding: impl PerAxis) -> Self {
        self.padding = padding.per_axis(self.kernel.len());
        self
    }

    /// With a dilation: one number, or one for each spatial axis.
    pub fn dilation(mut self, dilation: impl PerAxis) -> Self {
        self.dilation = dilation.per_axis(self.kernel.len());
        self
    }

    /// With a last window that may extend beyond the end.
    pub fn ceil_mode(mut self, yes: bool) -> Self {
        self.ceil_mode = yes;
        self
    }

    /// With or without padding in the divisor of means.
    pub fn count_include_pad(mut self, yes: bool) -> Self {
        self.count_include_pad = yes;
        self
    }

    /// The windows over `sizes`, and their numbers: in ceil mode padded so that a last window that starts at an element or
    /// in the padding before fits, as far as sizes are constant.
    pub(in crate::ops) fn window(&self, sizes: &[Dim]) -> Result<(Window, Dims)> {
        let mut window = Window {
            stride: self.stride.clone(),
            dilation: self.dilation.clone(),
            before: self.padding.clone(),
            after: self.padding.clone(),
        };
        let counts = window.counts(sizes, &self.kernel)?;
        for axis in 0..sizes.len() {
            let reach = self.dilation[axis].saturating_mul(self.kernel[axis] - 1).saturating_add(1);
            if self.padding[axis] > reach / 2 {
                let message = format!("`padding` is {:?}, but a window reaches over {reach}", self.padding);
                return Err(Error::new(Code::Argument, message).help("padding is at most half of the window"));
            }
        }
        if !self.ceil_mode {
            return Ok((window, counts));
        }
        let mut counts = counts;
        for axis in 0..sizes.len() {
            let (stride, before) = (self.stride[axis], self.padding[axis]);
            let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
            let padded = sizes[axis] + 2 * before;
            let whole = |distance: Dim| (distance + (stride - 1)) / stride;
            // The windows that reach the end, of those that start at an element or in front.
            counts[axis] = (whole(padded - reach) + 1).smaller(whole(sizes[axis] + before));
            if let (Some(padded), Some(count)) = (padded.as_const(), counts[axis].as_const()) {
                window.after[axis] += ((count - 1) * stride + reach).saturating_sub(padded);
            }
        }
        Ok((window, counts))
    }
}

/// The dimensions of an operand of pooling with windows along the last `rank` axes. In front of these are the batch and
/// the channels; where channels are last, they are the last axis of the windows, whose taps are one.
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

/// A shape with other sizes of the axes of windows.
pub(in crate::ops) fn pooled_shape<S: Copy>(shape: &[S], sizes: &[S]) -> SmallVec<[S; 4]> {
    shape[..shape.len() - sizes.len()].iter().chain(sizes).copied().collect()
}

/// A list by spatial axis of windows with an entry for channels behind.
pub(in crate::ops) fn with_channels<S: Copy>(list: &[S], channels: S) -> SmallVec<[S; 4]> {
    list.iter().copied().chain([channels]).collect()
}
