//! Estimates the memory of compiled code.

use ms_compile::exec::Artifact;
use ms_ir::{Graph, GraphSize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The approximate size of a node with its values, both traced and expanded.
const NODE_BYTES: usize = 1 << 10;

/// The minimal size of compiled code.
const MIN_BYTES: usize = 8 << 10;

/// The bytes of a graph, its program and its code. They also count towards those of the graph from which it was
/// derived.
pub(crate) struct Footprint {
    own: AtomicUsize,
    all: Arc<AtomicUsize>,
}

impl Footprint {
    /// Creates the footprint of an independent graph.
    pub fn new() -> Self {
        Self::within(Arc::default())
    }

    /// Creates the footprint of a part of this graph.
    pub fn part(&self) -> Self {
        Self::within(self.all.clone())
    }

    fn within(all: Arc<AtomicUsize>) -> Self {
        let footprint = Self { own: AtomicUsize::new(0), all };
        footprint.add(MIN_BYTES);
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

    /// Adds an executable.
    pub fn add_code(&self, artifact: &Artifact) {
        self.add(artifact.interface.loaded_bytes + artifact.code.as_ref().len());
    }

    /// Returns the bytes without parts.
    pub fn own_bytes(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }

    /// Returns the bytes including all parts.
    pub fn bytes(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }
}

impl Drop for Footprint {
    fn drop(&mut self) {
        self.all.fetch_sub(*self.own.get_mut(), Ordering::Relaxed);
    }
}
