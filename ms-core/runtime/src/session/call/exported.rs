//! Exports functions from the process: the graph of one trace, with the values of everything that it reads besides its
//! arguments.

use super::compiled::Compiled;
use crate::session::context;
use crate::session::{Function, TracedArguments};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result, in_op};
use ms_ir::{Graph, canonical_bytes, subgraphs, text};
use ms_ops::ops;
use ms_ops::tensor::{Dim, Op, Tensor, Type};
use ms_trace::trace::{
    ArgumentNames, Binding, InputSpec, Sink, Trace, Tracer, Tree, leaves, run_traced, type_key, visited,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::panic::Location;
use std::sync::Arc;

/// A graph and the values of its last inputs.
#[derive(Clone)]
pub struct Exported {
    graph: Arc<Graph>,
    compiled: Arc<Compiled>,
    constants: Vec<Tensor>,
}

impl Exported {
    /// Creates the function of a graph. `constants` are the values of its last inputs.
    ///
    /// # Errors
    /// [`Code::Verify`] for a graph that is not well formed, [`Code::Parse`] for constants that do not fit it; the
    /// errors of expanding it.
    fn new(graph: Graph, constants: Vec<Tensor>) -> Result<Self> {
        ops::verify(&graph)?;
        graph.check_symbols()?;
        let arguments = graph.inputs().len() - constants.len();
        for (&input, constant) in graph.inputs()[arguments..].iter().zip(&constants) {
            if *graph.ty(input) != constant.ty() {
                let (wanted, given) = (graph.ty(input), constant.ty());
                return Err(Error::new(Code::Parse, format!("an input of {wanted} has a value of {given}")));
            }
        }
        let compiled = Compiled::shared(graph.clone(), context::read(|it| it.precision), None)?;
        Ok(Self { graph: Arc::new(graph), compiled, constants })
    }

    /// Parses the function of a graph [as text](ms_ir::text). `constant` returns the values of the inputs from
    /// `arguments` on, by name.
    ///
    /// # Errors
    /// [`Code::Parse`] for text that is not a graph, or inputs without a fitting value; [`Code::Verify`] for a graph
    /// that is not well formed.
    pub fn parse(
        text: &str,
        arguments: usize,
        mut constant: impl FnMut(&str) -> Option<Result<Tensor>>,
    ) -> Result<Self> {
        let graph = text::parse(text, &|name| of_the_library(name))?;
        if arguments > graph.inputs().len() {
            let message = format!("the graph has {} inputs, and {arguments} arguments", graph.inputs().len());
            return Err(Error::new(Code::Parse, message));
        }
        let missing = |name: &str| Error::new(Code::Parse, format!("the input `{name}` has no value"));
        let mut constants = Vec::new();
        for at in arguments..graph.inputs().len() {
            let name = graph.input_name(at).ok_or_else(|| missing(&at.to_string()))?;
            constants.push(constant(name).ok_or_else(|| missing(name))??);
        }
        Self::new(graph, constants)
    }

    /// Returns whether parsing the text of the graph yields this graph.
    fn is_read_back(&self) -> bool {
        let read = text::parse(&self.text(), &|name| of_the_library(name));
        read.is_ok_and(|it| canonical_bytes(&it) == canonical_bytes(&self.graph))
    }

    /// Returns the graph as text for [`Exported::parse`].
    pub fn text(&self) -> String {
        self.graph.to_string()
    }

    /// Returns the graph. Its first inputs are the function's, the others are the constants.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the name and the type of each argument.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = (&str, &Type)> {
        let graph = &*self.graph;
        let count = graph.inputs().len() - self.constants.len();
        let name = |at| graph.input_name(at).map_or("", |it| it);
        (0..count).map(move |at| (name(at), graph.ty(graph.inputs()[at])))
    }

    /// Returns the type of each result.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Type> {
        self.graph.outputs().iter().map(|&it| self.graph.ty(it))
    }

    /// Returns the name and the value of everything that the function reads besides its arguments.
    pub fn constants(&self) -> impl ExactSizeIterator<Item = (&str, &Tensor)> {
        let first = self.graph.inputs().len() - self.constants.len();
        let name = move |at| self.graph.input_name(first + at).map_or("", |it| it);
        self.constants.iter().enumerate().map(move |(at, it)| (name(at), it))
    }

    /// Returns the results for these arguments.
    ///
    /// # Errors
    /// [`Code::Argument`] for a wrong number of arguments, [`Code::DType`] and [`Code::Shape`] for arguments of wrong
    /// types; the errors of running the function.
    pub fn call(&self, arguments: &[&Tensor]) -> Result<Vec<Tensor>> {
        let wanted = self.inputs().len();
        if arguments.len() != wanted {
            let message = format!("it takes {wanted} tensors, and {} are given", arguments.len());
            return Err(Error::new(Code::Argument, message));
        }
        for (argument, (name, ty)) in arguments.iter().zip(self.inputs()) {
            let given = argument.ty();
            if !ty.admits(&given) {
                let code = if given.dtype == ty.dtype { Code::Shape } else { Code::DType };
                return Err(Error::new(code, format!("`{name}` is {ty}, and the tensor {given}")));
            }
        }
        let inputs: Vec<Tensor> = arguments.iter().copied().chain(&self.constants).cloned().collect();
        Ok(self.compiled.call(&inputs)?.into_vec())
    }
}

