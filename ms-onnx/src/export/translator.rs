//! Translates the values of a graph to values of an ONNX model.

use super::message::{self, Attribute};
use super::names::Names;
use crate::element_type;
use ms_ir::{Code, Error, Result};
use ms_ir::{Graph, Node};
use ms_ops::tensor::{Array, Attr, DType, Dim, Factor, HostArray, Literal, Scalar, Type};
use std::collections::HashMap;

/// Exports a node, and returns the names of its results.
///
/// # Errors
/// [`Code::Export`] for a node without a counterpart.
pub type Translate = fn(&mut Translator<'_>, &Applied<'_>) -> Result<Vec<String>>;

/// Writes the nodes of a graph of the model, or of one of its regions.
pub struct Translator<'a> {
    translate: Translate,
    names: &'a mut Names,
    /// The initializers of the whole model.
    initializers: &'a mut Vec<Vec<u8>>,
    nodes: Vec<Vec<u8>>,
    /// A value and axis for each symbolic size.
    sizes: HashMap<Dim, (String, usize)>,
}

impl<'a> Translator<'a> {
    /// Creates a translator without nodes.
    pub fn new(translate: Translate, names: &'a mut Names, initializers: &'a mut Vec<Vec<u8>>) -> Self {
        Self { translate, names, initializers, nodes: Vec::new(), sizes: HashMap::new() }
    }

