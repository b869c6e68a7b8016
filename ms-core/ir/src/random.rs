//! Generates random graphs for tests, of every structure that the type allows, without semantics, and random mutations
//! of text.

use super::testing::Random;
use super::{Graph, Node, ValueId};
use crate::data::{Attr, AttrInfo, AttrKind, Attrs, DType, Literal, Op, OpInfo, Type};
use std::sync::Arc;

/// An attribute; kinds are part of the semantics.
const fn any(name: &'static str) -> AttrInfo {
    AttrInfo::any(name, AttrKind::Int)
}

static OPS: &[OpInfo] = &[
    OpInfo { number: 1, name: "plain", attrs: &[] },
    OpInfo { number: 2, name: "one", attrs: &[any("value")] },
    OpInfo { number: 3, name: "three", attrs: &[any("first"), any("second"), any("third")] },
    OpInfo { number: 4, name: "return_", attrs: &[] },
];

/// The ops of random graphs.
pub(crate) fn random_ops(name: &str) -> Option<Op> {
    OPS.iter().find(|it| it.name == name).map(Op)
}

/// Generates a graph with regions, some of them shared, down to `depth` levels.
pub(crate) fn random_graph(random: &mut Random<'_>, depth: usize) -> Graph {
    let regions: Vec<_> = match depth {
        0 => Vec::new(),
        _ => (0..random.below(3)).map(|_| Arc::new(random_graph(random, depth - 1))).collect(),
    };
    let mut graph = Graph::new(random.pick(&["main", "f", "f", "Gpt.blocks[3].attn", "", "a \"b\"\\\n\u{7}é"]));
    for _ in 0..random.below(4) {
        let ty = random_type(random);
        graph.add_input(ty);
        let names = [
            "",
            "",
            "x",
            "x",
            "x#1",
            "fc1.weight",
            "layers[12].weight",
            "[0].w",
            "a[",
            "1",
            "1.5",
            "h[\"w\"]",
            "größe",
        ];
        graph.name_input(graph.inputs().len() - 1, Some(random.pick(&names).into()));
    }
    for _ in 0..random.below(12) {
        let op = Op(&OPS[random.below(OPS.len())]);
        let attrs = Attrs::new((0..op.0.attrs.len()).map(|_| random_attr(random)));
        let inputs = random_values(random, &graph);
        let mut node = Node::new(op, attrs, inputs);
        for region in &regions {
            if random.below(2) == 0 {
                node.regions.push(region.clone());
            }
        }
        let types: Vec<_> = (0..random.pick(&[0, 1, 1, 1, 2])).map(|_| random_type(random)).collect();
        graph.add_node(node, types);
    }
    let outputs = random_values(random, &graph);
    graph.set_outputs(outputs);
    graph
}

fn random_values(random: &mut Random<'_>, graph: &Graph) -> Vec<ValueId> {
    match graph.value_count() {
        0 => Vec::new(),
        count => (0..random.below(4)).map(|_| ValueId(random.below(count) as u32)).collect(),
    }
}

fn random_shape(random: &mut Random<'_>) -> Vec<usize> {
    (0..random.below(4)).map(|_| random.pick(&[0, 1, 2, 3, 5])).collect()
}

fn random_type(random: &mut Random<'_>) -> Type {
    Type::of(random.pick(&DType::ALL), &random_shape(random))
}

fn random_attr(random: &mut Random<'_>) -> Attr {
    let float = |random: &mut Random<'_>| {
        let special = [0.0, -0.0, 1.0, 0.1, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, 1e300];
        if random.below(2) == 0 { random.pick(&special) } else { f64::from_bits(random.bits()) }
    };
    match random.below(7) {
        0 => Attr::Bool(random.below(2) == 0),
        1 => Attr::Int(random.pick(&[0, -1, 7, i64::MAX, i64::MIN])),
        2 => Attr::Float(float(random)),
        3 => Attr::Ints((0..random.below(4)).map(|_| (random.bits() >> 2) as i64 - (1 << 61)).collect()),
        4 => Attr::DType(random.pick(&DType::ALL)),
        5 => random.pick(&["", "sum", "a \"quoted\" \\ word\n\u{1b}[0m", "größe"]).into(),
        _ => Attr::Literal(random_literal(random)),
    }
}

fn random_literal(random: &mut Random<'_>) -> Literal {
    let dtype = random.pick(&DType::ALL);
    let shape = random_shape(random);
    let count: usize = shape.iter().product();
    let splat = random.below(3) == 0;
    let mut bits = random.bits();
    let mut bytes = Vec::new();
    for _ in 0..count {
        if !splat {
            bits = random.bits();
        }
        let element = if dtype == DType::Bool { bits & 1 } else { bits };
        bytes.extend_from_slice(&element.to_le_bytes()[..dtype.size()]);
    }
    Literal::from_bytes(&shape, dtype, bytes).expect("the bytes fill the shape")
}

/// Mutates a text at a few positions: removes or repeats a range, or inserts one of `pieces`.
pub(crate) fn mutate(random: &mut Random<'_>, text: &mut String, pieces: &[&str]) {
    for _ in 0..=random.below(3) {
        let position = |random: &mut Random<'_>, text: &str| {
            let at = random.below(text.len() + 1);
            (at..=text.len()).find(|&it| text.is_char_boundary(it)).unwrap_or(0)
        };
        let (a, b) = (position(random, text), position(random, text));
        match random.below(4) {
            0 => text.insert_str(a, random.pick(pieces)),
            1 => text.truncate(a),
            2 => text.replace_range(a.min(b)..a.max(b), ""),
            _ => {
                let copied = text[a.min(b)..a.max(b)].to_string();
                text.insert_str(a, &copied);
            }
        }
    }
}
