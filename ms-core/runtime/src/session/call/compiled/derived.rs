//! Compiles derivatives of compiled graphs.

use super::{Compiled, backend};
use crate::session::cache::entry::Split;
use crate::session::call::source::Direction;
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ir::{Graph, Precision, ValueId};
use ms_trace::transform;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The derivative of a [`Compiled`] with respect to some inputs, split for a tape.
pub struct Derivative {
    /// The graph that returns the results, then the residuals that it computes for the backward part.
    pub forward: Arc<Compiled>,
    /// The graph that returns the gradients. It takes `residuals`, the cotangents of the results `seeds`, and the
    /// partial sums of the gradients of the inputs `sums`.
    pub backward: Arc<Compiled>,
    /// The values that the backward part takes from the inputs and the forward part.
    pub residuals: Vec<transform::Residual>,
    /// Results that have a cotangent.
    pub seeds: Vec<usize>,
    /// Inputs with gradients that are added to partial sums.
    pub sums: Vec<usize>,
    /// The step functions that hide inputs.
    pub hiding: Hiding,
}

/// The step functions that hide inputs. For each differentiated input, there is one if results depend on it only
/// through step functions.
#[derive(Default)]
pub struct Hiding {
    /// The step function that hides each input from the results with a cotangent.
    pub of_seeds: Vec<Option<transform::StepFunction>>,
    /// The step function that hides each input from the other results.
    pub of_others: Vec<Option<transform::StepFunction>>,
}

impl Hiding {
    /// Finds the step functions of a graph; none if this process has not traced it.
    fn of(traced: Option<&Graph>, wrt: &[usize], seeds: &[usize]) -> Self {
        let Some(graph) = traced else {
            return Self { of_seeds: vec![None; wrt.len()], of_others: vec![None; wrt.len()] };
        };
        let others: Vec<usize> = (0..graph.outputs().len()).filter(|it| !seeds.contains(it)).collect();
        Self { of_seeds: transform::hiding(graph, wrt, seeds), of_others: transform::hiding(graph, wrt, &others) }
    }
}

/// The gradients of a [`Compiled`] from the cotangents of some results.
pub struct Partial {
    /// The graph that takes the inputs and these cotangents, and returns the gradients.
    pub compiled: Arc<Compiled>,
    /// Whether a gradient reaches each input. The gradient of any other input is zero.
    pub reached: Vec<bool>,
}

impl Compiled {
    /// Returns the graph that computes the tangents of the float outputs `results`, from the inputs and the tangents of
    /// the inputs `wrt`. It is created once.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn tangent(&self, wrt: &[usize], results: &[usize]) -> Result<Arc<Self>> {
        let mut made = self.tangents.lock().unwrap_or_else(PoisonError::into_inner);
        let key = [wrt.to_vec(), results.to_vec()];
        if let Some(known) = made.get(&key) {
            return Ok(known.clone());
        }
        let graph = self.graph_of(results)?;
        let mut graph = transform::jvp(&graph, wrt, results.len())?;
        graph.set_outputs(graph.outputs()[results.len()..].to_vec());
        let tangent = Self::sound(&graph, self.precision, self.device, self.footprint.part())?;
        made.insert(key, tangent.clone());
        Ok(tangent)
    }

    /// Returns the graph with only these outputs.
    fn graph_of(&self, outputs: &[usize]) -> Result<Graph> {
        let mut graph = self.source.graph()?.clone();
        let outputs: Vec<ValueId> = outputs.map_vec(|&at| graph.outputs()[at]);
        graph.set_outputs(outputs);
        Ok(graph)
    }

    /// Returns the graph that computes the gradients of the inputs `wrt` from the inputs and the cotangents of the
    /// outputs `seeds`. Other outputs are ignored. It is created once.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn partial(&self, wrt: &[usize], seeds: &[usize]) -> Result<Arc<Partial>> {
        let mut made = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let key = [wrt.to_vec(), seeds.to_vec()];
        if let Some(known) = made.get(&key) {
            return Ok(known.clone());
        }
        let graph = self.graph_of(seeds)?;
        let reached = transform::reached(&graph, wrt);
        let mut graph = transform::value_and_grad(&graph, wrt, seeds.len(), true, self.precision == Precision::Strict)?;
        graph.set_outputs(graph.outputs()[seeds.len()..].to_vec());
        let partial = Arc::new(Partial {
            compiled: Self::sound(&graph, self.precision, self.device, self.footprint.part())?,
            reached,
        });
        made.insert(key, partial.clone());
        Ok(partial)
    }

    /// Returns the derivative with respect to the inputs `wrt`, created once.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the path has no derivative.
    pub fn derivative(&self, wrt: &[usize]) -> Result<Arc<Derivative>> {
        let mut made = self.derivatives.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(wrt) {
            return Ok(known.clone());
        }
        let part = |part, name| {
            let place = self.place.as_ref().map(|it| it.piece(format!("{name} {wrt:?}")));
            Self::of(self.source.derivative(wrt, part), self.precision, self.device, None, place, self.footprint.part())
        };
        let (forward, backward) = (part(Direction::Forward, "forward"), part(Direction::Backward, "backward"));
        let split = match forward.find() {
            Some((executable, split)) => {
                let _first = forward.executable.set(executable);
                split
            }
            None => {
                let start = Instant::now();
                let parts = transform::differentiate(self.source.graph()?, wrt, self.precision == Precision::Strict)?;
                let took = start.elapsed();
                forward.source.set(&parts.forward, took)?;
                backward.source.set(&parts.backward, Duration::ZERO)?;
                let split = Split { seeds: parts.seeds, residuals: parts.residuals, sums: parts.sums };
                if let (Some(backend), Some(_)) = (backend(self.device)?, &self.place) {
                    // The split of the derivative is stored with the forward part.
                    let _first = forward.executable.set(forward.compile(backend, split.clone())?);
                }
                split
            }
        };
        let Split { seeds, residuals, sums } = split;
        let hiding = Hiding::of(self.source.as_traced_or_sized(), wrt, &seeds);
        let derivative = Arc::new(Derivative { forward, backward, residuals, seeds, sums, hiding });
        made.insert(wrt.to_vec(), derivative.clone());
        Ok(derivative)
    }
}
