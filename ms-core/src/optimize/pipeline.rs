//! Orders passes and runs them on graphs.

use super::{
    Algebra, Branches, Composites, ConstantFolding, Cse, Dce, DeadArguments, Inline, InlineCustom, Layouts, Licm,
    LoopProducts, Pass, PassContext, Report, Views, layout,
};
use crate::ir::{Graph, canonical_bytes, subgraphs};
use crate::ops;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

/// An observer of the results of passes: the name of the pass, and the graph.
pub type Watch<'a> = &'a mut dyn FnMut(&'static str, &Graph);

/// Every pass, in the order of the default pipeline. Equal nodes are merged first, so that other passes process each
/// only once. [`Layouts`] runs at the fixpoint of the others, when calls are inlined, and the passes after it in
/// `LAYOUT_PASSES` clean up.
pub static PASSES: &[&dyn Pass] = &[
    &Composites,
    &InlineCustom,
    &Inline,
    &Branches,
    &DeadArguments,
    &Licm,
    &LoopProducts,
    &Cse,
    &ConstantFolding,
    &Algebra,
    &Views,
    &Dce,
    &Layouts,
];

/// The passes of the second part of the pipeline.
static LAYOUT_PASSES: &[&dyn Pass] = &[&Layouts, &Cse, &ConstantFolding, &Algebra, &Views, &Dce];

/// Returns the pass with this name.
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
    optimize_watched(graph, context, &mut |_, _| {}).0
}

/// Optimises like [`optimize`] and passes every graph that a pass changed to `watch`, with the name of the pass.
pub fn optimize_watched(graph: Graph, context: &PassContext, watch: Watch<'_>) -> (Graph, Report) {
    let mut report = Report::default();
    let (_, first) = PASSES.split_last().expect("there are passes");
    let graph = run_passes(graph, first, context, watch, &mut report);
    let has_contracted = |it: &Graph| layout::has_contracted(it, context);
    // Regions are searched only if the target lowers convolutions.
    let images = context.images != super::Images::default()
        && (has_contracted(&graph) || subgraphs(&graph).into_iter().any(|it| has_contracted(it)));
    let graph = if images { run_passes(graph, LAYOUT_PASSES, context, watch, &mut report) } else { graph };
    (graph, report)
}

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

fn run_passes(
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
                    && let Err(error) = ops::verify_one(&new)
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
