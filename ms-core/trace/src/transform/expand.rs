//! Expands transforms, which are nodes of a graph.

use super::{forward, reverse, vmap};
use ms_ir::error::Result;
use ms_ir::{Graph, Node, Rewriter, rewrite_inside_out, subgraphs};
use ms_ops::ops::{Control, TransformNode};
use std::borrow::Cow;

/// Expands the transform nodes of the graph and of all graphs in it. Each is expanded innermost first, once even if it
/// has several uses. See [`differentiate`](super::differentiate) for `in_order`.
///
/// # Errors
/// [`Code::NoGradient`](ms_ir::Code::NoGradient) when an op on the path has no derivative.
pub fn expand(graph: &Graph, in_order: bool) -> Result<Cow<'_, Graph>> {
    let inner = subgraphs(graph);
    if !has_transforms(graph) && !inner.iter().any(|it| has_transforms(it)) {
        return Ok(Cow::Borrowed(graph));
    }
    rewrite_inside_out(graph, inner, |it| expand_nodes(it, in_order)).map(Cow::Owned)
}

fn transform_of(node: &Node) -> Option<TransformNode> {
    match Control::of(node)? {
        Control::TransformNode(it) => Some(it),
        _ => None,
    }
}

fn has_transforms(graph: &Graph) -> bool {
    graph.nodes().any(|(_, node)| transform_of(node).is_some())
}

/// Expands the graph's own transform nodes. Their regions contain none.
fn expand_nodes(graph: &Graph, in_order: bool) -> Result<Cow<'_, Graph>> {
    let mut rewriter = Rewriter::new(graph);
    for (_, node) in graph.nodes() {
        let Some(transform) = transform_of(node) else {
            rewriter.keep();
            continue;
        };
        let operands = rewriter.operands(node);
        let values = rewriter.splice(&transformed(node, transform, in_order)?, &operands);
        rewriter.replace(&values);
    }
    Ok(rewriter.finish())
}

/// Returns the graph that replaces a transform node, built from its region, which contains no transforms.
fn transformed(node: &Node, transform: TransformNode, in_order: bool) -> Result<Graph> {
    let body = &node.regions[0];
    match transform {
        TransformNode::Vmap { size, operands, results } => vmap::vmap(body, size, &operands, &results, node.location),
        TransformNode::Jvp { wrt, results } => forward::jvp(body, &wrt, results),
        TransformNode::ValueAndGrad { wrt, results, seeded } => {
            reverse::value_and_grad(body, &wrt, results, seeded, in_order)
        }
    }
}
