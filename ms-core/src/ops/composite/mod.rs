//! Ops that are composed of primitives.

mod arithmetic;
pub(crate) mod convolution;
mod creation;
mod einsum;
mod interpolate;
pub(crate) mod nn;
mod repeat;
mod selection;
mod shape;
mod statistics;
pub(crate) mod triangle;

pub use arithmetic::*;
pub use convolution::*;
pub use creation::*;
pub use einsum::einsum;
pub use interpolate::{Interpolation, interpolate};
pub use nn::*;
pub use repeat::*;
pub use selection::*;
pub use shape::*;
pub use statistics::*;
pub use triangle::{diag, masked_fill, tril, triu};
