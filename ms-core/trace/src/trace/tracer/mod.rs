//! Implements the tracer: a stack of graphs under construction, and the dispatcher that fills them.

mod backward_slots;
mod call;
mod calls;
mod control;
mod dispatch;
mod frame;
mod run;

pub use backward_slots::{BackwardSlots, check_backward_slots};
pub use call::{GraphCall, Pattern};
pub use control::{Repeated, Suspended};
pub use run::{build, build_like, run_nested, run_traced, run_with_slots, sound};

use crate::trace::arg::ArgumentNames;
use frame::{CallNames, Frame, State};
use ms_ir::MapVec;
use ms_ir::error::{Error, Result, abandon};
use ms_ir::{Graph, Node, Type, ValueId};
use ms_ops::ops::{self, Control};
use ms_ops::tensor::{Literal, LiveTrace, Parameter, Tensor, Traced, escaped, leaked_from_region};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximal size of a captured tensor that becomes a constant.
const CONSTANT_BYTES: usize = 64 << 10;

/// The meaning of a graph input.
#[derive(Clone)]
pub enum Binding {
    /// The argument at that position.
    Argument(usize),
    /// The value of a parameter at the beginning of the call, or of an iteration of a loop.
    Slot(Parameter),
    /// A large tensor that the function captured.
    Captured(Tensor),
    /// A value of the enclosing graph.
    Outer(ValueId),
}

/// A finished trace.
pub struct Trace {
    /// The graph. Its outputs are the results, then the final values of `writes`.
    pub graph: Graph,
    /// The meaning of the inputs.
    pub bindings: Vec<Binding>,
    /// The parameters that were written.
    pub writes: Vec<Parameter>,
    /// The reads and writes of backward functions in it, if there are any.
    pub backward_slots: Option<BackwardSlots>,
}

/// A finished sub-graph of a trace.
pub struct Region {
    /// The graph. Its outputs are the results, then the final values of `writes`. Its inputs are those that were
    /// declared, then one for each of `slots`, then one for each of `captures`.
    pub graph: Arc<Graph>,
    /// The parameters whose initial values are its inputs, if it has separate slots.
    pub slots: Vec<Parameter>,
    /// The values of the enclosing graph that it uses.
    pub captures: Vec<Tensor>,
    /// The parameters that it writes.
    pub writes: Vec<Parameter>,
}

/// Builds graphs from the ops that a function applies.
pub struct Tracer {
    live: LiveTrace,
    /// The maximum size in bytes of captured tensors that become constants. Larger ones become inputs.
    constants: usize,
    /// The source location to which ops are attributed, if it differs from the location of their call.
    location: Cell<Option<&'static Location<'static>>>,
    state: RefCell<State>,
}

static TRACES: AtomicU64 = AtomicU64::new(1);

impl Tracer {
    /// Creates a tracer with one empty graph.
    pub fn new(name: &str) -> Rc<Self> {
        Self::with_constants(name, CONSTANT_BYTES)
    }

    /// Creates a tracer whose graph takes captured tensors as inputs, even small ones, so that the graph does not
    /// depend on their values.
    pub fn capturing(name: &str) -> Rc<Self> {
        Self::with_constants(name, 0)
    }

    fn with_constants(name: &str, constants: usize) -> Rc<Self> {
        Rc::new(Self {
            constants,
            live: LiveTrace::begin(TRACES.fetch_add(1, Ordering::Relaxed)),
            location: Cell::new(None),
            state: RefCell::new(State {
                frames: vec![Frame::new(name)],
                regions: Vec::new(),
                errors: Vec::new(),
                calls: calls::Calls::default(),
                backward_reads: Vec::new(),
            }),
        })
    }

    /// Returns the tracer that is the current dispatcher of this thread, if there is one.
    pub fn current() -> Option<Rc<Self>> {
        ms_ops::tensor::current_dispatcher().and_then(|it| it.as_any()?.downcast::<Self>().ok())
    }

