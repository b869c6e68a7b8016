//! Reference evaluation of graphs by the `eval` of each node's op.

use super::{Arrays, Lowering, definition};
use crate::data::Array;
use crate::error::{Code, Error, Result, in_op};
use crate::{Graph, Node};

/// Evaluates a node on its operands.
///
/// # Errors
/// The errors of the op, and [`Code::Memory`] if memory runs out.
pub fn evaluate_node(node: &Node, inputs: &[&Array]) -> Result<Arrays> {
    let def = definition(node.op);
    in_op(|| match &def.lowering {
        Lowering::Regions(rule) => (rule.eval)(&node.attrs, &node.regions, inputs),
        _ => (def.eval)(&node.attrs, inputs),
    })
    .map_err(|error| error.with_op(def.name()))
}

/// Evaluates a graph node by node: slow, and the oracle of tests.
///
/// # Errors
/// [`Code::Argument`] if the inputs do not have the types of the graph's inputs, and the errors of the ops.
pub fn evaluate_graph(graph: &Graph, inputs: &[&Array]) -> Result<Vec<Array>> {
    let given: Vec<_> = inputs.iter().map(|it| it.ty()).collect();
    let wanted = graph.inputs();
    if wanted.len() != given.len() || wanted.iter().zip(&given).any(|(&wanted, ty)| !graph.ty(wanted).admits(ty)) {
        let message = format!("the inputs of `@{}` are of other types than {given:?}", graph.name());
        return Err(Error::new(Code::Argument, message));
    }
    let mut values: Vec<Option<Array>> = vec![None; graph.value_count()];
    for (&id, &input) in graph.inputs().iter().zip(inputs) {
        values[id.0 as usize] = Some(input.clone());
    }
    for (_, node) in graph.nodes() {
        let of = |id: &crate::ValueId| values[id.0 as usize].as_ref().expect("nodes are in running order");
        let operands: Vec<&Array> = node.inputs.iter().map(of).collect();
        let results = evaluate_node(node, &operands).map_err(|error| match node.location {
            Some(location) => error.at(location),
            None => error,
        })?;
        for (id, result) in node.outputs.iter().zip(results) {
            values[id.0 as usize] = Some(result);
        }
    }
    Ok(graph.outputs().iter().map(|id| values[id.0 as usize].clone().expect("outputs are defined")).collect())
}
