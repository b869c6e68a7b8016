//! Ops on NCHW and NHWC images: their layouts, and convolutions as contractions.

use super::Window;
use crate::data::{Attrs, Dim, Shape, Type};
use smallvec::SmallVec;

/// The order of the axes of images.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AxisOrder {
    /// NCHW, `[n, c, spatial..]`: the order of the operands and results of all ops.
    #[default]
    ChannelsFirst,
    /// NHWC, `[n, spatial.., c]`.
    ChannelsLast,
}

impl AxisOrder {
    /// Returns the channel axis of an image of this rank.
    pub fn channels(self, rank: usize) -> usize {
        match self {
            Self::ChannelsFirst => 1,
            Self::ChannelsLast => rank - 1,
        }
    }

    /// Returns the first spatial axis.
    pub fn spatial(self) -> usize {
        match self {
            Self::ChannelsFirst => 2,
            Self::ChannelsLast => 1,
        }
    }

    /// Returns the permutation from NCHW to this order, for an image of this rank.
    pub fn axes(self, rank: usize) -> SmallVec<[usize; 4]> {
        match self {
            Self::ChannelsFirst => (0..rank).collect(),
            Self::ChannelsLast => std::iter::once(0).chain(2..rank).chain([1]).collect(),
        }
    }

    /// Returns the permutation from this order to NCHW, the inverse of [`axes`](Self::axes).
    pub fn inverse(self, rank: usize) -> SmallVec<[usize; 4]> {
        match self {
            Self::ChannelsFirst => (0..rank).collect(),
            Self::ChannelsLast => [0, rank - 1].into_iter().chain(1..rank - 1).collect(),
        }
    }
}

/// An op on images `[n, c, spatial..]` that has one result.
pub struct SpatialRule {
    /// The operands that are images. Others, such as weights, have a fixed layout.
    pub operands: &'static [usize],
    /// Whether the result is an image.
    pub result: bool,
    /// The implementation in another axis order.
    pub form: SpatialForm,
}

/// The implementation of an op in another axis order.
pub enum SpatialForm {
    /// A convolution, its backward-data or its backward-weights: other ops, with one contraction over the kernel taps.
    /// The function returns the geometry from the attributes and the types of the operands.
    Convolution(fn(&Attrs, &[&Type]) -> ConvGeometry),
    /// Pooling: returns the attributes of the same op with the channel axis, of the given size, as the last axis of its
    /// windows.
    Pooling(fn(&Attrs, Dim) -> Attrs),
}

/// The ops of a convolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConvResult {
    /// The forward convolution.
    Output,
    /// Backward-data: the gradient of the input.
    BackwardData,
    /// Backward-weights: the gradient of the weights.
    BackwardWeights,
}

/// The geometry of a convolution, except for the sizes of images.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvGeometry {
    /// The op.
    pub result: ConvResult,
    /// The kernel size, by spatial axis.
    pub kernel: Shape,
    /// Stride, dilation and padding.
    pub window: Window,
    /// The number of independent groups of channels.
    pub groups: usize,
}

impl ConvGeometry {
    /// Whether the windows tile the input or are single elements, without padding. Then the im2col matrix is a view of
    /// the input.
    pub fn is_im2col_view(&self) -> bool {
        let Window { stride, dilation, before, after } = &self.window;
        (0..self.kernel.len()).all(|axis| {
            let tiles = self.kernel[axis] == 1 || (stride[axis] == self.kernel[axis] && dilation[axis] == 1);
            tiles && (before[axis], after[axis]) == (0, 0)
        })
    }
}
