//! Call sites of compiled functions: signatures, versions, tracing, running.

use super::compiled::{Compiled, configuration};
use super::context::{self, Mode, Precision};
use super::disk::{Place, Site};
use super::functions;
use super::pure::{Input, PureEntry, PurePlace};
use super::report;
use super::signature::{Signature, TypeKey};
use super::specialise::{self, Facts, Specialisation};
use super::variation::{MANY_VERSIONS, warning};
use crate::effects::{Slots, insert_moves};
use crate::error::{Code, Error, Result, catch, in_call, raise, warn};
use crate::ops;
use crate::optimize::inline_all;
use crate::tensor::{Created, DispatchMode, Parameter, Tensor, Type, dispatch_mode, with_created};
use crate::trace::{Arg, Binding, GraphCall, Marks, Pattern, Sink, Tracer, Tree, cell_path, leaves, run_traced};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// A compiled function: a `static` at its definition, which the macros emit.
pub struct JitFn {
    name: &'static str,
    file: &'static str,
    line: u32,
    source: u64,
    compiles: Compiles,
    /// Whether only arguments decide what is built.
    pure: bool,
    versions: RwLock<Option<Versions>>,
    /// Whether it was said that sizes keep changing.
    warned: AtomicBool,
    created: Created,
    specialisation: Mutex<Option<Specialisation>>,
}

/// Where a call is compiled that is not part of the trace of another function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compiles {
    Everywhere,
    /// In [`Mode::Graph`], as the `construct` of a cell.
    InGraphMode,
    /// Nowhere.
    Never,
}

/// Versions by the hash of their signature.
type Versions = FxHashMap<u64, SmallVec<[Arc<Version>; 1]>>;

/// A compiled function for one signature.
struct Version {
    signature: Box<[u64]>,
    /// The types of the tensors among the arguments.
    arguments: Box<[Type]>,
    compiled: Arc<Compiled>,
    inputs: Vec<Source>,
    writes: Vec<Parameter>,
    /// Those of them whose values matter, in the order of their identities, so that two runs never
    /// wait for each other.
    locks: Vec<Parameter>,
    /// Whether another process traced it, so that it has no derivatives.
    untraced: bool,
    /// The traced result, whose tensors are replaced by those of a run.
    template: Box<dyn Any + Send + Sync>,
    results: usize,
}

/// Where an input of a version comes from at a call.
enum Source {
    Argument(usize),
    Slot(Parameter),
    Captured(Tensor),
}

impl JitFn {
    /// A function that compiles wherever it is called. `source` is a hash of its text.
    pub const fn new(name: &'static str, file: &'static str, line: u32, source: u64) -> Self {
        Self::made(name, file, line, source, Compiles::Everywhere)
    }

    /// A function that compiles in [`Mode::Graph`] only.
    pub const fn cell(name: &'static str, file: &'static str, line: u32, source: u64) -> Self {
        Self::made(name, file, line, source, Compiles::InGraphMode)
    }

    /// A function that is compiled as a part of others only.
    pub const fn part(name: &'static str, file: &'static str, line: u32, source: u64) -> Self {
        Self::made(name, file, line, source, Compiles::Never)
    }

    const fn made(name: &'static str, file: &'static str, line: u32, source: u64, compiles: Compiles) -> Self {
        let versions = RwLock::new(None);
        let warned = AtomicBool::new(false);
        let created = Created::new();
        let specialisation = Mutex::new(None);
        Self { name, file, line, source, compiles, pure: false, versions, warned, created, specialisation }
    }

    /// The same function, of which the user says that only its arguments decide what is built.
    pub const fn pure(mut self) -> Self {
        self.pure = true;
        self
    }

    /// Whether only arguments decide what is built, so that the trace itself can be skipped.
    pub fn is_pure(&self) -> bool {
        self.pure
    }

    /// The name, for messages and reports.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where it is defined.
    pub fn site(&self) -> Site {
        Site { file: self.file, line: self.line, source: self.source }
    }

