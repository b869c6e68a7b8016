//! The order of passes, and the graphs that they run on.

use super::{Algebra, Cse, Dce, Fold, Inline, Pass, PassContext, Report, Views};
use crate::ir::{Graph, canonical_bytes, subgraphs};
use crate::ops;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

/// Who is shown what passes give: the name of the pass, and the graph.
pub type Watch<'a> = &'a mut dyn FnMut(&'static str, &Graph);

/// Every pass, in the order of the default pipeline: equal nodes are merged first, so that
/// what stands for many of them is looked at once.
pub static PASSES: &[&dyn Pass] = &[&Inline, &Cse, &Fold, &Algebra, &Views, &Dce];

/// The pass of a name.
pub fn pass_by_name(name: &str) -> Option<&'static dyn Pass> {
    PASSES.iter().copied().find(|it| it.name() == name)
}

/// Runs the default pipeline on a graph and on every graph in it.
///
/// ```
/// use ms_core::{ops, optimize};
/// let graph = ops::parse_graph(
///     "graph @f(%x: f32[2]) -> (f32[2]) {
///        %y = reshape %x {shape = [1, 2]} : f32[1, 2]
///        %z = reshape %y {shape = [2]} : f32[2]
///        return %z
///      }",
/// )?;
/// let graph = optimize::optimize(graph, &optimize::PassContext::default());
/// assert!(graph.is_empty());
/// # Ok::<(), ms_core::Error>(())
/// ```
pub fn optimize(graph: Graph, context: &PassContext) -> Graph {
    optimize_with(graph, PASSES, context).0
}

/// Runs passes, in order, over and over while they change something (at most
/// [`PassContext::rounds`] times), on a graph and on every graph in it.
///
/// A graph that stands in several places is optimised once, before those that hold it; graphs
/// that come out equal become one.
pub fn optimize_with(graph: Graph, passes: &[&dyn Pass], context: &PassContext) -> (Graph, Report) {
    optimize_watched(graph, passes, context, &mut |_, _| {})
}

/// [`optimize_with`], where `watch` is shown every graph that a pass changed, with its name.
pub fn optimize_watched(
    mut graph: Graph,
    passes: &[&dyn Pass],
    context: &PassContext,
    watch: Watch<'_>,
) -> (Graph, Report) {
    let mut report = Report::default();
    let mut done: FxHashMap<*const Graph, Arc<Graph>> = FxHashMap::default();
    let mut equal: FxHashMap<Vec<u8>, Arc<Graph>> = FxHashMap::default();
    for region in subgraphs(&graph) {
        let mut body = (**region).clone();
        body.map_regions(|it| done[&Arc::as_ptr(it)].clone());
        let body = run(body, passes, context, &mut report, watch);
        let shared = equal.entry(canonical_bytes(&body)).or_insert_with(|| Arc::new(body));
        done.insert(Arc::as_ptr(region), shared.clone());
    }
    graph.map_regions(|it| done[&Arc::as_ptr(it)].clone());
    let graph = run(graph, passes, context, &mut report, watch);
    (graph, report)
}

/// Runs passes on one graph, whose regions are finished.
fn run(mut graph: Graph, passes: &[&dyn Pass], context: &PassContext, report: &mut Report, watch: Watch<'_>) -> Graph {
    for _ in 0..context.rounds {
        let mut changed = false;
        for pass in passes {
            let start = Instant::now();
            let before = graph.len();
            let new = match pass.run(&graph, context) {
                Cow::Borrowed(_) => None,
                Cow::Owned(new) => Some(new),
            };
            let entry = report.entry(pass.name());
            entry.time += start.elapsed();
            entry.runs += 1;
            entry.changes += usize::from(new.is_some());
            entry.nodes_before += before;
            entry.nodes_after += new.as_ref().map_or(before, Graph::len);
            if let Some(new) = new {
                if cfg!(debug_assertions)
                    && let Err(error) = ops::verify_one(&new)
                {
                    panic!("pass `{}` broke a graph: {error}\nbefore:\n{graph}\nafter:\n{new}", pass.name());
                }
                watch(pass.name(), &new);
                graph = new;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    graph
}
