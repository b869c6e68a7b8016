//! `assign`: writes of parameters.

use crate::ops::{
    Batching, Derivative, Effects, IntoOperand, Lowering, OpDef, Sample, SampleInput, TransformRules, add, sub,
};
use crate::tensor::{AsTensor, Attrs, OpInfo, Parameter, Tensor, apply1};
use ms_ir::error::{Code, Error, called};
use smallvec::smallvec;

/// Returns operand 0, the new value of a parameter whose old value is operand 1. Blocks gradients. Occurs in traced
/// graphs; `effects` replaces it.
pub static ASSIGN: OpDef = OpDef {
    info: OpInfo { number: 733, name: "assign", attrs: &[] },
    infer: |_, inputs| match inputs[0] == inputs[1] {
        true => Ok(smallvec![inputs[0].clone()]),
        false => Err(Error::new(Code::Shape, format!("{} cannot hold {}", inputs[1], inputs[0]))),
    },
    eval: |_, inputs| Ok(smallvec![inputs[0].on_host()?.to_contiguous()]),
    effects: Effects::WRITES,
    lowering: Lowering::View(|_, layout| Some(layout.clone())),
    samples: || {
        let operand = || SampleInput::f32(&[3, 2], -2.0, 2.0);
        vec![Sample::new([operand(), operand()])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, &[it.spread(0), it.spread(1)])),
        body: None,
    },
};

/// Makes `value` the new value of a slot with the value `old`.
#[track_caller]
#[doc(hidden)]
pub fn next_version(value: &Tensor, old: impl AsTensor) -> Tensor {
    apply1(ASSIGN.op(), &Attrs::none(), &[value, &*old.as_tensor()])
}

/// Writes a value to a parameter, and returns it without its gradient: [`Parameter::set`] as an op.
///
/// # Panics
/// Raises [`Code::Shape`] or [`Code::DType`](crate::Code::DType) for a value whose type differs from the parameter's.
///
/// ```
/// use ms_core::{Parameter, Tensor, ops};
/// let count = Parameter::new(Tensor::scalar(1.0), "count");
/// assert_eq!(ops::assign(&count, Tensor::scalar(5.0)).item::<f32>(), 5.0);
/// ```
#[track_caller]
pub fn assign(parameter: &Parameter, value: impl AsTensor) -> Tensor {
    parameter.set(&value.as_tensor());
    parameter.value()
}

/// Adds to the value of a parameter, and returns the sum, which blocks gradients. The update is atomic with respect to
/// updates by other threads, and to compiled functions that write the parameter.
///
/// # Panics
/// Panics in the cases of [`assign`] and [`add`].
///
/// ```
/// use ms_core::{Parameter, Tensor, ops};
/// let count = Parameter::new(Tensor::scalar(1.0), "count");
/// assert_eq!(ops::assign_add(&count, 2.0).item::<f32>(), 3.0);
/// ```
#[track_caller]
pub fn assign_add(parameter: &Parameter, value: impl IntoOperand) -> Tensor {
    let _called = called("assign_add");
    // The operand may run user code, so it is evaluated before the parameter is locked.
    let value = value.operand();
    let _alone = parameter.lock();
    assign(parameter, add(parameter, value))
}

/// Subtracts from the value of a parameter, and returns the difference; see [`assign_add`].
///
/// # Panics
/// Panics in the cases of [`assign`] and [`sub`].
///
/// ```
/// use ms_core::{Parameter, Tensor, ops};
/// let count = Parameter::new(Tensor::scalar(1.0), "count");
/// assert_eq!(ops::assign_sub(&count, 2.0).item::<f32>(), -1.0);
/// ```
#[track_caller]
pub fn assign_sub(parameter: &Parameter, value: impl IntoOperand) -> Tensor {
    let _called = called("assign_sub");
    // The operand may run user code, so it is evaluated before the parameter is locked.
    let value = value.operand();
    let _alone = parameter.lock();
    assign(parameter, sub(parameter, value))
}