/// Returns the op with a name, if every program has it.
fn of_the_library(name: &str) -> Option<Op> {
    ops::definitions().find(|it| it.info.name == name).map(|it| it.op())
}

/// Traces `f` on example arguments. Tensors without a spec have the sizes of the examples, and arguments without a name
/// are named by their positions.
///
/// # Errors
/// [`Code::Export`] when the function writes parameters, draws random numbers, or calls an op that the program defines.
/// [`Code::Argument`] for specs that do not fit, [`Code::Sizes`] for conflicting sizes of one name; the errors of
/// tracing.
#[track_caller]
pub fn export<Args: TracedArguments, F>(f: &F, arguments: Args::Refs<'_>, specs: &[InputSpec]) -> Result<Exported>
where
    F: Function<Args, Output: Tree>,
{
    let location = Location::caller();
    in_op(|| traced(f, arguments, specs)).map_err(|error| error.with_op("export").at(location))
}

fn traced<Args: TracedArguments, F>(f: &F, arguments: Args::Refs<'_>, specs: &[InputSpec]) -> Result<Exported>
where
    F: Function<Args, Output: Tree>,
{
    let sign = |sink: &mut Sink<'_>| Args::visit(arguments, sink);
    // Arguments get new identities: a tensor that occurs twice, or that the function also captures, is more than one
    // value.
    let fresh = |it: Tensor| it.array().map(|_| it.fresh());
    let given: Vec<Tensor> = visited(sign).into_iter().map(fresh).collect::<Result<_>>()?;
    let types = types(&given, specs)?;
    let tracer = Tracer::capturing(type_key(f).name());
    given.iter().zip(types).for_each(|(it, ty)| tracer.argument(it, ty));
    tracer.name_arguments(ArgumentNames::of(sign));
    let mut inputs = given.iter();
    let mut next = |_: usize, _: &Tensor| {
        let input = inputs.next().expect("arguments are entered in the order in which they are visited");
        tracer.value(input).or_raise()
    };
    let result = run_traced(&tracer, || Args::enter(arguments, &mut next, |it| f.invoke(it)));
    let results = result.as_ref().map(leaves).unwrap_or_default();
    let Trace { mut graph, bindings, writes, .. } = tracer.finish(&results)?;
    if let Some(parameter) = writes.first() {
        let message = format!("an exported function writes nothing, and this one writes {parameter:?}");
        let help = "return the new value as a result; `set_train(false)` turns dropout and running statistics off";
        return Err(Error::new(Code::Export, message).help(help));
    }
    if let Some(name) = own_op(&graph) {
        let message = format!("`{name}` is an op of this program, which the program that loads the function lacks");
        return Err(Error::new(Code::Export, message));
    }
    let (mut names, mut constants) = (Vec::new(), Vec::new());
    for (at, binding) in bindings.into_iter().enumerate() {
        let known = graph.input_name(at).map(|it| it.to_string());
        let (name, value) = match binding {
            Binding::Argument(at) => (specs.get(at).map(|it| it.name.clone()).or(known), None),
            Binding::Slot(it) => {
                let own = Some(it.name().to_owned()).filter(|it| !it.is_empty());
                (known.or(own), Some(it.value()))
            }
            Binding::Captured(it) => (known, Some(it)),
            Binding::Outer(_) => unreachable!("the outermost graph has nothing around it"),
        };
        names.push(name.unwrap_or_else(|| at.to_string()));
        constants.extend(value);
    }
    unique(names).into_iter().enumerate().for_each(|(at, name)| graph.name_input(at, Some(name.into())));
    let exported = Exported::new(graph, constants)?;
    debug_assert!(exported.is_read_back());
    Ok(exported)
}

/// Returns the types of arguments with the sizes that their specs name.
fn types(given: &[Tensor], specs: &[InputSpec]) -> Result<Vec<Type>> {
    let refuse = |message: String| Err(Error::new(Code::Argument, message));
    if specs.len() > given.len() {
        return refuse(format!("{} inputs are described, and the arguments have {} tensors", specs.len(), given.len()));
    }
    let mut types: Vec<Type> = given.map_vec(Tensor::ty);
    let mut names = FxHashSet::default();
    let mut sizes: FxHashMap<&str, (usize, &str)> = FxHashMap::default();
    for (ty, spec) in types.iter_mut().zip(specs) {
        let name = &spec.name;
        if !names.insert(name) {
            return refuse(format!("two inputs are named `{name}`"));
        }
        if spec.axes.len() != ty.rank() {
            return refuse(format!("`{name}` is described with {} axes, and is {ty}", spec.axes.len()));
        }
        for (dim, axis) in ty.dims.iter_mut().zip(&spec.axes) {
            let (Some(axis), Some(size)) = (axis, dim.as_const()) else { continue };
            if !is_word(axis) {
                return refuse(format!("the size `{axis}` of `{name}` is not named by letters, digits and `_`"));
            }
            let (known, of) = *sizes.entry(axis).or_insert((size, name));
            if known != size {
                let message = format!("`{axis}` is {known} in `{of}` and {size} in `{name}`");
                return Err(Error::new(Code::Sizes, message));
            }
            *dim = Dim::symbol(axis);
        }
    }
    Ok(types)
}

/// Returns whether the text of a graph can contain this name as a word.
fn is_word(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|it| it.is_ascii_alphabetic() || it == b'_')
        && bytes.all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

/// Makes names unique by numbering repeated ones.
fn unique(names: Vec<String>) -> Vec<String> {
    let mut used: FxHashSet<String> = names.iter().cloned().collect();
    let mut met = FxHashSet::default();
    let mut distinct = |name: String| {
        if met.insert(name.clone()) {
            return name;
        }
        let numbered = (2..).map(|number| format!("{name}.{number}"));
        let free = numbered.into_iter().find(|it| used.insert(it.clone())).expect("there are more numbers than names");
        met.insert(free.clone());
        free
    };
    names.into_iter().map(&mut distinct).collect()
}

/// Returns an op in a graph that the program defines, if there is one.
fn own_op(graph: &Graph) -> Option<&'static str> {
    let all = subgraphs(graph).into_iter().map(|it| &**it).chain([graph]);
    all.flat_map(Graph::nodes).map(|(_, node)| node.op.name()).find(|it| of_the_library(it).is_none())
}
