//! The order of what ops do besides computing.
//!
//! `print` and `assert` take a token and give the next one. The token is the value of a slot, as
//! that of a parameter is, and its one element means nothing: reading and writing it in program
//! order makes one chain of them through calls, branches and loops, and the chain's last token is a
//! result of the graph. So passes need not ask what a node does: what has an effect is used.

use crate::error::{Code, Error, Result};
use crate::ops::BatchedCall;
use crate::tensor::{Array, Attrs, DType, Op, Outputs, Parameter, Tensor, Type, apart, apply1};
use smallvec::smallvec;
use std::sync::OnceLock;

/// The slot of the token.
pub fn order() -> &'static Parameter {
    static ORDER: OnceLock<Parameter> = OnceLock::new();
    // Apart: it belongs to no function, whichever one asks for it first.
    ORDER.get_or_init(|| {
        apart(|| {
            let order = Parameter::new(Tensor::from_array(token()), "order");
            order.set_requires_grad(false);
            order
        })
    })
}

/// The type of the token.
pub(in crate::ops) fn token_type() -> Type {
    Type::of(DType::U8, &[])
}

pub(in crate::ops) fn token() -> Array {
    Array::from_slice::<u8>(&[], &[0])
}

/// Whether operand 0 is a token.
///
/// # Errors
/// [`Code::Argument`] when it is not.
pub(in crate::ops) fn check_token(inputs: &[&Type]) -> Result<()> {
    match inputs.first() {
        Some(&ty) if *ty == token_type() => Ok(()),
        other => Err(Error::new(Code::Argument, format!("operand 0 is a token, {}, not {other:?}", token_type()))),
    }
}

/// Applies an op that takes and gives the token, behind all that stand before it in the program.
#[track_caller]
pub(in crate::ops) fn apply_in_order(op: Op, attrs: &Attrs, inputs: &[&Tensor]) {
    let token = order().value();
    let inputs: Vec<&Tensor> = std::iter::once(&token).chain(inputs.iter().copied()).collect();
    order().set(&apply1(op, attrs, &inputs));
}

/// An op that takes and gives the token, over lanes: one lane after the other, or once where they
/// do not differ.
pub(in crate::ops) fn batch_in_order(lanes: &BatchedCall<'_>) -> Result<Outputs> {
    let token = &lanes.inputs[0];
    // Where the lanes came here by ways of their own, the last of them decides.
    let mut token = if lanes.mapped[0] { crate::ops::max(token, 0, false) } else { token.clone() };
    let differ = lanes.mapped[1..].contains(&true);
    for lane in 0..if differ { lanes.count()? } else { 1 } {
        let mut operands = lanes.lane(lane);
        operands[0] = token;
        token = lanes.apply(lanes.attrs, &operands)?.remove(0);
    }
    Ok(smallvec![crate::ops::broadcast_to(&token, lanes.size)])
}
