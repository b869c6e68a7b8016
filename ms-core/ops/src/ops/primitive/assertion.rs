//! `assert`: an error unless a condition holds.

use crate::ops::core::checked::evaluate;
use crate::ops::core::message::{Message, Show, show_arrays};
use crate::ops::core::order::{apply_in_order, batch_in_order, check_token, token_type};
use crate::ops::{
    Batching, CheckRule, Derivative, Effects, Lowering, OpDef, Refused, Sample, SampleInput, TransformRules,
};
use crate::tensor::{AsTensor, Attrs, DType, OpInfo, Scalar, Tensor};
use ms_ir::error::{Code, Error, OrRaise};
use smallvec::smallvec;
use std::panic::Location;

attributes! {
    /// The attributes of [`ASSERT`].
    struct AssertAttrs { text: str, line: str }
}

/// Fails unless every element of operand 1 is true. `text` is the message, whose placeholders `{}` are filled with the
/// operands after it, and `line` is the caller's line.
pub static ASSERT: OpDef = OpDef {
    info: OpInfo { number: 731, name: "assert", attrs: AssertAttrs::DECLARED },
    infer: |_, inputs| {
        check_token(inputs)?;
        match inputs[1] {
            it if it.dtype == DType::Bool => Ok(smallvec![token_type()]),
            other => Err(Error::new(Code::DType, format!("an assertion is on bools, not on {other}"))),
        }
    },
    eval: |attrs, inputs| evaluate(&ASSERT, attrs, inputs, Scalar::as_bool),
    effects: Effects::ORDERED.and(Effects::MAY_FAIL),
    lowering: Lowering::Check(CheckRule { operand: 1, accepts: |_, _, holds, _| holds, refuse }),
    samples: || {
        let operands = [SampleInput::of(DType::U8, &[], 0.0, 0.0), SampleInput::of(DType::Bool, &[2], 1.0, 1.0)];
        vec![Sample::new(operands).attrs(AssertAttrs::attrs("sample", "sample"))]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(batch_in_order),
        body: None,
    },
};

fn refuse(attrs: &Attrs, refused: &Refused<'_>) -> Error {
    let it = AssertAttrs::of(attrs);
    Error::new(Code::Assertion, show_arrays(it.text(), refused.shown)).at_line(it.line())
}

/// Checks that every element of `condition` is true. Otherwise the run ends with an error at the caller's line. The
/// message is `text` with its placeholders `{}` filled with `values`. Assertions keep program order with prints and
/// writes of parameters, eagerly and in compiled code.
///
/// A compiled call that fails writes none of its parameters.
///
/// ```
/// use ms_core::{Code, catch, ops, tensor};
/// let x = tensor![1.0, -2.0];
/// let error = catch(|| ops::assert_that(&x.ge(0.0), "negative: {}", &[&x])).expect_err("it does not hold");
/// assert_eq!(error.code(), Code::Assertion);
/// assert!(error.to_string().contains("negative: [ 1. -2.]"));
/// ```
///
/// # Panics
/// Raises [`Code::Assertion`] if an element is false, [`Code::DType`] if the condition is not of bools, and
/// [`Code::Argument`] if the numbers of placeholders and values differ.
#[track_caller]
pub fn assert_that(condition: impl AsTensor, text: &str, values: &[&dyn Show]) {
    let message = Message::new(text, values).map_err(|it| it.with_op("assert")).or_raise();
    let condition = condition.as_tensor();
    let inputs: Vec<&Tensor> = std::iter::once(&*condition).chain(&message.tensors).collect();
    let line = Location::caller().to_string();
    apply_in_order(ASSERT.op(), &AssertAttrs::attrs(&*message.text, &*line), &inputs);
}
