//! Traces calls of cells, and of functions marked `#[no_inline]`, into separate graphs, and shares equal graphs.
//!
//! A cell marked `#[lazy_inline]` promises what its graph depends on: its type, its host values, the types of its
//! tensors and parameters, and their aliasing. It is traced once for each such [`Pattern`]. Further calls use that
//! graph. Any other cell is traced at every call, since it may depend on more than the pattern. Its graph is then
//! compared with the existing ones.

use super::calls::{Known, Slot, Source};
use super::frame::{CallNames, Frame, State};
use super::{Binding, Tracer};
use crate::trace::arg::{ArgumentNames, Sink, Tree, Visitor, leaves};
use ms_ir::MapVec;
use ms_ir::error::{Result, raise};
use ms_ir::{Def, Graph, Node, ValueId, shallow_bytes};
use ms_ops::ops::{self, Control, Lowering};
use ms_ops::tensor::{Parameter, Tensor, Type};
use smallvec::SmallVec;
use std::any::Any;
use std::hash::BuildHasher;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// The maximum number of nodes of a graph that is inlined immediately: a call would not be smaller.
const SMALL: usize = 8;

/// The number of nodes as which a composite counts.
const COMPOSITE: usize = 3;

fn size(graph: &Graph) -> usize {
    let is_composite = |node: &Node| matches!(ops::definition(node.op).lowering, Lowering::Composite(_));
    graph.nodes().map(|(_, node)| if is_composite(node) { COMPOSITE } else { 1 }).sum()
}

/// The key of a cell call's graph, and the tensors and parameters of one call.
#[derive(Default)]
pub struct Pattern {
    words: SmallVec<[u64; 24]>,
    operands: Vec<Tensor>,
    parameters: Vec<Parameter>,
    origins: Vec<Origin>,
    tracer: Option<Rc<Tracer>>,
}

/// The origin of a tensor: equal for all tensors with one value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Array(usize),
    /// Frame and value.
    Traced(u32, u32),
}

const TENSOR: u64 = 1 << 56;
const PARAMETER: u64 = 2 << 56;
const ALIAS: u64 = 3 << 56;

impl Pattern {
    /// Creates the pattern of a call without arguments. `key` identifies the function.
    pub fn new(tracer: &Rc<Tracer>, key: [u64; 2]) -> Self {
        Self { tracer: Some(tracer.clone()), words: SmallVec::from_slice(&key), ..Self::default() }
    }

    fn origin(&self, tensor: &Tensor) -> Origin {
        match (tensor.as_traced(), &self.tracer) {
            (Some(traced), Some(tracer)) => {
                let (frame, value) = tracer.state.borrow().origin(traced.frame, traced.value);
                Origin::Traced(frame, value)
            }
            _ => Origin::Array(tensor.identity()),
        }
    }

    fn ty(&mut self, mark: u64, ty: &Type) {
        self.words.push(mark | (ty.dtype as u64) << 32 | ty.rank() as u64);
        // A hash of one word is injective.
        self.words.extend(ty.dims.iter().map(|dim| rustc_hash::FxBuildHasher.hash_one(dim)));
    }

    fn own(&self, parameter: &Parameter) -> Option<usize> {
        self.parameters.iter().position(|it| it == parameter)
    }
}

impl Visitor for Pattern {
    fn tensor(&mut self, tensor: &Tensor) {
        let origin = self.origin(tensor);
        if let Some(first) = self.origins.iter().position(|it| *it == origin) {
            self.words.push(ALIAS | first as u64);
            return;
        }
        self.ty(TENSOR, &tensor.ty());
        self.origins.push(origin);
        self.operands.push(tensor.clone());
    }

    fn parameter(&mut self, parameter: &Parameter) {
        if let Some(first) = self.own(parameter) {
            self.words.push(ALIAS | PARAMETER | first as u64);
            return;
        }
        let ty = match &self.tracer {
            Some(tracer) => tracer.state.borrow().held(parameter),
            None => parameter.load().ty(),
        };
        self.ty(PARAMETER, &ty);
        self.words.push(parameter.requires_grad() as u64);
        self.parameters.push(parameter.clone());
    }

