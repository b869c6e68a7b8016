//! Reports compilations: sizes of graphs and of compiled programs, and times of stages.
//!
//! The thread that runs a compilation records it, from its trace to its executable. The stages find the record there,
//! and the report remains there.

use super::dump::Dump;
use crate::optimize::{PassContext, Report, optimize_watched};
use ms_compile::exec::{Executable, Interface, PlanReport};
use ms_ir::error::Result;
use ms_ir::{Graph, GraphSize, count_nodes};
use ms_ops::ops::Control;
use ms_trace::effects::count_moves;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// The maximal number of reports that a thread keeps. Older ones are dropped.
const REMEMBERED: usize = 256;

/// A compilation.
///
/// See the example of [`compile_report`].
#[derive(Clone, Debug, Default)]
pub struct CompileReport {
    /// The function or graph.
    pub name: String,
    /// The stages, in order.
    pub stages: Vec<StageReport>,
    /// The statistics of the optimisation's passes.
    pub passes: Report,
    /// The slots that the function writes, if it was traced.
    pub slots: Option<SlotReport>,
}

/// The slots that a compiled function writes.
///
/// See the example of [`compile_report`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotReport {
    /// The number of slots.
    pub written: usize,
    /// The slots whose new values every run writes to fresh memory. Such a value is computed before a step that may
    /// fail, or while the old one is live, or the old one is not read. The others are written in place, unless their
    /// memory is shared when the function is called.
    pub fresh: usize,
}

impl SlotReport {
    /// Reports the slots of a graph's code. The last outputs are new values of slots, and `old` are the inputs with the
    /// old ones, if the function reads them.
    fn of(old: &[Option<usize>], outputs: usize, code: &dyn Executable) -> Self {
        let is_fresh = |it: &(usize, &Option<usize>)| it.1.is_none_or(|input| !code.overwrites(it.0, input));
        Self { written: old.len(), fresh: (outputs - old.len()..).zip(old).filter(is_fresh).count() }
    }
}

/// A stage of a compilation.
///
/// See the example of [`compile_report`].
#[derive(Clone, Debug)]
pub struct StageReport {
    /// The name.
    pub name: &'static str,
    /// The duration.
    pub time: Duration,
    /// The resulting graph.
    pub graph: Option<GraphReport>,
    /// The sizes of the resulting plan.
    pub plan: Option<PlanReport>,
}

/// The sizes of a graph.
///
/// See the example of [`compile_report`].
#[derive(Clone, Copy, Debug)]
pub struct GraphReport {
    /// Nodes and distinct sub-graphs.
    pub size: GraphSize,
    /// Calls of sub-graphs.
    pub calls: usize,
    /// Copies of old values of parameters: `tensor_move`.
    pub moves: usize,
}

impl GraphReport {
    fn of(graph: &Graph) -> Self {
        Self {
            size: GraphSize::of(graph),
            calls: count_nodes(graph, |it| matches!(Control::of(it), Some(Control::Call { .. }))),
            moves: count_moves(graph),
        }
    }
}

impl CompileReport {
    /// Returns the time from the beginning of the trace to the executable.
    pub fn time(&self) -> Duration {
        self.stages.iter().map(|it| it.time).sum()
    }

    /// Returns a stage by its name: `trace`, `effects`, `key`, `look up`, `expand`, `optimize`, `compile`, `load`. For
    /// further sizes of a graph with symbolic sizes, the stages are `sizes`, `specialize`, and those from `compile` on.
    pub fn stage(&self, name: &str) -> Option<&StageReport> {
        self.stages.iter().find(|it| it.name == name)
    }
}

impl fmt::Display for CompileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(f, "`{}` in {:.3} ms", self.name, ms(self.time()))?;
        writeln!(
            f,
            "{:<10} {:>10} {:>9} {:>9} {:>7} {:>7} {:>7}",
            "stage", "ms", "nodes", "unshared", "graphs", "calls", "moves"
        )?;
        for it in &self.stages {
            write!(f, "{:<10} {:>10.3}", it.name, ms(it.time))?;
            if let Some(GraphReport { size, calls, moves }) = it.graph {
                write!(f, " {:>9} {:>9} {:>7} {calls:>7} {moves:>7}", size.nodes, size.unshared, size.graphs)?;
            }
            if let Some(PlanReport { routines, kernels, steps, calls, arena_bytes, waits, .. }) = it.plan {
                write!(
                    f,
                    " {steps} steps of {routines} routines, {calls} calls, {kernels} kernels, {arena_bytes} bytes, \
                     waits: {waits}"
                )?;
            }
            writeln!(f)?;
        }
        if let Some(SlotReport { written: written @ 1.., fresh }) = self.slots {
            writeln!(f, "slots: {written} written, {fresh} of them to fresh memory")?;
        }
        self.passes.fmt(f)
    }
}

