//! Tensors, parameters, and ops with their types, reference evaluation, derivatives and lowering rules.
//!
//! The definition of an op has two halves. [`OpDef`](ops::OpDef) in `ms-ir` is what the compiler reads, and
//! [`TransformRules`](ops::TransformRules) is what transforms read. The file of an op declares both.
//!
//! **Invariant:** no module outside of [`ops`] compares with a single op, except for a list that a test holds.
//!
//! **Invariant:** files form no circle of imports. Test: `files_form_no_new_circle` in `tests/architecture/circles.rs`.

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
