//! Exports functions as ONNX models, and imports ONNX models as functions.

mod export;
mod import;
#[cfg(test)]
mod tests;

use ms_core::DType;

/// Returns the element type of a dtype in `onnx.proto`.
fn element_type(dtype: DType) -> u64 {
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
