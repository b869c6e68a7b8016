//! One call of a function, recorded so that derivatives can be taken of it: on the tape outside
//! a trace, as the region of a node inside one.

use super::differentiable::{Target, Wrt};
use super::tape::Tape;
use crate::error::Result;
use crate::ops::VALUE_AND_GRAD;
use crate::tensor::{Attrs, Parameter, Tensor, Type};
use crate::trace::{Region, Tracer, Tree, leaves, run_nested};
use smallvec::smallvec;
use std::panic::Location;
use std::rc::Rc;

/// A call that was recorded, before derivatives are taken of it.
pub(super) enum Recording {
    /// The ops that ran.
    Tape { tape: Rc<Tape>, watched: Vec<Tensor>, results: Vec<Tensor> },
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
    Ok((result, Recording::Tape { tape, watched, results }))
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
    /// The tensors of the result, and the gradients of the targets of the sum of its first
    /// `differentiated` tensors, weighted by `seeds` where they are given.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
    pub(super) fn gradients(
        self,
        differentiated: usize,
        seeds: Option<&[Tensor]>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        match self {
            Self::Tape { tape, watched, results } => {
                let gradients = tape.gradients(&results[..differentiated], seeds, &watched)?;
                Ok((results, gradients))
            }
            Self::Trace { tracer, region, mut inputs, targets, results, location } => {
                let wrt: Vec<usize> = (0..targets).collect();
                let attrs = Attrs::new([(&wrt[..]).into(), differentiated.into(), seeds.is_some().into()]);
                let graph = &region.graph;
                let mut types: Vec<Type> = graph.outputs().iter().map(|&it| graph.ty(it).clone()).collect();
                types.extend(inputs[..targets].iter().map(Tensor::ty));
                inputs.extend(seeds.into_iter().flatten().cloned());
                let op = VALUE_AND_GRAD.op();
                let mut outputs = tracer.region_node(op, attrs, smallvec![graph.clone()], &inputs, types, location)?;
                let gradients = outputs.split_off(results + region.writes.len());
                write(&tracer, &region.writes, &outputs.split_off(results))?;
                Ok((outputs, gradients))
            }
        }
    }
}

/// Lets parameters have the values that a region gives them.
fn write(tracer: &Tracer, parameters: &[Parameter], values: &[Tensor]) -> Result<()> {
    parameters.iter().zip(values).try_for_each(|(parameter, value)| tracer.bind_slot(parameter, value, true))
}
