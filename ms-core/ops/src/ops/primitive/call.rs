//! `call`: a region applied to operands.

use crate::ops::core::regions::applied;
use crate::ops::{Batching, Control, Derivative, Effects, OpDef, TransformRules};
use crate::tensor::{Attrs, OpInfo};
use ms_ir::error::{Code, Error};

const fn call(number: u16, name: &'static str, control: fn(&Attrs) -> Control) -> OpDef {
    OpDef {
        info: OpInfo { number, name, attrs: &[] },
        infer: |_, _| Err(Error::new(Code::Argument, "the types of a call are those of the graph that it calls")),
        eval: |_, _| Err(Error::new(Code::Argument, "a call is evaluated with the graph that it calls")),
        effects: Effects::REGIONS,
        lowering: applied(control),
        samples: Vec::new,
        transforms: &TransformRules {
            derivative: Derivative::None("transforms differentiate the graph that it calls"),
            finite_derivatives: false,
            batching: Batching::Derived,
            body: None,
        },
    }
}

/// Applies region 0 to the operands. Calls of one graph share it, so it is optimised, differentiated and lowered once.
pub static CALL: OpDef = call(700, "call", |_| Control::Call { inline: true });

/// A [`CALL`] that is never inlined, for `#[no_inline]`.
pub static CALL_NO_INLINE: OpDef = call(708, "call_no_inline", |_| Control::Call { inline: false });
