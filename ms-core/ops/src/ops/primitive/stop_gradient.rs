//! `stop_gradient`: an identity that blocks gradients.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{AsTensor, Attrs, OpInfo, Tensor, apply1};
use smallvec::smallvec;

/// Returns the operand, and blocks its gradient.
pub static STOP_GRADIENT: OpDef = OpDef {
    info: OpInfo { number: 3, name: "stop_gradient", attrs: &[] },
    infer: |_, inputs| Ok(smallvec![inputs[0].clone()]),
    eval: |_, inputs| Ok(smallvec![inputs[0].on_host()?.to_contiguous()]),
    effects: Effects::NONE,
    lowering: Lowering::View(|_, layout| Some(layout.clone())),
    samples: || vec![Sample::new([SampleInput::f32(&[3, 2], -2.0, 2.0)])],
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};

/// Returns `x` as a constant for gradients.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::stop_gradient(tensor![1., 2.]).to_vec::<f32>(), [1., 2.]);
/// ```
#[track_caller]
pub fn stop_gradient(x: impl AsTensor) -> Tensor {
    apply1(STOP_GRADIENT.op(), &Attrs::none(), &[&*x.as_tensor()])
}
