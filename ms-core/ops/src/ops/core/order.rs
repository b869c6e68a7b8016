//! The order of side effects.
//!
//! `print` and `assert` take a token and return the next one. The token is the value of a slot, like a parameter, and
//! its element has no meaning. Reading and writing it in program order forms one chain through calls, branches and
//! loops. The last token is a result of the graph, so nodes with effects have uses and passes need no special cases.

use crate::ops::BatchedCall;
use crate::tensor::{Array, Attrs, DType, Op, Outputs, Parameter, Role, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;
use std::cell::RefCell;
use std::sync::LazyLock;

thread_local! {
    static TOKEN: RefCell<Tensor> = RefCell::new(Tensor::from_array(token()));
}

/// Returns the slot of the token. Every thread has its token: effects of different threads are unordered and do not
/// wait for each other.
pub fn order() -> &'static Parameter {
    static ORDER: LazyLock<Parameter> = LazyLock::new(|| Parameter::of_thread(&TOKEN, "order", Role::Buffer));
    &ORDER
}

/// Returns the type of the token.
pub(in crate::ops) fn token_type() -> Type {
    Type::of(DType::U8, &[])
}

pub(in crate::ops) fn token() -> Array {
    Array::from_slice::<u8>(&[], &[0])
}

/// Checks that operand 0 is a token.
///
/// # Errors
/// [`Code::Argument`] if operand 0 is missing or not a token.
pub(in crate::ops) fn check_token(inputs: &[&Type]) -> Result<()> {
    match inputs.first() {
        Some(&ty) if *ty == token_type() => Ok(()),
        other => Err(Error::new(Code::Argument, format!("operand 0 is a token, {}, not {other:?}", token_type()))),
    }
}

/// Applies an op that takes and returns the token, after all earlier ones in program order.
#[track_caller]
pub(in crate::ops) fn apply_in_order(op: Op, attrs: &Attrs, inputs: &[&Tensor]) {
    let token = order().value();
    let inputs: Vec<&Tensor> = std::iter::once(&token).chain(inputs.iter().copied()).collect();
    order().set(&apply1(op, attrs, &inputs));
}

/// Batches an op that takes and returns the token: lane by lane, or once if no other operand has lanes.
pub(in crate::ops) fn batch_in_order(lanes: &BatchedCall<'_>) -> Result<Outputs> {
    let token = &lanes.inputs[0];
    // If the token has a lane axis, the result depends on all lanes.
    let mut token = if lanes.mapped[0] { crate::ops::max(token, 0) } else { token.clone() };
    let differ = lanes.mapped[1..].contains(&true);
    for lane in 0..if differ { lanes.count()? } else { 1 } {
        let mut operands = lanes.lane(lane);
        operands[0] = token;
        token = lanes.apply(lanes.attrs, &operands)?.remove(0);
    }
    Ok(smallvec![crate::ops::broadcast_to(&token, lanes.size)])
}
