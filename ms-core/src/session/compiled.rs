//! Graphs that can be called: compiled when they first are, once per content.

use super::context::Precision;
use super::report;
use super::sized::Sized;
use super::tape::Tape;
use crate::error::{Error, Result};
use crate::exec::{self, Executable};
use crate::ir::{Graph, canonical_bytes};
use crate::lower::{LowerOptions, lower};
use crate::optimize::{Inline, PassContext, optimize_with};
use crate::tensor::{Array, Tensor};
use crate::transform;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A graph and what it compiles to: itself, and its derivatives.
pub struct Compiled {
    graph: Graph,
    precision: Precision,
    /// Where sizes are symbolic: what a call fixes.
    sized: Option<Sized>,
    optimized: OnceLock<Graph>,
    executable: OnceLock<Result<Arc<dyn Executable>>>,
    derivatives: Mutex<FxHashMap<Vec<usize>, Arc<Derivative>>>,
}

/// The derivative of a [`Compiled`] with respect to some inputs, split for a tape.
pub struct Derivative {
    /// Gives the results, then what the backward part needs besides the inputs.
    pub forward: Arc<Compiled>,
    /// Takes `residuals` and the cotangents of the results `seeds`; gives the gradients.
    pub backward: Arc<Compiled>,
    /// What the backward part takes from the inputs and the forward part.
    pub residuals: Vec<transform::Residual>,
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
        let graph = report::graph_stage("expand", || transform::expand(&graph).map(Cow::into_owned))?;
        Ok(Arc::new(Self {
            sized: Sized::of(&graph)?,
            graph,
            precision,
            optimized: OnceLock::new(),
            executable: OnceLock::new(),
            derivatives: Mutex::default(),
        }))
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
        match (Tape::current(), &self.sized) {
            (Some(tape), None) => tape.call(self, inputs),
            (Some(tape), Some(sized)) => tape.call(&self.at(sized, &arrays(inputs)?)?, inputs),
            (None, _) => self.run(inputs),
        }
    }

    /// Runs the graph on arrays.
    ///
    /// # Errors
    /// What lowering or an op refuses.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let arrays = arrays(inputs)?;
        match &self.sized {
            None => self.run_arrays(&arrays),
            Some(sized) => self.at(sized, &arrays)?.run_arrays(&arrays),
        }
    }

    fn run_arrays(&self, arrays: &[&Array]) -> Result<Vec<Tensor>> {
        let executable = self.executable()?;
        let outputs = if arrays.iter().all(|it| it.layout().is_contiguous()) {
            executable.run(arrays)?
        } else {
            let dense: SmallVec<[Array; 8]> = arrays.iter().map(|it| it.to_contiguous()).collect();
            executable.run(&dense.iter().collect::<SmallVec<[&Array; 8]>>())?
        };
        Ok(outputs.into_iter().map(Tensor::from_array).collect())
    }

    fn executable(&self) -> Result<&Arc<dyn Executable>> {
        // Derivatives are taken of the graph as it was traced; only code is made of this one.
        let make = || self.code(&report::optimize(&self.graph), false);
        self.executable.get_or_init(make).as_ref().map_err(Error::clone)
    }

    /// This graph of symbolic sizes at the sizes of its inputs: optimised as it stands, once, and
    /// planned for them.
    fn at(&self, sized: &Sized, inputs: &[&Array]) -> Result<Arc<Self>> {
        sized.at(inputs, |sizes| {
            let optimized = self.optimized.get_or_init(|| report::optimize(&self.graph));
            let code = self.code(&transform::with_sizes(optimized, sizes)?, true)?;
            let known = Self::new(&transform::with_sizes(&self.graph, sizes)?, self.precision)?;
            known.executable.get_or_init(|| Ok(code));
            Ok(known)
        })
    }

    /// The code of a graph of constant sizes; `shared` with graphs of other sizes, or its own.
    fn code(&self, graph: &Graph, shared: bool) -> Result<Arc<dyn Executable>> {
        let Some(backend) = exec::backend() else { return Ok(exec::reference(graph.clone())) };
        let options = LowerOptions { exact: self.precision == Precision::Strict, ..LowerOptions::default() };
        let plan = Arc::new(report::stage("lower", || lower(graph, &options))?);
        report::lowered(&plan);
        let executable = if shared {
            report::stage("load", || backend.load_shared(plan))?
        } else {
            let artifact = report::stage("compile", || backend.compile(&plan))?;
            report::stage("load", || backend.load(plan, &artifact))?
        };
        report::finished();
        Ok(executable)
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
            residuals: parts.residuals,
            seeds: parts.seeds,
        });
        made.insert(wrt.to_vec(), derivative.clone());
        Ok(derivative)
    }
}

fn arrays(inputs: &[Tensor]) -> Result<SmallVec<[&Array; 8]>> {
    inputs.iter().map(|it| it.array()).collect()
}