    fn fixed(&mut self, bits: u64) {
        self.words.push(bits);
    }
}

/// A call with a separate graph, from its beginning to its result.
pub struct GraphCall {
    tracer: Rc<Tracer>,
    /// The pattern of the call, if the cell promises that it is complete.
    pattern: Option<Pattern>,
    /// Whether it is never inlined.
    no_inline: bool,
    /// The names of its inputs, if it is traced.
    names: Option<ArgumentNames>,
}

impl State {
    /// Returns the outermost definition of a value.
    pub fn origin(&self, frame: u32, value: u32) -> (u32, u32) {
        let Some(mut depth) = self.frames.iter().position(|it| it.serial == frame) else { return (frame, value) };
        let mut value = ValueId(value);
        while depth > 0 && (value.0 as usize) < self.frames[depth].graph.value_count() {
            let frame = &self.frames[depth];
            let Def::Input(at) = frame.graph.value(value).def else { break };
            let Binding::Outer(outer) = frame.bindings[at as usize] else { break };
            (depth, value) = (depth - 1, outer);
        }
        (self.frames[depth].serial, value.0)
    }

    /// Interns the graph of a call: returns the first graph with its content, which has the name of its call.
    fn distinct(&mut self, call: &mut Frame) -> Arc<Graph> {
        let content = shallow_bytes(&call.graph);
        if let Some(known) = self.calls.graphs.get(&content) {
            return known.clone();
        }
        for input in 0..call.bindings.len() {
            let name = self.name_in_call(call, self.frames.len() - 1, input);
            call.graph.name_input(input, name);
        }
        let graph = Arc::new(std::mem::take(&mut call.graph));
        self.calls.graphs.insert(content, graph.clone());
        graph
    }

    /// Adds a call of a graph.
    fn call(
        &mut self,
        graph: &Arc<Graph>,
        operands: SmallVec<[ValueId; 3]>,
        location: &'static Location<'static>,
        no_inline: bool,
    ) -> SmallVec<[ValueId; 1]> {
        let to = &mut self.top().graph;
        let call = Control::Call { inline: !no_inline };
        let mut node = Node::new(call.op(), call.attrs(), operands);
        node.regions.push(graph.clone());
        node.location = Some(location);
        let id = to.add_node(node, graph.outputs().iter().map(|&it| graph.ty(it).clone()));
        to.node(id).outputs.clone()
    }
}

/// Returns whether this slot is the same in every call, whatever the cell.
pub(super) fn is_common(parameter: &Parameter) -> bool {
    let parameter = &parameter.forward();
    parameter == ops::order() || parameter == ops::random::default_generator().state()
}

impl GraphCall {
    /// Creates a call whose arguments `sign` visits.
    pub fn new(tracer: Rc<Tracer>, pattern: Option<Pattern>, no_inline: bool, sign: impl Fn(&mut Sink<'_>)) -> Self {
        let is_known = |it: &Pattern| tracer.state.borrow().calls.known.contains_key(&it.words);
        let names = (!pattern.as_ref().is_some_and(is_known)).then(|| ArgumentNames::of(sign));
        Self { tracer, pattern, no_inline, names }
    }

    /// Returns the result of the call, if its pattern has been traced.
    ///
    /// # Panics
    /// Raises the error of an operand of another trace.
    #[track_caller]
    pub fn known<T: Tree + 'static>(&self, location: &'static Location<'static>) -> Option<T> {
        let pattern = self.pattern.as_ref()?;
        let tracer = &*self.tracer;
        let known = tracer.state.borrow().calls.known.get(&pattern.words)?.clone();
        let template = known.result.downcast_ref::<T>()?;
        let mut tensors = self.call_known(&known, pattern, location).into_iter();
        Some(template.rebuild(&mut |_| tensors.next().expect("as many results as the template has")))
    }