    /// Number of compiled versions.
    pub fn versions(&self) -> usize {
        let versions = self.versions.read().unwrap_or_else(PoisonError::into_inner);
        versions.as_ref().map_or(0, |it| it.values().map(SmallVec::len).sum())
    }

    /// Drops all compiled versions, so that host values are read anew.
    pub fn retrace(&self) {
        *self.versions.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Begins a call: `sign` shows all arguments to its sink.
    #[track_caller]
    #[inline]
    pub fn begin(&'static self, monomorph: TypeKey, sign: impl Fn(&mut dyn Sink)) -> Call {
        let location = Location::caller();
        let mode = dispatch_mode();
        let (precision, signature) = context::read(|it| {
            let compiles = match self.compiles {
                Compiles::Everywhere => it.jit,
                Compiles::InGraphMode => it.jit && it.mode == Mode::Graph,
                Compiles::Never => false,
            };
            // Between an eager clear and get every op's result is looked at.
            let compiles = compiles && mode != DispatchMode::Trace && !ops::is_float_status_watched();
            (it.precision, compiles.then(|| Signature::new(monomorph, it)))
        });
        let Some(mut signature) = signature else {
            let state = match Tracer::current() {
                Some(tracer) => State::Inline(cell_path(tracer.id(), sign)),
                None if mode == DispatchMode::Trace => State::Inline(None),
                None => State::Eager,
            };
            return Call {
                function: self,
                location,
                precision,
                monomorph,
                signature: Signature::default(),
                state,
                donates: false,
            };
        };
        sign(&mut signature);
        let refused = signature.refused();
        let state = match self.find(&signature) {
            _ if refused.is_some() => State::Refused(refused.map(|it| it.with_op(self.name).at(location))),
            Some(version) if !version.untraced || mode != DispatchMode::Tape => State::Ready(version),
            _ => {
                self.warn_of_variation(&signature, &sign);
                let tracer = Tracer::new(self.name);
                signature.tensors().iter().zip(signature.types()).for_each(|(it, ty)| tracer.argument(it, ty));
                let mut facts = Facts::default();
                sign(&mut facts);
                let path = cell_path(tracer.id(), &sign);
                let pure = match self.pure && mode != DispatchMode::Tape {
                    true => PurePlace::of(self.name, monomorph, self.site(), &configuration(precision), sign),
                    false => None,
                };
                let stored = pure.as_ref().and_then(|it| Stored::of(it, signature.tensors().len(), precision));
                State::Trace(Box::new(Tracing { tracer, path, facts, pure, stored }))
            }
        };
        Call { function: self, location, precision, monomorph, signature, state, donates: false }
    }

    /// Begins a call that becomes, in a trace, a call of a graph of its own, as calls of cells do.
    #[track_caller]
    #[inline]
    pub fn begin_graph(&'static self, monomorph: TypeKey, marks: Marks, sign: impl Fn(&mut dyn Sink)) -> Call {
        if dispatch_mode() != DispatchMode::Trace {
            return self.begin(monomorph, sign);
        }
        let Some(tracer) = Tracer::current() else { return self.begin(monomorph, sign) };
        let pattern = marks.lazy_inline.then(|| {
            let mut pattern = Pattern::new(&tracer, [std::ptr::from_ref(self) as u64, monomorph.bits()]);
            sign(&mut pattern);
            pattern
        });
        let path = cell_path(tracer.id(), sign);
        Call {
            function: self,
            location: Location::caller(),
            precision: context::read(|it| it.precision),
            monomorph,
            signature: Signature::default(),
            state: State::Graph(Box::new(GraphCall { tracer, pattern, no_inline: marks.no_inline }), path),
            donates: false,
        }
    }

    fn find(&self, signature: &Signature) -> Option<Arc<Version>> {
        let versions = self.versions.read().unwrap_or_else(PoisonError::into_inner);
        let bucket = versions.as_ref()?.get(&signature.hash())?;
        bucket.iter().find(|it| *it.signature == *signature.words()).cloned()
    }

    /// Says once which argument makes the function compile again and again.
    #[cold]
    fn warn_of_variation(&self, signature: &Signature, sign: impl Fn(&mut dyn Sink)) {
        let versions = self.versions.read().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<&[Type]> = versions.iter().flat_map(|it| it.values()).flatten().map(|it| &*it.arguments).collect();
        if all.len() < MANY_VERSIONS || self.warned.load(Ordering::Relaxed) {
            return;
        }
        if let Some(warning) = warning(self.name, &all, signature, sign)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            warn(warning.at_line(&format!("{}:{}", self.file, self.line)));
        }
    }

