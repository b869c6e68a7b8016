//! Maps steps of a plan to nodes of a traced graph.
//!
//! Source locations are not part of a graph's content, and a plan may be loaded from a file. So a step stores the
//! number of a node, and the traced graph has its location.

use crate::lower::plan::value_bytes;
use ms_ir::MapVec;
use ms_ir::error::Missing;
use ms_ir::op::{Effects, Lowering, definition, has_product};
use ms_ir::{Def, Graph, Node, Type, ValueId, subgraphs};
use rustc_hash::FxHashMap;
use std::panic::Location;

type Line = &'static Location<'static>;

/// Returns all nodes, with nested graphs before their parents.
fn nodes(graph: &Graph) -> impl Iterator<Item = &Node> {
    let inner = subgraphs(graph).into_iter().map(|it| &**it);
    inner.chain([graph]).flat_map(|it| it.nodes().map(|it| it.1))
}

/// The numbers of a traced graph's nodes by source location. If several nodes share a location, the first one counts.
pub(in crate::lower) struct Numbers(FxHashMap<usize, u32>);

fn address(line: Line) -> usize {
    std::ptr::from_ref(line) as usize
}

impl Numbers {
    /// Numbers the nodes of a graph.
    pub fn of(graph: &Graph) -> Self {
        let mut numbers = FxHashMap::default();
        for (number, node) in (0..).zip(nodes(graph)) {
            if let Some(line) = node.location {
                numbers.entry(address(line)).or_insert(number);
            }
        }
        Self(numbers)
    }

    /// Returns the number of the node with this source location.
    pub fn number(&self, line: Line) -> Option<u32> {
        self.0.get(&address(line)).copied()
    }
}

/// Returns the source location of the node with this number, as stored in steps of the traced graph's plans.
pub fn line_of_node(graph: &Graph, number: u32) -> Option<Line> {
    nodes(graph).nth(number as usize)?.location
}

/// Returns the name of a traced graph's node with this number, if it is a composite: the step is then an op of its
/// body.
pub fn composite_of_node(graph: &Graph, number: u32) -> Option<&'static str> {
    let node = nodes(graph).nth(number as usize)?;
    matches!(definition(node.op).lowering, Lowering::Composite(_)).then(|| node.op.name())
}

/// Returns the library function that applied the node of a traced graph with this number.
pub fn function_of_node(graph: &Graph, number: u32) -> Option<&'static str> {
    nodes(graph).nth(number as usize)?.called
}

/// The node whose values exhausted the memory.
pub struct Exhausted<'a> {
    /// The node.
    pub node: &'a Node,
    /// Whether no other node with this op could be the cause.
    pub is_only: bool,
}

/// Returns the node whose values exhausted a run's memory. For intermediate values it is the first node with the
/// largest value. For an output it is the node that computes it. For scratch memory of products it is one of them, if
/// all are the same op of the same function.
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
                let inputs: Vec<&Type> = node.inputs.map_vec(|&id| part.ty(id));
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

/// Returns the source location of a node that can fail; graphs with the same content share it.
pub fn location_of_failure(node: &Node) -> Option<Line> {
    node.location.filter(|_| can_fail(node))
}

/// Returns whether two graphs with the same content have the same source locations.
pub fn have_same_locations(a: &Graph, b: &Graph) -> bool {
    nodes(a).map(|it| it.location.map(address)).eq(nodes(b).map(|it| it.location.map(address)))
}

/// Returns whether a node can fail at run time because of its operands, or is run by a library.
fn can_fail(node: &Node) -> bool {
    let def = definition(node.op);
    match def.lowering {
        Lowering::Gather(_) | Lowering::Check(_) | Lowering::Library | Lowering::Spatial(_) | Lowering::Update => true,
        Lowering::Composite(_) => def.effects.any_of(Effects::MAY_FAIL),
        _ => false,
    }
}

/// Returns whether two graphs with the same content agree on the source locations of all nodes that can fail at run
/// time.
pub fn fail_at_same_locations(a: &Graph, b: &Graph) -> bool {
    let refusing = |graph| nodes(graph).filter(|it| can_fail(it)).map(|it| it.location.map(address));
    refusing(a).eq(refusing(b))
}
