//! Records one call of a function for derivatives: on the tape outside a trace, as the region of a node inside one.

use super::silent::warn_of_graph;
use super::tape::{Record, Tape};
use ms_ir::MapVec;
use ms_ir::ValueId;
use ms_ir::error::Result;
use ms_ops::ops::{self, Control, TransformNode};
use ms_ops::tensor::{Dispatcher, Parameter, Tensor};
use ms_trace::trace::{Region, Tracer, Tree, check_backward_slots, leaves, run_nested, sound};
use ms_trace::trace::{Target, Wrt};
use smallvec::smallvec;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// A recorded call, before it is differentiated.
pub(in crate::session) enum Recording {
    /// The executed ops.
    Tape { record: Record, watched: Vec<Tensor>, results: Vec<Tensor> },
    /// The ops as a graph.
    Trace {
        tracer: Rc<Tracer>,
        region: Region,
        /// The targets, then the captures of the region.
        inputs: Vec<Tensor>,
        targets: usize,
        results: usize,
        backward_slots: Vec<BackwardSlot>,
        /// The parameters that backward functions read and do not write.
        reads: Vec<Parameter>,
        location: &'static Location<'static>,
    },
}

/// A parameter that backward functions in a region write.
pub(in crate::session) struct BackwardSlot {
    parameter: Parameter,
    /// The input and the output of the region for the slot in backward functions.
    input: usize,
    output: usize,
}

/// Runs `body` on tensors that replace those of `wrt`. Returns its result and the recording. In a trace, the result
/// must be rebuilt with the tensors of the recording.
///
/// # Errors
/// [`Code::NoGradient`](crate::Code::NoGradient) for integer targets.
pub(in crate::session) fn record<R: Tree>(
    name: &'static str,
    wrt: Wrt,
    body: impl FnOnce(&[Tensor]) -> R,
    location: &'static Location<'static>,
) -> Result<(R, Recording)> {
    wrt.check().map_err(|it| it.at(location))?;
    match Tracer::current() {
        Some(tracer) => in_trace(tracer, name, wrt, body, location),
        None => on_tape(wrt, body),
    }
}

fn on_tape<R: Tree>(wrt: Wrt, body: impl FnOnce(&[Tensor]) -> R) -> Result<(R, Recording)> {
    let tape = Tape::new();
    let (mut watched, mut tensors) = (Vec::new(), Vec::new());
    for target in wrt.targets() {
        let stands_in = match target {
            Target::Tensor(tensor) => {
                tensors.push(tape.watch(tensor));
                tensors[tensors.len() - 1].clone()
            }
            Target::Parameter(parameter) => tape.watch_parameter(parameter)?,
        };
        watched.push(stands_in);
    }
    let result = tape.record(|| body(&tensors));
    let results = leaves(&result);
    Ok((result, Recording::Tape { record: tape.finish(), watched, results }))
}

fn in_trace<R: Tree>(
    tracer: Rc<Tracer>,
    name: &'static str,
    wrt: Wrt,
    body: impl FnOnce(&[Tensor]) -> R,
    location: &'static Location<'static>,
) -> Result<(R, Recording)> {
    let targets = wrt.targets();
    let value = |target: &Target| match target {
        Target::Tensor(tensor) => tensor.clone(),
        Target::Parameter(parameter) => parameter.value(),
    };
    let mut inputs: Vec<Tensor> = targets.map_vec(value);
    let start = tracer.backward_reads();
    let ((result, results), region) = run_nested(&tracer, name, || {
        let mut tensors = Vec::new();
        for (target, input) in targets.iter().zip(&inputs) {
            let stands_in = tracer.named_input(input.ty(), tracer.name_of(input));
            match target {
                Target::Tensor(_) => tensors.push(stands_in),
                Target::Parameter(parameter) => tracer.bind_slot(parameter, &stands_in, false)?,
            }
        }
        let result = body(&tensors);
        let results = sound(leaves(&result));
        Ok(((result, results.len()), results))
    })?;
    let targets = inputs.len();
    inputs.extend(region.captures.iter().cloned());
    let of = |(at, slot): (usize, &Parameter)| {
        let before = slot.value();
        let input = inputs.iter().skip(targets).position(|it| tracer.is_same(it, &before));
        let input = targets + input.expect("a backward slot is captured");
        BackwardSlot { parameter: slot.forward(), input, output: results + at }
    };
    let backward_slots = region.writes.iter().enumerate().filter(|it| it.1.is_backward()).map(of).collect();
    let reads = tracer.backward_reads_since(start);
    Ok((result, Recording::Trace { tracer, region, inputs, targets, results, backward_slots, reads, location }))
}

