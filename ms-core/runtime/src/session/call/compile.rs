//! Traces and compiles the body of a call to a version.

use super::backward_slots::BackwardSlots;
use super::compiled::Compiled;
use super::functions;
use super::recompilation::Facts;
use super::version::{Parts, Source, Version, template};
use super::{Call, JitReturn, Sign, in_compiled, run};
use crate::optimize::inline_all;
use crate::session::cache::entry::Site;
use crate::session::cache::pure::PureSlot;
use crate::session::context::Settings;
use crate::session::report;
use ms_ir::Graph;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::{Parameter, Tensor, with_created};
use ms_trace::effects::{Slots, insert_moves};
use ms_trace::trace::{ArgumentNames, Binding, Sink, Trace, Tracer, Tree, cell_path, leaves, parameters, run_traced};
use rustc_hash::FxHashMap;
use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// A trace in progress.
pub(super) struct Tracing {
    pub tracer: Rc<Tracer>,
    /// The path of the called cell.
    pub path: Option<Rc<str>>,
    pub facts: Facts,
    /// The parameters in the signature.
    shown: Vec<Parameter>,
    /// The location of the traced function in the cache.
    pub pure: Option<PureSlot>,
}

impl Tracing {
    /// Starts the trace of a call.
    pub fn new(call: &Call, pure: Option<PureSlot>) -> Self {
        let tracer = Tracer::new(call.function.name);
        let tensors = call.signature.tensors();
        tensors.iter().zip(call.signature.types()).for_each(|(it, ty)| tracer.argument(it, ty));
        Self { tracer, path: None, facts: Facts::default(), shown: Vec::new(), pure }
    }

    /// Collects facts about the arguments for messages.
    pub fn note(mut self, sign: Sign<'_>) -> Self {
        sign(&mut Sink::new(&mut self.facts));
        self.shown = parameters(sign);
        self.tracer.name_arguments(ArgumentNames::of(sign));
        self.path = cell_path(self.tracer.id(), sign);
        self
    }
}

/// The result of a body, of any type.
trait Template {
    /// Returns the tensors of the result.
    fn tensors(&self) -> Vec<Tensor>;

    /// See [`Tree::store`].
    fn store(&self, words: &mut Vec<u64>) -> bool;

    /// See [`template`].
    fn template(&self) -> Box<dyn Any + Send + Sync>;
}

impl<T: Tree + Send + Sync + 'static> Template for T {
    fn tensors(&self) -> Vec<Tensor> {
        leaves(self)
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        Tree::store(self, words)
    }

    fn template(&self) -> Box<dyn Any + Send + Sync> {
        template(self)
    }
}

impl Call {
    /// Traces the body, compiles the graph, and runs it.
    #[track_caller]
    pub(super) fn compile<R: JitReturn>(&mut self, tracing: Tracing, body: impl FnOnce(Option<Rc<str>>) -> R) -> R {
        let Tracing { tracer, path, facts, shown, pure } = tracing;
        let start = Instant::now();
        let created = &self.function.created;
        let result = with_created(created, self.monomorph.id(), || run_traced(&tracer, || body(path)));
        let result = match result.map(R::split) {
            Some(Ok(tree)) => Some(tree),
            Some(Err(refused)) => return refused,
            None => None,
        };
        let version = self.version(&tracer, result.as_ref().map(|it| it as &dyn Template), &shown, pure, start);
        // The trace identifies arguments by their tensors, so nothing else may keep those of the result alive.
        drop((tracer, result));
        match version {
            // Parameters that the body created and dropped stay alive until the run is over.
            Ok((version, _held)) => {
                self.function.compilations.check(self, facts);
                let result = run(&version, &mut self.signature, self.donates);
                result.expect("its parameters are held").map_or_else(
                    |error| R::refuse(in_compiled(error, self.function.name, self.location, &self.signature)),
                    R::join,
                )
            }
            Err(error) => R::refuse(error.at(self.location).with_sizes(self.signature.symbols())),
        }
    }

