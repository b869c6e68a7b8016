//! Implements reverse mode through loops.
//!
//! The forward loop stacks the residuals of its body for every iteration. The backward part is a scan over them in the
//! opposite direction. Its carries are the gradients of the carries and the partial sums of the gradients of
//! loop-invariant values. These sums start with the terms from after the loop, and each iteration adds to them in
//! place.

use super::activity::body_outputs;
use super::emit::{emit, nothing, tracer, zeros};
use super::regions::placed;
use super::reverse::{Differentiated, Pull, Reverse, Wanted, input_types};
use super::split::{Policy, Residual};
use crate::trace;
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ir::{Graph, Node};
use ms_ops::ops::{Control, Loop, constant_node};
use ms_ops::tensor::{DType, Literal, Tensor, Type};
use std::sync::Arc;

/// The components of the backward scan. Positions refer to the body's inputs.
struct Backward {
    parts: Differentiated,
    /// Carries that have gradients.
    carries: Vec<usize>,
    /// Sequences that have gradients.
    sequences: Vec<usize>,
    /// Loop-invariant values that have gradients.
    constants: Vec<usize>,
    /// Stacked results that may have gradients.
    stacked: Vec<usize>,
    /// The residuals of the backward part of the body.
    residuals: Vec<LoopResidual>,
    /// Types of the body's inputs and outputs.
    inputs: Vec<Type>,
    outputs: Vec<Type>,
    /// The number of iterations, if it is fixed, or the tensor that counts them.
    length: Option<usize>,
    count: Option<Tensor>,
    reverse: bool,
}

/// A residual of the body.
enum LoopResidual {
    /// A separate value for each iteration.
    Sequence(Tensor),
    /// A loop-invariant value.
    Constant(Tensor),
}

impl Reverse {
    pub(super) fn repeat(
        &self,
        node: &Node,
        at: &Loop,
        operands: &[Tensor],
        wanted: Wanted,
    ) -> Result<(Vec<Tensor>, Pull)> {
        let body = node.regions.last().expect("a loop has a body");
        let inputs = input_types(body);
        let constants = at.invariants();
        let given = &wanted.inputs[at.first_carry()..];
        let (varied, _) = self.activity.outputs_of_loop(at, node, given.to_vec());
        let (_, useful) = self.activity.inputs_of_loop(at, node, body_outputs(at, &wanted.outputs));
        let stacked: Vec<usize> = (at.carries..useful.len()).filter(|&it| useful[it]).collect();
        let carries: Vec<usize> = (0..at.carries).filter(|&it| varied[it] && useful[it]).collect();
        let wanted_inputs = |from: usize, to: usize| (from..to).filter(|&it| given[it]).collect::<Vec<usize>>();
        let sequences = wanted_inputs(at.carries, constants);
        let same = wanted_inputs(constants, inputs.len());
        let wrt: Vec<usize> = carries.iter().chain(&sequences).chain(&same).copied().collect();
        let seeds: Vec<usize> = carries.iter().chain(&stacked).copied().collect();
        let policy = Policy { is_body: true, constants: constants..inputs.len() };
        let parts = self.differentiate(body, &wrt, &seeds, &same, &policy, &[])?;

        let (results, count, kept) = forward(node, at, operands, &parts)?;
        let pushed = parts.forward.outputs().len() - body.outputs().len();
        let (saved, mut carried) = (&kept[..pushed], kept[pushed..].iter());
        let own = &operands[at.first_carry()..];
        let residuals = parts.residuals.iter().map(|it| match *it {
            Residual::Saved(at) => LoopResidual::Sequence(saved[at].clone()),
            Residual::Input(it) if it < at.carries => {
                LoopResidual::Sequence(carried.next().expect("every carry that crosses is kept").clone())
            }
            Residual::Input(it) if it < constants => LoopResidual::Sequence(own[it].clone()),
            Residual::Input(it) => LoopResidual::Constant(own[it].clone()),
        });
        let backward = Backward {
            residuals: residuals.collect(),
            outputs: body.outputs().map_vec(|&it| body.ty(it).clone()),
            parts,
            carries,
            sequences,
            constants: same,
            stacked,
            inputs,
            length: at.length(),
            count,
            reverse: !at.reverse(),
        };
        let (first, results_at) = (at.first_carry(), at.first_stack() - at.carries);
        let operands = operands.len();
        let pull: Pull = Box::new(move |cotangents, sums| {
            // Of the body's outputs, the carries are results at the same position, and the others follow.
            let of = |output: usize| {
                let at = if backward.carries.contains(&output) { output } else { output + results_at };
                cotangents[at].as_ref()
            };
            let (order, gradients) = backward.run(of, |constant| sums.take(first + constant))?;
            let at: Vec<usize> = order.into_iter().map(|it| first + it).collect();
            Ok(placed(operands, &at, gradients))
        });
        Ok((results, pull))
    }
}

