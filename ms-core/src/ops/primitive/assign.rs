//! `assign`: a value as the next one of a slot.

use crate::error::{Code, Error};
use crate::ops::{Batching, Derivative, IntoOperand, Lowering, OpDef, Sample, SampleInput, add, sub};
use crate::tensor::{AsTensor, Attrs, OpInfo, Parameter, Tensor, apply1};
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
pub(crate) fn next_version(value: &Tensor, old: impl AsTensor) -> Tensor {
    apply1(ASSIGN.op(), &Attrs::none(), &[value, &*old.as_tensor()])
}

/// Writes a value into a parameter, and gives it: [`Parameter::set`] as an op. No gradient flows
/// from what it gives.
///
/// # Panics
/// Raises [`Code::Shape`] or [`Code::DType`](crate::Code::DType) for a value of another type than
/// the parameter's.
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

/// Adds to what a parameter holds, and gives the sum, from which no gradient flows. Of several
/// threads that do so, or run compiled functions that write the parameter, each adds to what the
/// one before it wrote.
///
/// # Panics
/// As [`assign`] and [`add`].
///
/// ```
/// use ms_core::{Parameter, Tensor, ops};
/// let count = Parameter::new(Tensor::scalar(1.0), "count");
/// assert_eq!(ops::assign_add(&count, 2.0).item::<f32>(), 3.0);
/// ```
#[track_caller]
pub fn assign_add(parameter: &Parameter, value: impl IntoOperand) -> Tensor {
    // Code of users may give it, before other threads wait.
    let value = value.operand();
    let _alone = parameter.lock();
    assign(parameter, add(parameter, value))
}

/// Subtracts from what a parameter holds, and gives the difference: as [`assign_add`].
///
/// # Panics
/// As [`assign`] and [`sub`].
///
/// ```
/// use ms_core::{Parameter, Tensor, ops};
/// let count = Parameter::new(Tensor::scalar(1.0), "count");
/// assert_eq!(ops::assign_sub(&count, 2.0).item::<f32>(), -1.0);
/// ```
#[track_caller]
pub fn assign_sub(parameter: &Parameter, value: impl IntoOperand) -> Tensor {
    // Code of users may give it, before other threads wait.
    let value = value.operand();
    let _alone = parameter.lock();
    assign(parameter, sub(parameter, value))
}
