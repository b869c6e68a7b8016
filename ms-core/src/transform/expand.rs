//! Expansion of transforms that stand as nodes in a graph.

use super::reverse;
use crate::error::Result;
use crate::ir::{Graph, Node, ValueId};
use crate::ops;
use smallvec::SmallVec;
use std::borrow::Cow;

/// The graph without transform nodes: gradients, from the inside out.
///
/// # Errors
/// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
pub fn expand(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let is_transform = |node: &Node| node.op == ops::VALUE_AND_GRAD.op();
    if !graph.nodes().any(|(_, node)| is_transform(node)) {
        return Ok(Cow::Borrowed(graph));
    }
    let mut out = Graph::new(graph.name());
    let mut map: Vec<Option<ValueId>> = vec![None; graph.value_count()];
    for &input in graph.inputs() {
        map[input.0 as usize] = Some(out.add_input(graph.ty(input).clone()));
    }
    for (_, node) in graph.nodes() {
        let inputs: SmallVec<[ValueId; 3]> =
            node.inputs.iter().map(|it| map[it.0 as usize].expect("operands are defined first")).collect();
        let results: SmallVec<[ValueId; 1]> = if is_transform(node) {
            let body = expand(&node.regions[0])?;
            let wrt = node.attrs.sizes(0);
            let differentiated = reverse::value_and_grad(&body, &wrt, node.attrs.int(1) as usize)?;
            inline(&differentiated, &inputs, &mut out)
        } else {
            copy(graph, node, inputs, &mut out)
        };
        for (old, new) in node.outputs.iter().zip(results) {
            map[old.0 as usize] = Some(new);
        }
    }
    out.set_outputs(graph.outputs().iter().map(|it| map[it.0 as usize].expect("outputs are defined")));
    Ok(Cow::Owned(out))
}

/// A node of `from` with other operands, at the end of `to`.
fn copy(from: &Graph, node: &Node, inputs: SmallVec<[ValueId; 3]>, to: &mut Graph) -> SmallVec<[ValueId; 1]> {
    let types: SmallVec<[_; 1]> = node.outputs.iter().map(|&it| from.ty(it).clone()).collect();
    let id = to.add_node(Node { inputs, ..node.clone() }, types);
    to.node(id).outputs.clone()
}

/// The nodes of `from` on these inputs, at the end of `to`; gives its outputs there.
pub(crate) fn inline(from: &Graph, inputs: &[ValueId], to: &mut Graph) -> SmallVec<[ValueId; 1]> {
    let mut map: Vec<Option<ValueId>> = vec![None; from.value_count()];
    for (&old, &new) in from.inputs().iter().zip(inputs) {
        map[old.0 as usize] = Some(new);
    }
    for (_, node) in from.nodes() {
        let inputs = node.inputs.iter().map(|it| map[it.0 as usize].expect("operands are defined first")).collect();
        for (&old, new) in node.outputs.iter().zip(copy(from, node, inputs, to)) {
            map[old.0 as usize] = Some(new);
        }
    }
    from.outputs().iter().map(|it| map[it.0 as usize].expect("outputs are defined")).collect()
}
