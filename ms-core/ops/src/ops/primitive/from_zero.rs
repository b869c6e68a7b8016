//! `from_zero`: positions checked to be nonnegative.

use crate::ops::core::checked::evaluate;
use crate::ops::core::indices::check_index;
use crate::ops::{
    Batching, CheckRule, Derivative, Effects, Lowering, OpDef, Refused, Sample, SampleInput, TransformRules,
};
use crate::tensor::{Attrs, DType, OpInfo, Scalar, Tensor, apply1};
use ms_ir::body::body as build_body;
use ms_ir::error::{Code, Error};
use ms_ir::{KernelBuilder, Val};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`FROM_ZERO`].
    struct FromZeroAttrs { caller: str }
}

/// Returns the operand, and fails if an element is negative. `caller` is the op in the error.
pub static FROM_ZERO: OpDef = OpDef {
    info: OpInfo { number: 389, name: "from_zero", attrs: FromZeroAttrs::DECLARED },
    infer: |_, inputs| check_index(inputs[0]).map(|()| smallvec![inputs[0].clone()]),
    eval: |attrs, inputs| evaluate(&FROM_ZERO, attrs, inputs, |it| matches!(it, Scalar::UInt(_)) || it.as_i64() >= 0),
    effects: Effects::MAY_FAIL,
    lowering: Lowering::Check(CheckRule { operand: 0, accepts, refuse }),
    samples: || {
        let of = |dtype: DType, shape: &[usize]| {
            Sample::new([SampleInput::of(dtype, shape, 0.0, 9.0)]).attrs(FromZeroAttrs::attrs("sample"))
        };
        vec![of(DType::I64, &[5]), of(DType::I32, &[2, 3]), of(DType::I8, &[])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};

/// Builds whether a position is not negative. Unsigned ones never are.
fn accepts(_: &Attrs, body: &mut KernelBuilder, position: Val, _: &[Val]) -> Val {
    if !body.ty(position).is_signed_int() {
        return body.constant(true, DType::Bool);
    }
    build_body(body, &[position], |[position]| position.ge(0))
}

fn refuse(attrs: &Attrs, refused: &Refused<'_>) -> Error {
    let caller = FromZeroAttrs::of(attrs).caller();
    let (at, position) = (refused.position, refused.element);
    let message = format!("element {at} of the index is {position}, which is negative");
    Error::new(Code::OutOfRange, message).with_op(caller).help(
        "positions of this function count from 0; those of indexing (`at`, `i`), and of the functions in \
         `ops::wrapping`, may count from the end",
    )
}

/// Returns the positions; a negative one is an error at run time.
#[track_caller]
pub(in crate::ops) fn from_zero(positions: &Tensor, caller: &str) -> Tensor {
    propagate_poison!(positions);
    if !positions.dtype().is_signed_int() {
        return positions.clone();
    }
    apply1(FROM_ZERO.op(), &FromZeroAttrs::attrs(caller), &[positions])
}