    /// Calls the graph of a pattern and returns the tensors of the result.
    #[track_caller]
    fn call_known(&self, known: &Known, pattern: &Pattern, location: &'static Location<'static>) -> Vec<Tensor> {
        let tracer = &*self.tracer;
        let mut state = tracer.state.borrow_mut();
        let slot = |it: &Slot| match it {
            Slot::Own(at) => pattern.parameters[*at].clone(),
            Slot::OwnBackward(at) => pattern.parameters[*at].backward(),
            Slot::Common(parameter) => parameter.clone(),
        };
        let operand = |state: &mut State, it: &Source| match it {
            Source::Operand(at) => tracer.resolve(state, &pattern.operands[*at]),
            Source::Slot(it) => Ok(state.slot(&slot(it))),
        };
        let operands: Result<_> = known.inputs.iter().map(|it| operand(&mut state, it)).collect();
        let operands = match operands {
            Ok(operands) => operands,
            Err(error) => {
                drop(state);
                raise(error)
            }
        };
        let outputs = state.call(&known.graph, operands, location, self.no_inline);
        let writes: Vec<Parameter> = known.writes.map_vec(slot);
        state.backward_reads.extend(known.backward_reads.iter().map(slot));
        tracer.results(&mut state, &outputs, &writes)
    }

