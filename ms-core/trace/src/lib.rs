//! From Rust calls to graphs: tracing, derivatives, vectorisation and effects.
//!
//! Modules in order: [`trace`] builds graphs from calls, [`transform`] differentiates and vectorises them, [`effects`]
//! orders reads and writes, [`passes`] are optimisation passes that name ops or trace. Each imports only what stands
//! before it.
//!
//! **Invariant:** A module imports only earlier modules. Test: `modules_import_only_earlier_modules` in
//! `tests/architecture/main.rs`.
//!
//! **Invariant:** Files form no circle of imports. Test: `files_form_no_new_circle` in `tests/architecture/circles.rs`.
//!
//! **Invariant:** Types with equal names have different keys in a signature. Test: `types_are_told_apart` in
//! `trace/type_key.rs`.
//!
//! **Invariant:** Derivatives through regions agree with differences. Test:
//! `derivatives_through_regions_agree_with_differences` in `transform/tests.rs`.
//!
//! **Invariant:** Forward and reverse mode agree. Tests: `tangents_agree_with_gradients` in `transform/tests.rs`,
//! `tangents_against_gradients` in `ms-core/runtime/tests/composites.rs`.
//!
//! **Invariant:** The level of copies changes no result. Test: `copies_and_results_at_every_level` in
//! `ms-backends/conformance/suites/effects/copies.rs`.

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
