//! Encodes graphs canonically: graphs that are equal node by node have equal bytes.

use super::graph::{Def, Graph, Node, NodeId, ValueId};
use crate::data::{Attr, DType, Dim, Op, Type};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::sync::Arc;

/// Incremented when the encoding changes, so that keys of different encodings never collide.
const SCHEMA: u8 = 1;

/// Returns the canonical encoding of a graph, which is hashed into keys.
///
/// The encoding does not depend on the process or the platform. Two graphs have equal encodings exactly if their inputs
/// have equal types, and equal ops, attributes, operands and regions compute their outputs. The encoding ignores names
/// of graphs and inputs, locations and the numbering of values. It also ignores the order of independent nodes, dead
/// nodes, and the sharing of equal regions.
///
/// Nodes without results have effects and are live. Nodes of symbolic sizes are live too, because they may fail at the
/// sizes of a call, whether their results are used or not.
///
/// ```text
/// bytes = schema graph-count graph*            each graph once, after those it holds
/// graph = length type* node* value*            inputs, nodes, outputs; lists begin with their length
/// node  = op attr* graph-index* value* type*
/// ```
/// A custom op is encoded as the first custom number, followed by its name and the hash of its source. Numbers are
/// unsigned LEB128. Values are numbered with inputs first, then results in order.
pub fn canonical_bytes(graph: &Graph) -> Vec<u8> {
    let mut bodies = Bodies::default();
    let mut open = vec![Frame::new(graph)];
    while let Some(frame) = open.last_mut() {
        match frame.regions.pop() {
            Some(region) if bodies.indices.contains_key(&Arc::as_ptr(region)) => {}
            Some(region) => open.push(Frame::new(region)),
            None => {
                bodies.add(frame.graph, &frame.order);
                open.pop();
            }
        }
    }
    let mut out = vec![SCHEMA];
    write_count(&mut out, bodies.all.len());
    for body in bodies.in_order() {
        write_count(&mut out, body.len());
        out.extend_from_slice(body);
    }
    out
}

/// Returns the canonical encoding of a graph with its regions by address. Two such encodings are equal exactly if the
/// graphs are equal and share their regions. Not valid in another process.
pub fn shallow_bytes(graph: &Graph) -> Vec<u8> {
    encode(graph, &canonical_order(graph), |region| Arc::as_ptr(region) as usize)
}

/// A graph on the traversal stack. It is written after its regions.
struct Frame<'a> {
    graph: &'a Graph,
    order: Vec<NodeId>,
    /// Regions still to visit, the next one last.
    regions: Vec<&'a Arc<Graph>>,
}

impl<'a> Frame<'a> {
    fn new(graph: &'a Graph) -> Self {
        let order = canonical_order(graph);
        let mut regions: Vec<_> = order.iter().flat_map(|&id| &graph.node(id).regions).collect();
        regions.reverse();
        Self { graph, order, regions }
    }
}

/// The encodings of the distinct graphs.
#[derive(Default)]
struct Bodies {
    all: HashMap<Vec<u8>, u32, rustc_hash::FxBuildHasher>,
    indices: FxHashMap<*const Graph, u32>,
}

impl Bodies {
    fn add(&mut self, graph: &Graph, order: &[NodeId]) {
        let body = encode(graph, order, |region| self.indices[&Arc::as_ptr(region)] as usize);
        let next = self.all.len() as u32;
        let index = *self.all.entry(body).or_insert(next);
        self.indices.insert(graph, index);
    }

    fn in_order(&self) -> Vec<&Vec<u8>> {
        let mut all: Vec<_> = self.all.iter().collect();
        all.sort_unstable_by_key(|(_, index)| **index);
        all.into_iter().map(|(body, _)| body).collect()
    }
}

fn encode(graph: &Graph, order: &[NodeId], region: impl Fn(&Arc<Graph>) -> usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 * (order.len() + 1));
    let mut numbers = vec![u32::MAX; graph.value_count()];
    let mut next = 0;
    let mut define = |ids: &[ValueId], numbers: &mut [u32]| {
        for id in ids {
            numbers[id.0 as usize] = next;
            next += 1;
        }
    };
    write_types(&mut out, graph, graph.inputs());
    define(graph.inputs(), &mut numbers);
    write_count(&mut out, order.len());
    for &id in order {
        let node = graph.node(id);
        write_node(&mut out, graph, node, &numbers, &region);
        define(&node.outputs, &mut numbers);
    }
    write_values(&mut out, graph.outputs(), &numbers);
    out
}

fn write_node(out: &mut Vec<u8>, graph: &Graph, node: &Node, numbers: &[u32], region: &impl Fn(&Arc<Graph>) -> usize) {
    write_op(out, node.op);
    write_count(out, node.attrs.as_slice().len());
    for attr in node.attrs.as_slice() {
        write_attr(out, attr);
    }
    write_count(out, node.regions.len());
    for it in &node.regions {
        write_count(out, region(it));
    }
    write_values(out, &node.inputs, numbers);
    write_types(out, graph, &node.outputs);
}

