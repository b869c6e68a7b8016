//! Maps steps of a plan to nodes of a traced graph.
//!
//! Source locations are not part of a graph's content, and a plan may be loaded from a file: so a step stores
//! the number of a node, and the traced graph has its location.

use super::plan::value_bytes;
use crate::error::Missing;
use crate::ir::{Def, Graph, Node, Type, ValueId, subgraphs};
use crate::ops::{Effects, Lowering, definition, has_product};
use rustc_hash::FxHashMap;
use std::panic::Location;

type Line = &'static Location<'static>;

/// All nodes, those of nested graphs first.
fn nodes(graph: &Graph) -> impl Iterator<Item = &Node> {
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

/// The function of the library that applied the node of a traced graph with this number.
pub fn function_of_node(graph: &Graph, number: u32) -> Option<&'static str> {
    nodes(graph).nth(number as usize)?.called
}

/// A node whose values a run has no memory for.
pub struct Exhausted<'a> {
    /// The node.
    pub node: &'a Node,
    /// Whether only this node, of those with its op, can be the one.
    pub is_only: bool,
}

/// The node whose values a run has no memory for: of values inside, the first one of the largest value; of products, one
/// of them if all are of one op.
pub fn node_of_memory(graph: &Graph, missing: Missing) -> Option<Exhausted<'_>> {
    let parts = || subgraphs(graph).into_iter().map(|it| &**it).chain([graph]);
    let all = || parts().flat_map(|part| part.nodes().map(move |it| (part, it.1)));
    let only = |node| Exhausted { node, is_only: true };
    let largest = |with_results: bool| {
        let bytes = |(part, node): (&Graph, &Node)| {
            let is_inside = |id: &&ValueId| with_results || !std::ptr::eq(part, graph) || !graph.outputs().contains(id);
            let sizes = node.outputs.iter().filter(is_inside).map(|&id| value_bytes(part.ty(id)).unwrap_or(0));
            sizes.max().unwrap_or(0)
        };
        let sized = all().map(|it| (bytes(it), it.1)).filter(|it| it.0 > 0);
        sized.reduce(|best, it| if it.0 > best.0 { it } else { best }).map(|it| only(it.1))
    };
    match missing {
        Missing::Result(at) => match graph.value(*graph.outputs().get(at)?).def {
            Def::Result(node, _) => Some(only(graph.node(node))),
            Def::Input(_) => None,
        },
        // An op can need scratch memory in addition to its results.
        Missing::Inside => largest(false).or_else(|| largest(true)),
        Missing::Product => {
            let is_product = |(part, node): &(&Graph, &Node)| {
                let inputs: Vec<&Type> = node.inputs.iter().map(|&id| part.ty(id)).collect();
                has_product(node.op, &node.attrs, &inputs)
            };
            let mut products = all().filter(is_product).map(|it| it.1);
            let node = products.next()?;
            let mut others = 0;
            let is_alike = |it: &Node| (it.op.number(), it.called) == (node.op.number(), node.called);
            products.inspect(|_| others += 1).all(is_alike).then_some(())?;
            Some(Exhausted { node, is_only: others == 0 })
        }
    }
}

/// The source location of a node that can fail, which graphs of the same content have in common.
pub fn line_of_refusal(node: &Node) -> Option<Line> {
    node.location.filter(|_| refuses(node))
}

/// Whether two graphs of the same content have the same source locations.
pub fn have_same_lines(a: &Graph, b: &Graph) -> bool {
    nodes(a).map(|it| it.location.map(address)).eq(nodes(b).map(|it| it.location.map(address)))
}

/// Returns whether a node can fail at run time because of its operands, or is run by a library.
fn refuses(node: &Node) -> bool {
    let def = definition(node.op);
    match def.lowering {
        Lowering::Gather(_) | Lowering::Check(_) | Lowering::Library | Lowering::OfImages(_) | Lowering::Update => true,
        Lowering::Composite(_) => def.effects.any_of(Effects::REFUSES),
        _ => false,
    }
}

/// Returns whether two graphs of the same content have the same source locations at all nodes that can fail
/// at run time.
pub fn refuse_at_the_same_lines(a: &Graph, b: &Graph) -> bool {
    let refusing = |graph| nodes(graph).filter(|it| refuses(it)).map(|it| it.location.map(address));
    refusing(a).eq(refusing(b))
}
