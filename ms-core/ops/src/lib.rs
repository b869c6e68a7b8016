//! Tensors, parameters, and ops with their types, reference evaluation, derivatives and lowering rules.
//!
//! The definition of an op has two halves. [`OpDef`](ops::OpDef) in `ms-ir` is what the compiler reads, and
//! [`TransformRules`](ops::TransformRules) is what transforms read. The file of an op declares both.
//!
//! **Invariant:** Files form no circle of imports. Test: `files_form_no_new_circle` in `tests/architecture/circles.rs`.
//!
//! **Invariant:** No module outside of [`ops`] names an op, except the files of a list. Test:
//! `ops_are_named_in_ops_and_in_the_listed_files` in `tests/architecture/main.rs`.
//!
//! **Invariant:** Adding a primitive touches its file and the list in `ops/primitive/mod.rs`. Test:
//! `adding_an_op_touches_one_file` in `tests/architecture/main.rs`.
//!
//! **Invariant:** `Tensor` and `Parameter` are `Send + Sync`. Test: `shared_types_are_send_and_sync` in
//! `tests/architecture/main.rs`.
//!
//! **Invariant:** A composite and its expanded body have equal bits in the reference evaluation. Test: `values` in
//! `ms-core/runtime/tests/composites.rs`.
//!
//! **Invariant:** The rules of a composite agree with differences in first and second order. Tests: `gradients` and
//! `second_order` in `ms-core/runtime/tests/composites.rs`.

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