    /// Builds the version of a traced result. Not generic, so that it is compiled once.
    fn version(
        &self,
        tracer: &Tracer,
        result: Option<&dyn Template>,
        shown: &[Parameter],
        pure: Option<PureSlot>,
        start: Instant,
    ) -> Result<(Arc<Version>, Vec<Parameter>)> {
        let results = result.map(Template::tensors).unwrap_or_default();
        let trace = self.traced(tracer, &results, start)?;
        let result = result.expect("a trace without errors has a result");
        let slots = Slots { inputs: slots_of(&trace.bindings).map(|it| it.0).collect(), results: results.len() };
        let (settings, site) = (self.settings, self.function.site());
        let bound: FxHashMap<u64, usize> = slots_of(&trace.bindings).map(|(at, it)| (it.id(), at)).collect();
        report::slots(trace.graph.outputs().len(), trace.writes.iter().map(|it| bound.get(&it.id()).copied()));
        let compiled = compile(&trace.graph, &slots, settings, site)?;
        let mut held = trace.writes.clone();
        let backward_slots = trace.backward_slots.map(|it| {
            held.extend(it.writes.iter().chain(&it.reads).cloned());
            let [writes, reads] = [&it.writes, &it.reads].map(|it| it.map_vec(Parameter::downgrade));
            let same = compiled.clone();
            let make = move || match &it.graph {
                Some(graph) => compile(graph, &slots, settings, site),
                None => Ok(same.clone()),
            };
            BackwardSlots::new(Box::new(make), writes, reads)
        });
        let input = |it| match it {
            Binding::Argument(at) => Source::Argument(at),
            Binding::Slot(parameter) => Source::Slot(parameter),
            Binding::Captured(tensor) => Source::Captured(tensor),
            Binding::Outer(_) => unreachable!("the outermost graph has nothing around it"),
        };
        let inputs: Vec<Source> = trace.bindings.into_iter().map(input).collect();
        held.extend(inputs.iter().filter_map(|it| match it {
            Source::Slot(parameter) => Some(parameter.clone()),
            _ => None,
        }));
        let mut words = Vec::new();
        let pure = pure.filter(|_| result.store(&mut words));
        let (results, writes) = (results.len(), trace.writes);
        let parts =
            Parts { compiled, backward_slots, inputs, results, writes, untraced: false, template: result.template() };
        if let Some(place) = pure {
            Self::keep(place, &parts, words);
        }
        let version = Version::new(&self.function.versions, &self.signature, shown, parts);
        self.insert(&version);
        Ok((version, held))
    }

    /// Finishes the trace, or returns all errors that were recorded.
    fn traced(&self, tracer: &Tracer, results: &[Tensor], start: Instant) -> Result<Trace> {
        if self.function.pure && !self.function.created.is_empty() {
            let message = format!("`{}` is pure, and makes parameters", self.function.name);
            let help = "make them outside and pass the cell as an argument, or remove `pure`";
            tracer.report(Error::new(Code::Created, message).at(self.location).help(help));
        }
        let trace = tracer.finish(results)?;
        report::traced(&trace.graph, start);
        Ok(trace)
    }

    pub(super) fn insert(&self, version: &Arc<Version>) {
        self.function.versions.insert(version.clone());
        functions::register(self.monomorph.path(), self.function);
    }
}

/// Returns the inputs that are values of slots.
fn slots_of(bindings: &[Binding]) -> impl Iterator<Item = (usize, &Parameter)> {
    bindings.iter().enumerate().filter_map(|(at, it)| match it {
        Binding::Slot(slot) => Some((at, slot)),
        Binding::Argument(_) | Binding::Captured(_) | Binding::Outer(_) => None,
    })
}

/// Compiles the graph of a function with these slots.
fn compile(graph: &Graph, slots: &Slots, settings: Settings, site: Site) -> Result<Arc<Compiled>> {
    let graph = report::graph_stage("effects", || insert_moves(graph, slots, settings.load_elim));
    let graph = match settings.share_graphs {
        true => graph,
        false => report::graph_stage("inline", || Cow::Owned(inline_all(&graph, false))),
    };
    Compiled::shared(graph.into_owned(), settings.precision, Some(site))
}
