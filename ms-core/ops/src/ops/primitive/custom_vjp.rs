//! `custom_vjp`: a region with a custom derivative.

use crate::ops::core::regions::{check_operands, output_types};
use crate::ops::{
    Batching, Control, CustomVjp, Derivative, Effects, Lowering, OpDef, RegionRule, TransformRules, evaluate_graph,
};
use crate::tensor::{Attrs, OpInfo, Type};
use ms_ir::error::{Code, Error};

fn refuse(message: &str) -> Error {
    Error::new(Code::Argument, message).with_op("custom_vjp")
}

/// Returns the outputs of region 0 on the operands: `targets`, which have gradients, and `captured` values, which have
/// none.
///
/// Region 1 returns the gradients of the targets. Its inputs are the targets, the first `results` outputs, the
/// gradients of the float ones among these, and the operands that region 0 does not take.
///
/// Parameters that region 1 writes are threaded from one backward function to the one that runs after it. Each of the
/// `slots` ([`Parameter::backward`](crate::tensor::Parameter::backward)) is an operand after the targets and an output
/// after the results, with a meaningless value. The gradient of a slot is the value of the parameter. It is an input of
/// region 1 after the gradients of the results, and an output after the gradients of the targets.
pub static CUSTOM_VJP: OpDef = OpDef {
    info: OpInfo { number: 706, name: "custom_vjp", attrs: CustomVjpAttrs::DECLARED },
    infer: |_, _| Err(refuse("the types are those of the graph that has the derivative")),
    eval: |_, _| Err(refuse("it is evaluated with the graph that has the derivative")),
    effects: Effects::REGIONS,
    lowering: Lowering::Regions(RegionRule {
        count: 2,
        control: |attrs| Control::CustomVjp(partition(attrs)),
        infer: |attrs, regions, inputs| {
            let at = partition(attrs);
            let own = inputs.get(..at.captured).ok_or_else(|| refuse("an operand is missing"))?;
            check_operands(&regions[0], own)?;
            let results: Vec<&Type> = output_types(&regions[0]).collect();
            let differentiated = results.get(..at.results).ok_or_else(|| refuse("a result is missing"))?;
            let slots = results.get(at.slot_results()).ok_or_else(|| refuse("a slot is missing"))?;
            let floats = differentiated.iter().filter(|it| it.dtype.is_float());
            let given: Vec<&Type> = own[..at.targets]
                .iter()
                .chain(differentiated)
                .chain(floats)
                .chain(slots)
                .chain(&inputs[at.captured..])
                .copied()
                .collect();
            check_operands(&regions[1], &given)?;
            if !output_types(&regions[1]).eq(own[..at.gradients()].iter().copied()) {
                return Err(refuse("a gradient is of another type than its operand"));
            }
            Ok(results.into_iter().cloned().collect())
        },
        eval: |attrs, regions, inputs| Ok(evaluate_graph(&regions[0], &inputs[..partition(attrs).captured])?.into()),
    }),
    samples: Vec::new,
    transforms: &TransformRules {
        derivative: Derivative::None("its derivative is its second graph"),
        finite_derivatives: false,
        batching: Batching::Derived,
        body: None,
    },
};

attributes! {
    /// The attributes of [`CUSTOM_VJP`].
    struct CustomVjpAttrs { targets: usize, captured: usize, results: usize, slots: usize }
}

/// Reads the partition from a node's attributes.
fn partition(attrs: &Attrs) -> CustomVjp {
    let it = CustomVjpAttrs::of(attrs);
    let (targets, slots) = (it.targets(), it.slots());
    CustomVjp { targets, captured: targets + slots + it.captured(), results: it.results(), slots }
}

pub(in crate::ops) fn attrs(at: &CustomVjp) -> Attrs {
    CustomVjpAttrs::attrs(at.targets, at.captured - at.gradients(), at.results, at.slots)
}