    fn insert(&self, signature: &Signature, version: Arc<Version>) {
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        let bucket = versions.get_or_insert_default().entry(signature.hash()).or_default();
        // One that was not traced may have been here until a derivative was asked for.
        bucket.retain(|it| *it.signature != *signature.words());
        bucket.push(version);
    }
}

/// A call of a compiled function between its begin and its result.
pub struct Call {
    function: &'static JitFn,
    location: &'static Location<'static>,
    precision: Precision,
    monomorph: TypeKey,
    signature: Signature,
    state: State,
    /// Whether arguments are given up.
    donates: bool,
}

enum State {
    /// The body runs as plain Rust with eager ops.
    Eager,
    /// The body runs inside the trace of its caller, as the call of the cell at this path.
    Inline(Option<Rc<str>>),
    /// The body is a graph of its own in the trace of its caller; a cell is at this path.
    Graph(Box<GraphCall>, Option<Rc<str>>),
    /// A version exists.
    Ready(Arc<Version>),
    /// The body is traced.
    Trace(Box<Tracing>),
    /// The arguments do not fit what is declared of them; given out once.
    Refused(Option<Error>),
}

/// A trace under way.
struct Tracing {
    tracer: Rc<Tracer>,
    /// The path of the cell that is called.
    path: Option<Rc<str>>,
    facts: Facts,
    /// Where the cache has what is traced.
    pure: Option<PurePlace>,
    /// What it has there.
    stored: Option<Stored>,
}

/// What another process traced.
struct Stored {
    entry: PureEntry,
    compiled: Arc<Compiled>,
}

impl Stored {
    fn of(place: &PurePlace, tensors: usize, precision: Precision) -> Option<Self> {
        // Who wants results to be verified wants them traced.
        if Place::verifies() {
            return None;
        }
        let entry = place.get(tensors)?;
        let at = Place::with_key(place.disk.clone(), entry.compiled()?);
        let outputs = entry.results.checked_add(entry.writes.len())?;
        let compiled = Compiled::stored(at, precision, entry.inputs.len(), outputs)?;
        Some(Self { entry, compiled })
    }
}

/// An argument as the body sees it.
pub enum Entered<'a, T: ?Sized> {
    /// The caller's own value.
    Given(&'a T),
    /// A copy with traced tensors.
    Traced(Box<T>),
}

impl<T: ?Sized> Deref for Entered<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Given(it) => it,
            Self::Traced(it) => it,
        }
    }
}

/// What a compiled function can give: a [`Tree`], or a `Result` of one.
#[diagnostic::on_unimplemented(
    message = "a compiled function cannot give `{Self}`",
    label = "not a structure of tensors",
    note = "MS051: results are tensors, host values, structures of them that derive `Tree`, or a `Result` of one whose error \
            is `From<ms::Error>`"
)]
pub trait JitReturn: Sized {
    /// The structure of tensors inside.
    type Tree: Tree + Send + Sync + 'static;

    /// The structure, or the whole value where there is none (an error of the user's).
    ///
    /// # Errors
    /// The value itself.
    fn split(self) -> Result<Self::Tree, Self>;

    /// The value of a structure.
    fn join(tree: Self::Tree) -> Self;

    /// The value of a refusal, or a panic with its text.
    #[track_caller]
    fn refuse(error: Error) -> Self;

