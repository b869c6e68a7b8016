//! `recompute`: a region whose values are recomputed for its gradients.

use crate::ops::core::regions::applied;
use crate::ops::{Batching, Control, Derivative, Effects, OpDef, TransformRules};
use crate::tensor::OpInfo;
use ms_ir::error::{Code, Error};

/// Returns the results of region 0 on the operands. Only the operands are stored for gradients. Other values are
/// recomputed once the gradients of the results are available.
pub static RECOMPUTE: OpDef = OpDef {
    info: OpInfo { number: 707, name: "recompute", attrs: &[] },
    infer: |_, _| Err(Error::new(Code::Argument, "the types are those of the graph")),
    eval: |_, _| Err(Error::new(Code::Argument, "it is evaluated with its graph")),
    effects: Effects::REGIONS,
    lowering: applied(|_| Control::Recompute),
    samples: Vec::new,
    transforms: &TransformRules {
        derivative: Derivative::None("transforms differentiate its graph"),
        finite_derivatives: false,
        batching: Batching::Derived,
        body: None,
    },
};
