//! How a target runs ops on images.

use ms_ir::op::{AxisOrder, ConvGeometry, ConvResult};

/// The target's support for ops on images: convolutions and pooling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Images {
    /// The convolutions that are lowered to contractions over taps.
    pub contracted: Contracted,
    /// The axis order of the images that such convolutions read and write, and of values between them.
    pub order: AxisOrder,
}

/// The convolutions, backward-data and backward-weights included, that are lowered to contractions over taps. The
/// library runs the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Contracted {
    /// No convolutions.
    #[default]
    None,
    /// Forward convolutions in one group whose windows [are patches](ConvGeometry::is_im2col_view).
    Patches,
    /// All.
    All,
}

impl Contracted {
    /// Returns whether a forward or backward convolution is lowered to a contraction.
    pub fn admits(self, geometry: &ConvGeometry) -> bool {
        match self {
            Self::None => false,
            Self::Patches => geometry.result == ConvResult::Output && geometry.groups == 1 && geometry.is_im2col_view(),
            Self::All => true,
        }
    }
}
