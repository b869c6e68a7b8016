//! `if`: a branch between two regions.

use crate::ops::core::regions::{check_condition, check_operands, output_types};
use crate::ops::evaluate_graph;
use crate::ops::{Batching, Control, Derivative, Effects, Lowering, OpDef, RegionRule, TransformRules};
use crate::tensor::OpInfo;
use ms_ir::error::{Code, Error};

/// Returns the results of region 0 if operand 0, a `bool[]`, is true, and of region 1 otherwise. Both take the
/// remaining operands, and their results have the same types.
pub static IF: OpDef = OpDef {
    info: OpInfo { number: 702, name: "if", attrs: &[] },
    infer: |_, _| Err(Error::new(Code::Argument, "the types of an `if` are those of its regions")),
    eval: |_, _| Err(Error::new(Code::Argument, "an `if` is evaluated with its regions")),
    effects: Effects::REGIONS,
    lowering: Lowering::Regions(RegionRule {
        count: 2,
        control: |_| Control::Branch,
        infer: |_, regions, inputs| {
            check_condition(inputs.first().copied())?;
            regions.iter().try_for_each(|it| check_operands(it, &inputs[1..]))?;
            if !output_types(&regions[0]).eq(output_types(&regions[1])) {
                let [yes, no] = [0, 1].map(|it| output_types(&regions[it]).cloned().collect::<Vec<_>>());
                return Err(Error::new(Code::Argument, format!("the branches give {yes:?} and {no:?}")));
            }
            Ok(output_types(&regions[0]).cloned().collect())
        },
        eval: |_, regions, inputs| {
            let taken = if inputs[0].on_host()?.as_slice::<bool>()?[0] { 0 } else { 1 };
            Ok(evaluate_graph(&regions[taken], &inputs[1..])?.into())
        },
    }),
    samples: Vec::new,
    transforms: &TransformRules {
        derivative: Derivative::None("transforms differentiate its regions"),
        finite_derivatives: false,
        batching: Batching::Derived,
        body: None,
    },
};
