//! From Rust calls to graphs: tracing, derivatives, vectorisation and effects.
//!
//! Modules in order: [`trace`] builds graphs from calls, [`transform`] differentiates and vectorises them, [`effects`]
//! orders reads and writes, [`passes`] are optimisation passes that name ops or trace. Each imports only what stands before it.

#![cfg_attr(ms_sanitize, feature(sanitize))]

#[doc(hidden)]
pub use ms_ops::tensor;

pub mod effects;
pub mod passes;
pub mod trace;
pub mod transform;

/// The hash of the sources of this crate, which is a part of the keys of the compile cache.
pub const SOURCES: &str = env!("MS_TRACE_SOURCES");

inventory::submit! { ms_ir::error::LibrarySource::Compiler(file!()) }

// The runtime's executor stands above this crate.
#[cfg(test)]
inventory::submit! { tensor::EagerDispatcher(&ms_ops::ops::core::testing::TestExecutor) }
