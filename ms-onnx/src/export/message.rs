//! Encodes the messages of `onnx.proto` for models (<https://github.com/onnx/onnx>, version 1.17).

use crate::element_type;
use ms_ops::tensor::{Dim, HostArray, Type};
use ms_protobuf::{bytes, header, integer, number};

/// The opset version, in which reductions take their axes as an operand. Version 18 is the newest that Ascend's
/// compiler reads.
pub const OPSET: u64 = 18;

/// The opset version in which scales of quantisation may belong to blocks.
pub const OPSET_OF_BLOCKS: u64 = 21;

/// An attribute value of a node.
pub enum Attribute<'a> {
    Int(i64),
    Ints(&'a [i64]),
    Text(&'a str),
    /// An encoded [`tensor`].
    Tensor(Vec<u8>),
    /// An encoded [`graph`].
    Graph(Vec<u8>),
}

/// Encodes a node.
pub fn node(operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Attribute<'_>)]) -> Vec<u8> {
    let texts = |field: u8, all: &[&str]| all.iter().flat_map(|it| bytes(field, it.as_bytes())).collect::<Vec<_>>();
    let mut message = [texts(1, inputs), texts(2, outputs), bytes(4, operator.as_bytes())].concat();
    for (name, value) in attributes {
        let (value, kind) = match value {
            Attribute::Int(it) => (integer(3, *it as u64), 2),
            Attribute::Tensor(it) => (bytes(5, it), 4),
            Attribute::Graph(it) => (bytes(6, it), 5),
            Attribute::Ints(all) => (all.iter().flat_map(|it| integer(8, *it as u64)).collect(), 7),
            Attribute::Text(it) => (bytes(4, it.as_bytes()), 3),
        };
        message.extend(bytes(5, &[bytes(1, name.as_bytes()), value, number(20, kind)].concat()));
    }
    message
}

/// Encodes a tensor with its data.
pub fn tensor(name: &str, array: &HostArray<'_>) -> Vec<u8> {
    let dims: Vec<u8> = array.shape().iter().flat_map(|&it| integer(1, it as u64)).collect();
    let mut message = [dims, number(2, element_type(array.dtype())), bytes(8, name.as_bytes())].concat();
    let data = array.bytes();
    message.extend(header(9, data.len()));
    message.extend_from_slice(data);
    message
}

/// Encodes the name and type of an input or output.
pub fn value(name: &str, ty: &Type) -> Vec<u8> {
    let dim = |it: &Dim| match it.as_const() {
        Some(size) => bytes(1, &integer(1, size as u64)),
        None => bytes(1, &bytes(2, it.to_string().as_bytes())),
    };
    let shape: Vec<u8> = ty.dims.iter().flat_map(dim).collect();
    let tensor = [number(1, element_type(ty.dtype)), bytes(2, &shape)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

/// Encodes a graph of these messages.
pub fn graph(
    name: &str,
    nodes: &[Vec<u8>],
    initializers: &[Vec<u8>],
    inputs: &[Vec<u8>],
    outputs: &[Vec<u8>],
) -> Vec<u8> {
    let mut message = Vec::new();
    for (field, all) in [(1, nodes), (5, initializers), (11, inputs), (12, outputs)] {
        all.iter().for_each(|it| message.extend(bytes(field, it)));
        if field == 1 {
            message.extend(bytes(2, name.as_bytes()));
        }
    }
    message
}

/// Encodes a whole model file with an opset version, in the first IR version that has it.
pub fn model(graph: &[u8], opset: u64) -> Vec<u8> {
    let ir = if opset < OPSET_OF_BLOCKS { 8 } else { 10 };
    [number(1, ir), bytes(2, b"ms"), bytes(7, graph), bytes(8, &number(2, opset))].concat()
}
