//! Expands composites: replaces their nodes by their bodies.

use crate::trace::body_graph;
use ms_ir::error::Result;
use ms_ir::{Graph, Node, Rewriter, Type, rewrite_inside_out, subgraphs};
use ms_ops::ops::{Body, OpDef, definition, infer, transform_rules};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::panic::Location;

/// Selects the composites of a graph to expand.
pub type Chosen<'a> = &'a dyn Fn(&Graph, &Node) -> bool;

/// Replaces the chosen composites by their bodies, also in nested graphs and inside bodies.
///
/// # Errors
/// The errors of ops of a body.
pub fn expand_composites<'g>(graph: &'g Graph, chosen: Chosen<'_>) -> Result<Cow<'g, Graph>> {
    let inner = subgraphs(graph);
    let has = |graph: &Graph| graph.nodes().any(|(_, node)| body_of(graph, node, chosen).is_some());
    if !inner.iter().any(|it| has(it)) {
        return expand_own_composites(graph, chosen);
    }
    rewrite_inside_out(graph, inner, |it| expand_own_composites(it, chosen)).map(Cow::Owned)
}

/// Replaces composites like [`expand_composites`], without those in nested graphs.
///
/// # Errors
/// The errors of ops of a body.
pub fn expand_own_composites<'g>(graph: &'g Graph, chosen: Chosen<'_>) -> Result<Cow<'g, Graph>> {
    let mut rewriter = Rewriter::new(graph);
    for (_, node) in graph.nodes() {
        let Some(body) = body_of(graph, node, chosen) else {
            rewriter.keep();
            continue;
        };
        let types: SmallVec<[&Type; 3]> = node.inputs.iter().map(|&it| graph.ty(it)).collect();
        let body = body_graph(node.op, body, &node.attrs, &types)
            .map_err(|error| error.at(node.location.unwrap_or_else(|| Location::caller())))?;
        let body = expand_composites(&body, chosen)?;
        let operands = rewriter.operands(node);
        let values = rewriter.splice_at(&body, &operands, node.location);
        rewriter.replace(&values);
    }
    Ok(rewriter.finish())
}

/// Expands the composites that `refused` does not transform as one op.
pub(super) fn transformable<'g>(graph: &'g Graph, refused: fn(&OpDef) -> bool) -> Result<Cow<'g, Graph>> {
    expand_composites(graph, &|_, node| refused(definition(node.op)))
}

/// Returns the graph of a composite node's body, for operands of these types. Composites in it that `refused` does not
/// transform are expanded as well.
///
/// # Errors
/// The errors of ops of a body.
pub(super) fn expanded_alone(node: &Node, types: &[Type], refused: fn(&OpDef) -> bool) -> Result<Graph> {
    let mut graph = Graph::new(node.op.name());
    let inputs = types.iter().map(|it| graph.add_input(it.clone())).collect();
    let results = infer(definition(node.op), &node.attrs, &[], &types.iter().collect::<Vec<_>>())?;
    let id = graph.add_node(Node { inputs, outputs: Default::default(), ..node.clone() }, results);
    let outputs = graph.node(id).outputs.clone();
    graph.set_outputs(outputs);
    expand_own_composites(&graph, &|_, it| it.op == node.op || refused(definition(it.op))).map(Cow::into_owned)
}

/// Returns the body of a node that is a composite to expand.
fn body_of(graph: &Graph, node: &Node, chosen: Chosen<'_>) -> Option<Body> {
    transform_rules(definition(node.op)).composite().filter(|_| chosen(graph, node))
}
