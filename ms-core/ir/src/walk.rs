//! Traverses the graphs in a graph.

use super::graph::{Graph, Node};
use crate::error::Result;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::sync::Arc;

/// Returns the distinct regions of `root` at any depth, in post-order: each once, after the regions of the nodes in it.
/// Does not include `root`.
pub fn subgraphs(root: &Graph) -> Vec<&Arc<Graph>> {
    let regions = |graph| Graph::nodes(graph).flat_map(|(_, node)| &node.regions);
    let mut seen = FxHashSet::default();
    let mut found = Vec::new();
    let mut open = vec![(None, regions(root))];
    while let Some((owner, rest)) = open.last_mut() {
        match rest.next() {
            Some(region) if seen.insert(Arc::as_ptr(region)) => open.push((Some(region), regions(region))),
            Some(_) => {}
            None => {
                found.extend(owner.take());
                open.pop();
            }
        }
    }
    found
}

/// Rewrites `root` and its [`subgraphs`], which the caller passes, each once and after the regions of the nodes in it.
///
/// # Errors
/// The errors of `rewrite`.
pub fn rewrite_inside_out(
    root: &Graph,
    subgraphs: Vec<&Arc<Graph>>,
    rewrite: impl Fn(&Graph) -> Result<Cow<'_, Graph>>,
) -> Result<Graph> {
    let mut done: FxHashMap<*const Graph, Arc<Graph>> = FxHashMap::default();
    let with_done = |graph: &Graph, done: &FxHashMap<*const Graph, Arc<Graph>>| {
        let mut graph = graph.clone();
        graph.map_regions(|it| done[&Arc::as_ptr(it)].clone());
        rewrite(&graph).map(Cow::into_owned)
    };
    for region in subgraphs {
        let rewritten = with_done(region, &done)?;
        done.insert(Arc::as_ptr(region), Arc::new(rewritten));
    }
    with_done(root, &done)
}

/// The size of a graph with all graphs in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GraphSize {
    /// The number of nodes of the graph and of every distinct graph in it.
    pub nodes: usize,
    /// The number of nodes if no graph were shared.
    pub unshared: usize,
    /// The number of distinct graphs in the graph.
    pub graphs: usize,
}

impl GraphSize {
    /// Returns the size of a graph.
    pub fn of(root: &Graph) -> Self {
        let inside = subgraphs(root);
        let mut unshared: FxHashMap<*const Graph, usize> = FxHashMap::default();
        let total = |graph: &Graph, unshared: &FxHashMap<*const Graph, usize>| {
            let regions = graph.nodes().flat_map(|(_, node)| &node.regions);
            regions.fold(graph.len(), |sum, it| sum.saturating_add(unshared[&Arc::as_ptr(it)]))
        };
        for graph in &inside {
            unshared.insert(Arc::as_ptr(graph), total(graph, &unshared));
        }
        Self {
            nodes: root.len() + inside.iter().map(|it| it.len()).sum::<usize>(),
            unshared: total(root, &unshared),
            graphs: inside.len(),
        }
    }
}

/// Returns the number of nodes, in a graph and in every distinct graph in it, for which `is` returns true.
pub fn count_nodes(root: &Graph, is: impl Fn(&Node) -> bool) -> usize {
    let count = |graph: &Graph| graph.nodes().filter(|(_, node)| is(node)).count();
    count(root) + subgraphs(root).into_iter().map(|it| count(it)).sum::<usize>()
}
