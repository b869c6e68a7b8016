//! `value_and_grad`: a region with its gradients, until it is expanded.

use crate::ops::core::regions::{check_operands, output_types};
use crate::ops::{Batching, Control, Derivative, Effects, Lowering, OpDef, RegionRule, TransformNode, TransformRules};
use crate::tensor::{AttrRange, OpInfo};
use ms_ir::Graph;
use ms_ir::error::{Code, Error, Result};

fn refuse(message: &str) -> Error {
    Error::new(Code::Argument, message).with_op("value_and_grad")
}

/// Returns the outputs of region 0 on the operands, then gradients with respect to the operands `wrt`. The gradients
/// are of the sum of the first `results` outputs. If `seeded` is set, the operands of the region are followed by the
/// weights of these outputs in the sum.
pub static VALUE_AND_GRAD: OpDef = OpDef {
    info: OpInfo { number: 701, name: "value_and_grad", attrs: ValueAndGradAttrs::DECLARED },
    infer: |_, _| Err(refuse("the types are those of the graph that is differentiated")),
    eval: |_, _| Err(refuse("it is evaluated with the graph that is differentiated")),
    effects: Effects::REGIONS,
    lowering: Lowering::Regions(RegionRule {
        count: 1,
        control: |attrs| {
            let it = ValueAndGradAttrs::of(attrs);
            let (wrt, results, seeded) = (it.wrt().sizes().into_vec(), it.results(), it.seeded());
            Control::TransformNode(TransformNode::ValueAndGrad { wrt, results, seeded })
        },
        infer: |attrs, regions, inputs| {
            let at = ValueAndGradAttrs::of(attrs);
            let seeds = if at.seeded() { at.results() } else { 0 };
            let own = inputs.len().checked_sub(seeds).ok_or_else(|| refuse("there are fewer operands than weights"))?;
            check_operands(&regions[0], &inputs[..own])?;
            check_differentiated(&regions[0], &at.wrt().sizes(), at.results())?;
            if !output_types(&regions[0]).zip(&inputs[own..]).all(|(result, seed)| result == *seed) {
                return Err(refuse("a weight is of another type than its result"));
            }
            let results = output_types(&regions[0]).cloned();
            let gradients = at.wrt().sizes().into_iter().map(|at| inputs[at].clone());
            Ok(results.chain(gradients).collect())
        },
        eval: |_, _, _| Err(refuse("it is expanded before it is evaluated")),
    }),
    samples: Vec::new,
    transforms: &TransformRules {
        derivative: Derivative::None("it is expanded before it is differentiated"),
        finite_derivatives: false,
        batching: Batching::Derived,
        body: None,
    },
};

/// Checks that the operands `wrt` and the first `results` outputs of a differentiated graph exist.
///
/// # Errors
/// [`Code::Argument`](crate::Code::Argument) if one does not.
pub(super) fn check_differentiated(region: &Graph, wrt: &[usize], results: usize) -> Result<()> {
    if results > region.outputs().len() || wrt.iter().any(|&it| it >= region.inputs().len()) {
        return Err(refuse("an operand or a result that is differentiated does not exist"));
    }
    Ok(())
}

attributes! {
    /// The attributes of [`VALUE_AND_GRAD`].
    pub(in crate::ops) struct ValueAndGradAttrs { wrt: [i64] where 0..=AttrRange::FACTOR, results: usize, seeded: bool }
}