    /// Creates a translator for a nested graph, which may use the values of this graph.
    pub fn inner(&mut self) -> Translator<'_> {
        let sizes = self.sizes.clone();
        Translator {
            translate: self.translate,
            names: self.names,
            initializers: self.initializers,
            nodes: Vec::new(),
            sizes,
        }
    }

    /// Returns the nodes.
    pub fn into_nodes(self) -> Vec<Vec<u8>> {
        self.nodes
    }

    /// Returns an unused value name.
    pub fn fresh(&mut self) -> String {
        self.names.fresh()
    }

    /// Adds a node.
    pub fn add(&mut self, operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Attribute<'_>)]) {
        self.nodes.push(message::node(operator, inputs, outputs, attributes));
    }

    /// Adds a node with one result, and returns its name.
    pub fn with(&mut self, operator: &str, inputs: &[&str], attributes: &[(&str, Attribute<'_>)]) -> String {
        let result = self.fresh();
        self.add(operator, inputs, &[&result], attributes);
        result
    }

    /// Adds a node with one result and without attributes, and returns its name.
    pub fn apply(&mut self, operator: &str, inputs: &[&str]) -> String {
        self.with(operator, inputs, &[])
    }

    /// Adds an initializer.
    pub fn constant(&mut self, array: &HostArray<'_>) -> String {
        let name = self.fresh();
        self.initializers.push(message::tensor(&name, array));
        name
    }

    /// Adds a constant of rank 1.
    pub fn list(&mut self, numbers: &[i64]) -> Result<String> {
        Ok(self.constant(&Array::from_slice(&[numbers.len()], numbers).into_host()?))
    }

    /// Adds a constant of rank 0.
    pub fn scalar(&mut self, number: impl Into<Scalar>, dtype: DType) -> Result<String> {
        Ok(self.constant(&Array::full(&[], number.into(), dtype).into_host()?))
    }

    /// Casts a value.
    pub fn cast(&mut self, value: &str, dtype: DType) -> String {
        self.with("Cast", &[value], &[("to", Attribute::Int(element_type(dtype) as i64))])
    }

    /// Records where the symbolic sizes of a value occur.
    pub fn record(&mut self, name: &str, ty: &Type) {
        for (axis, dim) in ty.dims.iter().enumerate().filter(|it| it.1.is_symbolic()) {
            self.sizes.entry(*dim).or_insert_with(|| (name.to_owned(), axis));
        }
    }

    /// Returns a one-element list with a size.
    ///
    /// # Errors
    /// [`Code::Export`] for a symbolic size that no axis has had so far.
    pub fn size(&mut self, dim: Dim) -> Result<String> {
        if let Some(size) = dim.as_const() {
            return self.list(&[size as i64]);
        }
        if let Some((value, axis)) = self.sizes.get(&dim).cloned() {
            let axis = axis as i64;
            return Ok(self.with(
                "Shape",
                &[&value],
                &[("start", Attribute::Int(axis)), ("end", Attribute::Int(axis + 1))],
            ));
        }
        if dim == Dim::DYNAMIC || dim.as_symbol().is_some() {
            let message = format!("the size `{dim}` is not that of an axis, which ONNX could ask for");
            return Err(Error::new(Code::Export, message));
        }
        let mut sum: Option<String> = None;
        for (factors, coefficient) in dim.terms() {
            let mut term = self.list(&[coefficient])?;
            for factor in factors {
                let factor = match factor {
                    Factor::Symbol(symbol) => self.size(symbol)?,
                    Factor::Quotient(a, b) => self.quotient(a, b)?,
                    Factor::Smaller(a, b) => {
                        let (a, b) = (self.size(a)?, self.size(b)?);
                        self.apply("Min", &[&a, &b])
                    }
                    Factor::Broadcast(a, b) => self.broadcast_size(a, b)?,
                    Factor::Sum(sum) => self.size(sum)?,
                };
                term = self.apply("Mul", &[&term, &factor]);
            }
            sum = Some(match sum {
                Some(sum) => self.apply("Add", &[&sum, &term]),
                None => term,
            });
        }
        sum.map_or_else(|| self.list(&[0]), Ok)
    }

    /// Returns a list with the floor of a quotient of sizes; `Div` alone would truncate.
    fn quotient(&mut self, a: Dim, b: Dim) -> Result<String> {
        let (a, b) = (self.size(a)?, self.size(b)?);
        let rest = self.apply("Mod", &[&a, &b]);
        let whole = self.apply("Sub", &[&a, &rest]);
        Ok(self.apply("Div", &[&whole, &b]))
    }

    /// Returns a list with the size to which two sizes broadcast: the first, unless it is one.
    fn broadcast_size(&mut self, a: Dim, b: Dim) -> Result<String> {
        let (a, b, one) = (self.size(a)?, self.size(b)?, self.list(&[1])?);
        let is_one = self.apply("Equal", &[&a, &one]);
        Ok(self.apply("Where", &[&is_one, &b, &a]))
    }

    /// Returns a list of sizes.
    ///
    /// # Errors
    /// The errors of [`Translator::size`].
    pub fn shape(&mut self, dims: &[Dim]) -> Result<String> {
        if let Some(sizes) = dims.iter().map(|it| it.as_const().map(|it| it as i64)).collect::<Option<Vec<_>>>() {
            return self.list(&sizes);
        }
        let sizes: Vec<String> = dims.iter().map(|&it| self.size(it)).collect::<Result<_>>()?;
        let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
        Ok(self.with("Concat", &sizes, &[("axis", Attribute::Int(0))]))
    }

    /// Reshapes a value; one size may be symbolic without further nodes.
    ///
    /// # Errors
    /// The errors of [`Translator::size`].
    pub fn reshape(&mut self, value: &str, dims: &[Dim]) -> Result<String> {
        let open = dims.iter().filter(|it| it.as_const().is_none()).count();
        let empty = dims.iter().any(|&it| it == 0);
        let shape = match open == 1 && !empty {
            true => self.list(&dims.iter().map(|it| it.as_const().map_or(-1, |it| it as i64)).collect::<Vec<_>>())?,
            false => self.shape(dims)?,
        };
        Ok(self.with("Reshape", &[value, &shape], &[("allowzero", Attribute::Int(empty.into()))]))
    }

    /// Permutes the axes of a value.
    pub fn permuted(&mut self, value: &str, order: &[i64]) -> String {
        match order.iter().enumerate().all(|(at, &axis)| axis == at as i64) {
            true => value.to_owned(),
            false => self.with("Transpose", &[value], &[("perm", Attribute::Ints(order))]),
        }
    }

    /// Exports a graph inline with these inputs, and returns the names of its results.
    ///
    /// # Errors
    /// [`Code::Export`] for a node without a counterpart.
    pub fn region(&mut self, graph: &Graph, inputs: &[String]) -> Result<Vec<String>> {
        let mut values: Vec<String> = vec![String::new(); graph.value_count()];
        for (&input, name) in graph.inputs().iter().zip(inputs) {
            self.record(name, graph.ty(input));
            values[input.0 as usize] = name.clone();
        }
        for (_, node) in graph.nodes() {
            let operands: Vec<&str> = node.inputs.iter().map(|it| &*values[it.0 as usize]).collect();
            let applied = Applied { node, graph, operands };
            let results = (self.translate)(self, &applied)?;
            for (&output, name) in node.outputs.iter().zip(results) {
                self.record(&name, graph.ty(output));
                values[output.0 as usize] = name;
            }
        }
        Ok(graph.outputs().iter().map(|it| values[it.0 as usize].clone()).collect())
    }
}

/// A node with the names of its operands.
pub struct Applied<'a> {
    pub node: &'a Node,
    graph: &'a Graph,
    pub operands: Vec<&'a str>,
}