impl Recording {
    /// Returns the tensors that the derivative is taken with respect to.
    pub fn targets(&self) -> Vec<Tensor> {
        match self {
            Self::Tape { watched, .. } => watched.clone(),
            Self::Trace { inputs, targets, .. } => inputs[..*targets].to_vec(),
        }
    }

    /// Returns the tensors of the result.
    ///
    /// # Errors
    /// The errors of the tracer.
    pub fn values(&self) -> Result<Vec<Tensor>> {
        match self {
            Self::Tape { results, .. } => Ok(results.clone()),
            Self::Trace { .. } => self.by(&Control::Call { inline: true }),
        }
    }

    /// Returns the tensors of the result, and the gradients of the sum of its first `differentiated` tensors with
    /// respect to the targets.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn gradients(&self, differentiated: usize) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        match self {
            Self::Tape { record, watched, results } => {
                Ok((results.clone(), record.pull(&results[..differentiated], None, watched)?))
            }
            Self::Trace { .. } => self.pulled(differentiated, &[], true),
        }
    }

    /// Returns the gradients of the targets, given the gradients of the first tensors of the result.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn pull(&self, seeds: &[Tensor]) -> Result<Vec<Tensor>> {
        match self {
            Self::Tape { record, watched, results } => record.pull(&results[..seeds.len()], Some(seeds), watched),
            Self::Trace { .. } => Ok(self.pulled(seeds.len(), seeds, false)?.1),
        }
    }

    /// Returns the tensors of the result, and the tangents of its first `differentiated` ones, given the tangents of
    /// the targets.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn tangents(&self, tangents: &[Tensor], differentiated: usize) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        match self {
            Self::Tape { results, .. } => Ok((results.clone(), self.push(tangents, differentiated)?)),
            Self::Trace { .. } => self.pushed(tangents, differentiated, true),
        }
    }

    /// Returns the tangents of the first `differentiated` tensors of the result, given the tangents of the targets.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn push(&self, tangents: &[Tensor], differentiated: usize) -> Result<Vec<Tensor>> {
        match self {
            Self::Tape { record, watched, results } => record.push(&results[..differentiated], watched, tangents),
            Self::Trace { .. } => Ok(self.pushed(tangents, differentiated, false)?.1),
        }
    }

    /// Returns the tensors of the result, computed by a node with this control structure; only for a trace.
    ///
    /// # Errors The errors of the tracer.
    pub fn by(&self, control: &Control) -> Result<Vec<Tensor>> {
        self.results(self.node(control, &self.all(), &[])?.0, true)
    }

    fn pulled(&self, differentiated: usize, seeds: &[Tensor], writes: bool) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let Self::Trace { tracer, region, targets, backward_slots, reads, location, .. } = self else {
            unreachable!("asked of a trace only")
        };
        check_backward_slots(backward_slots.iter().map(|it| &it.parameter), reads).map_err(|it| it.at(location))?;
        let wrt: Vec<usize> = (0..*targets).chain(backward_slots.iter().map(|it| it.input)).collect();
        // Outputs from which gradients are pulled back come first.
        let is_backward = |at: &usize| backward_slots.iter().any(|it| it.output == *at);
        let order: Vec<usize> = (0..differentiated)
            .chain(backward_slots.iter().map(|it| it.output))
            .chain((differentiated..region.graph.outputs().len()).filter(|at| !is_backward(at)))
            .collect();
        warn_of_graph(&region.graph, *targets, differentiated);
        let held = self.held(writes)?;
        let mut seeds = seeds.to_vec();
        if !held.is_empty() {
            if seeds.is_empty() {
                let types = region.graph.outputs()[..differentiated].iter().map(|&it| region.graph.ty(it));
                seeds = types.map(|ty| ops::full_of(&*ty.dims, 1, ty.dtype)).collect();
            }
            seeds.extend(held.iter().map(ops::encode_as_floats));
        }
        let results = differentiated + backward_slots.len();
        let transform = TransformNode::ValueAndGrad { wrt, results, seeded: !seeds.is_empty() };
        let (outputs, mut gradients) = self.node(&Control::TransformNode(transform), &order, &seeds)?;
        let values = self.results(outputs, writes)?;
        for ((it, held), last) in backward_slots.iter().zip(held).zip(gradients.split_off(*targets)) {
            tracer.write_parameter(&it.parameter, &ops::decode_floats(&last, held.dtype()))?;
        }
        Ok((values, gradients))
    }

    /// Returns the values, at the time of the backward pass, of the parameters that backward functions write. They are
    /// the writes of the region if it `writes`, or the current values.
    fn held(&self, writes: bool) -> Result<Vec<Tensor>> {
        let Self::Trace { region, results, backward_slots, .. } = self else { unreachable!("asked of a trace only") };
        let written = |it: &BackwardSlot| region.writes.iter().position(|slot| writes && *slot == it.parameter);
        let outputs = match backward_slots.iter().any(|it| written(it).is_some()) {
            true => self.node(&Control::Call { inline: true }, &self.all(), &[])?.0,
            false => Vec::new(),
        };
        let held =
            |it: &BackwardSlot| written(it).map_or_else(|| it.parameter.value(), |at| outputs[results + at].clone());
        Ok(backward_slots.map_vec(held))
    }

    fn pushed(&self, tangents: &[Tensor], differentiated: usize, writes: bool) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let Self::Trace { region, targets, .. } = self else { unreachable!("asked of a trace only") };
        warn_of_graph(&region.graph, *targets, differentiated);
        let transform = TransformNode::Jvp { wrt: (0..*targets).collect(), results: differentiated };
        let (outputs, tangents) = self.node(&Control::TransformNode(transform), &self.all(), tangents)?;
        let values = self.results(outputs, writes)?;
        let mut tangents = tangents.into_iter();
        let tangent = |value: &Tensor| match value.dtype().is_float() {
            true => tangents.next().expect("every float result has a tangent"),
            false => ops::zeros_like(value),
        };
        let tangents = values[..differentiated].map_vec(tangent);
        Ok((values, tangents))
    }

    /// Returns the outputs of the region in their own order.
    fn all(&self) -> Vec<usize> {
        let Self::Trace { region, .. } = self else { unreachable!("asked of a trace only") };
        (0..region.graph.outputs().len()).collect()
    }

    /// Adds a node with the outputs of the region in this order, then others of these types. Returns the outputs in the
    /// region's order, and the others.
    fn node(&self, control: &Control, order: &[usize], operands: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let Self::Trace { tracer, region, inputs, location, .. } = self else { unreachable!("asked of a trace only") };
        let mut graph = region.graph.clone();
        if !order.is_sorted() {
            let outputs: Vec<ValueId> = order.map_vec(|&at| graph.outputs()[at]);
            Arc::make_mut(&mut graph).set_outputs(outputs);
        }
        let inputs: Vec<Tensor> = inputs.iter().chain(operands).cloned().collect();
        let mut outputs = tracer.control(control, smallvec![graph], &inputs, location)?;
        let others = outputs.split_off(order.len());
        let mut placed = outputs.clone();
        order.iter().zip(outputs).for_each(|(&at, output)| placed[at] = output);
        Ok((placed, others))
    }

    /// Returns the tensors of the result among the outputs of the region. Applies its writes to parameters if `writes`.
    fn results(&self, mut outputs: Vec<Tensor>, writes: bool) -> Result<Vec<Tensor>> {
        let Self::Trace { tracer, region, results, .. } = self else { unreachable!("asked of a trace only") };
        for (parameter, value) in region.writes.iter().zip(outputs.split_off(*results)).filter(|_| writes) {
            tracer.bind_slot(parameter, &value, true)?;
        }
        Ok(outputs)
    }
}
