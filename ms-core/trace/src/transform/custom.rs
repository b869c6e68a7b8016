//! Differentiates graphs with custom derivatives.

use super::emit::{emit, emit_node, tracer, zeros};
use super::linear::{not_linear, transpose};
use super::regions::{chosen, placed, positions};
use super::reverse::{Pull, Reverse, Wanted, flags};
use super::split::{pruned, trimmed};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Node};
use ms_ops::ops::{Control, CustomVjp};
use ms_ops::tensor::{Tensor, Type};
use smallvec::SmallVec;
use std::sync::Arc;

impl Reverse {
    /// Differentiates a graph with a custom derivative, which runs if a gradient reaches a result. Its writes are then
    /// the new values of parameters; otherwise these are unchanged.
    ///
    /// The node remains in the graph, so that derivatives of this derivative use the same rule for the results.
    pub(super) fn custom(
        &self,
        node: &Node,
        at: CustomVjp,
        operands: &[Tensor],
        wanted: &Wanted,
    ) -> Result<(Vec<Tensor>, Pull)> {
        let count = operands.len();
        let untouched = move |cotangents: &[Option<Tensor>]| {
            let mut placed = SmallVec::from_elem(None, count);
            placed[at.targets..at.gradients()].clone_from_slice(&cotangents[at.slot_results()]);
            placed
        };
        let outputs = emit_node(node, operands)?;
        if !(wanted.inputs[..at.targets].contains(&true) && wanted.outputs[..at.results].contains(&true)) {
            let pull: Pull = Box::new(move |cotangents, _| Ok(untouched(cotangents)));
            return Ok((outputs, pull));
        }
        // The writes would be unused.
        if wanted.outputs[at.slot_results()].contains(&false) {
            return Err(refuse_writes(node, "no backward pass around it takes that"));
        }
        // A result that the derivative does not use is not a residual, and no gradient reaches it.
        let (backward, used) = trimmed(&node.regions[1]);
        let backward = Arc::new(backward);
        let (results, operands) = (outputs[..at.results].to_vec(), operands.to_vec());
        let pull: Pull = Box::new(move |cotangents, _| {
            if cotangents[..at.results].iter().all(Option::is_none) {
                return Ok(untouched(cotangents));
            }
            let slots = cotangents[at.slot_results()].iter();
            let slots = slots.map(|it| it.clone().expect("what parameters hold comes from the end of the pass"));
            let floats = results.iter().zip(cotangents).filter(|(result, _)| result.dtype().is_float());
            let cotangents = floats.map(|(result, it)| it.clone().unwrap_or_else(|| zeros(&result.ty())));
            let given: Vec<Tensor> = operands[..at.targets]
                .iter()
                .chain(&results)
                .cloned()
                .chain(cotangents)
                .chain(slots)
                .chain(operands[at.captured..].iter().cloned())
                .collect();
            let inputs: Vec<Tensor> = used.map_vec(|&at| given[at].clone());
            let gradients = emit(&Control::Call { inline: true }, std::slice::from_ref(&backward), &inputs)?;
            Ok(placed(count, &(0..at.gradients()).collect::<Vec<_>>(), gradients))
        });
        Ok((outputs, pull))
    }

