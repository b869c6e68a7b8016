//! Graphs within graphs.

use super::graph::Graph;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// The distinct graphs that stand as regions in `root`, at any depth: each once, and after all
/// those that stand in itself. `root` is not among them.
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
