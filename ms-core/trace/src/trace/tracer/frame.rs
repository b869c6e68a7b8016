//! Defines the graphs under construction: one for the trace, and one for each open region.

use super::Binding;
use super::calls::Calls;
use crate::trace::arg::ArgumentNames;
use ms_ir::error::{Code, Error};
use ms_ir::{Def, Graph, Type, ValueId};
use ms_ops::ops;
use ms_ops::tensor::{Parameter, SlotId, Tensor, close_scope, open_scope};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The state of a tracer.
pub(super) struct State {
    /// Changed by [`State::push`] and [`State::pop`].
    pub frames: Vec<Frame>,
    /// The serials of all regions so far, in ascending order.
    pub regions: Vec<u32>,
    pub errors: Vec<Error>,
    pub calls: Calls,
    /// The parameters that traced backward functions read and do not write.
    pub backward_reads: Vec<Parameter>,
}

/// A graph under construction.
pub(super) struct Frame {
    pub serial: u32,
    /// Whether it is an arm, or a part of a loop. Clones that are created in it belong to it.
    pub is_region: bool,
    /// Whether it is the graph of a call or of an iteration, which has separate inputs for slots.
    pub own_slots: bool,
    pub graph: Graph,
    pub bindings: Vec<Binding>,
    pub outer: FxHashMap<ValueId, ValueId>,
    /// Tensors that stand for a value of a frame at some depth, by identity. They are kept alive like captured arrays.
    pub arguments: FxHashMap<usize, (Tensor, usize, ValueId)>,
    /// Captured arrays by identity, kept alive so that their addresses are not reused.
    pub captured: FxHashMap<usize, (Tensor, ValueId)>,
    pub slots: Vec<SlotState>,
    pub slot_of: FxHashMap<SlotId, usize>,
    /// The names of the inputs, for the graph of a call.
    pub names: Option<CallNames>,
}

/// The names of the inputs of a call.
pub(super) struct CallNames {
    /// The names of parameters.
    pub arguments: ArgumentNames,
    /// The index of the visited tensor for each value of the enclosing graph, by its outermost definition. Built on the
    /// first lookup.
    values: OnceCell<FxHashMap<(u32, u32), usize>>,
}

impl CallNames {
    pub fn new(arguments: ArgumentNames) -> Self {
        Self { arguments, values: OnceCell::new() }
    }
}

/// The state of a parameter in a graph.
pub(super) struct SlotState {
    pub parameter: Parameter,
    pub value: ValueId,
    pub written: bool,
}

static FRAMES: AtomicU32 = AtomicU32::new(1);

impl Frame {
    pub fn new(name: &str) -> Self {
        Self {
            serial: FRAMES.fetch_add(1, Ordering::Relaxed),
            is_region: false,
            own_slots: false,
            graph: Graph::new(name),
            bindings: Vec::new(),
            outer: FxHashMap::default(),
            arguments: FxHashMap::default(),
            captured: FxHashMap::default(),
            slots: Vec::new(),
            slot_of: FxHashMap::default(),
            names: None,
        }
    }

    pub fn input(&mut self, ty: Type, binding: Binding, name: Option<Arc<str>>) -> ValueId {
        let at = self.bindings.len();
        self.bindings.push(binding);
        let value = self.graph.add_input(ty);
        self.graph.name_input(at, name);
        value
    }

    /// Returns the value of a slot at the beginning of this graph.
    fn slot_input(&mut self, parameter: &Parameter, ty: Type, name: Option<Arc<str>>) -> ValueId {
        let value = self.input(ty, Binding::Slot(parameter.clone()), name);
        if !self.slot_of.contains_key(&parameter.id()) {
            self.set_slot(parameter, value, false);
        }
        value
    }

    pub fn set_slot(&mut self, parameter: &Parameter, value: ValueId, written: bool) {
        match self.slot_of.get(&parameter.id()) {
            Some(&at) => {
                self.slots[at].value = value;
                self.slots[at].written |= written;
            }
            None => {
                self.slot_of.insert(parameter.id(), self.slots.len());
                self.slots.push(SlotState { parameter: parameter.clone(), value, written });
            }
        }
    }

    pub fn written(&self) -> impl Iterator<Item = &SlotState> {
        self.slots.iter().filter(|it| it.written)
    }
}

impl State {
    /// Records an error with the active calls, unless it follows from another. If a reference that may write is
    /// passed on, the written tensors leak out of a region.
    pub fn record(&mut self, error: Error) {
        let is_cause = |it: &Error| matches!(it.code(), Code::HandedOn | Code::SharedChange);
        if error.code() != Code::Escaped || !self.errors.iter().any(is_cause) {
            self.errors.push(error.in_called().in_calls());
        }
    }

    /// Begins a graph, or resumes one.
    pub fn push(&mut self, frame: Frame) {
        if frame.is_region {
            open_scope(frame.serial);
        }
        self.frames.push(frame);
    }

