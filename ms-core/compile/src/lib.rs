//! From graphs to plans of kernels, and their execution on a device.
//!
//! Modules in order: [`target`] describes a device, [`optimize`] rewrites graphs, [`lower`] makes plans of kernels,
//! [`exec`] runs plans through the driver of a device. Each imports only what stands before it.
//!
//! **Invariant:** Nothing here names `Tensor`, `Parameter` or an op: the crate does not depend on `ms-ops`. Tests:
//! `the_compiler_names_no_tensor` and `crates_depend_downwards` in `tests/architecture/main.rs`.
//!
//! **Invariant:** A module imports only earlier modules. Test: `modules_import_only_earlier_modules` in
//! `tests/architecture/main.rs`.
//!
//! **Invariant:** Files form no circle of imports. Test: `files_form_no_new_circle` in `tests/architecture/circles.rs`.
//!
//! **Invariant:** Passes preserve every bit. Only loop products may reorder sums, outside of strict precision. Tests:
//! `files` and `random_graphs_keep_their_bits` in `ms-core/runtime/tests/ir.rs`.
//!
//! **Invariant:** Buffers that are live at the same time never overlap. Test: `values_of_one_time_never_overlap` in
//! `lower/plan/memory.rs`.
//!
//! **Invariant:** A position is checked before an element at it is gathered. Test: `checks_before_gathers` in
//! `ms-core/runtime/tests/lower.rs`.
//!
//! **Invariant:** The budgets of a target bound the size of kernels. Test: `budgets_bound_kernels` in
//! `ms-core/runtime/tests/lower.rs`.
//!
//! **Invariant:** The waits of a plan are known and counted. Test: `waits_are_known_and_counted` in
//! `tests/devices/waits.rs`.

#![cfg_attr(ms_sanitize, feature(sanitize))]

pub mod exec;
pub mod lower;
pub mod optimize;
pub mod target;

/// The hash of the sources of this crate, which is a part of the keys of the compile cache.
pub const SOURCES: &str = env!("MS_COMPILE_SOURCES");

inventory::submit! { ms_ir::error::LibrarySource::Compiler(file!()) }
