//! Imports ONNX models as exported functions, by tracing their operators as ops.

mod elements;
mod external;
mod images;
mod model;
#[cfg(test)]
mod node_tests;
mod operators;
mod positions;
mod quantized;
mod recurrent;
mod regions;
mod sizes;
mod value;

use super::super::bytes::{guarded, read};
use super::super::exported::{ExportedFunction, message};
use super::super::state_dict::refuse;
use external::Folder;
use model::{Attribute, Axis, Graph, Model, Node, is_own};
use ms_core::error::{OrRaise, catch};
use ms_core::session::{InputSpec, export};
use ms_core::tensor::{Array, Scalar};
use ms_core::{Code, Error, Result, Tensor};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use value::Value;

/// The supported opset versions.
const VERSIONS: std::ops::RangeInclusive<u64> = 13..=22;

/// The maximum number of elements of a folded constant; larger integer tensors are not sizes.
const FOLDED: usize = 64;

/// The example value of symbolic sizes during the trace. No size depends on it.
const EXAMPLE: usize = 2;

impl ExportedFunction {
    /// Reads an ONNX model of opset version 13 to 22. Named and unknown sizes become symbolic; shape computations of
    /// the model may derive other sizes from them. External data is read from the folder of the model.
    ///
    /// The result is an exported function like any other: it is compiled when it is called, has gradients, and can be
    /// saved.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::io::{ExportOptions, ExportedFunction};
    /// # let path = std::env::temp_dir().join(format!("ms doc read onnx {}", std::process::id()));
    /// let options = ExportOptions::new().input("x", ["n"]);
    /// ms::export(|x: &Tensor| ops::softmax(x, 0), (&Tensor::zeros([3]),), &options)?.save_onnx(&path)?;
    ///
    /// let softmax = ExportedFunction::load_onnx(&path)?;
    /// assert_eq!(softmax.to_string(), "(x: f32[n]) -> (f32[n])");
    /// assert_eq!(softmax.call(&[&tensor![1.0, 1.0]])?[0].to_vec::<f32>(), [0.5, 0.5]);
    /// # std::fs::remove_file(&path).expect("it was written");
    /// # Ok::<(), ms::Error>(())
    /// ```
    ///
    /// [`Code::Io`] if the file cannot be read, is not a model, or has an unsupported operator or form of one, which
    /// the message names. [`Code::Memory`] if the system has no memory for it.
    pub fn load_onnx(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let loaded = guarded(path, || {
            let bytes = read(path)?;
            let folder = path.parent().map(|it| if it.as_os_str().is_empty() { Path::new(".") } else { it });
            let model = Model::read(&bytes, &Folder(folder)).map_err(|why| refuse(path, "read", why))?;
            traced(&model).map_err(|error| refuse(path, "read", message(&error)))
        });
        loaded.map_err(|error| error.with_op("load_onnx"))
    }

    /// Imports a model from bytes.
    pub(crate) fn from_onnx(bytes: &[u8]) -> Result<Self> {
        traced(&Model::read(bytes, &Folder(None)).map_err(unsupported)?)
    }
}

/// Creates the error for an unsupported model.
fn unsupported(why: impl Into<String>) -> Error {
    Error::new(Code::Io, why)
}

fn traced(model: &Model) -> Result<ExportedFunction> {
    if !VERSIONS.contains(&model.version) {
        let (first, last) = (VERSIONS.start(), VERSIONS.end());
        let message = format!("its operators have the version {}, and {first} to {last} are supported", model.version);
        return Err(unsupported(message));
    }
    let mut constants = HashMap::new();
    for (name, array) in &model.graph.initializers {
        constants.insert(name.as_str(), Value::Constant(Tensor::placed(array.clone())?));
    }
    fold(&model.graph, &mut constants);
    let (mut specs, mut examples) = (Vec::new(), Vec::new());
    for input in &model.inputs {
        let (mut axes, mut shape) = (Vec::new(), Vec::new());
        for (at, axis) in input.axes.iter().enumerate() {
            let (name, size) = match axis {
                Axis::Size(size) => (None, *size),
                Axis::Symbol(name) => (Some(symbol(name)), EXAMPLE),
                Axis::Unknown => (Some(symbol(&format!("{}_{at}", input.name))), EXAMPLE),
            };
            axes.push(name);
            shape.push(size);
        }
        specs.push(InputSpec { name: input.name.clone(), axes });
        ms_core::tensor::Type::of(input.dtype, &shape).check_size()?;
        examples.push(Tensor::placed(Array::full(&[], Scalar::Int(0), input.dtype))?.broadcast_to(shape.as_slice()));
    }
    let run = |inputs: &Vec<Tensor>| {
        let given = model.inputs.iter().map(|it| it.name.as_str()).zip(inputs.iter().cloned().map(Value::Tensor));
        outputs(&model.graph, constants.clone().into_iter().chain(given).collect()).or_raise()
    };
    export(&run, (&examples,), &specs).map(ExportedFunction)
}

