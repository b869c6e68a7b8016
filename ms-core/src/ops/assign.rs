//! `assign`: a value as the next one of a slot.

use super::{Batching, Derivative, Lowering, OpDef, Sample, SampleInput};
use crate::error::{Code, Error};
use crate::tensor::{AsTensor, Attrs, OpInfo, Tensor, apply1};
use smallvec::smallvec;

/// Operand 0, which a parameter holds from here on instead of operand 1. No gradient flows
/// through. It stands in graphs as they are traced; `effects` replaces it.
pub static ASSIGN: OpDef = OpDef {
    info: OpInfo { number: 733, name: "assign", attrs: &[] },
    infer: |_, inputs| match inputs[0] == inputs[1] {
        true => Ok(smallvec![inputs[0].clone()]),
        false => Err(Error::new(Code::Shape, format!("{} cannot hold {}", inputs[1], inputs[0]))),
    },
    eval: |_, inputs| Ok(smallvec![inputs[0].to_contiguous()]),
    derivative: Derivative::Zero,
    batching: Batching::Rule(|it| it.apply(it.attrs, &[it.spread(0), it.spread(1)])),
    lowering: Lowering::View(|_, layout| Some(layout.clone())),
    samples: || {
        let operand = || SampleInput::f32(&[3, 2], -2.0, 2.0);
        vec![Sample::new([operand(), operand()])]
    },
};

/// `value` as what a slot holds after `old`.
#[track_caller]
pub(crate) fn assign(value: &Tensor, old: impl AsTensor) -> Tensor {
    apply1(ASSIGN.op(), &Attrs::none(), &[value, &*old.as_tensor()])
}
