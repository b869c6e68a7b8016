//! Implements call sites of compiled functions: from the signature of a call to its result.

mod backward_slots;
pub(super) mod closure;
mod compile;
pub(super) mod compiled;
mod exported;
pub(super) mod functions;
mod hooked;
mod in_place_run;
mod interner;
pub(super) mod jit;
mod lent;
mod observe;
pub(super) mod recompilation;
mod restore;
pub(super) mod source;
pub(super) mod symbolic;
mod varying_sizes;
mod version;
mod versions;

pub use compiled::{Compiled, Derivative};
pub use exported::{Exported, export};
pub use functions::retrace;
pub use jit::{Jit, captures_nothing, jit};
pub use lent::ReplaceTensors;
pub use ms_trace::trace::InputSpec;
pub use ms_trace::trace::{Entered, JitReturn};
pub use observe::{CallObserver, observe_calls};

use super::cache::entry::Site;
use super::cache::pure::PureSlot;
use super::context::{self, Mode, Settings};
use compile::Tracing;
use hooked::{Hooked, check_unhooked};
use lent::Lent;
use ms_ir::error::{Error, Result, in_call, raise};
use ms_ops::ops;
use ms_ops::tensor::{Created, DispatchMode, dispatch_mode, with_created};
use ms_trace::trace::{
    Arg, GraphCall, Marks, Pattern, Pooled, Signature, Sink, Tracer, Tree, TypeKey, cell_path, generation, leaves,
};
use observe::Observed;
use recompilation::Compilations;
use restore::Stored;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use version::Version;
use versions::Versions;

/// A compiled function: a `static` at its definition that the macros emit.
pub struct JitFn {
    name: &'static str,
    file: &'static str,
    line: u32,
    source: u64,
    compiles: Compiles,
    /// Whether the arguments alone determine the graph.
    pure: bool,
    versions: Versions,
    created: Created,
    compilations: Compilations,
}

/// The condition under which a call is compiled outside of other functions' traces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compiles {
    Everywhere,
    /// In [`Mode::Graph`], like the `construct` of a cell.
    InGraphMode,
    /// Never.
    Never,
}

