//! The memory that what was compiled takes, as far as it is known.

use crate::exec::Artifact;
use crate::ir::{Graph, GraphSize};
use crate::lower::Plan;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// About what a node takes with its values, as it was traced and as it was expanded.
const NODE_BYTES: usize = 1 << 10;

/// About what a step takes with its buffers, in the plan and as it is run.
const STEP_BYTES: usize = 1 << 10;

/// About what anything takes that was compiled, however small.
const LEAST_BYTES: usize = 8 << 10;

/// The bytes of a graph, its plan and its code, counted to those of the graph that it was made of.
pub(crate) struct Footprint {
    own: AtomicUsize,
    all: Arc<AtomicUsize>,
}

impl Footprint {
    /// Of a graph by itself.
    pub fn new() -> Self {
        Self::within(Arc::default())
    }

    /// Of a part of the graph that this is the footprint of.
    pub fn part(&self) -> Self {
        Self::within(self.all.clone())
    }

    fn within(all: Arc<AtomicUsize>) -> Self {
        let footprint = Self { own: AtomicUsize::new(0), all };
        footprint.add(LEAST_BYTES);
        footprint
    }

    fn add(&self, bytes: usize) {
        self.own.fetch_add(bytes, Ordering::Relaxed);
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds a graph.
    pub fn add_graph(&self, graph: &Graph) {
        self.add(GraphSize::of(graph).nodes * NODE_BYTES);
    }

    /// Adds what is run.
    pub fn add_code(&self, plan: &Plan, artifact: &Artifact) {
        let constants: usize = plan.constants.iter().map(|it| it.bytes().len()).sum();
        let steps: usize = plan.routines.iter().map(|it| it.steps.len()).sum();
        self.add(constants + steps * STEP_BYTES + artifact.table.len() + artifact.code.as_ref().len());
    }

    /// The bytes, without those of parts.
    pub fn own_bytes(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }

    /// The bytes, with those of all parts.
    pub fn bytes(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }
}

impl Drop for Footprint {
    fn drop(&mut self) {
        self.all.fetch_sub(*self.own.get_mut(), Ordering::Relaxed);
    }
}
