//! Creates graphs on demand: expanded, differentiated, at constant sizes.

use crate::optimize::{PassContext, inline_all};
use crate::session::cache::entry::Split;
use crate::session::report;
use ms_compile::exec::{Family, Interface};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Type, ValueId};
use ms_trace::effects::{float_status, has_float_status};
use ms_trace::transform::{self, Residual};
use once_cell::sync::OnceCell;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A graph with expanded transforms: the source of compiled code.
pub(in crate::session) struct Source {
    origin: Origin,
    graph: OnceCell<Graph>,
    /// The graph optimised for all sizes, by pass context, if it has symbols.
    optimized: Mutex<Vec<(PassContext, Arc<Graph>)>>,
    /// Whether one expansion is valid for all sizes, for a graph with symbols. For a graph at constant sizes, whether
    /// it is derived from that expansion.
    decided: OnceLock<bool>,
    /// The time that creating the graph took.
    took: OnceLock<Duration>,
    /// Whether gradients are added in the same order as eagerly.
    in_order: bool,
    /// Whether functions with other source locations share the graph.
    shares_lines: AtomicBool,
}

/// The origin of a graph.
enum Origin {
    /// Created by [`Source::given`].
    Given,
    /// Unknown: another process traced it.
    Unknown {
        /// The number of its inputs and outputs.
        counts: [usize; 2],
    },
    /// A traced graph.
    Traced(Graph),
    /// A derivative of another graph.
    Derivative { of: Arc<Source>, wrt: Vec<usize>, part: Direction },
    /// A graph with symbols at constant sizes.
    Sizes { of: Arc<Source>, sizes: Vec<(String, usize)> },
}

/// A part of a derivative.
#[derive(Clone, Copy)]
pub(in crate::session) enum Direction {
    /// See [`Derivative::forward`](crate::session::Derivative::forward).
    Forward,
    /// See [`Derivative::backward`](crate::session::Derivative::backward).
    Backward,
}

impl Source {
    fn new(origin: Origin, in_order: bool) -> Arc<Self> {
        let (graph, optimized, decided, took) = (OnceCell::new(), Mutex::default(), OnceLock::new(), OnceLock::new());
        Arc::new(Self { origin, graph, optimized, decided, took, in_order, shares_lines: AtomicBool::new(false) })
    }

    /// Creates the source of a graph and expands it.
    ///
    /// # Errors
    /// The errors of expanding.
    pub fn given(graph: &Graph, in_order: bool) -> Result<Arc<Self>> {
        let source = Self::new(Origin::Given, in_order);
        source.set(graph, Duration::ZERO)?;
        Ok(source)
    }

    /// Creates the source of a traced graph.
    pub fn of_trace(graph: Graph, in_order: bool) -> Arc<Self> {
        Self::new(Origin::Traced(graph), in_order)
    }

    /// Creates the source of a graph that another process traced. It can be loaded from a cache, but not created.
    pub fn unknown(inputs: usize, outputs: usize) -> Arc<Self> {
        Self::new(Origin::Unknown { counts: [inputs, outputs] }, false)
    }

    /// Returns a part of this graph's derivative.
    pub fn derivative(self: &Arc<Self>, wrt: &[usize], part: Direction) -> Arc<Self> {
        Self::new(Origin::Derivative { of: self.clone(), wrt: wrt.to_vec(), part }, self.in_order)
    }

    /// Returns this graph at constant sizes of its symbols.
    pub fn at(self: &Arc<Self>, sizes: &[(&str, usize)]) -> Arc<Self> {
        let sizes = sizes.map_vec(|&(name, size)| (name.to_owned(), size));
        Self::new(Origin::Sizes { of: self.clone(), sizes }, self.in_order)
    }