/// Returns the last 256 compilations of this thread, the latest last. The first thread to call a function compiles it.
pub fn compile_report() -> Vec<CompileReport> {
    DONE.with_borrow(|it| it.iter().cloned().collect())
}

/// A compilation in progress.
#[derive(Default)]
struct Record {
    report: CompileReport,
    dump: Option<Dump>,
    /// The number of outputs of the traced graph. For each written slot, the input that is its old value, if the graph
    /// reads it.
    slots: Option<(usize, Vec<Option<usize>>)>,
}

thread_local! {
    static RECORD: RefCell<Record> = RefCell::default();
    static DONE: RefCell<VecDeque<CompileReport>> = const { RefCell::new(VecDeque::new()) };
}

fn with_record<R>(f: impl FnOnce(&mut Record) -> R) -> R {
    RECORD.with(|it| f(&mut it.borrow_mut()))
}

/// Begins a compilation with a trace that began at `start` and resulted in `graph`.
pub(super) fn traced(graph: &Graph, start: Instant) {
    with_record(|it| *it = Record::default());
    gave("trace", graph, start.elapsed());
}

/// Runs a stage that results in a graph.
pub(super) fn graph_stage<'g>(name: &'static str, f: impl FnOnce() -> Cow<'g, Graph>) -> Cow<'g, Graph> {
    let start = Instant::now();
    let graph = f();
    gave(name, &graph, start.elapsed());
    graph
}

/// Runs a stage that results in a graph or an error.
pub(super) fn try_graph_stage<'g>(
    name: &'static str,
    f: impl FnOnce() -> Result<Cow<'g, Graph>>,
) -> Result<Cow<'g, Graph>> {
    let start = Instant::now();
    let graph = f()?;
    gave(name, &graph, start.elapsed());
    Ok(graph)
}

/// Runs a stage with another result.
pub(super) fn stage<R>(name: &'static str, f: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = f();
    add(name, start.elapsed(), None);
    result
}

fn gave(name: &'static str, graph: &Graph, time: Duration) {
    let told = GraphReport::of(graph);
    with_record(|it| {
        if it.report.stages.is_empty() {
            it.report.name = graph.name().to_owned();
            it.dump = Dump::begin(graph.name());
        }
        if let Some(dump) = &mut it.dump {
            dump.graph(name, graph);
        }
    });
    add(name, time, Some(told));
}

fn add(name: &'static str, time: Duration, graph: Option<GraphReport>) {
    with_record(|it| it.report.stages.push(StageReport { name, time, graph, plan: None }));
}

/// Optimises the graph and records the stage.
pub(super) fn optimize(graph: &Graph, context: &PassContext) -> Graph {
    let start = Instant::now();
    let (graph, passes) = optimize_watched(graph.clone(), context, &mut passed);
    gave("optimize", &graph, start.elapsed());
    with_record(|it| it.report.passes = passes);
    graph
}

/// Records the result of a pass.
fn passed(name: &'static str, graph: &Graph) {
    with_record(|it| {
        if let Some(dump) = &mut it.dump {
            dump.pass(name, graph);
        }
    });
}

/// Records a compilation to a program of this interface, which `describe` formats as text.
pub(super) fn compiled(interface: &Interface, describe: impl FnOnce() -> Result<String>) {
    with_record(|it| {
        if let Some(stage) = it.report.stages.last_mut() {
            stage.plan = interface.plan;
        }
        if let Some(dump) = &mut it.dump {
            dump.plan(describe);
        }
    });
}

/// Records the slots of a traced graph with `outputs` outputs, of which the last are new values of slots. For each
/// slot, `old` has the input that is its old value, if it is read.
pub(super) fn slots(outputs: usize, old: impl Iterator<Item = Option<usize>>) {
    with_record(|it| it.slots = Some((outputs, old.collect())));
}

/// Ends the compilation of a graph with `outputs` outputs.
pub(super) fn finished(outputs: usize, code: &dyn Executable) {
    let Record { mut report, dump, slots } = with_record(std::mem::take);
    // The forward part of a derivative has additional outputs, and separate memory for all.
    let own = slots.filter(|it| it.0 == outputs);
    report.slots = own.map(|(_, old)| SlotReport::of(&old, outputs, code));
    if let Some(mut dump) = dump {
        dump.report(&report);
    }
    DONE.with_borrow_mut(|done| {
        if done.len() == REMEMBERED {
            done.pop_front();
        }
        done.push_back(report);
    });
}