    /// Sets the source location to which the following ops are attributed: a transform's ops belong to the user's op.
    ///
    /// Returns the previous location.
    pub fn locate(&self, location: Option<&'static Location<'static>>) -> Option<&'static Location<'static>> {
        self.location.replace(location)
    }

    /// Returns the number of the trace, which is never reused in a process.
    pub fn id(&self) -> u64 {
        self.live.number()
    }

    fn wrap(&self, frame: &Frame, value: ValueId) -> Tensor {
        let ty = frame.graph.ty(value).clone();
        let shape = ty.shape().unwrap_or_default();
        Tensor::from_traced(Traced {
            trace: self.id(),
            frame: frame.serial,
            value: value.0,
            ty,
            shape,
            poisoned: false,
        })
    }

    fn poison(&self, frame: &Frame, ty: Type) -> Tensor {
        let shape = ty.shape().unwrap_or_default();
        Tensor::from_traced(Traced {
            trace: self.id(),
            frame: frame.serial,
            value: u32::MAX,
            ty,
            shape,
            poisoned: true,
        })
    }

    /// Declares an argument. Wherever `tensor` itself occurs while tracing, it is this input, of a type that may have
    /// symbolic sizes.
    pub fn argument(&self, tensor: &Tensor, ty: Type) {
        let mut state = self.state.borrow_mut();
        let index = state.top().bindings.len();
        let value = state.top().input(ty, Binding::Argument(index), None);
        state.top().arguments.entry(tensor.identity()).or_insert((tensor.clone(), 0, value));
    }

    /// Names the arguments, in the order in which they were declared, and the inputs for parameters that are added from
    /// now on.
    pub fn name_arguments(&self, arguments: ArgumentNames) {
        let mut state = self.state.borrow_mut();
        let frame = &mut state.frames[0];
        (0..arguments.tensors().len()).for_each(|at| frame.graph.name_input(at, arguments.tensor(at)));
        frame.names = Some(CallNames::new(arguments));
    }

    /// Returns the name of the input that a tensor is, if it is one.
    pub fn name_of(&self, tensor: &Tensor) -> Option<Arc<str>> {
        self.state.borrow().name_of(tensor)
    }

    /// Returns the traced value of an argument or of any other tensor.
    ///
    /// # Errors
    /// [`Code::Escaped`](ms_ir::Code::Escaped) for a value of another trace.
    pub fn value(&self, tensor: &Tensor) -> Result<Tensor> {
        if tensor.is_poisoned() {
            return Ok(tensor.clone());
        }
        let mut state = self.state.borrow_mut();
        let value = self.resolve(&mut state, tensor)?;
        Ok(self.wrap(state.top(), value))
    }

    /// Reports, at this location, those of `tensors` that leaked out of another region. `name` is the value that
    /// contains them.
    pub fn check_leaks(&self, tensors: &mut [Tensor], name: &str, location: &'static Location<'static>) {
        for tensor in tensors.iter_mut().filter(|it| it.stamp() != 0 && !it.is_poisoned()) {
            if self.state.borrow().is_leaked(tensor) {
                self.report(leaked_from_region(&format!("the tensor of {name}"), &tensor.ty()).at(location));
                *tensor = self.poisoned(tensor.ty());
            }
        }
    }

    /// Declares an input of the innermost region.
    pub fn input(&self, ty: Type) -> Tensor {
        self.named_input(ty, None)
    }

    /// Declares an input of the innermost region, with a name.
    pub fn named_input(&self, ty: Type, name: Option<Arc<str>>) -> Tensor {
        let index = self.state.borrow_mut().top().bindings.len();
        self.input_for(ty, index, name)
    }