    /// The value of a body that runs eagerly, whose refusals become values as well.
    fn run(body: impl FnOnce() -> Self) -> Self {
        body()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Tree + Send + Sync + 'static> JitReturn for T {
    type Tree = T;

    fn split(self) -> Result<T, Self> {
        Ok(self)
    }

    fn join(tree: T) -> Self {
        tree
    }

    #[track_caller]
    fn refuse(error: Error) -> Self {
        raise(error)
    }
}

impl<T: Tree + Send + Sync + 'static, E: From<Error>> JitReturn for Result<T, E> {
    type Tree = T;

    fn split(self) -> Result<T, Self> {
        self.map_err(Err)
    }

    fn join(tree: T) -> Self {
        Ok(tree)
    }

    fn refuse(error: Error) -> Self {
        Err(error.into())
    }

    fn run(body: impl FnOnce() -> Self) -> Self {
        catch(body).unwrap_or_else(Self::refuse)
    }
}

impl Call {
    /// The result of a version that exists already.
    #[track_caller]
    pub fn cached<R: JitReturn>(&mut self) -> Option<R> {
        match &mut self.state {
            State::Refused(error) => return error.take().map(R::refuse),
            State::Ready(_) | State::Graph(..) => {}
            State::Trace(tracing) => {
                let (stored, place) = (tracing.stored.take()?, tracing.pure.as_ref()?);
                let parameters = place.parameters.clone();
                let version = self.restore::<R>(stored, &parameters)?;
                return Some(self.run(&version).unwrap_or_else(|error| R::refuse(error)));
            }
            _ => return None,
        }
        match &self.state {
            State::Ready(version) => Some(self.run(version).unwrap_or_else(|error| R::refuse(error))),
            State::Graph(graph, _) => graph.known(self.location).map(R::join),
            _ => None,
        }
    }

    /// As [`Call::cached`], with arguments that are given up: results may take their memory. They
    /// stay where the body has to run.
    #[track_caller]
    pub fn donating<R: JitReturn>(&mut self, arguments: &mut Option<impl Sized>) -> Option<R> {
        self.donates = true;
        let State::Ready(version) = &self.state else { return self.cached() };
        let version = version.clone();
        *arguments = None;
        Some(self.run_donating(&version).unwrap_or_else(|error| R::refuse(error)))
    }

    /// A given up argument as the body has to see it.
    #[track_caller]
    pub fn take<T: Tree>(&mut self, argument: T) -> T {
        let entered = match self.enter(&argument) {
            Entered::Given(_) => None,
            Entered::Traced(traced) => Some(*traced),
        };
        entered.unwrap_or(argument)
    }

    /// The tracer that the body runs in, where it is traced.
    pub(super) fn tracer(&self) -> Option<Rc<Tracer>> {
        match &self.state {
            State::Trace(tracing) => Some(tracing.tracer.clone()),
            _ => None,
        }
    }

    /// The version that another process traced, if its result can be made again.
    fn restore<R: JitReturn>(&self, stored: Stored, parameters: &[Parameter]) -> Option<Arc<Version>> {
        let Stored { entry, compiled } = stored;
        let slot = |at: &usize| parameters[*at].clone();
        let (mut words, mut left) = (entry.template.iter().copied(), entry.results);
        let mut next = || {
            left = left.checked_sub(1)?;
            Some(Tensor::scalar(0.0))
        };
        let template = R::Tree::restore(&mut words, &mut next)?;
        if left > 0 || words.next().is_some() {
            return None;
        }
        let input = |it: &Input| match it {
            Input::Argument(at) => Source::Argument(*at),
            Input::Slot(at) => Source::Slot(slot(at)),
        };
        let writes: Vec<Parameter> = entry.writes.iter().map(slot).collect();
        let version = Arc::new(Version {
            locks: locks(&writes),
            signature: self.signature.words().into(),
            arguments: self.signature.types().into(),
            inputs: entry.inputs.iter().map(input).collect(),
            compiled,
            writes,
            untraced: true,
            template: Box::new(template),
            results: entry.results,
        });
        self.function.insert(&self.signature, version.clone());
        functions::register(self.monomorph.path(), self.function);
        Some(version)
    }

