//! Runs the steps of plans in host memory by their specifications: [`ReferenceDriver`].
//!
//! The interpreter runs kernels. Products and convolutions have the order of sums of strict precision. Other ops run by
//! their definitions.

mod conv;
mod driver;
mod product;

pub use driver::{ReferenceDriver, ReferenceOp, ReferenceStep};
pub use product::ReferenceContraction;
