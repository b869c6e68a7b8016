//! Graphs that can be called: compiled when they first are, once per content.

use super::context::Precision;
use super::tape::Tape;
use crate::error::{Error, Result};
use crate::exec::{self, Executable};
use crate::ir::{Graph, canonical_bytes};
use crate::lower::{LowerOptions, lower};
use crate::optimize::{Inline, PassContext, optimize, optimize_with};
use crate::tensor::{Array, Tensor};
use crate::transform;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A graph and what it compiles to: itself, and its derivatives.
pub struct Compiled {
    graph: Graph,
    precision: Precision,
    executable: OnceLock<Result<Arc<dyn Executable>>>,
    derivatives: Mutex<FxHashMap<Vec<usize>, Arc<Derivative>>>,
}

/// The derivative of a [`Compiled`] with respect to some inputs, split for a tape.
pub struct Derivative {
    /// Gives the results, then what the backward part needs.
    pub forward: Arc<Compiled>,
    /// Takes that and the cotangents of the results `seeds`; gives the gradients.
    pub backward: Arc<Compiled>,
    /// Results that take a cotangent.
    pub seeds: Vec<usize>,
}

impl Compiled {
    /// A graph to be called, whose transforms are expanded here; code is made at the first call.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) and its like, from expanding transforms.
    pub fn new(graph: &Graph, precision: Precision) -> Result<Arc<Self>> {
        // Transforms see through calls once these are in place.
        let (graph, _) = optimize_with(graph.clone(), &[&Inline], &PassContext::default());
        let graph = transform::expand(&graph)?.into_owned();
        Ok(Arc::new(Self { graph, precision, executable: OnceLock::new(), derivatives: Mutex::default() }))
    }

    /// [`Compiled::new`], or what it gave before for a graph of the same content that is still in
    /// use.
    ///
    /// # Errors
    /// As for [`Compiled::new`].
    pub fn shared(graph: &Graph, precision: Precision) -> Result<Arc<Self>> {
        static MADE: Mutex<BTreeMap<Vec<u8>, Weak<Compiled>>> = Mutex::new(BTreeMap::new());
        let mut key = canonical_bytes(graph);
        key.push(precision as u8);
        let lock = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let made = Self::new(graph, precision)?;
        let mut table = lock();
        table.retain(|_, it| it.strong_count() > 0);
        table.insert(key, Arc::downgrade(&made));
        Ok(made)
    }

    /// The graph, its transforms expanded.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Number of outputs.
    pub fn results(&self) -> usize {
        self.graph.outputs().len()
    }

    /// Calls the graph through the current dispatcher: recorded as one step if that is a tape.
    ///
    /// # Errors
    /// What lowering or an op refuses.
    pub fn call(self: &Arc<Self>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match Tape::current() {
            Some(tape) => tape.call(self, inputs),
            None => self.run(inputs),
        }
    }

    /// Runs the graph on arrays.
    ///
    /// # Errors
    /// What lowering or an op refuses.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let executable = self.executable()?;
        let mut arrays: SmallVec<[&Array; 8]> = SmallVec::with_capacity(inputs.len());
        let mut strided = false;
        for input in inputs {
            let array = input.as_array().ok_or_else(|| super::eager::not_an_array(input))?;
            strided |= !array.layout().is_contiguous();
            arrays.push(array);
        }
        let outputs = if strided {
            let dense: SmallVec<[Array; 8]> = arrays.iter().map(|it| it.to_contiguous()).collect();
            executable.run(&dense.iter().collect::<SmallVec<[&Array; 8]>>())?
        } else {
            executable.run(&arrays)?
        };
        Ok(outputs.into_iter().map(Tensor::from_array).collect())
    }

    fn executable(&self) -> Result<&Arc<dyn Executable>> {
        let make = || {
            // Derivatives are taken of the graph as it was traced; only code is made of this one.
            let graph = optimize(self.graph.clone(), &PassContext::default());
            let Some(backend) = exec::backend() else { return Ok(exec::reference(graph)) };
            let options = LowerOptions { exact: self.precision == Precision::Strict, ..LowerOptions::default() };
            let plan = Arc::new(lower(&graph, &options)?);
            let artifact = backend.compile(&plan)?;
            backend.load(plan, &artifact)
        };
        self.executable.get_or_init(make).as_ref().map_err(Error::clone)
    }

    /// The derivative with respect to the inputs `wrt`, made once.
    ///
    /// # Errors
    /// [`Code::NoGradient`](crate::Code::NoGradient) when an op on the way has no derivative.
    pub fn derivative(&self, wrt: &[usize]) -> Result<Arc<Derivative>> {
        let mut made = self.derivatives.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(wrt) {
            return Ok(known.clone());
        }
        let parts = transform::differentiate(&self.graph, wrt)?;
        let derivative = Arc::new(Derivative {
            forward: Self::new(&parts.forward, self.precision)?,
            backward: Self::new(&parts.backward, self.precision)?,
            seeds: parts.seeds,
        });
        made.insert(wrt.to_vec(), derivative.clone());
        Ok(derivative)
    }
}
