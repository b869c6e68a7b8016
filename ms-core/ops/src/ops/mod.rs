//! Ops of the framework and their definitions.
//!
//! - [`core`] has the rules of transforms and the code that the rules of ops share.
//! - [`primitive`] has the primitives.
//! - [`composite`] has the composites and functions composed of ops.
//! - [`api`] has the interfaces besides functions.
//! - [`custom`] has the ops that programs define.
//!
//! To add an op, add its file, and its name to the list in `primitive/mod.rs` or `composite/mod.rs`. Everything else
//! reads the definition: text form, verifier, eager execution, tracing, lowering and generated tests.

#[macro_use]
pub mod core;
pub mod api;
#[doc(hidden)]
pub mod compare;
pub mod composite;
pub mod custom;
mod dialect;
pub mod primitive;

pub use self::core::*;
pub use api::*;
pub use composite::*;
pub use primitive::window::{PerAxis, PoolOptions, Run, Window, WindowAxis, Windows};
pub use primitive::*;
