//! Orders passes and runs them on graphs.

use super::{Inline, Pass, PassContext, Report};
use ms_ir::op;
use ms_ir::{Graph, canonical_bytes, subgraphs};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

/// An observer of the results of passes: the name of the pass, and the graph.
pub type Watch<'a> = &'a mut dyn FnMut(&'static str, &Graph);

/// Inlines all calls in the graph and in every graph in it. Calls that are marked `no_inline` are inlined only if
/// `marked` is set.
pub fn inline_all(graph: &Graph, marked: bool) -> Graph {
    let context = PassContext { inline_limit: usize::MAX, inline_marked: marked, ..PassContext::default() };
    optimize_with(graph.clone(), &[&Inline], &context).0
}

/// Runs passes in order on a graph and on every graph in it, repeatedly while they change something, for at most
/// [`PassContext::rounds`] rounds.
///
/// A graph with several uses is optimised once, before those that contain it, and graphs that become equal are merged.
/// This includes graphs that passes create for nodes.
pub fn optimize_with(graph: Graph, passes: &[&dyn Pass], context: &PassContext) -> (Graph, Report) {
    let mut report = Report::default();
    (run_passes(graph, passes, context, &mut |_, _| {}, &mut report), report)
}

/// [`optimize_with`], where `watch` observes every graph that a pass changed, and `report` collects statistics.
pub fn run_passes(
    graph: Graph,
    passes: &[&dyn Pass],
    context: &PassContext,
    watch: Watch<'_>,
    report: &mut Report,
) -> Graph {
    let (done, equal) = (FxHashMap::default(), FxHashMap::default());
    Optimizer { passes, context, watch, report, done, equal }.graph(graph)
}

/// An optimisation of a graph and the graphs in it.
struct Optimizer<'a> {
    passes: &'a [&'a dyn Pass],
    context: &'a PassContext,
    watch: Watch<'a>,
    report: &'a mut Report,
    /// The result for each graph, by address. The graph itself is kept alive so that its address is not reused.
    done: FxHashMap<*const Graph, (Arc<Graph>, Arc<Graph>)>,
    /// Results by content.
    equal: FxHashMap<Vec<u8>, Arc<Graph>>,
}

impl Optimizer<'_> {
    fn graph(&mut self, mut graph: Graph) -> Graph {
        self.regions(&mut graph);
        for _ in 0..self.context.rounds {
            if !self.round(&mut graph) {
                break;
            }
            self.regions(&mut graph);
        }
        graph
    }

    /// Replaces the graphs of nodes by their results. The recursion is as deep as passes nest graphs: they create nodes
    /// with graphs inside graphs that they created.
    fn regions(&mut self, graph: &mut Graph) {
        let found: Vec<Arc<Graph>> = subgraphs(graph).into_iter().cloned().collect();
        if found.is_empty() {
            return;
        }
        for region in found {
            if self.done.contains_key(&Arc::as_ptr(&region)) {
                continue;
            }
            let mut body = (*region).clone();
            body.map_regions(|it| self.done[&Arc::as_ptr(it)].1.clone());
            let body = self.graph(body);
            let shared = self.equal.entry(canonical_bytes(&body)).or_insert_with(|| Arc::new(body)).clone();
            self.done.insert(Arc::as_ptr(&shared), (shared.clone(), shared.clone()));
            self.done.insert(Arc::as_ptr(&region), (region, shared));
        }
        graph.map_regions(|it| self.done[&Arc::as_ptr(it)].1.clone());
    }

    /// Runs all passes once and returns whether one changed something.
    fn round(&mut self, graph: &mut Graph) -> bool {
        let mut changed = false;
        for pass in self.passes {
            let start = Instant::now();
            let before = graph.len();
            let new = match pass.run(graph, self.context) {
                Cow::Borrowed(_) => None,
                Cow::Owned(new) => Some(new),
            };
            let entry = self.report.entry(pass.name());
            entry.time += start.elapsed();
            entry.runs += 1;
            entry.changes += usize::from(new.is_some());
            entry.nodes_before += before;
            entry.nodes_after += new.as_ref().map_or(before, Graph::len);
            if let Some(new) = new {
                if cfg!(debug_assertions)
                    && let Err(error) = op::verify_one(&new)
                {
                    panic!("pass `{}` broke a graph: {error}\nbefore:\n{graph}\nafter:\n{new}", pass.name());
                }
                (self.watch)(pass.name(), &new);
                *graph = new;
                changed = true;
            }
        }
        changed
    }
}
