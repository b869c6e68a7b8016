//! Warns about functions that are recompiled repeatedly, and names the cause.

use super::varying_sizes::{self, MANY_VERSIONS};
use super::{Call, JitFn, Sign};
use ms_ir::error::{Code, Error, warn};
use ms_ops::tensor::{Parameter, Tensor, Type};
use ms_trace::trace::{Name, Visitor};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::any::TypeId;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// The number of versions of one function that triggers a warning.
const MANY: usize = 8;

/// The facts for which one version was compiled: every part of its arguments, with its path.
#[derive(Default)]
pub(in crate::session) struct Facts {
    path: Vec<String>,
    facts: Vec<Fact>,
}

struct Fact {
    path: String,
    kind: Kind,
    /// A tensor's type, or a hash of a host value.
    value: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Tensor,
    Parameter,
    Float,
    Host,
}

impl Facts {
    fn push(&mut self, kind: Kind, value: impl ToString) {
        let mut path = String::new();
        for part in &self.path {
            if !path.is_empty() && !part.starts_with('[') {
                path.push('.');
            }
            path.push_str(part);
        }
        match self.facts.last_mut() {
            // A host value that spans several words is one fact.
            Some(last) if last.path == path && kind == Kind::Host => {
                let _ = write!(last.value, " {}", value.to_string());
            }
            _ => self.facts.push(Fact { path, kind, value: value.to_string() }),
        }
    }

    /// Returns the facts in which two versions differ, with the values of the later and the earlier version. Excludes
    /// sizes, which [`super::varying_sizes`] handles.
    fn differences<'a>(&'a self, earlier: &'a Self) -> Vec<(&'a Fact, &'a Fact)> {
        let mut places: FxHashMap<(&str, Kind), &Fact> = FxHashMap::default();
        for it in &earlier.facts {
            places.entry((&it.path, it.kind)).or_insert(it);
        }
        let pairs = self.facts.iter().filter_map(|fact| Some((fact, *places.get(&(&*fact.path, fact.kind))?)));
        pairs.filter(|(fact, other)| fact.value != other.value).collect()
    }
}

impl Visitor for Facts {
    fn tensor(&mut self, tensor: &Tensor) {
        let ty = tensor.ty();
        self.push(Kind::Tensor, format_args!("{} of rank {}", ty.dtype, ty.rank()));
    }

    fn parameter(&mut self, parameter: &Parameter) {
        self.push(Kind::Parameter, parameter.id());
    }

    fn fixed(&mut self, bits: u64) {
        self.push(Kind::Host, bits);
    }

    fn float(&mut self, bits: u64) {
        self.push(Kind::Float, bits);
    }

    fn argument(&mut self, name: &'static str) {
        self.path.clear();
        self.path.push(name.to_owned());
    }

    fn begin(&mut self, name: Name<'_>) {
        self.path.push(name.to_string());
    }

    fn end(&mut self) {
        self.path.pop();
    }
}

/// The compilation history of a function, for warnings, by its type arguments. For a library function, the caller's
/// source location is part of the key.
pub(super) struct Compilations(Mutex<FxHashMap<Caller, Compiled>>);

type Caller = (TypeId, Option<&'static Location<'static>>);

#[derive(Default)]
struct Compiled {
    count: usize,
    /// The facts of the last version.
    last: Facts,
    /// The paths that warnings have named.
    warned: Vec<String>,
    /// Whether the warning about varying sizes was printed.
    sizes: bool,
}

impl Compilations {
    pub const fn new() -> Self {
        Self(Mutex::new(FxHashMap::with_hasher(FxBuildHasher)))
    }

    fn of<R>(&self, call: &Call, f: impl FnOnce(&mut Compiled) -> R) -> R {
        let line = (!call.function.is_annotated()).then_some(call.location);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f(known.entry((call.monomorph.id(), line)).or_default())
    }

    /// Warns once about the argument whose sizes cause repeated recompilation. `sign` visits the arguments of `call`,
    /// which has no version.
    pub fn check_sizes(&self, call: &Call, sign: Sign<'_>) {
        let Call { function, monomorph, location, .. } = *call;
        if function.versions() < MANY_VERSIONS || self.of(call, |it| it.sizes) {
            return;
        }
        let described = (function.name(), function.is_annotated());
        let arguments = |all: &[&[Type]]| varying_sizes::warning(described, all, &call.signature, sign);
        let Some(warning) = function.versions.arguments(monomorph.id(), arguments) else { return };
        if !self.of(call, |it| std::mem::replace(&mut it.sizes, true)) {
            // Options of an annotated function are at its definition. A library function has only its call.
            warn(match function.is_annotated() {
                true => warning.at_line(&format!("{}:{}", function.file, function.line)),
                false => warning.at(location).in_calls(),
            });
        }
    }

    /// Warns if a function is recompiled repeatedly. `facts` describes the new version.
    pub fn check(&self, call: &Call, facts: Facts) {
        let warning = self.of(call, |it| {
            it.count += 1;
            let warning = match &facts.differences(&it.last)[..] {
                [(fact, _)] if fact.kind == Kind::Float => Some(of_float(call.function, fact)),
                [(fact, other), ..] if it.count >= MANY => Some(of_many(call.function.name(), it.count, fact, other)),
                _ => None,
            };
            it.last = facts;
            let (path, warning) = warning.filter(|(path, _)| !it.warned.contains(path))?;
            it.warned.push(path);
            Some(warning)
        });
        if let Some(warning) = warning {
            warn(warning.at(call.location).in_calls());
        }
    }
}

fn of_float(function: &JitFn, fact: &Fact) -> (String, Error) {
    let (path, name) = (&fact.path, function.name());
    let help = if path.contains(['.', '[']) || !function.is_annotated() {
        "keep a number that changes in a tensor or a `Parameter`".to_owned()
    } else {
        format!("write `#[dynamic] {path}`: then it is an input, and one version serves all values")
    };
    let message = format!("`{name}` is compiled anew for another value of the float `{path}`");
    (path.clone(), Error::new(Code::Specialisations, message).help(help))
}

fn of_many(function: &str, count: usize, fact: &Fact, other: &Fact) -> (String, Error) {
    let path = &fact.path;
    let (change, help) = match fact.kind {
        Kind::Tensor => (format!(" ({}, then {})", other.value, fact.value), "keep its dtype and rank"),
        Kind::Parameter => (String::new(), "each model has versions of its own: make models once, and keep them"),
        Kind::Float => (String::new(), "make it an input: a tensor, a `Parameter`, or an argument with `#[dynamic]`"),
        Kind::Host => (String::new(), "make it an input: pass it as a tensor"),
    };
    let message = format!("`{function}` has been compiled {count} times; `{path}` differs from call to call{change}");
    (path.clone(), Error::new(Code::Specialisations, message).help(help))
}