    /// Ends the innermost graph, or suspends it.
    pub fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        if frame.is_region {
            close_scope(frame.serial);
        }
        Some(frame)
    }

    /// Returns whether the tensor is a handle of a completed region of this trace.
    #[inline]
    pub fn is_leaked(&self, tensor: &Tensor) -> bool {
        let stamp = tensor.stamp();
        stamp != 0
            && !self.frames.iter().rev().any(|it| it.serial == stamp)
            && self.regions.binary_search(&stamp).is_ok()
    }

    pub fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a trace has a frame until it is finished")
    }

    /// Returns the type of the value of a slot here. Over lanes, it is the type of one lane.
    pub fn held(&self, parameter: &Parameter) -> Type {
        let known = self.frames.iter().rev().find_map(|it| {
            let at = *it.slot_of.get(&parameter.id())?;
            Some(it.graph.ty(it.slots[at].value).clone())
        });
        known.unwrap_or_else(|| match parameter.is_backward() {
            true => ops::encoded_type(&self.held(&parameter.forward())),
            false => parameter.load().ty(),
        })
    }

    /// Returns the value of a slot, as a value of the innermost frame.
    pub fn slot(&mut self, parameter: &Parameter) -> ValueId {
        let mut depth = self.frames.len() - 1;
        let value = loop {
            let frame = &self.frames[depth];
            if let Some(&at) = frame.slot_of.get(&parameter.id()) {
                break frame.slots[at].value;
            }
            if depth == 0 || frame.own_slots {
                let (ty, name) = (self.held(parameter), self.slot_name(depth, parameter));
                break self.frames[depth].slot_input(parameter, ty, name);
            }
            depth -= 1;
        };
        self.import(depth, value)
    }

    /// Imports a value of frame `depth` into the innermost frame.
    pub fn import(&mut self, depth: usize, mut value: ValueId) -> ValueId {
        for inner in depth + 1..self.frames.len() {
            value = match self.frames[inner].outer.get(&value) {
                Some(&known) => known,
                None => {
                    let ty = self.frames[inner - 1].graph.ty(value).clone();
                    let name = self.outer_name(inner, value);
                    let known = self.frames[inner].input(ty, Binding::Outer(value), name);
                    self.frames[inner].outer.insert(value, known);
                    known
                }
            };
        }
        value
    }

    /// Returns the name of an input of a call's graph. The enclosing graph is at `depth`.
    pub fn name_in_call(&self, call: &Frame, depth: usize, input: usize) -> Option<Arc<str>> {
        let CallNames { arguments, values } = call.names.as_ref()?;
        match &call.bindings[input] {
            Binding::Slot(parameter) if !parameter.is_backward() => {
                arguments.parameter(parameter.id()).or_else(|| given_name(parameter))
            }
            Binding::Outer(value) => {
                let origin = self.origin(self.frames[depth].serial, value.0);
                let values = values.get_or_init(|| self.shown_values(call, depth, arguments));
                arguments.tensor(*values.get(&origin)?)
            }
            Binding::Slot(_) | Binding::Argument(_) | Binding::Captured(_) => None,
        }
    }

    fn shown_values(&self, call: &Frame, depth: usize, shown: &ArgumentNames) -> FxHashMap<(u32, u32), usize> {
        let mut values = FxHashMap::default();
        for (at, tensor) in shown.tensors().enumerate() {
            let known = match tensor.as_traced() {
                Some(it) => Some((it.frame, it.value)),
                None => call.arguments.get(&tensor.identity()).map(|it| (self.frames[depth].serial, it.2.0)),
            };
            if let Some((frame, value)) = known {
                values.entry(self.origin(frame, value)).or_insert(at);
            }
        }
        values
    }

    /// Returns the name of a slot's input of the frame at `depth`. In the graph of a call it is the path in its
    /// arguments. In the graph of the trace it is the parameter's own name, or else its path. Inputs of a call are
    /// named when the call is built, and only for the first call with its content.
    fn slot_name(&self, depth: usize, parameter: &Parameter) -> Option<Arc<str>> {
        if parameter.is_backward() {
            return None;
        }
        let call = (0..=depth).rev().find(|&it| self.frames[it].names.is_some());
        let path = || self.frames[call?].names.as_ref()?.arguments.parameter(parameter.id());
        match call {
            Some(0) => given_name(parameter).or_else(path),
            Some(call) if call == depth => None,
            _ => path().or_else(|| given_name(parameter)),
        }
    }

    /// Returns the name of a frame's input for a value of the enclosing frame.
    fn outer_name(&self, depth: usize, value: ValueId) -> Option<Arc<str>> {
        if self.frames[depth].names.is_some() { None } else { self.value_name(depth - 1, value) }
    }

    /// Returns the name of a value of the frame at `depth`, if it is an input.
    fn value_name(&self, depth: usize, value: ValueId) -> Option<Arc<str>> {
        let frame = &self.frames[depth];
        let exists = (value.0 as usize) < frame.graph.value_count();
        match exists.then(|| frame.graph.value(value).def) {
            Some(Def::Input(at)) if depth > 0 && frame.names.is_some() => {
                self.name_in_call(frame, depth - 1, at as usize)
            }
            _ => frame.graph.value_name(value).cloned(),
        }
    }

    /// Returns the name of the input that a tensor is.
    pub fn name_of(&self, tensor: &Tensor) -> Option<Arc<str>> {
        let (depth, value) = match tensor.as_traced() {
            Some(it) => (self.frames.iter().position(|frame| frame.serial == it.frame)?, ValueId(it.value)),
            None => {
                let identity = tensor.identity();
                let known = self.frames.iter().rev().find_map(|it| it.arguments.get(&identity))?;
                (known.1, known.2)
            }
        };
        self.value_name(depth, value)
    }
}

/// Returns the name that the user gave a parameter.
fn given_name(parameter: &Parameter) -> Option<Arc<str>> {
    Some(parameter.name()).filter(|it| !it.is_empty()).map(Into::into)
}
