//! Floating-point operations of an op.

use super::{CompositeRule, ConvResult, Lowering, SpatialForm, SpatialRule, definition};
use crate::data::{Attrs, Op, Type};

/// Counts the floating-point operations of an op on these types.
///
/// A multiply-add of a matrix product or a convolution counts two. Each float element that an elementwise op computes
/// or a reduction reads counts one. A composite counts the operations of its body. Data movement, integers, and ops
/// with regions count zero. Unknown sizes count as one.
///
/// ```
/// use ms_core::{DType, ops::{self, MATMUL}, tensor::{Attrs, Type}};
/// let of = |shape: &[usize]| Type::of(DType::F32, shape);
/// let work = ops::flops(MATMUL.op(), &Attrs::default(), &[&of(&[2, 3]), &of(&[3, 4])], &[of(&[2, 4])]);
/// assert_eq!(work, 2 * 2 * 3 * 4);
/// ```
pub fn flops(op: Op, attrs: &Attrs, inputs: &[&Type], outputs: &[Type]) -> u64 {
    let numel = |it: &Type| it.dims.iter().map(|dim| dim.as_const().unwrap_or(1) as u64).product::<u64>();
    let of_floats = |it: &&Type| it.dtype.is_float();
    let axis = |it: &Type, axis: usize| it.dims.get(axis).and_then(|it| it.as_const()).unwrap_or(1).max(1) as u64;
    match &definition(op).lowering {
        // Comparisons of floats count although their results are bools.
        Lowering::Map(_) if inputs.iter().any(of_floats) => outputs.iter().map(numel).sum(),
        Lowering::Reduce(_) => inputs.iter().copied().filter(of_floats).map(numel).sum(),
        Lowering::Contraction(ranks) => {
            let rank = inputs[0].rank();
            let summed = rank.saturating_sub(ranks(attrs, rank).k)..rank;
            2 * numel(&outputs[0]) * summed.map(|it| axis(inputs[0], it)).product::<u64>()
        }
        Lowering::Spatial(SpatialRule { form: SpatialForm::Convolution(geometry), .. }) => {
            // Each output element costs one multiply-add for each weight of its channel.
            let (output, weight) = match geometry(attrs, inputs).result {
                ConvResult::Output => (&outputs[0], inputs[1]),
                ConvResult::BackwardData => (inputs[0], inputs[1]),
                ConvResult::BackwardWeights => (inputs[1], &outputs[0]),
            };
            2 * numel(output) * numel(weight) / axis(weight, 0)
        }
        Lowering::Composite(CompositeRule { flops, .. }) => flops(attrs, inputs),
        _ => 0,
    }
}

/// Whether an op is a contraction or a convolution, or applies one.
#[doc(hidden)]
pub fn has_product(op: Op, attrs: &Attrs, inputs: &[&Type]) -> bool {
    match &definition(op).lowering {
        Lowering::Contraction(_) => true,
        Lowering::Spatial(rule) => matches!(rule.form, SpatialForm::Convolution(_)),
        Lowering::Composite(rule) => (rule.has_product)(attrs, inputs),
        _ => false,
    }
}
