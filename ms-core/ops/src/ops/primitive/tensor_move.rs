//! `tensor_move`: a copy.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::OpInfo;
use smallvec::smallvec;

/// Copies the operand: the old value of a parameter that stays live when the parameter is written. Inserted by
/// `effects`.
pub static TENSOR_MOVE: OpDef = OpDef {
    info: OpInfo { number: 734, name: "tensor_move", attrs: &[] },
    infer: |_, inputs| Ok(smallvec![inputs[0].clone()]),
    eval: |_, inputs| Ok(smallvec![inputs[0].on_host()?.to_contiguous()]),
    effects: Effects::NONE,
    lowering: Lowering::Map(|_, _, x| x[0]),
    samples: || vec![Sample::new([SampleInput::f32(&[3, 2], -2.0, 2.0)])],
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| smallvec![Some(it.cotangent().clone())]),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};