    /// Rematerialises a graph: recomputes its values in a call that depends on the gradients and is never inlined. So
    /// no pass replaces the recomputed values by the first ones.
    pub(super) fn recompute(&self, node: &Node, operands: &[Tensor], wanted: &Wanted) -> Result<(Vec<Tensor>, Pull)> {
        let (region, kept) = self.called(node, operands)?;
        let (count, operands) = (operands.len(), chosen(&kept, operands));
        let (wrt, seeds) = (positions(&chosen(&kept, &wanted.inputs)), positions(&wanted.outputs));
        let outputs = emit(&Control::Recompute, std::slice::from_ref(&region), &operands)?;
        let types: Vec<Type> = outputs.map_vec(Tensor::ty);
        let (reverse, inside) = (self.clone(), self.added_inside(&region, &wrt, &operands));
        let pull: Pull = Box::new(move |cotangents, sums| {
            let (summed, sums) = sums.take_all(&inside, &kept);
            let backward = reverse.recomputed_gradient(&region, &wrt, &seeds, &summed)?;
            let mut inputs = operands.clone();
            inputs.extend(seeds.iter().map(|&at| cotangents[at].clone().unwrap_or_else(|| zeros(&types[at]))));
            inputs.extend(sums);
            let gradients = emit(&Control::Call { inline: false }, &[Arc::new(backward)], &inputs)?;
            Ok(placed(count, &chosen(&wrt, &kept), gradients))
        });
        Ok((outputs, pull))
    }

    /// Returns the graph that computes the gradients of the inputs `wrt`. It takes the inputs, the gradients of the
    /// outputs `seeds`, and the partial sums of the inputs `sums`.
    fn recomputed_gradient(&self, graph: &Graph, wrt: &[usize], seeds: &[usize], sums: &[usize]) -> Result<Graph> {
        let active =
            self.activity.active(graph, &flags(graph.inputs().len(), wrt), &flags(graph.outputs().len(), seeds));
        let mut joint = self.joint(graph, wrt, seeds, sums, &active, &[])?;
        joint.set_outputs(joint.outputs()[graph.outputs().len()..].to_vec());
        Ok(pruned(&joint))
    }
}

fn refuse_writes(node: &Node, why: &str) -> Error {
    let message = format!("the backward function writes a parameter: {why}");
    let error = Error::new(Code::BackwardWrites, message)
        .with_op(node.op.name())
        .help("let it give the value as a gradient, and write the parameter outside");
    at_node(error, node)
}

/// Adds the source location of the call that added a node to an error.
fn at_node(error: Error, node: &Node) -> Error {
    match node.location {
        Some(location) => error.at(location),
        None => error,
    }
}

/// Returns the results of a graph with a custom derivative, and the tangents of the float ones. If the tangents are
/// `wanted`, the transpose of that derivative computes them. As in reverse mode, the node remains in the graph.
pub(super) fn push_custom(
    node: &Node,
    at: &CustomVjp,
    operands: &[Tensor],
    tangents: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<(Vec<Tensor>, Vec<Option<Tensor>>)> {
    if !wanted[..at.results].contains(&true) {
        let outputs = emit_node(node, operands)?;
        let tangents = vec![None; outputs.len()];
        return Ok((outputs, tangents));
    }
    if at.slots > 0 {
        return Err(refuse_writes(node, "forward mode takes its transpose, and does not run it"));
    }
    let outputs = emit_node(node, operands)?;
    let results = &outputs[..at.results];
    let floats: Vec<usize> = (0..at.results).filter(|&it| results[it].dtype().is_float()).collect();
    let first = at.targets + at.results;
    let wrt: Vec<usize> = (first..first + floats.len()).collect();
    let transposed = transpose(&node.regions[1], &wrt, at.targets)?;
    let transposed = transposed.ok_or_else(|| at_node(not_linear(node.op.name()), node))?;
    let tangents = tangents[..at.targets].iter().zip(operands);
    let tangents = tangents.map(|(tangent, operand)| tangent.clone().unwrap_or_else(|| zeros(&operand.ty())));
    let inputs: Vec<Tensor> = operands[..at.targets]
        .iter()
        .chain(results)
        .cloned()
        .chain(floats.iter().map(|&it| zeros(&results[it].ty())))
        .chain(operands[at.captured..].iter().cloned())
        .chain(tangents)
        .collect();
    let mut pushed = tracer().inline(&transposed, &inputs)?.into_iter();
    let tangent = |it: usize| if floats.contains(&it) { pushed.next() } else { None };
    let tangents = (0..outputs.len()).map(tangent).collect();
    Ok((outputs, tangents))
}