/// Folds nodes on small integer constants, such as a size that is written as a quotient.
fn fold<'a>(graph: &'a Graph, constants: &mut HashMap<&'a str, Value>) {
    const LARGE: [&str; 6] = ["ConstantOfShape", "EyeLike", "Expand", "Pad", "Range", "Tile"];
    let is_small = |it: &Value| match it {
        Value::Constant(it) => it.dtype().is_int() && it.shape().iter().product::<usize>() <= FOLDED,
        _ => false,
    };
    for node in graph.nodes.iter().filter(|it| is_own(&it.domain) && !LARGE.contains(&it.operator.as_str())) {
        let known = |name: &String| constants.get(name.as_str()).cloned().filter(is_small);
        let Some(operands) = node.inputs.iter().map(known).collect::<Option<Vec<_>>>() else { continue };
        let operands = operands.into_iter().map(Some).collect();
        // The trace reports the error.
        let Ok(results) = catch(|| Applied::new(node, operands, &HashMap::new()).results()).flatten() else {
            continue;
        };
        let results = results.into_iter().map(|it| Value::Constant(it.tensor()));
        constants.extend(node.outputs.iter().map(String::as_str).zip(results));
    }
}

/// Converts a name to a symbol's: letters, digits and `_`.
fn symbol(name: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
    let name: String = name.chars().map(letter).collect();
    if name.starts_with(|it: char| it.is_ascii_digit()) || name == "_" { format!("size_{name}") } else { name }
}

/// Runs a graph with these values and returns its outputs.
fn outputs<'a>(graph: &'a Graph, mut values: Values<'a>) -> Result<Vec<Tensor>> {
    for node in &graph.nodes {
        if node.outputs.iter().all(|it| matches!(values.get(it.as_str()), Some(Value::Constant(_)))) {
            continue;
        }
        let operator = &node.operator;
        if !is_own(&node.domain) {
            return Err(unsupported(format!("the operator `{operator}` of `{}` is not supported", node.domain)));
        }
        let mut operands = Vec::new();
        for name in &node.inputs {
            let value = (!name.is_empty()).then(|| {
                let unknown = || unsupported(format!("`{name}` of the node `{operator}` is not defined before it"));
                values.get(name.as_str()).cloned().ok_or_else(unknown)
            });
            operands.push(value.transpose()?);
        }
        let applied = Applied::new(node, operands, &values);
        let results = applied.results()?;
        if results.len() < node.outputs.iter().filter(|it| !it.is_empty()).count() {
            return Err(applied.unsupported("with so many results"));
        }
        values.extend(node.outputs.iter().map(String::as_str).zip(results));
    }
    let missing = |name: &String| unsupported(format!("no node defines the output `{name}`"));
    let output = |name: &String| values.get(name.as_str()).map(Value::tensor).ok_or_else(|| missing(name));
    graph.outputs.iter().map(output).collect()
}

/// Values by name.
type Values<'a> = HashMap<&'a str, Value>;

/// A node with its operands; optional operands may be absent.
struct Applied<'a> {
    node: &'a Node,
    operands: Vec<Option<Value>>,
    /// The values of the enclosing graph, which the node's graphs may use.
    outer: &'a Values<'a>,
    /// The attributes that were read.
    read: RefCell<HashSet<&'a str>>,
}

/// Attributes that have no effect here, by operator. They concern training, unsupported dtypes or unread results, or
/// repeat what other attributes or operands say.
const WITHOUT_EFFECT: [(&str, &str); 16] = [
    ("BatchNormalization", "momentum"),
    ("Cast", "round_mode"),
    ("Cast", "saturate"),
    ("CastLike", "round_mode"),
    ("CastLike", "saturate"),
    ("Conv", "kernel_shape"),
    ("ConvInteger", "kernel_shape"),
    ("ConvTranspose", "kernel_shape"),
    ("Dropout", "seed"),
    ("GRU", "hidden_size"),
    ("LSTM", "hidden_size"),
    ("MaxPool", "storage_order"),
    ("QLinearConv", "kernel_shape"),
    ("QuantizeLinear", "saturate"),
    ("RNN", "hidden_size"),
    ("TopK", "sorted"),
];

impl<'a> Applied<'a> {
    fn new(node: &'a Node, operands: Vec<Option<Value>>, outer: &'a Values<'a>) -> Self {
        Self { node, operands, outer, read: RefCell::default() }
    }

    /// Returns an attribute and marks it as read.
    fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        let (name, value) = self.node.attributes().find(|it| it.0 == name)?;
        self.read.borrow_mut().insert(name);
        Some(value)
    }

    /// Imports the node and returns its results.
    ///
    /// # Errors
    /// [`Code::Io`] for an unsupported operator, and for an attribute that was not read: ignoring it could change the
    /// meaning.
    fn results(&self) -> Result<Vec<Value>> {
        let results = operators::apply(self)?;
        let operator = self.node.operator.as_str();
        let read = self.read.borrow();
        match self.node.attributes().find(|it| !read.contains(it.0) && !WITHOUT_EFFECT.contains(&(operator, it.0))) {
            Some((name, _)) => Err(self.unsupported(&format!("with the attribute `{name}`"))),
            None => Ok(results),
        }
    }
}
