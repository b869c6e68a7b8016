//! One call of a function, recorded so that derivatives can be taken of it: on the tape outside
//! a trace, as the region of a node inside one.

use super::differentiable::{Target, Wrt};
use super::tape::{Record, Tape};
use crate::error::Result;
use crate::ops::{self, CALL, JVP, VALUE_AND_GRAD};
use crate::tensor::{Attrs, Op, Tensor, Type};
use crate::trace::{Region, Tracer, Tree, leaves, run_nested};
use smallvec::smallvec;
use std::panic::Location;
use std::rc::Rc;

/// A call that was recorded, before derivatives are taken of it.
pub(super) enum Recording {
    /// The ops that ran.
    Tape { record: Record, watched: Vec<Tensor>, results: Vec<Tensor> },
    /// The ops as a graph.
    Trace {
        tracer: Rc<Tracer>,
        region: Region,
        /// The targets, then what the region captures.
        inputs: Vec<Tensor>,
        targets: usize,
        results: usize,
        location: &'static Location<'static>,
    },
}

/// Runs `body` on tensors that stand for those of `wrt`. Gives its result, in which a trace has
/// to put the tensors that the recording gives, and the recording.
///
/// # Errors
/// [`Code::NoGradient`](crate::Code::NoGradient) for integer targets.
pub(super) fn record<R: Tree>(
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
    let mut inputs: Vec<Tensor> = targets.iter().map(value).collect();
    let ((result, results), region) = run_nested(&tracer, name, || {
        let mut tensors = Vec::new();
        for (target, input) in targets.iter().zip(&inputs) {
            let stands_in = tracer.input(input.ty());
            match target {
                Target::Tensor(_) => tensors.push(stands_in),
                Target::Parameter(parameter) => tracer.bind_slot(parameter, &stands_in, false)?,
            }
        }
        let result = body(&tensors);
        let results = leaves(&result);
        Ok(((result, results.len()), results))
    })?;
    let targets = inputs.len();
    inputs.extend(region.captures.iter().cloned());
    Ok((result, Recording::Trace { tracer, region, inputs, targets, results, location }))
}

impl Recording {
    /// The tensors that the derivative is taken with respect to.
    pub fn targets(&self) -> Vec<Tensor> {
        match self {
            Self::Tape { watched, .. } => watched.clone(),
            Self::Trace { inputs, targets, .. } => inputs[..*targets].to_vec(),
        }
    }

    /// The tensors of the result.
    ///
    /// # Errors
    /// What the tracer refuses.
    pub fn values(&self) -> Result<Vec<Tensor>> {
        match self {
            Self::Tape { results, .. } => Ok(results.clone()),
            Self::Trace { .. } => Ok(self.node(CALL.op(), Attrs::none(), &[], Vec::new(), true)?.0),
        }
    }

    /// The tensors of the result, and the gradients of the targets of the sum of its first
    /// `differentiated` tensors.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
    pub fn gradients(&self, differentiated: usize) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        match self {
            Self::Tape { record, watched, results } => {
                Ok((results.clone(), record.pull(&results[..differentiated], None, watched)?))
            }
            Self::Trace { .. } => self.pulled(differentiated, &[], true),
        }
    }

    /// The gradients of the targets, given those of the tensors of the result.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
    pub fn pull(&self, seeds: &[Tensor]) -> Result<Vec<Tensor>> {
        match self {
            Self::Tape { record, watched, results } => record.pull(results, Some(seeds), watched),
            Self::Trace { results, .. } => Ok(self.pulled(*results, seeds, false)?.1),
        }
    }

    /// The tensors of the result, and their tangents, given those of the targets.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
    pub fn tangents(&self, tangents: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        match self {
            Self::Tape { record, watched, results } => Ok((results.clone(), record.push(results, watched, tangents)?)),
            Self::Trace { .. } => self.pushed(tangents, true),
        }
    }

    /// The tangents of the tensors of the result, given those of the targets.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
    pub fn push(&self, tangents: &[Tensor]) -> Result<Vec<Tensor>> {
        match self {
            Self::Tape { record, watched, results } => record.push(results, watched, tangents),
            Self::Trace { .. } => Ok(self.pushed(tangents, false)?.1),
        }
    }

    /// The tensors of the result, by a node of another op that holds the graph. Asked of a trace
    /// only.
    ///
    /// # Errors
    /// What the tracer refuses.
    pub fn by(&self, op: Op, attrs: Attrs) -> Result<Vec<Tensor>> {
        Ok(self.node(op, attrs, &[], Vec::new(), true)?.0)
    }

    fn pulled(&self, differentiated: usize, seeds: &[Tensor], writes: bool) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let Self::Trace { inputs, targets, .. } = self else { unreachable!("asked of a trace only") };
        let wrt: Vec<usize> = (0..*targets).collect();
        let attrs = Attrs::new([(&wrt[..]).into(), differentiated.into(), (!seeds.is_empty()).into()]);
        let types = inputs[..*targets].iter().map(Tensor::ty).collect();
        self.node(VALUE_AND_GRAD.op(), attrs, seeds, types, writes)
    }

    fn pushed(&self, tangents: &[Tensor], writes: bool) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let Self::Trace { region, targets, results, .. } = self else { unreachable!("asked of a trace only") };
        let wrt: Vec<usize> = (0..*targets).collect();
        let attrs = Attrs::new([(&wrt[..]).into(), (*results).into()]);
        let own = region.graph.outputs()[..*results].iter().map(|&it| region.graph.ty(it));
        let types = own.filter(|it| it.dtype.is_float()).cloned().collect();
        let (values, tangents) = self.node(JVP.op(), attrs, tangents, types, writes)?;
        let mut tangents = tangents.into_iter();
        let tangent = |value: &Tensor| match value.dtype().is_float() {
            true => tangents.next().expect("every float result has a tangent"),
            false => ops::zeros_like(value),
        };
        let tangents = values.iter().map(tangent).collect();
        Ok((values, tangents))
    }

    /// Adds a node that has the outputs of the region, then others of these types. Gives the
    /// tensors of the result, and the others; parameters keep what the region writes if `writes`.
    fn node(
        &self,
        op: Op,
        attrs: Attrs,
        operands: &[Tensor],
        others: Vec<Type>,
        writes: bool,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let Self::Trace { tracer, region, inputs, results, location, .. } = self else {
            unreachable!("asked of a trace only")
        };
        let graph = &region.graph;
        let types = graph.outputs().iter().map(|&it| graph.ty(it).clone()).chain(others).collect();
        let inputs: Vec<Tensor> = inputs.iter().chain(operands).cloned().collect();
        let mut outputs = tracer.region_node(op, attrs, smallvec![graph.clone()], &inputs, types, location)?;
        let others = outputs.split_off(results + region.writes.len());
        for (parameter, value) in region.writes.iter().zip(outputs.split_off(*results)).filter(|_| writes) {
            tracer.bind_slot(parameter, &value, true)?;
        }
        Ok((outputs, others))
    }
}
