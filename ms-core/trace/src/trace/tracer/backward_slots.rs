//! Separates the writes of backward functions from the writes of enclosing functions.

use super::{Binding, Region, Trace, Tracer};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, ValueId};
use ms_ops::ops::full_node;
use ms_ops::tensor::{Literal, Parameter};
use std::sync::Arc;

/// A trace in the form that gradients from outside need.
pub struct BackwardSlots {
    /// The graph with an additional input and an additional output at the end for each of `writes`: the slot in
    /// backward functions ([`Parameter::backward`]). `None` if there are none, so that the trace's own graph applies.
    pub graph: Option<Graph>,
    /// The parameters that backward functions write.
    pub writes: Vec<Parameter>,
    /// The parameters that backward functions only read. They read the value of the parameter at their call.
    pub reads: Vec<Parameter>,
}

/// Checks that no backward function reads a parameter that another writes. Only a function that also writes it
/// reads the current value.
///
/// # Errors
/// [`Code::BackwardWrites`] otherwise.
pub fn check_backward_slots<'a>(writes: impl IntoIterator<Item = &'a Parameter>, reads: &[Parameter]) -> Result<()> {
    match writes.into_iter().find(|it| reads.contains(it)) {
        None => Ok(()),
        Some(parameter) => {
            let message = format!("a backward function reads {parameter:?}, and another one writes it");
            let help = "let both write it, `p.set(&p.value())`: then each reads what the one that ran before it left";
            Err(Error::new(Code::BackwardWrites, message).with_op("custom_vjp").help(help))
        }
    }
}

impl Tracer {
    /// Returns whether the innermost region with separate slots reads or writes this one.
    pub fn has_slot(&self, parameter: &Parameter) -> bool {
        self.state.borrow_mut().top().slot_of.contains_key(&parameter.id())
    }

    /// Returns the number of recorded reads of backward functions, as a mark.
    pub fn backward_reads(&self) -> usize {
        self.state.borrow().backward_reads.len()
    }

    /// Returns the parameters that backward functions traced since the mark read and do not write.
    pub fn backward_reads_since(&self, start: usize) -> Vec<Parameter> {
        self.state.borrow().backward_reads[start..].to_vec()
    }

    /// Records the parameters that a backward function reads and does not write. They replace the records since the
    /// mark, because functions inside now have another derivative.
    pub fn note_backward_reads(&self, start: usize, reads: impl IntoIterator<Item = Parameter>) {
        let noted = &mut self.state.borrow_mut().backward_reads;
        noted.truncate(start);
        for parameter in reads {
            if !noted[start..].contains(&parameter) {
                noted.push(parameter);
            }
        }
    }
}

/// Builds a trace from its graph, whose outputs end with the final values of `writes`.
pub(super) fn separate(graph: Graph, bindings: Vec<Binding>, writes: Vec<Parameter>, reads: Vec<Parameter>) -> Trace {
    let is_backward = |it: &Binding| matches!(it, Binding::Slot(slot) if slot.is_backward());
    if !bindings.iter().any(is_backward) {
        let backward_slots = (!reads.is_empty()).then(|| BackwardSlots { graph: None, writes: Vec::new(), reads });
        return Trace { graph, bindings, writes, backward_slots };
    }
    let (backward, kept): (Vec<usize>, Vec<usize>) = (0..writes.len()).partition(|&at| writes[at].is_backward());
    let parameters: Vec<Parameter> = backward.map_vec(|&at| writes[at].forward());
    let results = graph.outputs().len() - writes.len();
    let outputs: Vec<usize> = (0..results).chain(kept.iter().map(|at| results + at)).collect();
    let all: Vec<usize> = outputs.iter().copied().chain(backward.iter().map(|at| results + at)).collect();
    let backward_slots =
        BackwardSlots { graph: Some(with(&graph, &bindings, &parameters, &all)), writes: parameters, reads };
    Trace {
        graph: with(&graph, &bindings, &[], &outputs),
        bindings: bindings.into_iter().filter(|it| !is_backward(it)).collect(),
        writes: kept.into_iter().map(|at| writes[at].clone()).collect(),
        backward_slots: Some(backward_slots),
    }
}

/// Returns the graph with these outputs. Of the backward slots, those of `parameters` are its last inputs. The value of
/// any other is irrelevant.
fn with(graph: &Graph, bindings: &[Binding], parameters: &[Parameter], outputs: &[usize]) -> Graph {
    let mut to = Graph::new(graph.name());
    let mut operands = vec![None; bindings.len()];
    for (at, binding) in bindings.iter().enumerate() {
        if !matches!(binding, Binding::Slot(slot) if slot.is_backward()) {
            operands[at] = Some(to.add_input_like(graph, graph.inputs()[at]));
        }
    }
    for parameter in parameters.iter().map(Parameter::backward) {
        let at = bindings.iter().position(|it| matches!(it, Binding::Slot(slot) if *slot == parameter));
        let at = at.expect("what is written was read before");
        operands[at] = Some(to.add_input_like(graph, graph.inputs()[at]));
    }
    let operands: Vec<ValueId> =
        operands.iter().enumerate().map(|(at, it)| it.unwrap_or_else(|| zeros(&mut to, graph, at))).collect();
    let all = to.inline(graph, &operands);
    to.set_outputs(outputs.iter().map(|&at| all[at]));
    to
}

/// Returns zeros of the type of an input of `like`.
fn zeros(to: &mut Graph, like: &Graph, input: usize) -> ValueId {
    let ty = like.ty(like.inputs()[input]).clone();
    let zeros = full_node(Literal::scalar(0.into(), ty.dtype), &ty.dims);
    let id = to.add_node(zeros, [ty]);
    to.node(id).outputs[0]
}

impl Region {
    /// Returns the trace without the writes of backward functions in it. If its own derivative replaces theirs, they do
    /// not run.
    pub fn without_backward_writes(mut self) -> Self {
        let results = self.graph.outputs().len() - self.writes.len();
        let kept: Vec<usize> = (0..self.writes.len()).filter(|&at| !self.writes[at].is_backward()).collect();
        if kept.len() < self.writes.len() {
            let graph = Arc::make_mut(&mut self.graph);
            let outputs: Vec<ValueId> =
                (0..results).chain(kept.iter().map(|at| results + at)).map(|at| graph.outputs()[at]).collect();
            graph.set_outputs(outputs);
            self.writes = kept.into_iter().map(|at| self.writes[at].clone()).collect();
        }
        self
    }
}
