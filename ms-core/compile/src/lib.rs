//! From graphs to plans of kernels, and their execution on a device.
//!
//! Modules in order: [`target`] describes a device, [`optimize`] rewrites graphs, [`lower`] makes plans of kernels,
//! [`exec`] runs plans through the driver of a device. Each imports only what stands before it.
//!
//! **Invariant:** nothing here names `Tensor`, `Parameter` or an op: the crate does not depend on `ms-ops`. Tests:
//! `the_compiler_names_no_tensor` and `crates_depend_downwards` in `tests/architecture/main.rs`.

#![cfg_attr(ms_sanitize, feature(sanitize))]

pub mod exec;
pub mod lower;
pub mod optimize;
pub mod target;

/// The hash of the sources of this crate, which is a part of the keys of the compile cache.
pub const SOURCES: &str = env!("MS_COMPILE_SOURCES");

inventory::submit! { ms_ir::error::LibrarySource::Compiler(file!()) }
