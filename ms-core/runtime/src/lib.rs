//! The runtime of `ms`: calls, eager execution, autodiff and the compile cache, over the crates of the compiler, which
//! this crate re-exports.
//!
//! Crates in order: [`ms_ir`], [`ms_compile`], [`ms_ops`], [`ms_trace`], this one.
//!
//! **Invariant:** A crate depends only on earlier ones. Test: `crates_depend_downwards` in
//! `tests/architecture/main.rs`.
//!
//! **Invariant:** Nothing here names a backend. Test: `the_core_names_no_backend` in `tests/architecture/main.rs`.
//!
//! **Invariant:** Files form no circle of imports. Test: `files_form_no_new_circle` in `tests/architecture/circles.rs`.
//!
//! **Invariant:** All shapes of a class run one compiled eager step. Test:
//! `a_thousand_shapes_of_a_class_are_one_compilation` in `session/eager/tests.rs`.
//!
//! **Invariant:** The keys of the cache name the sources of every crate that decides results. Test:
//! `keys_of_the_cache_name_the_sources_of_every_crate` in `tests/architecture/main.rs`.
//!
//! **Invariant:** Every part of a cache key counts. Test: `every_part_counts` in `session/cache/entry.rs`.
//!
//! **Invariant:** A changed stored type changes the schema. Test: `a_changed_type_has_another_schema` in
//! `session/cache/entry.rs`.
//!
//! **Invariant:** A damaged or misnamed cache entry is not used. Tests: `damaged_entries_are_replaced` and
//! `an_entry_under_a_wrong_name_is_not_used` in `tests/compile_cache/faults.rs`.
//!
//! **Invariant:** A cache directory is accessible to its owner only. Test:
//! `only_the_owner_can_read_or_write_a_cache` in `tests/compile_cache/trust.rs`.

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
