//! Parses the protobuf messages of an ONNX model.

use crate::dtype;
use ms_ir::DType;
use ms_ir::data::{Array, MAX_RANK, sized};
use ms_protobuf::{Value, field, take_varint};
use std::collections::{BTreeMap, HashSet};

/// The maximum nesting of graphs: each level takes a stack frame.
const DEEPEST: usize = 16;

/// Reads data of a tensor that is outside of its model, given the entries that locate it, and its size in bytes. An
/// error is a description of the defect.
pub type External<'a> = dyn Fn(&BTreeMap<String, String>, usize) -> Result<Vec<u8>, String> + 'a;

/// A parsed model file.
pub struct Model {
    /// The opset version.
    pub(super) version: u64,
    pub(super) graph: Graph,
    /// The descriptions of the graph inputs.
    pub(super) inputs: Vec<Input>,
}

/// The graph of a model or of a node attribute.
#[derive(Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub initializers: Vec<(String, Array)>,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
}

/// An input of the graph. Initializers that are also listed as inputs are not included.
pub struct Input {
    pub name: String,
    pub dtype: DType,
    /// The size of each axis.
    pub axes: Vec<Axis>,
}

/// The size of an axis of an input.
pub enum Axis {
    Size(usize),
    Symbol(String),
    Unknown,
}

/// A node.
#[derive(Default)]
pub struct Node {
    pub operator: String,
    pub name: String,
    pub domain: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// The attributes. [`Applied`](super::Applied) rejects attributes that nobody reads.
    attributes: BTreeMap<String, Attribute>,
}

impl Node {
    /// Returns the value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.get(name)
    }

    /// Iterates over the attributes with their names.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// An attribute value.
pub enum Attribute {
    Int(i64),
    Float(f32),
    Text(String),
    Tensor(Array),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
    Graph(Box<Graph>),
    /// A list of a kind that no operator uses.
    Other,
}

type Decoded<T> = Result<T, String>;

fn text(bytes: &[u8]) -> Decoded<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a name is no text".to_owned())
}

/// Calls `each` with every field of a message.
fn fields<'a>(mut message: &'a [u8], mut each: impl FnMut(u64, Value<'a>) -> Decoded<()>) -> Decoded<()> {
    while let Some((number, value)) = field(&mut message)? {
        each(number, value)?;
    }
    Ok(())
}

/// Appends the integers of a field, which may be packed.
fn integers(value: Value<'_>, to: &mut Vec<i64>) -> Decoded<()> {
    match value {
        Value::Number(it) => to.push(it as i64),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                to.push(take_varint(&mut packed)? as i64);
            }
        }
        Value::Fixed(_) => return Err("an integer is written as a float".to_owned()),
    }
    Ok(())
}

/// Returns the bytes of a field of fixed-size numbers.
fn fixed<'a>(value: Value<'a>) -> Decoded<&'a [u8]> {
    match value {
        Value::Fixed(bytes) | Value::Bytes(bytes) => Ok(bytes),
        Value::Number(_) => Err("a float is written as an integer".to_owned()),
    }
}