    /// Returns the graph.
    ///
    /// # Errors
    /// The errors of expanding.
    pub fn graph(&self) -> Result<&Graph> {
        let make = || {
            let start = Instant::now();
            let graph = match &self.origin {
                Origin::Given => unreachable!("a graph that is given was set"),
                Origin::Unknown { .. } => Err(Error::new(Code::Cache, "the function was not traced in this process")),
                Origin::Traced(graph) => expand(graph, self.in_order),
                Origin::Derivative { of, wrt, part } => {
                    let parts = transform::differentiate(of.graph()?, wrt, self.in_order)?;
                    let graph = match part {
                        Direction::Forward => &parts.forward,
                        Direction::Backward => &parts.backward,
                    };
                    expand(graph, self.in_order)
                }
                Origin::Sizes { of, sizes } => {
                    let at_sizes = |graph: &Graph| {
                        let made = || transform::with_sizes(graph, &by_name(sizes)).map(Cow::Owned);
                        report::try_graph_stage("sizes", made).map(Cow::into_owned)
                    };
                    let traced = of.as_traced().map(at_sizes).transpose()?;
                    match traced.filter(|_| !self.is_decided()) {
                        Some(traced) => expand(&traced, self.in_order),
                        None => at_sizes(of.graph()?),
                    }
                }
            };
            let _first = self.took.set(start.elapsed());
            graph
        };
        self.graph.get_or_try_init(make)
    }

    /// Sets the graph, unless it is set, and the time that creating it took.
    pub fn set(&self, graph: &Graph, took: Duration) -> Result<()> {
        let _first = self.graph.set(expand(graph, self.in_order)?);
        let _first = self.took.set(took);
        Ok(())
    }

    /// Returns the graph from which code is generated. Derivatives use the graph before optimisation.
    ///
    /// # Errors
    /// The errors of expanding.
    pub fn optimized(&self, context: &PassContext) -> Result<Graph> {
        match &self.origin {
            // A graph with symbols is optimised once for all sizes.
            Origin::Sizes { of, sizes } if self.is_decided() => {
                // This reports shapes that do not fit. Passes preserve the types of those that do.
                self.graph()?;
                let optimized = of.optimized_for_sizes(context)?;
                let made = || transform::specialized(&optimized, &by_name(sizes)).map(Cow::Owned);
                report::try_graph_stage("specialize", made).map(Cow::into_owned)
            }
            _ => Ok(report::optimize(self.graph()?, context)),
        }
    }

    /// Returns the traced graph, if this is one.
    fn as_traced(&self) -> Option<&Graph> {
        match &self.origin {
            Origin::Traced(graph) => Some(graph),
            _ => None,
        }
    }

    /// Returns the traced graph, if this is one or a traced graph at constant sizes.
    pub fn as_traced_or_sized(&self) -> Option<&Graph> {
        match &self.origin {
            Origin::Sizes { of, .. } => of.as_traced(),
            _ => self.as_traced(),
        }
    }

    /// Returns whether one expansion of a graph with symbols is valid for all sizes, so that it is expanded and
    /// optimised once. For a graph at constant sizes, returns whether it is derived from that expansion.
    fn is_decided(&self) -> bool {
        let decided = || match &self.origin {
            Origin::Traced(traced) => transform::is_decided(traced) && self.graph().is_ok_and(transform::is_decided),
            Origin::Sizes { of, sizes } => {
                let is_small = || of.as_traced().is_some_and(|it| transform::has_small_axis(it, &by_name(sizes)));
                of.is_decided() && !is_small()
            }
            _ => true,
        };
        *self.decided.get_or_init(decided)
    }

