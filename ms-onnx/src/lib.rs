//! ONNX models: [`export`] encodes a graph, and [`Importer`] applies the operators of a [`Model`] as ops.
//!
//! The crate stands below the runtime and the facade, so that a backend can export the graphs that it compiles. Callers
//! optimise a graph before its export, and trace an import.
//!
//! **Invariant:** this crate speaks of graphs, constants and names. It depends neither on the runtime nor on a backend,
//! and opens no file. Tests: `crates_depend_downwards` and `onnx_opens_no_file` in `tests/architecture/main.rs`.
//!
//! **Invariant:** an op is exported as operators with the same results up to rounding, or is an error. Test:
//! `every_op_is_a_model_or_refused` in `tests/onnx/export.rs`.
//!
//! **Invariant:** an operator is imported with all its attributes, or is an error. Tests:
//! `attributes_are_read_or_refused` in `tests/onnx/import.rs`, and `node_tests_of_the_standard_are_right_or_refused` in
//! `import/node_tests.rs`.
//!
//! **Invariant:** no bytes make the reader panic. Tests: `damaged_models_are_refused` and
//! `changed_models_are_refused_or_read` in `tests/onnx/import.rs`.

mod export;
mod import;

pub use export::{export, pass_context};
pub use import::{External, Importer, Model};

use ms_ir::DType;

inventory::submit! { ms_ir::error::LibrarySource::Compiler(file!()) }

/// Returns the element type of a dtype in `onnx.proto`.
pub fn element_type(dtype: DType) -> u64 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::U16 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::U32 => 12,
        DType::U64 => 13,
        DType::BF16 => 16,
    }
}

/// Returns the dtype of an element type; `None` for strings and other unsupported elements.
fn dtype(number: u64) -> Option<DType> {
    DType::ALL.into_iter().find(|&it| element_type(it) == number)
}
