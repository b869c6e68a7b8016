//! What declarations by [`custom_op!`](crate::custom_op) name.

pub use ms_core::ops::custom::{AnyView, AnyViewMut, View, ViewMut};
pub use ms_core::ops::{BatchedCall, Vjp};
pub use ms_core::tensor::{Outputs, Type};
