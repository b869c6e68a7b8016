//! `value_and_grad`: a sub-graph with its gradients, until it is expanded.

use super::rules::region_only;
use super::{Derivative, Lowering, OpDef};
use crate::tensor::OpInfo;

/// The outputs of the region on the operands, then the gradients of the sum of its first
/// `results` outputs with respect to the operands `wrt`. Typed by whoever makes the node.
pub static VALUE_AND_GRAD: OpDef = OpDef {
    info: OpInfo { number: 701, name: "value_and_grad", attrs: &["wrt", "results"] },
    infer: |_, _| Err(region_only("value_and_grad")),
    eval: |_, _| Err(region_only("value_and_grad")),
    derivative: Derivative::None("it is expanded before it is differentiated"),
    lowering: Lowering::Region,
    samples: Vec::new,
};