    /// Makes `parameter` read as `value` in the innermost region.
    ///
    /// # Errors
    /// [`Code::Escaped`](ms_ir::Code::Escaped) for a value of another trace.
    pub fn bind_slot(&self, parameter: &Parameter, value: &Tensor, written: bool) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let value = self.resolve(&mut state, value)?;
        state.top().set_slot(parameter, value, written);
        Ok(())
    }

    /// Begins a separate graph for code that always runs, rather than an arm.
    pub(super) fn begin(&self, name: &str, own_slots: bool) {
        let mut frame = Frame::new(name);
        frame.own_slots = own_slots;
        self.state.borrow_mut().push(frame);
    }

    /// Ends the region that `begin` began with these results.
    ///
    /// # Errors
    /// [`Code::Escaped`](ms_ir::Code::Escaped) for a result of another trace.
    pub fn pop(&self, results: &[Tensor]) -> Result<Region> {
        let mut state = self.state.borrow_mut();
        let outputs = self.outputs(&mut state, results);
        let mut frame = state.pop().expect("`begin` began the region");
        let outer = state.top();
        let captures = frame.bindings.iter().filter_map(|it| match it {
            Binding::Outer(value) => Some(self.wrap(outer, *value)),
            _ => None,
        });
        let captures = captures.collect();
        frame.graph.set_outputs(outputs?);
        let mut graph = frame.graph;
        // Declared inputs come before captured ones, whatever the order in which they occurred.
        let order: Vec<usize> = {
            let (given, outer): (Vec<_>, Vec<_>) =
                (0..frame.bindings.len()).partition(|&i| !matches!(frame.bindings[i], Binding::Outer(_)));
            given.into_iter().chain(outer).collect()
        };
        graph.reorder_inputs(&order);
        let slots = frame.bindings.into_iter().filter_map(|it| match it {
            Binding::Slot(parameter) => Some(parameter),
            _ => None,
        });
        let slots = slots.collect();
        let writes = frame.slots.into_iter().filter(|it| it.written).map(|it| it.parameter).collect();
        Ok(Region { graph: Arc::new(graph), slots, captures, writes })
    }

    /// Abandons the innermost region.
    pub fn abandon(&self) {
        self.state.borrow_mut().pop();
    }

    /// Adds the nodes of `body`, whose inputs are the operands, to the innermost graph, and returns
    /// its outputs.
    ///
    /// # Errors
    /// [`Code::Escaped`](ms_ir::Code::Escaped) for an operand of another trace.
    pub fn inline(&self, body: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut state = self.state.borrow_mut();
        let inputs: Result<SmallVec<[ValueId; 3]>> = inputs.iter().map(|it| self.resolve(&mut state, it)).collect();
        let outputs = state.top().graph.inline(body, &inputs?);
        let frame = state.top();
        Ok(outputs.into_iter().map(|value| self.wrap(frame, value)).collect())
    }

    /// Adds a node with regions to the innermost graph.
    ///
    /// # Errors [`Code::Escaped`](ms_ir::Code::Escaped) for an operand of another trace; the errors of the op's type
    /// rule.
    pub fn control(
        &self,
        control: &Control,
        regions: SmallVec<[Arc<Graph>; 1]>,
        inputs: &[Tensor],
        location: &'static Location<'static>,
    ) -> Result<Vec<Tensor>> {
        let (op, attrs) = (control.op(), control.attrs());
        let types: Vec<Type> = inputs.map_vec(Tensor::ty);
        let types = ops::infer(ops::definition(op), &attrs, &regions, &types.iter().collect::<Vec<_>>())?;
        let mut state = self.state.borrow_mut();
        let inputs: Result<SmallVec<[ValueId; 3]>> = inputs.iter().map(|it| self.resolve(&mut state, it)).collect();
        let mut node = Node::new(op, attrs, inputs?);
        node.regions = regions;
        node.location = self.location.get().or(Some(location));
        let frame = state.top();
        let id = frame.graph.add_node(node, types);
        let outputs = frame.graph.node(id).outputs.clone();
        Ok(outputs.into_iter().map(|value| self.wrap(frame, value)).collect())
    }

    /// Ends the trace with these results.
    ///
    /// # Errors
    /// All errors that were recorded while tracing, at once.
    pub fn finish(&self, results: &[Tensor]) -> Result<Trace> {
        let mut state = self.state.borrow_mut();
        let outputs = if state.errors.is_empty() { self.outputs(&mut state, results) } else { Ok(Vec::new()) };
        if !state.errors.is_empty() {
            return Err(Error::collected(std::mem::take(&mut state.errors)));
        }
        let mut frame = state.pop().expect("a trace is finished once");
        frame.graph.set_outputs(outputs?);
        let writes = frame.written().map(|it| it.parameter.clone()).collect();
        let reads = std::mem::take(&mut state.backward_reads);
        Ok(backward_slots::separate(frame.graph, frame.bindings, writes, reads))
    }

    /// Records an error that is reported with the others at the boundary of the trace.
    pub fn report(&self, error: Error) {
        self.state.borrow_mut().record(error);
    }

    /// Records an error unless the same error at the same location is recorded. Nested arms and unrolled host loops
    /// report an error several times.
    pub fn report_once(&self, error: Error) {
        let new = error.report();
        let is_same = |it: &Error| {
            let old = it.report();
            (old.code, old.location, &old.message) == (new.code, new.location, &new.message)
        };
        if !self.state.borrow().errors.iter().any(is_same) {
            self.report(error);
        }
    }

    /// Ends the trace because a host fact of `traced` was read. Records `error`, unless the value is the result of an
    /// op that has already failed, and unwinds to the boundary.
    pub fn refuse(&self, traced: &Traced, error: Error) -> ! {
        if !traced.poisoned {
            self.report(error);
        }
        abandon()
    }

    fn outputs(&self, state: &mut State, results: &[Tensor]) -> Result<Vec<ValueId>> {
        let mut outputs: Vec<ValueId> = Vec::with_capacity(results.len());
        for result in results {
            outputs.push(self.resolve(state, result)?);
        }
        outputs.extend(state.top().written().map(|it| it.value));
        Ok(outputs)
    }

    /// Returns the value of `tensor` in the innermost graph.
    fn resolve(&self, state: &mut State, tensor: &Tensor) -> Result<ValueId> {
        if state.is_leaked(tensor) {
            return Err(leaked_from_region("a tensor", &tensor.ty()));
        }
        if let Some(traced) = tensor.as_traced() {
            let depth = state.frames.iter().position(|it| it.serial == traced.frame);
            return match depth {
                Some(depth) if traced.trace == self.id() => Ok(state.import(depth, ValueId(traced.value))),
                None if traced.trace == self.id() && state.regions.binary_search(&traced.frame).is_ok() => {
                    Err(leaked_from_region("a tensor", &tensor.ty()))
                }
                _ => Err(escaped(traced)),
            };
        }
        let identity = tensor.identity();
        let argument = state.frames.iter().rev().find_map(|it| it.arguments.get(&identity));
        if let Some(&(_, depth, value)) = argument {
            return Ok(state.import(depth, value));
        }
        if let Some((_, value)) = state.top().captured.get(&identity) {
            return Ok(*value);
        }
        let array = tensor.as_array().expect("a tensor that is not traced is an array");
        let value = if array.numel() * array.dtype().size() <= self.constants {
            let node = ops::constant_node(Literal::from_array(array)?);
            let graph = &mut state.top().graph;
            let id = graph.add_node(node, [array.ty()]);
            graph.node(id).outputs[0]
        } else {
            let known = state.frames[0].captured.get(&identity).map(|it| it.1);
            let value = known.unwrap_or_else(|| {
                let binding = Binding::Captured(tensor.clone().unstamped());
                let value = state.frames[0].input(array.ty(), binding, None);
                state.frames[0].captured.insert(identity, (tensor.clone(), value));
                value
            });
            state.import(0, value)
        };
        state.top().captured.insert(identity, (tensor.clone(), value));
        Ok(value)
    }
}
