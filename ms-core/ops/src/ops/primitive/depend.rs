//! `depend`: a control dependency.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{AsTensor, Attrs, DispatchMode, OpInfo, Tensor, apply1, dispatch_mode};
use smallvec::smallvec;

/// Returns operand 0, once operand 1 has been computed.
pub static DEPEND: OpDef = OpDef {
    info: OpInfo { number: 732, name: "depend", attrs: &[] },
    infer: |_, inputs| Ok(smallvec![inputs[0].clone()]),
    eval: |_, inputs| Ok(smallvec![inputs[0].on_host()?.to_contiguous()]),
    effects: Effects::NONE,
    lowering: Lowering::Library,
    samples: || vec![Sample::new([SampleInput::f32(&[2, 3], -1.0, 1.0), SampleInput::f32(&[2], -1.0, 1.0)])],
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| smallvec![Some(it.cotangent().clone()), None]),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, &[it.spread(0), it.inputs[1].clone()])),
        body: None,
    },
};

/// Returns `value`, once `on` has been computed: uses of the result run after `on`. Gradients pass through to `value`.
///
/// Eager code runs in program order, and the result is `value` itself. Prints, assertions and writes keep program order
/// without this op.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (x, y) = (tensor![1.0], tensor![2.0]);
/// let a = ops::exp(&x);
/// let b = ops::sqrt(&ops::depend(&y, &a));
/// # assert_eq!(b.shape(), [1]);
/// ```
#[track_caller]
pub fn depend(value: impl AsTensor, on: impl AsTensor) -> Tensor {
    let (value, on) = (value.as_tensor(), on.as_tensor());
    if dispatch_mode() != DispatchMode::Trace {
        return value.into_owned();
    }
    apply1(DEPEND.op(), &Attrs::none(), &[&*value, &*on])
}
