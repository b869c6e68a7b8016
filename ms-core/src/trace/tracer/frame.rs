//! The graphs under construction: one for the trace, and one for each region that is open.

use super::{Binding, call};
use crate::error::{Code, Error};
use crate::ir::{Graph, Type, ValueId};
use crate::ops;
use crate::tensor::{Parameter, SlotId, Tensor, close_scope, open_scope};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a tracer knows.
pub(super) struct State {
    /// Changed by [`State::push`] and [`State::pop`].
    pub frames: Vec<Frame>,
    /// The serials of all regions so far, in ascending order.
    pub regions: Vec<u32>,
    pub errors: Vec<Error>,
    pub calls: call::Calls,
    /// The parameters that backward functions read and do not write, as these were traced.
    pub backward_reads: Vec<Parameter>,
}

/// One graph under construction.
pub(super) struct Frame {
    pub serial: u32,
    /// It is a way of a decision, or a part of a loop: clones that are made in it are its own.
    pub is_region: bool,
    /// It is the graph of a call or of an iteration, whose slots are inputs of its own.
    pub own_slots: bool,
    pub graph: Graph,
    pub bindings: Vec<Binding>,
    pub outer: FxHashMap<ValueId, ValueId>,
    /// Tensors that stand for a value of the frame of some depth, by identity; kept alive as the
    /// captured ones are.
    pub arguments: FxHashMap<usize, (Tensor, usize, ValueId)>,
    /// Captured arrays by identity, kept alive so that the address stays theirs.
    pub captured: FxHashMap<usize, (Tensor, ValueId)>,
    pub slots: Vec<SlotState>,
    pub slot_of: FxHashMap<SlotId, usize>,
}

/// What a graph knows of a parameter.
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
        }
    }

    pub fn input(&mut self, ty: Type, binding: Binding) -> ValueId {
        self.bindings.push(binding);
        self.graph.add_input(ty)
    }

    /// What a slot holds when this graph starts.
    pub fn slot_input(&mut self, parameter: &Parameter, ty: Type) -> ValueId {
        let value = self.input(ty, Binding::Slot(parameter.clone()));
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
    /// Records an error, with the calls around it, unless it follows from another one: where something
    /// is handed on that may write, a region leaves behind what is written.
    pub fn record(&mut self, error: Error) {
        let is_cause = |it: &Error| matches!(it.code(), Code::HandedOn | Code::SharedChange);
        if error.code() != Code::Escaped || !self.errors.iter().any(is_cause) {
            self.errors.push(error.in_calls());
        }
    }

    /// Begins a graph, or goes on with one.
    pub fn push(&mut self, frame: Frame) {
        if frame.is_region {
            open_scope(frame.serial);
        }
        self.frames.push(frame);
    }

    /// Ends the innermost graph, or puts it aside.
    pub fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        if frame.is_region {
            close_scope(frame.serial);
        }
        Some(frame)
    }

    /// Whether the tensor is a handle of a region of this trace that is over.
    #[inline]
    pub fn is_left_behind(&self, tensor: &Tensor) -> bool {
        let stamp = tensor.stamp();
        stamp != 0
            && !self.frames.iter().rev().any(|it| it.serial == stamp)
            && self.regions.binary_search(&stamp).is_ok()
    }

    pub fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a trace has a frame until it is finished")
    }

    /// The type of what a slot holds here: over lanes, that of one.
    pub fn held(&self, parameter: &Parameter) -> Type {
        let known = self.frames.iter().rev().find_map(|it| {
            let at = *it.slot_of.get(&parameter.id())?;
            Some(it.graph.ty(it.slots[at].value).clone())
        });
        known.unwrap_or_else(|| match parameter.is_backward() {
            true => ops::handed_type(&self.held(&parameter.forward())),
            false => parameter.load().ty(),
        })
    }

    /// What a slot holds, as a value of the innermost frame.
    pub fn slot(&mut self, parameter: &Parameter) -> ValueId {
        let mut depth = self.frames.len() - 1;
        let value = loop {
            let frame = &self.frames[depth];
            if let Some(&at) = frame.slot_of.get(&parameter.id()) {
                break frame.slots[at].value;
            }
            if depth == 0 || frame.own_slots {
                let ty = self.held(parameter);
                break self.frames[depth].slot_input(parameter, ty);
            }
            depth -= 1;
        };
        self.import(depth, value)
    }

    /// A value of frame `depth` as a value of the innermost frame.
    pub fn import(&mut self, depth: usize, mut value: ValueId) -> ValueId {
        for inner in depth + 1..self.frames.len() {
            value = match self.frames[inner].outer.get(&value) {
                Some(&known) => known,
                None => {
                    let ty = self.frames[inner - 1].graph.ty(value).clone();
                    let known = self.frames[inner].input(ty, Binding::Outer(value));
                    self.frames[inner].outer.insert(value, known);
                    known
                }
            };
        }
        value
    }
}