    /// Keeps a version of a pure function for later processes, where only its arguments and their
    /// parameters occur in it.
    fn keep(place: PurePlace, version: &Version, words: Vec<u64>) {
        let input = |it: &Source| match it {
            Source::Argument(at) => Some(Input::Argument(*at)),
            Source::Slot(parameter) => place.position(parameter).map(Input::Slot),
            Source::Captured(_) => None,
        };
        let inputs: Option<Vec<Input>> = version.inputs.iter().map(input).collect();
        let writes: Option<Vec<usize>> = version.writes.iter().map(|it| place.position(it)).collect();
        let (Some(inputs), Some(writes), Some(key)) = (inputs, writes, version.compiled.key()) else { return };
        let compiled = key.as_bytes().to_vec();
        if Place::verifies() && place.get(usize::MAX).is_some_and(|it| it.compiled != compiled) {
            let message = "a function is declared pure and is now traced to another graph than before";
            warn(Error::new(Code::Cache, message).help("remove `pure`, or pass what it reads as an argument"));
        }
        place.put(PureEntry { compiled, inputs, writes, results: version.results, template: words });
    }

    /// An argument as the body has to see it.
    #[track_caller]
    pub fn enter<'a, T: Arg + ?Sized>(&mut self, arg: &'a T) -> Entered<'a, T> {
        let State::Trace(tracing) = &self.state else { return Entered::Given(arg) };
        let mut next = |it: &Tensor| match tracing.tracer.value(it) {
            Ok(value) => value,
            Err(error) => raise(error),
        };
        arg.enter(&mut next).map_or(Entered::Given(arg), Entered::Traced)
    }

    /// The result of running `body`: traced and compiled, or as it stands.
    #[track_caller]
    pub fn finish<R: JitReturn>(mut self, body: impl FnOnce() -> R) -> R {
        let (name, location) = (self.function.name, self.location);
        let body = |path| in_call(name, path, location, body);
        let created = &self.function.created;
        let Tracing { tracer, path, facts, pure, .. } = match std::mem::replace(&mut self.state, State::Eager) {
            State::Inline(path) => return body(path),
            State::Graph(graph, path) => {
                return graph.trace(name, location, || body(path).split()).map_or_else(|refused| refused, R::join);
            }
            State::Eager => return with_created(created, self.monomorph.bits(), || R::run(|| body(None))),
            State::Ready(version) => return self.run(&version).unwrap_or_else(|error| R::refuse(error)),
            State::Trace(tracing) => *tracing,
            State::Refused(_) => unreachable!("a refused call ends before its body"),
        };
        let start = Instant::now();
        let result = with_created(created, self.monomorph.bits(), || run_traced(&tracer, || body(path)));
        let template = match result.map(R::split) {
            Some(Ok(tree)) => Some(tree),
            Some(Err(refused)) => return refused,
            None => None,
        };
        match self.compile::<R>(&tracer, facts, pure, template, start) {
            Ok(version) => {
                let result = if self.donates {
                    // The trace knows arguments by their tensors.
                    drop(tracer);
                    self.run_donating(&version)
                } else {
                    self.run(&version)
                };
                result.unwrap_or_else(|error| R::refuse(error.at(location)))
            }
            Err(error) => R::refuse(error.at(location)),
        }
    }

    fn compile<R: JitReturn>(
        &self,
        tracer: &Tracer,
        facts: Facts,
        pure: Option<PurePlace>,
        template: Option<R::Tree>,
        start: Instant,
    ) -> Result<Arc<Version>> {
        if self.function.pure && !self.function.created.is_empty() {
            let message = format!("`{}` is pure, and makes parameters", self.function.name);
            let help = "make them outside and pass the cell as an argument, or remove `pure`";
            tracer.report(Error::new(Code::Created, message).at(self.location).help(help));
        }
        let results = template.as_ref().map(leaves).unwrap_or_default();
        let trace = tracer.finish(&results)?;
        report::traced(&trace.graph, start);
        let template = template.expect("a trace without errors has a result");
        let is_slot = |at: &usize| matches!(trace.bindings[*at], Binding::Slot(_));
        let slots = Slots { inputs: (0..trace.bindings.len()).filter(is_slot).collect(), results: results.len() };
        let (level, share) = context::read(|it| (it.load_elim, it.share_graphs));
        let graph = report::graph_stage("effects", || insert_moves(&trace.graph, &slots, level));
        let graph = if share { graph } else { report::graph_stage("inline", || Cow::Owned(inline_all(&graph, false))) };
        let inputs = trace.bindings.into_iter().map(|it| match it {
            Binding::Argument(at) => Source::Argument(at),
            Binding::Slot(parameter) => Source::Slot(parameter),
            Binding::Captured(tensor) => Source::Captured(tensor),
            Binding::Outer(_) => unreachable!("the outermost graph has nothing around it"),
        });
        let mut words = Vec::new();
        let pure = pure.filter(|_| template.store(&mut words));
        let version = Arc::new(Version {
            locks: locks(&trace.writes),
            signature: self.signature.words().into(),
            arguments: self.signature.types().into(),
            inputs: inputs.collect(),
            compiled: Compiled::shared(graph.into_owned(), self.precision, Some(self.function.site()))?,
            writes: trace.writes,
            untraced: false,
            template: Box::new(template),
            results: results.len(),
        });
        if let Some(place) = pure {
            Self::keep(place, &version, words);
        }
        self.function.insert(&self.signature, version.clone());
        functions::register(self.monomorph.path(), self.function);
        let mut known = self.function.specialisation.lock().unwrap_or_else(PoisonError::into_inner);
        let (monomorph, count) = (self.monomorph.bits(), self.function.versions());
        specialise::check(self.function, &mut known, monomorph, count, facts, self.location);
        drop(known);
        Ok(version)
    }

    #[track_caller]
    fn run<R: JitReturn>(&self, version: &Version) -> Result<R> {
        let _alone = version.lock();
        let inputs = version.gather(self.signature.tensors());
        let outputs = version.compiled.call(&inputs)?;
        drop(inputs);
        version.result(&outputs)
    }

    /// As [`Call::run`], where the signature has the last handles of arguments that are given up.
    #[track_caller]
    fn run_donating<R: JitReturn>(&mut self, version: &Version) -> Result<R> {
        let _alone = version.lock();
        let tensors = self.signature.take_tensors();
        let inputs = version.gather(&tensors);
        drop(tensors);
        version.result(&version.compiled.call_owned(inputs.into_vec())?)
    }
}