    /// Traces `body` into a separate graph and calls it. An error of the body is returned.
    ///
    /// # Errors
    /// The error of the body.
    #[track_caller]
    pub fn trace<T: Tree + 'static, E>(
        mut self,
        name: &str,
        location: &'static Location<'static>,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut body, mut result) = (Some(body), None);
        let called = self.called(name, location, &mut || {
            let returned = body.take().map(|body| body());
            let tensors = returned.as_ref().and_then(|it| it.as_ref().ok()).map(leaves);
            result = returned;
            tensors
        });
        let template = result.expect("the body has run")?;
        let Some(Called { tensors, traced }) = called else { return Ok(template) };
        let mut tensors = tensors.into_iter();
        let result = template.rebuild(&mut |_| tensors.next().expect("as many results as the template has"));
        if let Some(traced) = traced {
            self.remember(&mut self.tracer.state.borrow_mut(), traced, Box::new(template));
        }
        Ok(result)
    }

    /// Traces `body`, which returns the tensors of its result, and calls the graph. There is no call if the body
    /// returns none, or some that are poisoned.
    // Not generic, so that it is compiled once.
    #[track_caller]
    fn called(
        &mut self,
        name: &str,
        location: &'static Location<'static>,
        body: &mut dyn FnMut() -> Option<Vec<Tensor>>,
    ) -> Option<Called> {
        /// Abandons the graph when the body unwinds.
        struct Leave<'a>(Option<&'a Tracer>);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                if let Some(tracer) = self.0 {
                    tracer.abandon();
                }
            }
        }
        let names = self.names.take();
        let tracer = &*self.tracer;
        let start = tracer.backward_reads();
        self.enter(name, names);
        let mut leave = Leave(Some(tracer));
        let results = body()?;
        if results.iter().any(Tensor::is_poisoned) {
            return None;
        }
        let mut state = tracer.state.borrow_mut();
        let outputs = match tracer.outputs(&mut state, &results) {
            Ok(outputs) => outputs,
            Err(error) => {
                drop(state);
                raise(error)
            }
        };
        leave.0 = None;
        let mut frame = state.pop().expect("entered above");
        frame.graph.set_outputs(outputs);
        let writes: Vec<Parameter> = frame.written().map(|it| it.parameter.clone()).collect();
        let operands = frame.bindings.iter().map(|it| match it {
            Binding::Outer(value) => *value,
            Binding::Slot(parameter) => state.slot(parameter),
            Binding::Argument(_) | Binding::Captured(_) => unreachable!("a call declares no input"),
        });
        let operands: SmallVec<[ValueId; 3]> = operands.collect();
        if self.pattern.is_none() && !self.no_inline && size(&frame.graph) <= SMALL {
            let outputs = state.top().graph.inline(&frame.graph, &operands);
            return Some(Called { tensors: tracer.results(&mut state, &outputs, &writes), traced: None });
        }
        let graph = state.distinct(&mut frame);
        let bindings = frame.bindings;
        let outputs = state.call(&graph, operands.clone(), location, self.no_inline);
        let tensors = tracer.results(&mut state, &outputs, &writes);
        let backward_reads = state.backward_reads[start..].to_vec();
        Some(Called { tensors, traced: Some(Traced { graph, bindings, operands, writes, backward_reads }) })
    }

    /// Begins a graph in which the arrays among the operands are inputs.
    fn enter(&self, name: &str, names: Option<ArgumentNames>) {
        let tracer = &*self.tracer;
        let mut frame = Frame::new(name);
        frame.own_slots = true;
        let mut state = tracer.state.borrow_mut();
        let depth = state.frames.len() - 1;
        for operand in self.pattern.iter().flat_map(|it| &it.operands).filter(|it| !it.is_traced()) {
            if let Ok(value) = tracer.resolve(&mut state, operand) {
                frame.arguments.insert(operand.identity(), (operand.clone(), depth, value));
            }
        }
        frame.names = names.map(CallNames::new);
        state.push(frame);
    }

    /// Shares a traced graph among all calls of its pattern, if the pattern is complete.
    fn remember(&self, state: &mut State, traced: Traced, result: Box<dyn Any>) {
        let Some(pattern) = &self.pattern else { return };
        let operands: Vec<Option<ValueId>> = pattern.operands.map_vec(|it| self.tracer.resolve(state, it).ok());
        let slot = |parameter: &Parameter| match pattern.own(&parameter.forward()) {
            Some(at) if parameter.is_backward() => Some(Slot::OwnBackward(at)),
            Some(at) => Some(Slot::Own(at)),
            None => is_common(parameter).then(|| Slot::Common(parameter.clone())),
        };
        let source = |(binding, value): (&Binding, &ValueId)| match binding {
            Binding::Slot(parameter) => slot(parameter).map(Source::Slot),
            _ => operands.iter().position(|it| *it == Some(*value)).map(Source::Operand),
        };
        let inputs: Option<Vec<Source>> = traced.bindings.iter().zip(&traced.operands).map(source).collect();
        let writes: Option<Vec<Slot>> = traced.writes.iter().map(slot).collect();
        let backward_reads: Option<Vec<Slot>> = traced.backward_reads.iter().map(slot).collect();
        if let (Some(inputs), Some(writes), Some(backward_reads)) = (inputs, writes, backward_reads) {
            let known = Known { graph: traced.graph, inputs, writes, backward_reads, result };
            state.calls.known.insert(pattern.words.clone(), Rc::new(known));
        }
    }
}

/// A call of the graph of a body.
struct Called {
    /// The tensors of the result.
    tensors: Vec<Tensor>,
    /// The traced graph, unless it is inlined.
    traced: Option<Traced>,
}

/// A call that was traced.
struct Traced {
    graph: Arc<Graph>,
    /// The bindings of its inputs.
    bindings: Vec<Binding>,
    /// The values of the inputs in this call.
    operands: SmallVec<[ValueId; 3]>,
    writes: Vec<Parameter>,
    backward_reads: Vec<Parameter>,
}

impl Tracer {
    /// Returns the tensors of the result of a call. Its outputs end with its writes, which are applied.
    fn results(&self, state: &mut State, outputs: &[ValueId], writes: &[Parameter]) -> Vec<Tensor> {
        let (results, written) = outputs.split_at(outputs.len() - writes.len());
        for (parameter, &value) in writes.iter().zip(written) {
            state.top().set_slot(parameter, value, true);
        }
        let frame = state.top();
        results.map_vec(|&it| self.wrap(frame, it))
    }
}