impl<'a> Applied<'a> {
    /// Returns the error for a node without a counterpart.
    pub fn refused<T>(&self, why: &str) -> Result<T> {
        let types: Vec<String> = self.node.inputs.iter().map(|&it| self.graph.ty(it).to_string()).collect();
        let message = format!("`{}` has no counterpart in ONNX{why}", self.node.op.name());
        Err(Error::new(Code::Export, message).with_operands(types))
    }

    /// Returns the type of an operand.
    pub fn operand(&self, at: usize) -> &'a Type {
        self.graph.ty(self.node.inputs[at])
    }

    /// Returns the type of the first result.
    pub fn result(&self) -> &'a Type {
        self.graph.ty(self.node.outputs[0])
    }

    fn attribute(&self, name: &str) -> &'a Attr {
        let at = self.node.op.0.attrs.iter().position(|it| it.name == name);
        &self.node.attrs.as_slice()[at.expect("the op declares it")]
    }

    /// Returns whether the op has an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        self.node.op.0.attrs.iter().any(|it| it.name == name)
    }

    /// Returns an attribute that is a list of integers.
    pub fn ints(&self, name: &str) -> &'a [i64] {
        match self.attribute(name) {
            Attr::Ints(it) => it,
            other => unreachable!("`{name}` is {other:?}"),
        }
    }

    /// Returns an attribute that is a list of sizes.
    pub fn dims(&self, name: &str) -> Vec<Dim> {
        match self.attribute(name) {
            Attr::Ints(it) => it.iter().map(|&it| Dim::signed(it)).collect(),
            Attr::Sizes(it) => it.to_vec(),
            other => unreachable!("`{name}` is {other:?}"),
        }
    }

    /// Returns an attribute that is a size.
    pub fn dim(&self, name: &str) -> Dim {
        match self.attribute(name) {
            Attr::Int(it) => Dim::signed(*it),
            Attr::Size(it) => *it,
            other => unreachable!("`{name}` is {other:?}"),
        }
    }

    /// Returns an integer attribute.
    pub fn int(&self, name: &str) -> i64 {
        match self.attribute(name) {
            Attr::Int(it) => *it,
            other => unreachable!("`{name}` is {other:?}"),
        }
    }

    /// Returns a number attribute.
    pub fn number(&self, name: &str) -> Scalar {
        match self.attribute(name) {
            Attr::Int(it) => Scalar::Int(*it),
            Attr::Float(it) => Scalar::Float(*it),
            other => unreachable!("`{name}` is {other:?}"),
        }
    }

    /// Returns a flag attribute.
    pub fn flag(&self, name: &str) -> bool {
        match self.attribute(name) {
            Attr::Bool(it) => *it,
            other => unreachable!("`{name}` is {other:?}"),
        }
    }

    /// Returns a text attribute.
    pub fn text(&self, name: &str) -> &'a str {
        match self.attribute(name) {
            Attr::Str(it) => it,
            other => unreachable!("`{name}` is {other:?}"),
        }
    }

    /// Returns a literal attribute.
    pub fn literal(&self, name: &str) -> &'a Literal {
        match self.attribute(name) {
            Attr::Literal(it) => it,
            other => unreachable!("`{name}` is {other:?}"),
        }
    }
}