/// Visits all arguments of a call.
type Sign<'a> = &'a dyn Fn(&mut Sink<'_>);

impl JitFn {
    /// Creates a function that compiles wherever it is called. `source` is a hash of its text.
    pub const fn new(name: &'static str, file: &'static str, line: u32, source: u64) -> Self {
        Self::made(name, file, line, source, Compiles::Everywhere)
    }

    /// Creates a function that compiles in [`Mode::Graph`] only.
    pub const fn cell(name: &'static str, file: &'static str, line: u32, source: u64) -> Self {
        Self::made(name, file, line, source, Compiles::InGraphMode)
    }

    /// Creates a function that is compiled only as a part of others.
    pub const fn part(name: &'static str, file: &'static str, line: u32, source: u64) -> Self {
        Self::made(name, file, line, source, Compiles::Never)
    }

    const fn made(name: &'static str, file: &'static str, line: u32, source: u64, compiles: Compiles) -> Self {
        let versions = Versions::new();
        let created = Created::new();
        let compilations = Compilations::new();
        Self { name, file, line, source, compiles, pure: false, versions, created, compilations }
    }

    /// Marks the function as pure: its user promises that the arguments alone determine the graph.
    pub const fn pure(mut self) -> Self {
        self.pure = true;
        self
    }

    /// Returns whether the arguments alone determine the graph, so that the trace itself can be skipped.
    pub fn is_pure(&self) -> bool {
        self.pure
    }

    /// Returns the name, for messages and reports.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether this is the user's function with an attribute, which may have options, rather than a closure or
    /// a function of the library.
    pub fn is_annotated(&self) -> bool {
        self.source != 0
    }

    /// Returns the definition site.
    pub fn site(&self) -> Site {
        Site { file: self.file, line: self.line, source: self.source }
    }

    /// Returns the number of compiled versions.
    pub fn versions(&self) -> usize {
        self.versions.len()
    }

    /// Drops all compiled versions, so that host values are read again.
    pub fn retrace(&self) {
        self.versions.clear();
    }

    /// Begins a call. `sign` visits all arguments.
    #[track_caller]
    #[inline]
    pub fn begin(&'static self, monomorph: TypeKey, sign: impl Fn(&mut Sink<'_>)) -> Call {
        let mut call = self.call(monomorph, Location::caller());
        if call.is_signed() {
            sign(&mut Sink::signing(&mut call.signature));
            if call.find() {
                return call;
            }
        }
        call.prepare(&sign);
        call
    }

    /// Begins a call that a trace records as a call of a separate graph, like calls of cells.
    #[track_caller]
    #[inline]
    pub fn begin_graph(&'static self, monomorph: TypeKey, marks: Marks, sign: impl Fn(&mut Sink<'_>)) -> Call {
        match Tracer::current() {
            Some(tracer) => self.begin_in_trace(tracer, monomorph, marks, Location::caller(), &sign),
            None => self.begin(monomorph, sign),
        }
    }

    fn begin_in_trace(
        &'static self,
        tracer: Rc<Tracer>,
        monomorph: TypeKey,
        marks: Marks,
        location: &'static Location<'static>,
        sign: Sign<'_>,
    ) -> Call {
        if let Err(error) = check_unhooked(self.name, sign) {
            raise(error.at(location));
        }
        let pattern = marks.lazy_inline.then(|| {
            let mut pattern = Pattern::new(&tracer, [std::ptr::from_ref(self) as u64, monomorph.number()]);
            sign(&mut Sink::new(&mut pattern));
            pattern
        });
        let path = cell_path(tracer.id(), sign);
        let state = State::Graph(Box::new(GraphCall::new(tracer, pattern, marks.no_inline, sign)), path);
        Call {
            function: self,
            location,
            settings: context::settings(),
            mode: DispatchMode::Trace,
            monomorph,
            signature: Pooled::empty(),
            state,
            donates: false,
        }
    }

    /// Creates a call. Its signature is computed later, if needed.
    fn call(&'static self, monomorph: TypeKey, location: &'static Location<'static>) -> Call {
        let (mode, settings) = (dispatch_mode(), context::settings());
        let compiles = match self.compiles {
            Compiles::Everywhere => settings.jit,
            Compiles::InGraphMode => settings.jit && settings.mode == Mode::Graph,
            Compiles::Never => false,
        };
        // Between an eager clear and get of the float status, every op's result is checked.
        let compiles = compiles && mode != DispatchMode::Trace && !ops::is_float_status_monitored();
        let mut signature = Pooled::empty();
        let state = match compiles {
            true => {
                signature.ty(monomorph);
                signature.fixed(settings.key() ^ generation() << 32);
                State::Unknown
            }
            false => State::Eager,
        };
        Call { function: self, location, settings, mode, monomorph, signature, state, donates: false }
    }
}

/// A call of a compiled function from its begin to its result.
pub struct Call {
    function: &'static JitFn,
    location: &'static Location<'static>,
    settings: Settings,
    mode: DispatchMode,
    monomorph: TypeKey,
    signature: Pooled,
    state: State,
    /// Whether arguments are donated.
    donates: bool,
}

enum State {
    /// The signature is not complete, or no version was looked up.
    Unknown,
    /// The body runs as plain Rust with eager ops.
    Eager,
    /// The body runs eagerly, and an observer or hooks follow the call.
    Seen(Box<(Option<Observed>, Option<Hooked>)>),
    /// The body runs inside the trace of its caller, as the call of the cell at this path.
    Inline(Option<Rc<str>>),
    /// The body is a separate graph in the trace of its caller; a cell has this path.
    Graph(Box<GraphCall>, Option<Rc<str>>),
    /// A version exists.
    Ready(Arc<Version>),
    /// The cache has the trace of another process. It is taken once.
    Stored(Option<Box<(PureSlot, Stored)>>),
    /// The body is traced.
    Trace(Box<Tracing>),
    /// The arguments do not match their declaration. The error is returned once.
    Refused(Option<Error>),
}

impl Call {
    #[inline]
    fn is_signed(&self) -> bool {
        matches!(self.state, State::Unknown)
    }

    /// Looks up the version of the signature, and returns whether that completes the preparation.
    fn find(&mut self) -> bool {
        if self.is_refused() {
            return true;
        }
        match self.function.versions.find(&self.signature) {
            Some(version) if !version.untraced || self.mode != DispatchMode::Tape => {
                self.state = State::Ready(version);
                true
            }
            _ => false,
        }
    }