    /// Returns the graph with symbols, optimised once for all sizes.
    fn optimized_for_sizes(&self, context: &PassContext) -> Result<Arc<Graph>> {
        let mut known = self.optimized.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, graph)) = known.iter().find(|it| it.0 == *context) {
            return Ok(graph.clone());
        }
        let made = Arc::new(report::optimize(self.graph()?, context));
        known.push((context.clone(), made.clone()));
        Ok(made)
    }

    /// Returns the traced graph, to whose nodes errors at run time refer.
    pub fn traced(&self) -> Option<&Graph> {
        match &self.origin {
            Origin::Traced(graph) => Some(graph),
            Origin::Given => self.graph.get(),
            Origin::Unknown { .. } => None,
            Origin::Derivative { of, .. } | Origin::Sizes { of, .. } => of.traced(),
        }
    }

    /// Returns the family of a graph at constant sizes, if one expansion of the graph with symbols is valid for all
    /// sizes.
    pub fn family(&self) -> Option<Family<'_>> {
        match &self.origin {
            Origin::Sizes { of, sizes } if self.is_decided() => Some(Family { graph: of.graph().ok()?, sizes }),
            _ => None,
        }
    }

    /// Returns a graph with the results of a run and constant sizes: the traced one, if this is not a derivative.
    pub fn at_run(&self) -> Option<Cow<'_, Graph>> {
        match &self.origin {
            Origin::Traced(graph) => Some(Cow::Borrowed(graph)),
            Origin::Sizes { of, sizes } => {
                let at_sizes = |graph| transform::specialized(graph, &by_name(sizes)).ok();
                of.as_traced().and_then(at_sizes).map(Cow::Owned)
            }
            _ => self.graph.get().map(Cow::Borrowed),
        }
    }

    /// Records that a function with other source locations shares the graph.
    pub fn share_lines(&self) {
        self.shares_lines.store(true, Ordering::Relaxed);
    }

    /// Returns whether all functions with this graph have the same source locations.
    pub fn has_own_lines(&self) -> bool {
        match &self.origin {
            Origin::Derivative { of, .. } | Origin::Sizes { of, .. } => of.has_own_lines(),
            _ => !self.shares_lines.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the graph cannot be created in this process.
    pub fn is_unknown(&self) -> bool {
        matches!(self.origin, Origin::Unknown { .. })
    }

    /// Returns the number of outputs.
    ///
    /// # Errors
    /// The errors of expanding.
    pub fn results(&self) -> Result<usize> {
        match &self.origin {
            Origin::Traced(graph) => Ok(graph.outputs().len()),
            _ => Ok(self.graph()?.outputs().len()),
        }
    }

    /// Returns whether a stored program matches this graph, as far as is known without creating the graph.
    pub fn fits(&self, program: &Interface, split: &Split) -> bool {
        let (inputs, outputs) = (program.inputs.len(), program.outputs.len());
        match &self.origin {
            Origin::Given => false,
            Origin::Unknown { counts } => *counts == [inputs, outputs],
            Origin::Traced(graph) => {
                let types = |ids: &[ValueId], types: &[Type]| ids.iter().map(|&it| graph.ty(it)).eq(types);
                types(graph.inputs(), &program.inputs) && types(graph.outputs(), &program.outputs)
            }
            Origin::Sizes { of, .. } => of.results().is_ok_and(|it| it == outputs),
            Origin::Derivative { of, part: Direction::Forward, .. } => {
                let Ok(results) = of.results() else { return false };
                results <= outputs
                    && split.seeds.iter().all(|&it| it < results)
                    && split.sums.iter().all(|&it| it < inputs)
                    && split.residuals.iter().all(|it| match *it {
                        Residual::Input(at) => at < inputs,
                        Residual::Saved(at) => at < outputs - results,
                    })
            }
            Origin::Derivative { wrt, part: Direction::Backward, .. } => outputs == wrt.len(),
        }
    }

    /// Returns the time that creating the graph took, if it was created.
    pub fn took(&self) -> Duration {
        self.took.get().copied().unwrap_or_default()
    }
}

fn expand(graph: &Graph, in_order: bool) -> Result<Graph> {
    let expanded = report::try_graph_stage("expand", || transform::expand(graph, in_order))?;
    if !has_float_status(&expanded) {
        return Ok(expanded.into_owned());
    }
    report::try_graph_stage("status", || {
        float_status(&inline_all(&expanded, true)).map(|it| Cow::Owned(it.into_owned()))
    })
    .map(Cow::into_owned)
}

fn by_name(sizes: &[(String, usize)]) -> Vec<(&str, usize)> {
    sizes.map_vec(|(name, size)| (&**name, *size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ops::ops::parse_graph;

    /// All sizes of a function have one family.
    #[test]
    fn sizes_have_one_family() {
        let text = "graph @f(%x: f32[n]) -> (f32[n]) {
            %y = exp %x : f32[n]
            return %y
        }";
        let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
        let source = Source::of_trace(graph, false);
        assert!(source.family().is_none(), "sizes are not constant");
        let instances = [5, 7].map(|size| source.at(&[("n", size)]));
        for (instance, size) in instances.iter().zip([5, 7]) {
            let family = instance.family().expect("the graph is valid for all sizes");
            assert!(std::ptr::eq(family.graph, source.graph().expect("it expands")));
            assert_eq!(family.sizes, [("n".to_owned(), size)]);
        }
    }
}
