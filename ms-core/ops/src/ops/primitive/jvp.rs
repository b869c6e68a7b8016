//! `jvp`: a region with the tangents of its outputs, until it is expanded.

use super::value_and_grad::check_differentiated;
use crate::ops::core::regions::{check_operands, output_types};
use crate::ops::{Batching, Control, Derivative, Effects, Lowering, OpDef, RegionRule, TransformNode, TransformRules};
use crate::tensor::{AttrRange, OpInfo};
use ms_ir::error::{Code, Error};

fn refuse(message: &str) -> Error {
    Error::new(Code::Argument, message).with_op("jvp")
}

/// Returns the outputs of region 0 on the operands, then the tangents of the float ones among its first `results`
/// outputs. The operands of the region are followed by the tangents of the operands `wrt`.
pub static JVP: OpDef = OpDef {
    info: OpInfo { number: 705, name: "jvp", attrs: JvpAttrs::DECLARED },
    infer: |_, _| Err(refuse("the types are those of the graph that is differentiated")),
    eval: |_, _| Err(refuse("it is evaluated with the graph that is differentiated")),
    effects: Effects::REGIONS,
    lowering: Lowering::Regions(RegionRule {
        count: 1,
        control: |attrs| {
            let it = JvpAttrs::of(attrs);
            Control::TransformNode(TransformNode::Jvp { wrt: it.wrt().sizes().into_vec(), results: it.results() })
        },
        infer: |attrs, regions, inputs| {
            let wrt = JvpAttrs::of(attrs).wrt().sizes();
            let own = inputs.len().checked_sub(wrt.len()).ok_or_else(|| refuse("an operand has no tangent"))?;
            let (own, tangents) = inputs.split_at(own);
            check_operands(&regions[0], own)?;
            check_differentiated(&regions[0], &wrt, JvpAttrs::of(attrs).results())?;
            if !wrt.iter().zip(tangents).all(|(&at, tangent)| own[at] == *tangent) {
                return Err(refuse("a tangent is of another type than its operand"));
            }
            let results = output_types(&regions[0]);
            let tangents =
                output_types(&regions[0]).take(JvpAttrs::of(attrs).results()).filter(|it| it.dtype.is_float());
            Ok(results.chain(tangents).cloned().collect())
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

attributes! {
    /// The attributes of [`JVP`].
    pub(in crate::ops) struct JvpAttrs { wrt: [i64] where 0..=AttrRange::FACTOR, results: usize }
}
