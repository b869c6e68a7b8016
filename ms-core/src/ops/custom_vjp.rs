//! `custom_vjp`: a graph with a derivative of its own.

use super::regions::{check_operands, output_types};
use super::{Batching, Derivative, Lowering, OpDef, RegionRule, evaluate_graph};
use crate::error::{Code, Error};
use crate::tensor::{Attrs, OpInfo, Type};

fn refuse(message: &str) -> Error {
    Error::new(Code::Argument, message).with_op("custom_vjp")
}

/// The outputs of region 0 on its operands: `targets`, which have gradients, and `captured` values,
/// which have none.
///
/// Region 1 gives the gradients of the targets. It takes the targets, the first `results` outputs,
/// the gradients of the float ones among these, and the operands behind those of region 0.
pub static CUSTOM_VJP: OpDef = OpDef {
    info: OpInfo { number: 706, name: "custom_vjp", attrs: &["targets", "captured", "results"] },
    infer: |_, _| Err(refuse("the types are those of the graph that has the derivative")),
    eval: |_, _| Err(refuse("it is evaluated with the graph that has the derivative")),
    derivative: Derivative::None("its derivative is its second graph"),
    batching: Batching::Derived,
    lowering: Lowering::Regions(RegionRule {
        count: 2,
        infer: |attrs, regions, inputs| {
            let at = CustomVjp::of(attrs);
            let own = inputs.get(..at.captured).ok_or_else(|| refuse("an operand is missing"))?;
            check_operands(&regions[0], own)?;
            let results: Vec<&Type> = output_types(&regions[0]).collect();
            let differentiated = results.get(..at.results).ok_or_else(|| refuse("a result is missing"))?;
            let floats = differentiated.iter().filter(|it| it.dtype.is_float());
            let given: Vec<&Type> = own[..at.targets]
                .iter()
                .chain(differentiated)
                .chain(floats)
                .chain(&inputs[at.captured..])
                .copied()
                .collect();
            check_operands(&regions[1], &given)?;
            if !output_types(&regions[1]).eq(own[..at.targets].iter().copied()) {
                return Err(refuse("a gradient is of another type than its operand"));
            }
            Ok(results.into_iter().cloned().collect())
        },
        eval: |attrs, regions, inputs| {
            Ok(evaluate_graph(&regions[0], &inputs[..CustomVjp::of(attrs).captured])?.into())
        },
    }),
    samples: Vec::new,
};

/// How the operands and results of a [`CUSTOM_VJP`] are divided.
pub struct CustomVjp {
    /// How many operands have gradients.
    pub targets: usize,
    /// The position behind the operands of region 0.
    pub captured: usize,
    /// How many results have gradients.
    pub results: usize,
}

impl CustomVjp {
    /// The division that a node's attributes say.
    pub fn of(attrs: &Attrs) -> Self {
        let [targets, captured, results] = [0, 1, 2].map(|at| attrs.int(at) as usize);
        Self { targets, captured: targets + captured, results }
    }
}