impl Model {
    /// Parses a model file. `external` reads data that is outside of it.
    ///
    /// # Errors
    /// A description of the defect, or of the unsupported feature.
    pub fn read(file: &[u8], external: &External<'_>) -> Decoded<Self> {
        let (mut graph, mut version) = (None, None);
        fields(file, |number, value| {
            match (number, value) {
                (7, Value::Bytes(bytes)) => graph = Some(bytes),
                (8, Value::Bytes(bytes)) => {
                    let (mut domain, mut number) = (String::new(), 0);
                    fields(bytes, |key, value| {
                        match (key, value) {
                            (1, Value::Bytes(bytes)) => domain = text(bytes)?,
                            (2, Value::Number(it)) => number = it,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    if is_own(&domain) {
                        version = Some(number);
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        let graph = graph.ok_or("it has no graph")?;
        let version = version.ok_or("it does not say which version its operators have")?;
        let (graph, inputs) = self::graph(graph, external, 0)?;
        let inputs = inputs.into_iter().map(input).collect::<Decoded<Vec<Input>>>()?;
        let own: HashSet<&String> = graph.inputs.iter().collect();
        let inputs = inputs.into_iter().filter(|it| own.contains(&it.name)).collect();
        Ok(Self { version, graph, inputs })
    }
}

/// Parses a graph at this nesting depth. Returns it with the messages that describe its inputs.
fn graph<'a>(message: &'a [u8], external: &External<'_>, depth: usize) -> Decoded<(Graph, Vec<&'a [u8]>)> {
    if depth > DEEPEST {
        return Err(format!("its graphs nest more than {DEEPEST} deep"));
    }
    let (mut graph, mut inputs) = (Graph::default(), Vec::new());
    fields(message, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => graph.nodes.push(node(bytes, external, depth)?),
            (5, Value::Bytes(bytes)) => graph.initializers.push(tensor(bytes, external)?),
            (11, Value::Bytes(bytes)) => {
                graph.inputs.push(first_text(bytes)?);
                inputs.push(bytes);
            }
            (12, Value::Bytes(bytes)) => graph.outputs.push(first_text(bytes)?),
            (15, _) => return Err("it has sparse initializers, which are not supported".to_owned()),
            _ => {}
        }
        Ok(())
    })?;
    // An initializer may also be listed as an input.
    let initialized: HashSet<&String> = graph.initializers.iter().map(|it| &it.0).collect();
    graph.inputs.retain(|input| !initialized.contains(input));
    Ok((graph, inputs))
}

/// Returns the name at the start of a message.
fn first_text(message: &[u8]) -> Decoded<String> {
    let mut name = String::new();
    fields(message, |key, value| {
        if let (1, Value::Bytes(bytes)) = (key, value) {
            name = text(bytes)?;
        }
        Ok(())
    })?;
    Ok(name)
}

/// Returns whether a domain is the standard ONNX domain.
pub fn is_own(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

fn node(message: &[u8], external: &External<'_>, depth: usize) -> Decoded<Node> {
    let mut node = Node::default();
    fields(message, |number, value| {
        let Value::Bytes(bytes) = value else { return Ok(()) };
        match number {
            1 => node.inputs.push(text(bytes)?),
            2 => node.outputs.push(text(bytes)?),
            3 => node.name = text(bytes)?,
            4 => node.operator = text(bytes)?,
            5 => {
                let (name, value) = attribute(bytes, external, depth)?;
                node.attributes.insert(name, value);
            }
            7 => node.domain = text(bytes)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(node)
}

fn attribute(message: &[u8], external: &External<'_>, depth: usize) -> Decoded<(String, Attribute)> {
    let (mut name, mut found, mut kind) = (String::new(), None, 0);
    let (mut ints, mut floats, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    fields(message, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => name = text(bytes)?,
            (2, value) => {
                let bytes = fixed(value)?.try_into().map_err(|_| "a float has not four bytes")?;
                found = Some(Attribute::Float(f32::from_le_bytes(bytes)));
            }
            (3, Value::Number(it)) => found = Some(Attribute::Int(it as i64)),
            (4, Value::Bytes(bytes)) => found = Some(Attribute::Text(text(bytes)?)),
            (5, Value::Bytes(bytes)) => found = Some(Attribute::Tensor(tensor(bytes, external)?.1)),
            (6, Value::Bytes(bytes)) => found = Some(Attribute::Graph(Box::new(graph(bytes, external, depth + 1)?.0))),
            (7, value) => floats.extend(fixed(value)?.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it))),
            (8, value) => integers(value, &mut ints)?,
            (9, Value::Bytes(bytes)) => texts.push(text(bytes)?),
            (20, Value::Number(it)) => kind = it,
            _ => {}
        }
        Ok(())
    })?;
    // Protobuf omits a number that is zero.
    let value = match (kind, found) {
        (6, _) => Attribute::Floats(floats),
        (7, _) => Attribute::Ints(ints),
        (8, _) => Attribute::Texts(texts),
        (0..=5, Some(found)) => found,
        (1, None) => Attribute::Float(0.0),
        (2, None) => Attribute::Int(0),
        (3, None) => Attribute::Text(String::new()),
        _ => Attribute::Other,
    };
    Ok((name, value))
}

/// Parses the name and value of a tensor.
pub fn tensor(message: &[u8], external: &External<'_>) -> Decoded<(String, Array)> {
    let (mut name, mut kind, mut raw) = (String::new(), 0, None);
    let (mut dims, mut integers_of, mut fixed_of) = (Vec::new(), Vec::new(), Vec::new());
    let (mut is_external, mut entries) = (false, BTreeMap::new());
    fields(message, |number, value| {
        match (number, value) {
            (1, value) => integers(value, &mut dims)?,
            (2, Value::Number(it)) => kind = it,
            (4 | 10, value) => fixed_of.extend_from_slice(fixed(value)?),
            (5 | 7 | 11, value) => integers(value, &mut integers_of)?,
            (8, Value::Bytes(bytes)) => name = text(bytes)?,
            (9, Value::Bytes(bytes)) => raw = Some(bytes),
            (13, Value::Bytes(bytes)) => {
                let (key, value) = entry(bytes)?;
                entries.insert(key, value);
            }
            (14, Value::Number(it)) => is_external |= it != 0,
            _ => {}
        }
        Ok(())
    })?;
    let dtype = dtype(kind).ok_or_else(|| format!("`{name}` has elements of kind {kind}, which is not supported"))?;
    let shape = dims.iter().map(|&it| usize::try_from(it).ok()).collect::<Option<Vec<usize>>>();
    let shape = shape.ok_or_else(|| format!("`{name}` has a negative size"))?;
    let (ty, count) = sized(dtype, &shape).map_err(|why| format!("`{name}`: {why}"))?;
    let narrow = |it: &i64| it.to_le_bytes().into_iter().take(dtype.size());
    let bytes = match raw {
        _ if is_external => {
            let data = external(&entries, count);
            data.map_err(|why| format!("the data of `{name}` is in another file: {why}"))?
        }
        Some(bytes) => bytes.to_vec(),
        None if !fixed_of.is_empty() => fixed_of,
        None => integers_of.iter().flat_map(narrow).collect(),
    };
    if bytes.len() != count {
        return Err(format!("`{name}` is {ty}, and has {} bytes", bytes.len()));
    }
    Ok((name, Array::from_bytes(&shape, dtype, &bytes)))
}

/// Parses a key and its value.
fn entry(message: &[u8]) -> Decoded<(String, String)> {
    let mut entry = (String::new(), String::new());
    fields(message, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => entry.0 = text(bytes)?,
            (2, Value::Bytes(bytes)) => entry.1 = text(bytes)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(entry)
}

fn input(message: &[u8]) -> Decoded<Input> {
    let (mut name, mut tensor) = (String::new(), None);
    fields(message, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => name = text(bytes)?,
            (2, Value::Bytes(bytes)) => fields(bytes, |key, value| {
                if let (1, Value::Bytes(bytes)) = (key, value) {
                    tensor = Some(bytes);
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    let tensor = tensor.ok_or_else(|| format!("the input `{name}` is no tensor"))?;
    let (mut kind, mut shape) = (0, None);
    fields(tensor, |number, value| {
        match (number, value) {
            (1, Value::Number(it)) => kind = it,
            (2, Value::Bytes(bytes)) => shape = Some(bytes),
            _ => {}
        }
        Ok(())
    })?;
    let shape = shape.ok_or_else(|| format!("the input `{name}` has any number of axes, which is not supported"))?;
    let dtype = dtype(kind).ok_or_else(|| format!("`{name}` has elements of kind {kind}, which is not supported"))?;
    let mut axes = Vec::new();
    fields(shape, |number, value| {
        let (1, Value::Bytes(bytes)) = (number, value) else { return Ok(()) };
        let mut axis = Axis::Unknown;
        fields(bytes, |key, value| {
            match (key, value) {
                (1, Value::Number(it)) => {
                    let size = usize::try_from(it as i64).map_err(|_| format!("`{name}` has a negative size"))?;
                    axis = Axis::Size(size);
                }
                (2, Value::Bytes(bytes)) if !bytes.is_empty() => axis = Axis::Symbol(text(bytes)?),
                _ => {}
            }
            Ok(())
        })?;
        axes.push(axis);
        Ok(())
    })?;
    if axes.len() > MAX_RANK {
        return Err(format!("`{name}` has {} axes, and tensors have at most {MAX_RANK}", axes.len()));
    }
    Ok(Input { name, dtype, axes })
}