    /// Returns whether the arguments that the signature has violate their declaration. The call then ends with the
    /// error.
    fn is_refused(&mut self) -> bool {
        let Some(error) = self.signature.refused() else { return false };
        self.state = State::Refused(Some(error.with_op(self.function.name).at(self.location)));
        true
    }

    /// Prepares a call for which there is no version.
    #[cold]
    fn prepare(&mut self, sign: Sign<'_>) {
        // Cells that run eagerly by default have no signature.
        if matches!(self.state, State::Eager)
            && self.mode != DispatchMode::Trace
            && self.function.compiles == Compiles::Everywhere
        {
            sign(&mut Sink::signing(&mut self.signature));
            if self.is_refused() {
                return;
            }
            // The body may drop its arguments, which frees them.
            self.signature = Pooled::empty();
        }
        self.state = match self.state {
            State::Unknown => self.trace(sign),
            _ if self.mode == DispatchMode::Trace => {
                State::Inline(Tracer::current().and_then(|it| cell_path(it.id(), sign)))
            }
            _ => match (Observed::of(sign), Hooked::of(sign)) {
                (None, None) => State::Eager,
                seen => State::Seen(Box::new(seen)),
            },
        };
    }

    /// Returns the stored trace of another process, or begins the trace of the body.
    fn trace(&self, sign: Sign<'_>) -> State {
        if let Err(error) = check_unhooked(self.function.name, sign) {
            return State::Refused(Some(error.at(self.location)));
        }
        self.function.compilations.check_sizes(self, sign);
        // Traces of other processes may depend on different hooks.
        let place = if generation() == 0 { self.place(sign) } else { None };
        match place.as_ref().and_then(|it| self.stored(it)) {
            Some(stored) => State::Stored(place.map(|it| Box::new((it, stored)))),
            None => State::Trace(Box::new(Tracing::new(self, place).note(sign))),
        }
    }

    /// Returns the result of an existing version.
    #[track_caller]
    pub fn cached<R: JitReturn>(&mut self) -> Option<R> {
        let result = match &mut self.state {
            State::Ready(version) => match run(version, &mut self.signature, self.donates) {
                Some(result) => result,
                None => return self.retrace(),
            },
            State::Graph(graph, _) => return graph.known(self.location).map(R::join),
            State::Stored(found) => {
                let (place, stored) = *found.take()?;
                let Some(version) = self.restore::<R>(&place, stored) else {
                    self.state = State::Trace(Box::new(Tracing::new(self, Some(place))));
                    return None;
                };
                match run(&version, &mut self.signature, self.donates) {
                    Some(result) => result,
                    None => return self.retrace(),
                }
            }
            State::Refused(error) => return error.take().map(R::refuse),
            State::Unknown | State::Eager | State::Seen(_) | State::Inline(_) | State::Trace(_) => return None,
        };
        let (name, location) = (self.function.name, self.location);
        Some(result.map_or_else(|error| R::refuse(in_compiled(error, name, location, &self.signature)), R::join))
    }

    /// Returns a result like [`Call::cached`], with donated arguments: results may reuse their memory. The arguments
    /// stay in place if the body has to run.
    #[track_caller]
    pub fn donating<R: JitReturn>(&mut self, arguments: &mut Option<impl Sized>) -> Option<R> {
        self.donates = true;
        let mut held = None;
        if let State::Ready(version) = &self.state {
            // Nothing else may keep a parameter alive.
            held = version.hold();
            if held.is_none() {
                return self.retrace();
            }
            *arguments = None;
        }
        let result = self.cached();
        drop(held);
        result
    }

