//! Arithmetic of narrow floats in composites and composed functions. f16 and bf16 operands are widened to f32, and
//! results are rounded once.
//!
//! The square of 300 overflows in f16, and bf16 has eight bits of significand. A rounded intermediate value would lose
//! digits that the result needs, or be infinite where the result is finite.

use crate::ops::{Body, Cotangents, Vjp, cast};
use crate::tensor::{Attrs, DType, Outputs, Tensor, promote};
use smallvec::SmallVec;
use std::iter;

/// The arithmetic inside a composite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ops) enum Inner {
    /// Widens narrow floats. The first `rounded` results have the dtype of the operands. Only the derivative reads the
    /// others, which stay wide.
    Wide { rounded: usize },
    /// Computes in the dtype of the operands.
    OperandDtype,
}

impl Inner {
    /// The arithmetic of a composite with one result for the user.
    pub const DEFAULT: Self = Self::Wide { rounded: 1 };

    /// Returns `other`, which overrides this default.
    pub const fn or(self, other: Self) -> Self {
        other
    }
}

/// Returns the promoted dtype of the operands; `None` if none of them is narrow.
pub(in crate::ops) fn result_dtype<'a>(operands: impl IntoIterator<Item = Option<&'a Tensor>>) -> Option<DType> {
    let (mut result, mut is_narrow) = (None, false);
    for dtype in operands.into_iter().flatten().map(Tensor::dtype) {
        is_narrow |= dtype.is_narrow_float();
        result = Some(result.map_or(dtype, |it| promote(it, dtype)));
    }
    result.filter(|_| is_narrow)
}

/// Widens narrow floats.
#[track_caller]
pub(in crate::ops) fn widened(x: &Tensor) -> Tensor {
    if x.dtype().is_narrow_float() { cast(x, x.dtype().compute()) } else { x.clone() }
}

/// Rounds a float result to `dtype`, if that is a narrow float.
#[track_caller]
pub(in crate::ops) fn rounded(y: Tensor, dtype: DType) -> Tensor {
    if dtype.is_narrow_float() && y.dtype().is_float() { cast(y, dtype) } else { y }
}

/// Applies the body of a composite in the arithmetic `inner`.
pub(in crate::ops) fn run_body(body: Body, inner: Inner, attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let dtype = result_dtype(inputs.iter().map(|&it| Some(it)));
    let (Some(dtype), Inner::Wide { rounded: count }) = (dtype, inner) else { return body(attrs, inputs) };
    let wide: SmallVec<[Tensor; 6]> = inputs.iter().map(|it| widened(it)).collect();
    let mut outputs = body(attrs, &wide.iter().collect::<SmallVec<[&Tensor; 6]>>());
    for it in outputs.iter_mut().take(count) {
        *it = rounded(it.clone(), dtype);
    }
    outputs
}

/// Applies the derivative rule of a composite in the arithmetic `inner`.
pub(in crate::ops) fn run_rule(rule: fn(&Vjp<'_>) -> Cotangents, inner: Inner, it: &Vjp<'_>) -> Cotangents {
    if inner == Inner::OperandDtype || result_dtype(it.inputs.iter().map(Some)).is_none() {
        return rule(it);
    }
    let all_wide = |all: &[Tensor]| all.iter().map(widened).collect::<Vec<_>>();
    let cotangents: Vec<Option<Tensor>> = it.cotangents.iter().map(|it| it.as_ref().map(widened)).collect();
    let (inputs, outputs) = (all_wide(it.inputs), all_wide(it.outputs));
    let all = rule(&Vjp { inputs: &inputs, outputs: &outputs, cotangents: &cotangents, ..*it });
    iter::zip(all, it.inputs).map(|(gradient, operand)| gradient.map(|it| cast(it, operand.dtype()))).collect()
}

/// Returns the result of `call` on widened operands from the enclosing function, if one of the operands is narrow.
/// Operands are references; operands after `;` are optional references.
macro_rules! compute_wide {
    ($($operand:ident),* $(; $($option:ident),*)? => $call:expr) => {
        let dtype = $crate::ops::core::wide::result_dtype([$(Some($operand)),* $($(, $option)*)?]);
        if let Some(dtype) = dtype {
            $(let $operand = &$crate::ops::core::wide::widened($operand);)*
            $($(
                let $option = $option.map(|it| $crate::ops::core::wide::widened(it));
                let $option = $option.as_ref();
            )*)?
            return $crate::ops::core::wide::rounded($call, dtype);
        }
    };
}
