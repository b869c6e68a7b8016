//! Expansion of transforms, which are nodes of a graph.

use super::{forward, reverse, vmap};
use crate::error::Result;
use crate::ir::{Graph, Node, Rewriter, subgraphs};
use crate::ops;
use crate::tensor::Dim;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;

/// The graph without transform nodes, including the graphs in it: each is expanded innermost first,
/// once even if it has several uses. See [`differentiate`](super::differentiate) for `in_order`.
///
/// # Errors
/// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
pub fn expand(graph: &Graph, in_order: bool) -> Result<Cow<'_, Graph>> {
    let inner = subgraphs(graph);
    if !has_transforms(graph) && !inner.iter().any(|it| has_transforms(it)) {
        return Ok(Cow::Borrowed(graph));
    }
    let mut done: FxHashMap<*const Graph, Arc<Graph>> = FxHashMap::default();
    let with_done = |graph: &Graph, done: &FxHashMap<*const Graph, Arc<Graph>>| -> Result<Graph> {
        let mut graph = graph.clone();
        graph.map_regions(|it| done[&Arc::as_ptr(it)].clone());
        expand_nodes(&graph, in_order).map(Cow::into_owned)
    };
    for region in inner {
        let expanded = with_done(region, &done)?;
        done.insert(Arc::as_ptr(region), Arc::new(expanded));
    }
    with_done(graph, &done).map(Cow::Owned)
}

fn is_transform(node: &Node) -> bool {
    [&ops::VALUE_AND_GRAD, &ops::JVP, &ops::VMAP].iter().any(|it| it.op() == node.op)
}

fn has_transforms(graph: &Graph) -> bool {
    graph.nodes().any(|(_, node)| is_transform(node))
}

/// The graph without transform nodes of its own, whose regions have none.
fn expand_nodes(graph: &Graph, in_order: bool) -> Result<Cow<'_, Graph>> {
    let mut rewriter = Rewriter::new(graph);
    for (_, node) in graph.nodes() {
        if !is_transform(node) {
            rewriter.keep();
            continue;
        }
        let operands = rewriter.operands(node);
        let values = rewriter.splice(&transformed(node, in_order)?, &operands);
        rewriter.replace(&values);
    }
    Ok(rewriter.finish())
}

/// The graph that replaces a transform node, made from its region, which contains no transforms.
fn transformed(node: &Node, in_order: bool) -> Result<Graph> {
    let body = &node.regions[0];
    if node.op == ops::VMAP.op() {
        let lanes = |at: usize| node.attrs.ints(at).iter().map(|&it| ops::Lane::of(it)).collect::<Vec<_>>();
        return vmap::vmap(body, Dim::from_raw(node.attrs.int(0)), &lanes(1), &lanes(2), node.location);
    }
    if node.op == ops::JVP.op() {
        return forward::jvp(body, &node.attrs.sizes(0), node.attrs.int(1) as usize);
    }
    reverse::value_and_grad(body, &node.attrs.sizes(0), node.attrs.int(1) as usize, node.attrs.bool(2), in_order)
}
