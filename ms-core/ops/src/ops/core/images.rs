//! Ops on images: what they need and give as layout, and convolutions as contractions.

use crate::ops::Window;
use crate::tensor::{Attrs, Dim, Shape, Tensor, Type};
use smallvec::SmallVec;

/// The order of the axes of images.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AxisOrder {
    /// `[n, c, spatial..]`: that of the operands and results of all ops.
    #[default]
    ChannelsFirst,
    /// `[n, spatial.., c]`.
    ChannelsLast,
}

impl AxisOrder {
    /// The axis of the channels of an image of this rank.
    pub fn channels(self, rank: usize) -> usize {
        match self {
            Self::ChannelsFirst => 1,
            Self::ChannelsLast => rank - 1,
        }
    }

    /// The first spatial axis.
    pub fn spatial(self) -> usize {
        match self {
            Self::ChannelsFirst => 2,
            Self::ChannelsLast => 1,
        }
    }

    /// The axes of an image of this rank whose channels come first, in this order.
    pub fn axes(self, rank: usize) -> SmallVec<[usize; 4]> {
        match self {
            Self::ChannelsFirst => (0..rank).collect(),
            Self::ChannelsLast => std::iter::once(0).chain(2..rank).chain([1]).collect(),
        }
    }

    /// The axes of an image of this rank in this order, channels first: the inverse of [`axes`](Self::axes).
    pub fn inverse(self, rank: usize) -> SmallVec<[usize; 4]> {
        match self {
            Self::ChannelsFirst => (0..rank).collect(),
            Self::ChannelsLast => [0, rank - 1].into_iter().chain(1..rank - 1).collect(),
        }
    }
}

/// An op on images `[n, c, spatial..]`, which has one result.
pub struct ImageRule {
    /// The operands that are images. Others, such as weights, have one layout only.
    pub operands: &'static [usize],
    /// Whether the result is an image.
    pub result: bool,
    /// How it runs on images in another order.
    pub form: ImageForm,
}

/// How an op runs on images in another order of axes.
pub enum ImageForm {
    /// A convolution or one of its gradients: by other ops, the products by one contraction over taps.
    Convolution {
        /// What the op computes, from its attributes and the types of its operands.
        geometry: fn(&Attrs, &[&Type]) -> ConvGeometry,
        /// The result, where images of operands and of the result are in the order. It has the bits of the op in
        /// [strict](crate::ir::Precision::Strict) precision.
        body: fn(&Attrs, &[&Tensor], AxisOrder) -> Tensor,
    },
    /// Pooling: the same op with the attributes of windows that have the channels, of which there are so many, as their
    /// last axis.
    Pooling(fn(&Attrs, Dim) -> Attrs),
}

/// Which of the ops of a convolution it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConvResult {
    /// The convolution.
    Output,
    /// The gradient for its input.
    InputGradient,
    /// The gradient for its weights.
    WeightGradient,
}

/// The windows of a convolution, as far as they do not depend on the sizes of images.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvGeometry {
    /// What is computed.
    pub result: ConvResult,
    /// Taps of a window, by spatial axis.
    pub kernel: Shape,
    /// Stride, dilation and padding.
    pub window: Window,
    /// The number of independent groups of channels.
    pub groups: usize,
}

impl ConvGeometry {
    /// Whether the windows tile the input, or are single elements, without padding: then the elements under them are
    /// no more than those of the input, and a view of it.
    pub fn has_patches(&self) -> bool {
        let Window { stride, dilation, before, after } = &self.window;
        (0..self.kernel.len()).all(|axis| {
            let tiles = self.kernel[axis] == 1 || (stride[axis] == self.kernel[axis] && dilation[axis] == 1);
            tiles && (before[axis], after[axis]) == (0, 0)
        })
    }
}
