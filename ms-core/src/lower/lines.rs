//! Which node of a traced graph a step of a plan stands for.
//!
//! Lines of the user's program are no part of what a graph is, and a plan may come from a file: so a
//! step keeps the number of a node, and what is traced has the line for it.

use crate::ir::{Graph, subgraphs};
use crate::ops::{Lowering, definition};
use rustc_hash::FxHashMap;
use std::panic::Location;

type Line = &'static Location<'static>;

/// Every node, those of the graphs in `graph` first.
fn nodes(graph: &Graph) -> impl Iterator<Item = &crate::ir::Node> {
    let inner = subgraphs(graph).into_iter().map(|it| &**it);
    inner.chain([graph]).flat_map(|it| it.nodes().map(|it| it.1))
}

/// The numbers of a traced graph's nodes by their lines; of several nodes with one line, the first.
pub(super) struct Numbers(FxHashMap<usize, u32>);

fn address(line: Line) -> usize {
    std::ptr::from_ref(line) as usize
}

impl Numbers {
    /// The numbers of a graph.
    pub fn of(graph: &Graph) -> Self {
        let mut numbers = FxHashMap::default();
        for (number, node) in (0..).zip(nodes(graph)) {
            if let Some(line) = node.location {
                numbers.entry(address(line)).or_insert(number);
            }
        }
        Self(numbers)
    }

    /// The number of the node with this line.
    pub fn number(&self, line: Line) -> Option<u32> {
        self.0.get(&address(line)).copied()
    }
}

/// The line of the node of a traced graph that steps of its plans know by this number.
pub fn line_of_node(graph: &Graph, number: u32) -> Option<Line> {
    nodes(graph).nth(number as usize)?.location
}

/// Whether two graphs of the same content have the same lines wherever running may refuse.
pub fn refuse_at_the_same_lines(a: &Graph, b: &Graph) -> bool {
    let refusing = |graph| {
        let refuses = |node: &crate::ir::Node| {
            matches!(definition(node.op).lowering, Lowering::Gather(_) | Lowering::Library | Lowering::Update)
        };
        let all = nodes(graph).filter(move |it| refuses(it));
        all.map(|it| it.location.map(address))
    };
    refusing(a).eq(refusing(b))
}