/// Writes the process-independent identity of an op.
fn write_op(out: &mut Vec<u8>, op: Op) {
    match op.custom_source() {
        None => write_count(out, usize::from(op.number())),
        Some(source) => {
            write_count(out, usize::from(Op::FIRST_CUSTOM));
            write_text(out, op.name());
            out.extend(source.to_le_bytes());
        }
    }
}

/// Returns the live nodes in post-order. The roots are nodes without results, then outputs, then nodes of symbolic
/// sizes. Only the order of the last kind depends on more than the edges of the graph.
fn canonical_order(graph: &Graph) -> Vec<NodeId> {
    let producer = |id: ValueId| match graph.value(id).def {
        Def::Input(_) => None,
        Def::Result(node, _) => Some(node),
    };
    let effects = graph.nodes().filter(|(_, node)| node.outputs.is_empty()).map(|(id, _)| id);
    let of_calls = graph.nodes().filter(|(_, node)| is_symbolic(graph, node)).map(|(id, _)| id);
    let outputs = graph.outputs().iter().filter_map(|&id| producer(id));
    let roots: Vec<NodeId> = effects.chain(outputs).chain(of_calls).collect();
    let mut order = Vec::with_capacity(graph.len());
    let mut seen = vec![false; graph.len()];
    let mut open: Vec<(NodeId, usize)> = Vec::new();
    for root in roots {
        if !std::mem::replace(&mut seen[root.0 as usize], true) {
            open.push((root, 0));
        }
        while let Some((id, next)) = open.last_mut() {
            let inputs = &graph.node(*id).inputs;
            let Some(&input) = inputs.get(*next) else {
                order.push(*id);
                open.pop();
                continue;
            };
            *next += 1;
            if let Some(node) = producer(input).filter(|it| !seen[it.0 as usize]) {
                seen[node.0 as usize] = true;
                open.push((node, 0));
            }
        }
    }
    order
}

/// Returns whether a node may fail depending on the sizes of a call.
fn is_symbolic(graph: &Graph, node: &Node) -> bool {
    node.attrs.is_symbolic() || node.inputs.iter().chain(&node.outputs).any(|&id| graph.ty(id).is_symbolic())
}