    /// Returns a result like [`Call::cached`]. Results overwrite the tensors of the `&mut` arguments `places` and of
    /// donated arguments. If the run fails, the `&mut` arguments get their tensors back. If it succeeds, the caller
    /// writes them.
    #[track_caller]
    pub fn lending<R: JitReturn>(
        &mut self,
        places: &mut [ReplaceTensors<'_>],
        arguments: &mut Option<impl Sized>,
    ) -> Option<R> {
        let version = match &self.state {
            State::Ready(version) if self.mode == DispatchMode::Eager && version.takes_lent() => version,
            _ if arguments.is_some() => return self.donating(arguments),
            _ => return self.cached(),
        };
        let Some(held) = version.hold() else { return self.retrace() };
        *arguments = None;
        let tensors = self.signature.take_tensors();
        let mut lent = Lent::take(places, &tensors);
        let result = version.run_donating(tensors, Some(&mut lent.tensors)).expect("its parameters are held");
        drop((lent, held));
        let (name, location) = (self.function.name, self.location);
        Some(result.map_or_else(|error| R::refuse(in_compiled(error, name, location, &self.signature)), R::join))
    }

    /// Traces the body again if the version that was found cannot run: a parameter is dropped, or the arguments are on
    /// another device.
    #[cold]
    fn retrace<R>(&mut self) -> Option<R> {
        self.state = State::Trace(Box::new(Tracing::new(self, None)));
        None
    }

    /// Returns a donated argument for the body.
    #[track_caller]
    pub fn take<T: Tree>(&mut self, argument: T) -> T {
        let entered = match self.enter(&argument) {
            Entered::Given(_) => None,
            Entered::Traced(traced) => Some(*traced),
        };
        entered.unwrap_or(argument)
    }

    /// Returns the tracer of the body, if it is traced.
    pub(super) fn tracer(&self) -> Option<Rc<Tracer>> {
        match &self.state {
            State::Trace(tracing) => Some(tracing.tracer.clone()),
            _ => None,
        }
    }

    /// Returns an argument for the body.
    #[track_caller]
    pub fn enter<'a, T: Arg + ?Sized>(&mut self, arg: &'a T) -> Entered<'a, T> {
        let entered = match &mut self.state {
            State::Trace(tracing) => arg.enter(&mut |it| match tracing.tracer.value(it) {
                Ok(value) => value,
                Err(error) => raise(error),
            }),
            State::Seen(seen) => seen.1.as_mut().and_then(|it| it.enter(arg)),
            _ => None,
        };
        entered.map_or(Entered::Given(arg), Entered::Traced)
    }

    /// Returns the result of `body`: traced and compiled, or run eagerly.
    #[track_caller]
    pub fn finish<R: JitReturn>(mut self, body: impl FnOnce() -> R) -> R {
        let (name, location) = (self.function.name, self.location);
        let body = |path| in_call(name, path, location, body);
        let created = &self.function.created;
        match std::mem::replace(&mut self.state, State::Eager) {
            State::Inline(path) => body(path),
            State::Graph(graph, path) => {
                graph.trace(name, location, || body(path).split()).map_or_else(|refused| refused, R::join)
            }
            State::Eager => with_created(created, self.monomorph.id(), || R::run(|| body(None))),
            State::Seen(seen) => {
                let (observed, hooked) = *seen;
                hooked.iter().for_each(Hooked::check_entered);
                let path = observed.as_ref().map(|it| it.path.clone());
                observed.iter().for_each(Observed::begins);
                let run = || match (body(path).split(), &hooked) {
                    (Ok(tree), Some(hooked)) => R::join(hooked.leave(tree)),
                    (result, _) => result.map_or_else(|refused| refused, R::join),
                };
                let result = with_created(created, self.monomorph.id(), || R::run(run)).split();
                if let (Some(observed), Ok(tree)) = (&observed, &result) {
                    observed.ends(&leaves(tree));
                }
                result.map_or_else(|refused| refused, R::join)
            }
            State::Ready(version) => match run(&version, &mut self.signature, self.donates) {
                Some(result) => {
                    result.map_or_else(|error| R::refuse(in_compiled(error, name, location, &self.signature)), R::join)
                }
                None => self.compile(Tracing::new(&self, None), body),
            },
            State::Trace(tracing) => self.compile(*tracing, body),
            State::Unknown | State::Stored(_) | State::Refused(_) => {
                unreachable!("such a call ends before its body")
            }
        }
    }
}

/// Runs a version; returns `None` if a parameter of it is dropped. Donated arguments have already moved to the
/// signature.
#[track_caller]
fn run<T: Tree + 'static>(version: &Version, signature: &mut Signature, donates: bool) -> Option<Result<T>> {
    match donates {
        true => version.run_donating(signature.take_tensors(), None),
        false => version.run(signature.tensors()),
    }
}

/// Adds a source location to the error of a compiled function's run: that in the function, if it is known, or that of
/// the call.
#[cold]
fn in_compiled(error: Error, name: &str, location: &'static Location<'static>, signature: &Signature) -> Error {
    error.at(location).within(format!("`{name}` at {location}")).with_sizes(signature.symbols())
}
