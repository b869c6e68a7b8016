//! Properties of nodes by the definitions of their ops.

use super::{Control, Effects, Lowering, definition, dialect};
use crate::data::{Attrs, Op};
use crate::{Graph, Node, subgraphs};

/// Whether a node of the graph or of its subgraphs has one of these effects.
pub fn has_effect(graph: &Graph, effects: Effects) -> bool {
    let has = |graph: &Graph| graph.nodes().any(|(_, node)| definition(node.op).effects.any_of(effects));
    has(graph) || subgraphs(graph).into_iter().any(|it| has(it))
}

impl Control {
    /// Returns the control of a node; `None` if the node has no regions.
    #[inline]
    pub fn of(node: &Node) -> Option<Self> {
        if node.regions.is_empty() {
            return None;
        }
        match &definition(node.op).lowering {
            Lowering::Regions(rule) => Some((rule.control)(&node.attrs)),
            _ => None,
        }
    }

    /// Returns the op of such a node.
    pub fn op(&self) -> Op {
        dialect().control(self).0
    }

    /// Returns the attributes of such a node.
    pub fn attrs(&self) -> Attrs {
        dialect().control(self).1
    }
}
