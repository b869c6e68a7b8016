//! Imports ONNX models as functions, by applying their operators as ops.

mod elements;
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

pub use model::{External, Model};

use model::{Attribute, Axis, Graph, Node, is_own};
use ms_ir::error::catch;
use ms_ops::tensor::{Array, Scalar, Type};
use ms_ops::{Code, Error, Result, Tensor};
use ms_trace::trace::InputSpec;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use value::Value;

/// The supported opset versions.
const VERSIONS: std::ops::RangeInclusive<u64> = 13..=22;

/// The maximum number of elements of a folded constant; larger integer tensors are not sizes.
const FOLDED: usize = 64;

/// The example value of symbolic sizes during the trace. No size depends on it.
const EXAMPLE: usize = 2;

/// Creates the error for an unsupported model.
fn unsupported(why: impl Into<String>) -> Error {
    Error::new(Code::Io, why)
}

/// A model that can be traced: [`Importer::run`] on [`Importer::examples`], whose named sizes are symbolic.
pub struct Importer<'a> {
    model: &'a Model,
    constants: HashMap<&'a str, Value>,
    inputs: Vec<InputSpec>,
    examples: Vec<Tensor>,
}

impl<'a> Importer<'a> {
    /// Places the constants of a model on the device of the settings, and folds nodes on small ones.
    ///
    /// # Errors
    /// [`Code::Io`] for an unsupported version of the operators, [`Code::Memory`] for inputs that no memory holds; the
    /// errors of the device.
    pub fn new(model: &'a Model) -> Result<Self> {
        if !VERSIONS.contains(&model.version) {
            let (first, last) = (VERSIONS.start(), VERSIONS.end());
            let version = model.version;
            let message = format!("its operators have the version {version}, and {first} to {last} are supported");
            return Err(unsupported(message));
        }
        let mut constants = HashMap::new();
        for (name, array) in &model.graph.initializers {
            constants.insert(name.as_str(), Value::Constant(Tensor::placed(array.clone())?));
        }
        fold(&model.graph, &mut constants);
        let (mut inputs, mut examples) = (Vec::new(), Vec::new());
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
            inputs.push(InputSpec { name: input.name.clone(), axes });
            Type::of(input.dtype, &shape).check_size()?;
            let number = Tensor::placed(Array::full(&[], Scalar::Int(0), input.dtype))?;
            examples.push(number.broadcast_to(shape.as_slice()));
        }
        Ok(Self { model, constants, inputs, examples })
    }

    /// Returns the name of each input, and of its symbolic sizes.
    pub fn inputs(&self) -> &[InputSpec] {
        &self.inputs
    }

    /// Returns tensors of the types of the inputs. No size of the results depends on the size of a symbolic axis.
    pub fn examples(&self) -> &Vec<Tensor> {
        &self.examples
    }

    /// Applies the operators of the model, and returns its outputs.
    ///
    /// # Errors
    /// [`Code::Io`] for an unsupported operator, or an unsupported form of one, which the message names; the errors of
    /// the ops.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let given = self.inputs.iter().map(|it| it.name.as_str()).zip(inputs.iter().cloned().map(Value::Tensor));
        outputs(&self.model.graph, self.constants.clone().into_iter().chain(given).collect())
    }
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
