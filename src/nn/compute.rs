//! Layers that compute in another dtype than that of their operands.

use ms_core::Tensor;
use ms_core::trace::ComputeDType;

/// An operand or a parameter in the dtype in which a layer computes.
#[track_caller]
pub(super) fn operand(compute: &ComputeDType, x: &Tensor) -> Tensor {
    match compute.get() {
        Some(dtype) if x.dtype().is_float() => x.cast(dtype),
        _ => x.clone(),
    }
}

/// The result of a layer, in the dtype of its operand.
#[track_caller]
pub(super) fn result(compute: &ComputeDType, y: Tensor, x: &Tensor) -> Tensor {
    match compute.get() {
        Some(_) if x.dtype().is_float() => y.cast(x.dtype()),
        _ => y,
    }
}
