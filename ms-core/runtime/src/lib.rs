//! The runtime of `ms`: calls, eager execution, autodiff and the compile cache, over the crates of the compiler, which
//! this crate re-exports. Nothing here knows a device.
//!
//! Crates in order: [`ms_ir`], [`ms_ops`], [`ms_compile`], [`ms_trace`], this one. Each depends only on those before it.

#![cfg_attr(ms_sanitize, feature(sanitize))]

pub mod optimize;
pub mod session;

#[cfg(test)]
mod function_count;

pub use ms_compile::{exec, lower, target};
pub use ms_ir::{self as ir, environment, environment_variables, error, stored, with_element};
pub use ms_ops::{ops, tensor};
pub use ms_trace::{effects, trace, transform};

pub use ms_ir::error::{Code, Error, Result, catch};
pub use ms_ops::ops::random;
pub use ms_ops::tensor::{DType, Parameter, Tensor, synchronize};

/// The hashes of the sources of the compiler's crates, which are a part of the keys of the compile cache.
pub const SOURCES: [&str; 5] =
    [ms_ir::SOURCES, ms_ops::SOURCES, ms_compile::SOURCES, ms_trace::SOURCES, env!("MS_CORE_SOURCES")];

inventory::submit! { ms_ir::error::LibrarySource::Compiler(file!()) }
