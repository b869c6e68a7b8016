//! `add`: the sum of two tensors.

use super::operand::unify;
use super::rules::{eval_binary, same_dtype, sum_to};
use super::{Derivative, IntoOperand, Lowering, OpDef, Sample, SampleInput};
use crate::error::OrRaise;
use crate::ir::BinaryOp;
use crate::tensor::{Attrs, OpInfo, Tensor, apply1};
use smallvec::smallvec;

/// `a + b` on operands of one dtype, broadcast.
pub static ADD: OpDef = OpDef {
    info: OpInfo { number: 100, name: "add", attrs: &[] },
    infer: same_dtype,
    eval: |_, inputs| eval_binary(inputs, |a, b| a + b, |a, b| a + b),
    derivative: Derivative::Rule(|it| {
        let g = it.cotangent();
        smallvec![Some(sum_to(g, &it.inputs[0])), Some(sum_to(g, &it.inputs[1]))]
    }),
    lowering: Lowering::Map(|_, body, v| body.binary(BinaryOp::Add, v[0], v[1])),
    samples: || {
        vec![
            Sample::new([SampleInput::f32(&[3, 5], -2.0, 2.0), SampleInput::f32(&[3, 5], -2.0, 2.0)]),
            Sample::new([SampleInput::f32(&[4, 1, 3], -2.0, 2.0), SampleInput::f32(&[2, 1], -2.0, 2.0)]),
        ]
    },
};

/// The sum `a + b`, broadcast by NumPy's rules; dtypes promote.
///
/// # Panics
/// Raises [`Code::Shape`](crate::Code::Shape) when the shapes do not broadcast.
///
/// ```
/// use ms_core::{Tensor, ops};
/// let sum = ops::add(&Tensor::from_slice([2], &[1.0f32, 2.0]), 1.0);
/// ```
#[track_caller]
pub fn add(a: impl IntoOperand, b: impl IntoOperand) -> Tensor {
    let (a, b) = unify(a.operand(), b.operand()).or_raise();
    apply1(ADD.op(), &Attrs::none(), &[&a, &b])
}