impl Version {
    /// Locks what it writes: from its first read of a slot to its last write, a run is alone with it.
    #[inline]
    fn lock(&self) -> SmallVec<[impl Sized + '_; 4]> {
        self.locks.iter().map(Parameter::lock).collect()
    }

    /// The inputs of a run.
    #[inline]
    fn gather(&self, arguments: &[Tensor]) -> SmallVec<[Tensor; 8]> {
        let mut inputs = SmallVec::with_capacity(self.inputs.len());
        for source in &self.inputs {
            inputs.push(match source {
                Source::Argument(at) => arguments[*at].clone(),
                Source::Slot(parameter) => parameter.value(),
                Source::Captured(tensor) => tensor.clone(),
            });
        }
        inputs
    }

    /// Writes the slots, and gives the result.
    #[inline]
    fn result<R: JitReturn>(&self, outputs: &[Tensor]) -> Result<R> {
        let (results, written) = outputs.split_at(self.results);
        for (parameter, value) in self.writes.iter().zip(written) {
            parameter.try_set(value)?;
        }
        let template = self.template.downcast_ref::<R::Tree>().expect("the signature holds the result's type");
        let mut next = results.iter();
        Ok(R::join(template.rebuild(&mut |_| next.next().expect("as many results as the template has").clone())))
    }
}

/// See [`Version::locks`].
fn locks(writes: &[Parameter]) -> Vec<Parameter> {
    let mut locks: Vec<Parameter> = writes.iter().filter(|it| *it != ops::order()).cloned().collect();
    locks.sort_by_key(Parameter::id);
    locks
}
