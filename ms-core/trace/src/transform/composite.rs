//! Expansion of composites: their bodies in place of their nodes.

use crate::error::Result;
use crate::ir::{Graph, Node, Rewriter, Type, rewrite_inside_out, subgraphs};
use crate::ops::{Body, Lowering, OpDef, definition, infer};
use crate::trace::body_graph;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::panic::Location;

/// Which composites of a graph are expanded.
pub type Chosen<'a> = &'a dyn Fn(&Graph, &Node) -> bool;

/// The graph with the bodies of the chosen composites in place of their nodes, also in the graphs in it, and of
/// those in bodies.
///
/// # Errors
/// Those of ops of a body.
pub fn expand_composites<'g>(graph: &'g Graph, chosen: Chosen<'_>) -> Result<Cow<'g, Graph>> {
    let inner = subgraphs(graph);
    let has = |graph: &Graph| graph.nodes().any(|(_, node)| body_of(graph, node, chosen).is_some());
    if !inner.iter().any(|it| has(it)) {
        return expand_own_composites(graph, chosen);
    }
    rewrite_inside_out(graph, inner, |it| expand_own_composites(it, chosen)).map(Cow::Owned)
}

/// [`expand_composites`] of the nodes of a graph, without those of the graphs in it.
///
/// # Errors
/// Those of ops of a body.
pub fn expand_own_composites<'g>(graph: &'g Graph, chosen: Chosen<'_>) -> Result<Cow<'g, Graph>> {
    let mut rewriter = Rewriter::new(graph);
    for (_, node) in graph.nodes() {
        let Some(body) = body_of(graph, node, chosen) else {
            rewriter.keep();
            continue;
        };
        let types: SmallVec<[&Type; 4]> = node.inputs.iter().map(|&it| graph.ty(it)).collect();
        let body = body_graph(node.op, body, &node.attrs, &types)
            .map_err(|error| error.at(node.location.unwrap_or_else(|| Location::caller())))?;
        let body = expand_composites(&body, chosen)?;
        let operands = rewriter.operands(node);
        let values = rewriter.splice_at(&body, &operands, node.location);
        rewriter.replace(&values);
    }
    Ok(rewriter.finish())
}

/// The graph in which no composite is left that `refused` refuses to transform as one op.
pub(super) fn transformable<'g>(graph: &'g Graph, refused: fn(&OpDef) -> bool) -> Result<Cow<'g, Graph>> {
    expand_composites(graph, &|_, node| refused(definition(node.op)))
}

/// The graph of the body of a composite node, for operands of these types; of the composites in it, those that
/// `refused` refuses are expanded as well.
///
/// # Errors
/// Those of ops of a body.
pub(super) fn expanded_alone(node: &Node, types: &[Type], refused: fn(&OpDef) -> bool) -> Result<Graph> {
    let mut graph = Graph::new(node.op.name());
    let inputs = types.iter().map(|it| graph.add_input(it.clone())).collect();
    let results = infer(definition(node.op), &node.attrs, &[], &types.iter().collect::<Vec<_>>())?;
    let id = graph.add_node(Node { inputs, outputs: Default::default(), ..node.clone() }, results);
    let outputs = graph.node(id).outputs.clone();
    graph.set_outputs(outputs);
    expand_own_composites(&graph, &|_, it| it.op == node.op || refused(definition(it.op))).map(Cow::into_owned)
}

/// The body of a node that is a composite to expand.
fn body_of(graph: &Graph, node: &Node, chosen: Chosen<'_>) -> Option<Body> {
    match definition(node.op).lowering {
        Lowering::Composite(body) if chosen(graph, node) => Some(body),
        _ => None,
    }
}
