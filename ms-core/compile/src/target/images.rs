//! How a target runs ops on images.

use crate::ops::{AxisOrder, ConvGeometry, ConvResult};

/// How a target runs ops on images: convolutions and pooling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Images {
    /// The convolutions that are contractions over taps.
    pub contracted: Contracted,
    /// The order of the axes of images that such convolutions read and write, and of values between them.
    pub order: AxisOrder,
}

/// Which convolutions and gradients of convolutions are contractions over taps. The others are ops of the library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Contracted {
    /// None.
    #[default]
    None,
    /// Convolutions in one group whose windows [are patches](ConvGeometry::has_patches), and no gradients.
    Patches,
    /// All.
    All,
}

impl Contracted {
    /// Whether a convolution or a gradient of one is a contraction.
    pub fn admits(self, geometry: &ConvGeometry) -> bool {
        match self {
            Self::None => false,
            Self::Patches => geometry.result == ConvResult::Output && geometry.groups == 1 && geometry.has_patches(),
            Self::All => true,
        }
    }
}
