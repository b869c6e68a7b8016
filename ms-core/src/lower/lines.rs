//! Maps steps of a plan to nodes of a traced graph.
//!
//! Source locations are not part of a graph's content, and a plan may be loaded from a file: so a step stores
//! the number of a node, and the traced graph has its location.

use crate::ir::{Graph, subgraphs};
use crate::ops::{Effects, Lowering, definition};
use rustc_hash::FxHashMap;
use std::panic::Location;

type Line = &'static Location<'static>;

/// All nodes, those of nested graphs first.
fn nodes(graph: &Graph) -> impl Iterator<Item = &crate::ir::Node> {
    let inner = subgraphs(graph).into_iter().map(|it| &**it);
    inner.chain([graph]).flat_map(|it| it.nodes().map(|it| it.1))
}

/// The numbers of a traced graph's nodes by their source locations; of several nodes with one location, the
/// first.
pub(super) struct Numbers(FxHashMap<usize, u32>);

fn address(line: Line) -> usize {
    std::ptr::from_ref(line) as usize
}

impl Numbers {
    /// The numbers of the nodes of a graph.
    pub fn of(graph: &Graph) -> Self {
        let mut numbers = FxHashMap::default();
        for (number, node) in (0..).zip(nodes(graph)) {
            if let Some(line) = node.location {
                numbers.entry(address(line)).or_insert(number);
            }
        }
        Self(numbers)
    }

    /// The number of the node with this source location.
    pub fn number(&self, line: Line) -> Option<u32> {
        self.0.get(&address(line)).copied()
    }
}

/// The source location of the node of a traced graph with the number that steps of its plans store.
pub fn line_of_node(graph: &Graph, number: u32) -> Option<Line> {
    nodes(graph).nth(number as usize)?.location
}

/// The name of the node of a traced graph with this number, if it is a composite: the step is of an op of its body.
pub fn composite_of_node(graph: &Graph, number: u32) -> Option<&'static str> {
    let node = nodes(graph).nth(number as usize)?;
    matches!(definition(node.op).lowering, Lowering::Composite(_)).then(|| node.op.name())
}

/// Returns whether two graphs of the same content have the same source locations at all nodes that can fail
/// at run time.
pub fn refuse_at_the_same_lines(a: &Graph, b: &Graph) -> bool {
    let refusing = |graph| {
        let refuses = |node: &crate::ir::Node| {
            let def = definition(node.op);
            match def.lowering {
                Lowering::Gather(_)
                | Lowering::Check(_)
                | Lowering::Library
                | Lowering::OfImages(_)
                | Lowering::Update => true,
                Lowering::Composite(_) => def.effects.any_of(Effects::REFUSES),
                _ => false,
            }
        };
        let all = nodes(graph).filter(move |it| refuses(it));
        all.map(|it| it.location.map(address))
    };
    refusing(a).eq(refusing(b))
}
