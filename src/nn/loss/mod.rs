//! Losses as cells: the loss functions of [`ops`](crate::ops) with options and a reduction.

mod classes;
mod ctc;
mod distances;
mod elements;

pub use classes::{
    CrossEntropyLoss, FocalLoss, MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss,
};
pub use ctc::CTCLoss;
pub use distances::{
    CosineEmbeddingLoss, DiceLoss, MarginRankingLoss, MultiClassDiceLoss, RMSELoss, TripletMarginLoss,
};
pub use elements::{
    BCELoss, BCEWithLogitsLoss, GaussianNLLLoss, HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss,
    PoissonNLLLoss, SmoothL1Loss, SoftMarginLoss,
};

use ms_core::error::raise;
use ms_core::ops::rules::may_equal;
use ms_core::{Code, Error, Tensor};

/// Raises an error unless all operands have the same shape: losses do not broadcast.
#[track_caller]
fn check_same_shape(loss: &str, x: &Tensor, others: &[(&str, &Tensor)]) {
    for (name, other) in others {
        if !x.is_poisoned() && !other.is_poisoned() && !may_equal(&x.dims(), &other.dims()) {
            let message = format!("`{name}` is {}, but has to have the shape {:?}", other.ty(), x.dims());
            let help = "losses do not broadcast: `reshape` or `broadcast_to` says which elements meet";
            raise(Error::new(Code::Shape, message).with_op(loss).help(help));
        }
    }
}

/// Casts f16 and bf16 to f32: sums of many losses need its precision.
#[track_caller]
fn widen(x: &Tensor) -> Tensor {
    if x.dtype().is_narrow_float() { x.cast(ms_core::DType::F32) } else { x.clone() }
}

/// Generates a loss: a struct with options and their defaults, a method `losses` for the losses of examples or
/// elements, the builders, and the cell.
macro_rules! losses {
    ($(
        $(#[$doc:meta])*
        $name:ident($($operand:ident),*) {
            $($(#[$option_doc:meta])* $option:ident: $ty:ty = $default:expr),* $(,)?
        } => |$it:ident| $body:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// Operands of f16 and bf16 are computed in f32. The mean and the sum are scalars; without a reduction there is
        /// a loss for each example or element.
        ///
        /// # Panics
        /// A call raises [`ms_core::Code::Shape`] for operands with shapes that do not match.
        #[cell]
        #[derive(Clone, Debug)]
        pub struct $name {
            reduction: ops::Reduction,
            $($option: $ty,)*
        }

        impl $name {
            /// Creates the loss with the mean over all examples and the default options.
            pub fn new() -> Self {
                Self { reduction: ops::Reduction::Mean, $($option: $default,)* }
            }

            /// Sets the reduction.
            pub fn reduction(mut self, reduction: ops::Reduction) -> Self {
                self.reduction = reduction;
                self
            }

            $(
                $(#[$option_doc])*
                pub fn $option(mut self, $option: impl Into<$ty>) -> Self {
                    self.$option = $option.into();
                    self
                }
            )*

            #[track_caller]
            fn losses(&self, $($operand: &Tensor),*) -> Tensor {
                let $it = self;
                $body
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        #[cell]
        impl $name {
            fn construct(&self, $($operand: &Tensor),*) -> Tensor {
                self.reduction.apply(&self.losses($(&super::widen($operand)),*))
            }
        }
    )*};
}
use losses;
