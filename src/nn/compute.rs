//! Casts of layers whose compute dtype differs from the dtype of their operands.

use ms_core::Tensor;
use ms_core::trace::ComputeDType;

/// Casts an operand or a parameter to the compute dtype of a layer.
#[track_caller]
pub(super) fn operand(compute: &ComputeDType, x: &Tensor) -> Tensor {
    match compute.get() {
        Some(dtype) if x.dtype().is_float() => x.cast(dtype),
        _ => x.clone(),
    }
}

/// Casts the result of a layer back to the dtype of its operand.
#[track_caller]
pub(super) fn result(compute: &ComputeDType, y: Tensor, x: &Tensor) -> Tensor {
    match compute.get() {
        Some(_) if x.dtype().is_float() => y.cast(x.dtype()),
        _ => y,
    }
}
