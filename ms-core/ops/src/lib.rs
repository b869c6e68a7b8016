//! Tensors, parameters, and ops with their types, reference evaluation, derivatives and lowering rules.
//!
//! **Invariant:** no module outside of [`ops`] compares with a single op, except for a list that a test holds.

#![cfg_attr(ms_sanitize, feature(sanitize))]

pub mod ops;
pub mod tensor;

pub use ms_ir::error::{Code, Error, Result, catch};
pub use tensor::{DType, Parameter, Tensor};

/// The hash of the sources of this crate, which is a part of the keys of the compile cache.
pub const SOURCES: &str = env!("MS_OPS_SOURCES");

inventory::submit! { ms_ir::error::LibrarySource::Compiler(file!()) }

// The runtime's executor stands above this crate.
#[cfg(test)]
inventory::submit! { tensor::EagerDispatcher(&ops::core::testing::TestExecutor) }