/// Writes a number as LEB128.
fn write_count(out: &mut Vec<u8>, count: usize) {
    let mut rest = count as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn write_values(out: &mut Vec<u8>, ids: &[ValueId], numbers: &[u32]) {
    write_count(out, ids.len());
    for id in ids {
        write_count(out, numbers[id.0 as usize] as usize);
    }
}

fn write_types(out: &mut Vec<u8>, graph: &Graph, ids: &[ValueId]) {
    write_count(out, ids.len());
    for &id in ids {
        write_type(out, graph.ty(id));
    }
}

fn write_type(out: &mut Vec<u8>, ty: &Type) {
    out.push(ty.dtype as u8);
    write_count(out, ty.dims.len());
    ty.dims.iter().for_each(|&dim| write_dim(out, dim));
}

/// Writes a size. A symbolic one is written as text after `usize::MAX`, which no constant size reaches, because the
/// numbers of symbols differ between processes.
fn write_dim(out: &mut Vec<u8>, dim: Dim) {
    match dim.as_const() {
        Some(size) => write_count(out, size),
        None => {
            write_count(out, usize::MAX);
            write_text(out, &dim.to_string());
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_count(out, text.len());
    out.extend(text.as_bytes());
}

fn write_shape(out: &mut Vec<u8>, dtype: DType, sizes: impl ExactSizeIterator<Item = usize>) {
    out.push(dtype as u8);
    write_count(out, sizes.len());
    for size in sizes {
        write_count(out, size);
    }
}

fn write_attr(out: &mut Vec<u8>, attr: &Attr) {
    match attr {
        Attr::Bool(it) => out.extend([0, *it as u8]),
        Attr::Int(it) => {
            out.push(1);
            out.extend(it.to_le_bytes());
        }
        Attr::Float(it) => {
            out.push(2);
            out.extend(it.to_bits().to_le_bytes());
        }
        Attr::Ints(all) => {
            out.push(3);
            write_count(out, all.len());
            all.iter().for_each(|it| out.extend(it.to_le_bytes()));
        }
        Attr::DType(it) => out.extend([4, *it as u8]),
        Attr::Str(it) => {
            out.push(5);
            write_text(out, it);
        }
        Attr::Size(it) => {
            out.push(7);
            write_text(out, &it.to_string());
        }
        Attr::Sizes(all) => {
            out.push(8);
            write_count(out, all.len());
            all.iter().for_each(|it| write_text(out, &it.to_string()));
        }
        Attr::Literal(it) => {
            out.push(6);
            write_shape(out, it.dtype(), it.shape().iter().copied());
            out.extend(it.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::random::{random_graph, random_ops};
    use crate::testing::Random;

    fn bytes(text: &str) -> Vec<u8> {
        canonical_bytes(&parse(text, &random_ops).expect(text))
    }

    /// Graphs of one group have equal encodings, and graphs of different groups have different ones.
    #[test]
    fn bytes_are_equal_where_graphs_are() {
        let groups: [&[&str]; 12] = [
            &[
                "graph @f(%0: f32[], %1: f32[]) -> (f32[]) { %2 = plain %0, %1 : f32[] return %2 }",
                // Names of inputs.
                "graph @f(%x: f32[], %fc1.weight: f32[]) -> (f32[]) {
                   %2 = plain %x, %fc1.weight : f32[] return %2 }",
                // A different name, different ids, a dead node at the beginning and one at the end.
                "graph @g(%9: f32[], %a: f32[]) -> (f32[]) {
                   %d = plain %a : f32[3] %2 = plain %9, %a : f32[] %e = plain %2 : f32[] return %2 }",
            ],
            &["graph @f(%0: f32[], %1: f32[]) -> (f32[]) { %2 = plain %1, %0 : f32[] return %2 }"],
            &["graph @f(%0: f32[], %1: f64[]) -> (f32[]) { %2 = plain %0, %1 : f32[] return %2 }"],
            &["graph @f(%0: f32[], %1: f32[]) -> (f32[]) { %2 = return_ %0, %1 : f32[] return %2 }"],
            &["graph @f(%0: f32[], %1: f32[]) -> (f32[], f32[]) { %2 = plain %0, %1 : f32[] return %2, %2 }"],
            &["graph @f(%0: f32[], %1: f32[]) -> (f32[]) { plain %1 : () %2 = plain %0, %1 : f32[] return %2 }"],
            &[
                // The order of independent nodes.
                "graph @f(%0: f32[]) -> (f32[]) {
                   %1 = one {value = 1} : f32[] %2 = one {value = 2} : f32[] %3 = plain %1, %2 : f32[] return %3 }",
                "graph @f(%0: f32[]) -> (f32[]) {
                   %2 = one {value = 2} : f32[] %1 = one {value = 1} : f32[] %3 = plain %1, %2 : f32[] return %3 }",
            ],
            &["graph @f(%0: f32[]) -> (f32[]) {
                   %1 = one {value = 1} : f32[] %2 = one {value = 2.0} : f32[] %3 = plain %1, %2 : f32[] return %3 }"],
            &[
                // Equal regions, stored once or twice.
                "graph @a() -> () { return } graph @f() -> () { plain @a @a : () return }",
                "graph @a() -> () { return } graph @b() -> () { return } graph @f() -> () { plain @b @a : () return }",
            ],
            // The sizes of a call decide whether a node of symbolic sizes fails, even if its result is unused.
            &["graph @f(%0: f32[n]) -> (f32[n]) { return %0 }"],
            &["graph @f(%0: f32[n]) -> (f32[n]) { %1 = plain %0 : f32[n] return %0 }"],
            &["graph @f(%0: f32[n]) -> (f32[n]) { %1 = plain %0 : f32[4] return %0 }"],
        ];
        let groups: Vec<Vec<Vec<u8>>> = groups.iter().map(|it| it.iter().map(|text| bytes(text)).collect()).collect();
        for (i, group) in groups.iter().enumerate() {
            for (j, member) in group.iter().enumerate() {
                assert_eq!(group[0], *member, "group {i}, member {j}");
                for (k, other) in groups[..i].iter().enumerate() {
                    assert_ne!(other[0], *member, "groups {i} and {k}");
                }
            }
        }
    }

    #[test]
    fn random_graphs_keep_their_bytes_through_text() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..200 {
            let graph = random_graph(&mut Random::Seed(seed), 3);
            let bytes = canonical_bytes(&graph);
            let back = parse(&graph.to_string(), &random_ops).expect("printed text");
            assert_eq!(canonical_bytes(&back), bytes, "seed {seed}");
            seen.insert(bytes);
        }
        assert!(seen.len() > 150, "most random graphs differ");
    }

    /// The exact bytes are part of stored keys, so a change requires a new [`SCHEMA`].
    #[test]
    fn bytes_of_a_small_graph() {
        let text = "graph @f(%0: f32[300]) -> (bool[]) { %1 = one {value = \"é\"} : i64[] %2 = plain %0, %1 : bool[] return %2 }";
        #[rustfmt::skip]
        let want = [
            SCHEMA, 1, 28,
            1, 11, 1, 0xac, 2,                          // one input, f32[300]
            2,                                          // two nodes
            2, 1, 5, 2, 0xc3, 0xa9, 0, 0, 1, 4, 0,      // one {value = "é"} : i64[]
            1, 0, 0, 2, 0, 1, 1, 0, 0,                  // plain of values 0 and 1 : bool[]
            1, 2,                                       // one output, value 2
        ];
        assert_eq!(bytes(text), want);
    }
}
