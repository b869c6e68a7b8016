//! Finds inputs of graphs of which a run may read only a small part.

use super::emit::is_stack;
use ms_ir::MapVec;
use ms_ir::{Graph, Node, Type, ValueId};
use ms_ops::ops::{self, Control, Derivative};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// Returns the inputs `wrt` without stacks, whose length is unknown inside a graph.
pub(super) fn without_stacks(wrt: &[usize], types: &[Type]) -> Vec<usize> {
    wrt.iter().copied().filter(|&at| !is_stack(&types[at])).collect()
}

/// Returns the inputs `wrt` of a graph whose gradients are added to their partial sums: those that it `reads` in part,
/// or, `in_order`, all.
pub(super) fn added_inside(wrt: &[usize], types: &[Type], reads: &[bool], in_order: bool) -> Vec<usize> {
    let mut inside = without_stacks(wrt, types);
    inside.retain(|&at| in_order || reads[at]);
    inside
}

/// Whether each input of a region, by its address, is read in part. The entry keeps the region alive, so that its
/// address is not reused.
type Known = RefCell<FxHashMap<*const Graph, (Arc<Graph>, Vec<bool>)>>;

/// Results, cached for regions with several uses.
#[derive(Default)]
pub(super) struct Reads {
    known: Known,
}

impl Reads {
    /// Returns for each input of a region whether a run may read only a part of it. A gradient of the whole from every
    /// run would cost more than the run. So such a gradient is added to its partial sum in place.
    pub fn of_region(&self, region: &Arc<Graph>) -> Vec<bool> {
        let address = Arc::as_ptr(region);
        if let Some((_, known)) = self.known.borrow().get(&address) {
            return known.clone();
        }
        let found = self.of(region);
        self.known.borrow_mut().insert(address, (region.clone(), found.clone()));
        found
    }

    /// Implements [`Reads::of_region`] for a graph that is not a region.
    pub fn of(&self, graph: &Graph) -> Vec<bool> {
        let mut reads: FxHashMap<ValueId, Read> = FxHashMap::default();
        for (_, node) in graph.nodes() {
            if let Derivative::Read(_) = ops::transform_rules(ops::definition(node.op)).derivative {
                reads.entry(node.inputs[0]).or_default().add(graph.ty(node.outputs[0]).numel());
            } else if !node.regions.is_empty() {
                for operand in self.of_operands(node) {
                    reads.entry(node.inputs[operand]).or_default().add(None);
                }
            }
        }
        let is_part = |id: &ValueId| {
            let ty = graph.ty(*id);
            let read = reads.get(id);
            ty.dtype.is_float() && !is_stack(ty) && read.is_some_and(|it| it.is_part_of(ty.numel()))
        };
        graph.inputs().map_vec(is_part)
    }

    /// Returns the operands of a node that its regions read in part, and which are invariant in all runs of them.
    fn of_operands(&self, node: &Node) -> Vec<usize> {
        let (first, same) = match Control::of(node) {
            Some(Control::Loop(at)) => (at.first_carry(), at.invariants()),
            Some(Control::Call { .. } | Control::Recompute) => (0, 0),
            Some(Control::Branch) => (1, 0),
            Some(Control::CustomVjp(_) | Control::TransformNode(_)) | None => return Vec::new(),
        };
        let inside = node.regions.iter().map(|it| self.of_region(it));
        let all = inside.reduce(|all, one| all.iter().zip(one).map(|(a, b)| *a || b).collect()).unwrap_or_default();
        (same..all.len()).filter(|&at| all[at]).map(|at| first + at).collect()
    }
}

/// The extent of the reads of a value.
#[derive(Default)]
struct Read {
    /// The number of elements read. An element may count several times.
    numel: usize,
    /// Whether the number of additional elements is unknown.
    is_open: bool,
}

impl Read {
    fn add(&mut self, numel: Option<usize>) {
        match numel {
            Some(numel) => self.numel = self.numel.saturating_add(numel),
            None => self.is_open = true,
        }
    }

    /// Returns whether it may be less than a value of `whole` elements.
    fn is_part_of(&self, whole: Option<usize>) -> bool {
        self.is_open || whole.is_none_or(|it| self.numel < it)
    }
}