/// Adds the loop with a body that also pushes residuals. Its results are the original ones, the number of iterations if
/// it is not fixed, and the new stacks. These contain the saved values of the body, then its carries.
fn forward(
    node: &Node,
    at: &Loop,
    operands: &[Tensor],
    parts: &Differentiated,
) -> Result<(Vec<Tensor>, Option<Tensor>, Vec<Tensor>)> {
    let mut body = (*parts.forward).clone();
    let carried = parts.residuals.iter().filter_map(|it| match *it {
        Residual::Input(it) if it < at.carries => Some(body.inputs()[it]),
        _ => None,
    });
    let mut outputs: Vec<_> = body.outputs().iter().copied().chain(carried).collect();
    let before = node.outputs.len();
    if at.is_while() && outputs.len() == at.carries {
        // A loop without stacks does not count iterations.
        let mark = Literal::scalar(true.into(), DType::Bool);
        let id = body.add_node(constant_node(mark), [Type::of(DType::Bool, &[])]);
        outputs.push(body.node(id).outputs[0]);
    }
    body.set_outputs(outputs);
    let body = Arc::new(body);
    if !at.is_while() {
        let mut results = emit(&Control::Loop(*at), &[body], operands)?;
        let kept = results.split_off(before);
        return Ok((results, at.is_counted().then(|| operands[0].clone()), kept));
    }
    let mut results = emit(&Control::Loop(*at), &[node.regions[0].clone(), body], operands)?;
    let count = results[at.carries].clone();
    let kept = results.split_off(before.max(at.carries + 1));
    results.truncate(before);
    Ok((results, Some(count), kept))
}

impl Backward {
    /// Returns which of the body's inputs have gradients, and their gradients over the whole loop. They are computed
    /// from the cotangents of its outputs and the initial sums of those of constants.
    fn run<'a>(
        &self,
        cotangent: impl Fn(usize) -> Option<&'a Tensor>,
        mut sum: impl FnMut(usize) -> Option<Tensor>,
    ) -> Result<(Vec<usize>, Vec<Tensor>)> {
        let reached: Vec<usize> = self.stacked.iter().copied().filter(|&it| cotangent(it).is_some()).collect();
        let (mut kept, mut constants) = (Vec::new(), Vec::new());
        for residual in &self.residuals {
            match residual {
                LoopResidual::Sequence(it) => kept.push(it.clone()),
                LoopResidual::Constant(it) => constants.push(it.clone()),
            }
        }
        let body = self.body(&reached, &kept, &constants)?;
        let start = |&it: &usize| cotangent(it).cloned().unwrap_or_else(|| zeros(&self.inputs[it]));
        let mut operands: Vec<Tensor> = self.count.iter().filter(|_| self.length.is_none()).cloned().collect();
        operands.extend(self.carries.iter().map(start));
        operands.extend(self.constants.iter().map(|&it| sum(it).unwrap_or_else(|| nothing(&self.inputs[it]))));
        operands.extend(kept.iter().cloned());
        operands.extend(reached.iter().filter_map(|&it| cotangent(it).cloned()));
        operands.extend(constants);
        let carries = self.carries.len() + self.constants.len();
        let scan = Loop::scan(self.length, carries, kept.len() + reached.len(), self.reverse);
        let gradients = emit(&Control::Loop(scan), &[Arc::new(body)], &operands)?;
        let order = self.carries.iter().chain(&self.constants).chain(&self.sequences).copied().collect();
        Ok((order, gradients))
    }

    /// Builds the body of the backward scan. Its inputs are the cotangents of the carries after an iteration, the sums
    /// for the constants, and the residuals. The cotangents of the stacked results that have some, and the constants,
    /// follow. Its outputs are the cotangents before the iteration, the sums, and the gradients of the sequences'
    /// elements.
    fn body(&self, reached: &[usize], kept: &[Tensor], constants: &[Tensor]) -> Result<Graph> {
        let element = |stack: &Tensor| {
            let ty = stack.ty();
            Type::new(ty.dtype, ty.dims[1..].iter().copied().collect())
        };
        let mut types: Vec<Type> =
            self.carries.iter().chain(&self.constants).map(|&it| self.inputs[it].clone()).collect();
        types.extend(kept.iter().map(element));
        types.extend(reached.iter().map(|&it| self.outputs[it].clone()));
        types.extend(constants.iter().map(Tensor::ty));
        trace::build(self.parts.backward.name(), &types, |inputs| {
            let (carries, inputs) = inputs.split_at(self.carries.len());
            let (sums, inputs) = inputs.split_at(self.constants.len());
            let (kept, inputs) = inputs.split_at(kept.len());
            let (arrived, constants) = inputs.split_at(reached.len());
            let (mut kept, mut constants) = (kept.iter(), constants.iter());
            let residuals = self.residuals.iter().map(|it| match it {
                LoopResidual::Sequence(_) => kept.next().expect("counted above").clone(),
                LoopResidual::Constant(_) => constants.next().expect("counted above").clone(),
            });
            let mut operands: Vec<Tensor> = residuals.collect();
            operands.extend(carries.iter().cloned());
            operands.extend(self.stacked.iter().map(|it| match reached.iter().position(|reached| reached == it) {
                Some(at) => arrived[at].clone(),
                None => zeros(&self.outputs[*it]),
            }));
            operands.extend(sums.iter().cloned());
            let gradients = tracer().inline(&self.parts.backward, &operands)?;
            // In the order of the inputs of interest: carries, sequences, constants.
            let (carries, rest) = gradients.split_at(self.carries.len());
            let (sequences, sums) = rest.split_at(self.sequences.len());
            Ok([carries, sums, sequences].concat())
        })
    }
}
