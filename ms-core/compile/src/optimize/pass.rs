//! Defines passes, their settings and their statistics.

use crate::target::{Images, OpSupport};
use ms_ir::{Graph, Precision};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// A rewrite from graph to graph. A pass has no state, and does not process the regions of the graph: the pipeline runs
/// it on each of them.
pub trait Pass: Sync {
    /// The name in reports and in file tests.
    fn name(&self) -> &'static str;

    /// Returns a graph with the same inputs and outputs, borrowed if nothing changed.
    fn run<'g>(&self, graph: &'g Graph, context: &PassContext) -> Cow<'g, Graph>;
}

/// The settings of an optimisation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassContext {
    /// The maximal number of nodes of a graph whose calls are inlined. A graph with a single call is inlined at any
    /// size.
    pub inline_limit: usize,
    /// Whether calls that are marked `no_inline` are inlined like others.
    pub inline_marked: bool,
    /// The composites that the target runs natively.
    pub legal_composites: Vec<OpSupport>,
    /// The target's support for convolutions and pooling.
    pub images: Images,
    /// The precision of these.
    pub precision: Precision,
    /// The maximal number of rounds of the passes on one graph. Rounds end earlier if nothing changes.
    pub rounds: usize,
}

impl Default for PassContext {
    /// Expands all composites, leaves convolutions to the library, and does not inline large graphs with several calls.
    /// Fusion across the border of such a graph would save little.
    fn default() -> Self {
        Self {
            inline_limit: 32,
            inline_marked: false,
            legal_composites: Vec::new(),
            images: Images::default(),
            precision: Precision::default(),
            rounds: 8,
        }
    }
}

/// The statistics of one pass, over all graphs and rounds of an optimisation.
#[derive(Clone, Debug, Default)]
pub struct PassStatistics {
    /// The pass.
    pub name: &'static str,
    /// The number of runs.
    pub runs: usize,
    /// The number of runs that changed a graph.
    pub changes: usize,
    /// Nodes of all graphs before.
    pub nodes_before: usize,
    /// Nodes of all graphs after.
    pub nodes_after: usize,
    /// The time that the pass took.
    pub time: Duration,
}

/// The statistics of an optimisation's passes, in the order of their first run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The statistics of each pass.
    pub passes: Vec<PassStatistics>,
}

impl Report {
    /// Returns the entry of a pass, and adds it if it is missing.
    pub(super) fn entry(&mut self, name: &'static str) -> &mut PassStatistics {
        let at = self.passes.iter().position(|it| it.name == name).unwrap_or_else(|| {
            self.passes.push(PassStatistics { name, ..PassStatistics::default() });
            self.passes.len() - 1
        });
        &mut self.passes[at]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<10} {:>5} {:>8} {:>9} {:>9} {:>10}", "pass", "runs", "changes", "before", "after", "ms")?;
        for it in &self.passes {
            let ms = it.time.as_secs_f64() * 1e3;
            let (before, after) = (it.nodes_before, it.nodes_after);
            writeln!(f, "{:<10} {:>5} {:>8} {before:>9} {after:>9} {ms:>10.3}", it.name, it.runs, it.changes)?;
        }
        Ok(())
    }
}
