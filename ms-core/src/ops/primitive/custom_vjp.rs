//! `custom_vjp`: a graph with a derivative of its own.

use crate::error::{Code, Error};
use crate::ops::core::regions::{check_operands, output_types};
use crate::ops::{Batching, Derivative, Lowering, OpDef, RegionRule, evaluate_graph};
use crate::tensor::{Attrs, OpInfo, Type};
use std::ops::Range;

fn refuse(message: &str) -> Error {
    Error::new(Code::Argument, message).with_op("custom_vjp")
}

/// The outputs of region 0 on its operands: `targets`, which have gradients, and `captured` values,
/// which have none.
///
/// Region 1 gives the gradients of the targets. It takes the targets, the first `results` outputs,
/// the gradients of the float ones among these, and the operands behind those of region 0.
///
/// What region 1 writes of parameters is handed on from one backward function to the one that runs
/// after it: each `handed` slot is an operand behind the targets and an output behind the results,
/// whose value says nothing. Its gradient is what the parameter holds: region 1 takes it behind
/// those of the results, and gives what it writes behind the gradients of the targets.
pub static CUSTOM_VJP: OpDef = OpDef {
    info: OpInfo { number: 706, name: "custom_vjp", attrs: &["targets", "captured", "results", "handed"] },
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
            let handed = results.get(at.handed_results()).ok_or_else(|| refuse("a slot is missing"))?;
            let floats = differentiated.iter().filter(|it| it.dtype.is_float());
            let given: Vec<&Type> = own[..at.targets]
                .iter()
                .chain(differentiated)
                .chain(floats)
                .chain(handed)
                .chain(&inputs[at.captured..])
                .copied()
                .collect();
            check_operands(&regions[1], &given)?;
            if !output_types(&regions[1]).eq(own[..at.gradients()].iter().copied()) {
                return Err(refuse("a gradient is of another type than its operand"));
            }
            Ok(results.into_iter().cloned().collect())
        },
        eval: |attrs, regions, inputs| Ok(evaluate_graph(&regions[0], &inputs[..CustomVjp::of(attrs).captured])?.into()),
    }),
    samples: Vec::new,
};

/// How the operands and results of a [`CUSTOM_VJP`] are divided.
#[derive(Clone, Copy)]
pub struct CustomVjp {
    /// How many operands have gradients.
    pub targets: usize,
    /// The position behind the operands of region 0.
    pub captured: usize,
    /// How many results have gradients.
    pub results: usize,
    /// How many slots are handed on.
    pub handed: usize,
}

impl CustomVjp {
    /// The division that a node's attributes say.
    pub fn of(attrs: &Attrs) -> Self {
        let [targets, captured, results, handed] = [0, 1, 2, 3].map(|at| attrs.int(at) as usize);
        Self { targets, captured: targets + handed + captured, results, handed }
    }

    /// How many operands region 1 gives something for: the targets, and the slots behind them.
    pub fn gradients(&self) -> usize {
        self.targets + self.handed
    }

    /// The results that are slots handed on.
    pub fn handed_results(&self) -> Range<usize> {
        self.results..self.results + self.handed
    }
}
