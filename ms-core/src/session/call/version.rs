//! The compiled versions of a function, and their runs.

use super::super::compiled::Compiled;
use super::super::tape::Tape;
use crate::error::{Error, Result};
use crate::ops;
use crate::tensor::{Array, DispatchMode, Gathered, Outputs, Parameter, Tensor, Type, dispatch_mode};
use crate::trace::{Signature, Tree};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// Versions of a function that are kept at most.
const MAX_VERSIONS: usize = 512;

/// The versions of a function. Where they are too many, those whose last use is longest ago are
/// dropped.
pub(super) struct Versions {
    table: RwLock<Table>,
    /// The position of the version that was called last.
    recent: AtomicUsize,
    /// How often another version was called than the time before.
    turns: AtomicU64,
}

struct Table {
    all: Vec<Arc<Version>>,
    /// Positions by the hash of the signature.
    by_hash: FxHashMap<u64, SmallVec<[usize; 1]>>,
}

impl Versions {
    /// None.
    pub const fn new() -> Self {
        let table = Table { all: Vec::new(), by_hash: FxHashMap::with_hasher(FxBuildHasher) };
        Self { table: RwLock::new(table), recent: AtomicUsize::new(0), turns: AtomicU64::new(0) }
    }

    /// Number of versions.
    pub fn len(&self) -> usize {
        self.read(|it| it.all.len())
    }

    /// Drops them all.
    pub fn clear(&self) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.by_hash.clear();
        let old = std::mem::take(&mut table.all);
        drop(table);
        drop(old);
    }

    /// The types of the tensors among the arguments of each.
    pub fn arguments<R>(&self, f: impl FnOnce(&[&[Type]]) -> R) -> R {
        self.read(|it| f(&it.all.iter().map(|it| &*it.arguments).collect::<Vec<_>>()))
    }

    fn read<R>(&self, f: impl FnOnce(&Table) -> R) -> R {
        f(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The version for a signature.
    pub fn find(&self, signature: &Signature) -> Option<Arc<Version>> {
        self.read(|table| {
            // Comparing all words takes less time than hashing them.
            let recent = self.recent.load(Ordering::Relaxed);
            if let Some(version) = table.all.get(recent)
                && version.is_of(signature)
            {
                return Some(version.clone());
            }
            let fits = |&&at: &&usize| table.all[at].is_of(signature);
            let at = *table.by_hash.get(&signature.hash())?.iter().find(fits)?;
            self.turn(table, at);
            Some(table.all[at].clone())
        })
    }

    /// Notes that another version is called than the time before.
    fn turn(&self, table: &Table, to: usize) {
        let from = self.recent.swap(to, Ordering::Relaxed);
        let now = self.turns.fetch_add(1, Ordering::Relaxed);
        for at in [from, to] {
            if let Some(version) = table.all.get(at) {
                version.used.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Adds a version, in the place of one of the same signature.
    pub fn insert(&self, version: Arc<Version>, hash: u64) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut forgotten = Vec::new();
        if table.all.len() >= MAX_VERSIONS {
            // The one that was called last is in use until now.
            self.turn(&table, self.recent.load(Ordering::Relaxed));
            forgotten = table.forget();
        }
        let Table { all, by_hash } = &mut *table;
        let bucket = by_hash.entry(hash).or_default();
        // One that was not traced may have been here until a derivative was asked for.
        match bucket.iter().find(|&&at| all[at].is_like(&version)) {
            Some(&at) => all[at] = version,
            None => {
                bucket.push(all.len());
                all.push(version);
                let at = all.len() - 1;
                self.turn(&table, at);
            }
        }
        // Dropping them takes a while.
        drop(table);
        drop(forgotten);
    }
}

impl Table {
    /// Takes out the quarter that was not called for the longest time.
    fn forget(&mut self) -> Vec<Arc<Version>> {
        let used = |it: &Arc<Version>| it.used.load(Ordering::Relaxed);
        let mut uses: Vec<u64> = self.all.iter().map(used).collect();
        let (_, &mut last, _) = uses.select_nth_unstable(MAX_VERSIONS / 4);
        let mut hashes = vec![0; self.all.len()];
        for (hash, bucket) in self.by_hash.drain() {
            bucket.into_iter().for_each(|at| hashes[at] = hash);
        }
        let (kept, forgotten): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.all).into_iter().zip(hashes).partition(|it| used(&it.0) > last);
        for (version, hash) in kept {
            self.by_hash.entry(hash).or_default().push(self.all.len());
            self.all.push(version);
        }
        forgotten.into_iter().map(|it| it.0).collect()
    }
}

/// Where an input of a version comes from at a call.
pub(super) enum Source {
    /// The argument of that position.
    Argument(usize),
    /// The value of a parameter.
    Slot(Parameter),
    /// A tensor that the function captured.
    Captured(Tensor),
}

/// Where an input of a version is found when it runs.
enum Place {
    Argument(usize),
    Captured(usize),
    /// Among the values of the slots that are only read.
    Read(usize),
    /// Among those of the slots that are loaded at every run.
    Loaded(usize),
}

/// A compiled function for one signature.
pub(super) struct Version {
    signature: Box<[u64]>,
    /// The types that the signature has only hashes of.
    types: Box<[TypeId]>,
    /// The types of the tensors among the arguments.
    arguments: Box<[Type]>,
    /// See [`Versions::turns`].
    used: AtomicU64,
    compiled: Arc<Compiled>,
    handing: Option<Handing>,
    inputs: Box<[Place]>,
    captured: Vec<Tensor>,
    /// Slots that it reads and does not write.
    reads: Option<Gathered>,
    /// Slots that it reads and writes, and those that have a value on each thread.
    loaded: Vec<Parameter>,
    writes: Vec<Parameter>,
    /// Those whose values matter to other threads, in the order of their identities, so that two
    /// runs never wait for each other.
    locks: Vec<Parameter>,
    /// Whether another process traced it, so that it has no derivatives.
    pub untraced: bool,
    /// The traced result, whose tensors are replaced by those of a run.
    template: Box<dyn Any + Send + Sync>,
}

/// The graph as a tape calls it, where backward functions in it read or write parameters; see
/// [`crate::trace::Handing`].
pub(super) struct Handing {
    /// Made when a tape first calls it.
    pub compiled: LazyLock<Result<Arc<Compiled>>, Make>,
    pub writes: Vec<Parameter>,
    pub reads: Vec<Parameter>,
}

type Make = Box<dyn FnOnce() -> Result<Arc<Compiled>> + Send>;

/// What a [`Version`] is made of.
pub(super) struct Parts<T> {
    /// The graph.
    pub compiled: Arc<Compiled>,
    /// The graph to a tape, where that is another one.
    pub handing: Option<Handing>,
    /// What its inputs are.
    pub inputs: Vec<Source>,
    /// The parameters that take its last outputs.
    pub writes: Vec<Parameter>,
    /// Whether another process traced it.
    pub untraced: bool,
    /// The result.
    pub template: T,
}

impl Version {
    /// The version for a signature.
    pub fn new<T: Tree + Send + Sync + 'static>(signature: &Signature, parts: Parts<T>) -> Self {
        let Parts { compiled, handing, inputs, writes, untraced, template } = parts;
        let (mut captured, mut reads, mut loaded) = (Vec::new(), Vec::new(), Vec::new());
        let written: rustc_hash::FxHashSet<u64> = writes.iter().map(Parameter::id).collect();
        let mut place = |source| {
            fn add<T>(to: &mut Vec<T>, it: T) -> usize {
                to.push(it);
                to.len() - 1
            }
            match source {
                Source::Argument(at) => Place::Argument(at),
                Source::Captured(tensor) => Place::Captured(add(&mut captured, tensor)),
                Source::Slot(it) if written.contains(&it.id()) || it.is_of_thread() => {
                    Place::Loaded(add(&mut loaded, it))
                }
                Source::Slot(it) => Place::Read(add(&mut reads, it)),
            }
        };
        let inputs = inputs.into_iter().map(&mut place).collect();
        let shared = |it: &&Parameter| *it != ops::order() && !it.is_of_thread();
        let mut locks: Vec<Parameter> = writes.iter().filter(shared).cloned().collect();
        locks.sort_by_key(Parameter::id);
        Self {
            signature: signature.words().into(),
            types: signature.type_ids().into(),
            arguments: signature.types().into(),
            used: AtomicU64::new(0),
            compiled,
            handing,
            inputs,
            captured,
            reads: (!reads.is_empty()).then(|| Gathered::new(reads)),
            loaded,
            writes,
            locks,
            untraced,
            template: Box::new(template),
        }
    }

    /// Whether it is the version for a signature.
    #[inline]
    fn is_of(&self, signature: &Signature) -> bool {
        *self.signature == *signature.words() && *self.types == *signature.type_ids()
    }

    /// Whether it is the version for the signature of another one.
    fn is_like(&self, other: &Self) -> bool {
        self.signature == other.signature && self.types == other.types
    }

    /// Runs it on the tensors among the arguments.
    ///
    /// # Errors
    /// What an op refuses while running.
    #[track_caller]
    pub fn run<T: Tree + 'static>(&self, arguments: &[Tensor]) -> Result<T> {
        let _alone = self.lock();
        match dispatch_mode() {
            DispatchMode::Eager => self.result(self.outputs(arguments)?, false),
            _ => self.result(self.call(self.gather(arguments))?, true),
        }
    }

    /// As [`Version::run`], with arguments that are given up.
    ///
    /// # Errors
    /// As for [`Version::run`].
    #[track_caller]
    pub fn run_donating<T: Tree + 'static>(&self, arguments: Vec<Tensor>) -> Result<T> {
        let _alone = self.lock();
        let inputs = self.gather(&arguments);
        drop(arguments);
        match Tape::current() {
            // The tape keeps what it may need for derivatives.
            Some(_) => self.result(self.call(inputs)?, true),
            None => self.result(self.compiled.run_owned(inputs)?, true),
        }
    }

    /// Calls the graph through the current dispatcher.
    fn call(&self, inputs: Vec<Tensor>) -> Result<Outputs> {
        match (Tape::current(), &self.handing) {
            (Some(tape), Some(it)) => {
                let compiled = it.compiled.as_ref().map_err(Error::clone)?;
                tape.call_handing(compiled, &it.writes, &it.reads, &inputs)
            }
            _ => self.compiled.call(&inputs),
        }
    }

    /// Locks what it writes: from its first read of a slot to its last write, a run is alone with it.
    #[inline]
    fn lock(&self) -> Option<SmallVec<[impl Sized + '_; 4]>> {
        (!self.locks.is_empty()).then(|| self.locks.iter().map(Parameter::lock).collect())
    }

    /// Writes the slots, and gives the result.
    #[track_caller]
    fn result<T: Tree + 'static>(&self, outputs: Outputs, dispatched: bool) -> Result<T> {
        let mut outputs = outputs.into_iter();
        let template = self.template.downcast_ref::<T>().expect("the signature holds the result's type");
        let result = template.rebuild(&mut |_| outputs.next().expect("as many results as the template has"));
        for (parameter, value) in self.writes.iter().zip(outputs) {
            // A dispatcher sees all writes; by themselves, only values of another type are refused.
            if dispatched {
                parameter.try_set(&value)?;
            } else if let Err(value) = parameter.try_store(value) {
                parameter.try_set(&value)?;
            }
        }
        Ok(result)
    }

    /// The outputs where no dispatcher has other values of slots, or keeps a record.
    fn outputs(&self, arguments: &[Tensor]) -> Result<Outputs> {
        let read = self.reads.as_ref().map(Gathered::values);
        let read = read.as_deref().unwrap_or_default();
        let loaded: SmallVec<[Tensor; 4]> = self.loaded.iter().map(Parameter::load).collect();
        let mut inputs: SmallVec<[&Array; 8]> = SmallVec::with_capacity(self.inputs.len());
        for place in &self.inputs {
            let tensor = match *place {
                Place::Argument(at) => &arguments[at],
                Place::Captured(at) => &self.captured[at],
                Place::Read(at) => &read[at],
                Place::Loaded(at) => &loaded[at],
            };
            inputs.push(tensor.array()?);
        }
        self.compiled.run_arrays(&inputs)
    }

    /// The inputs by way of the dispatcher.
    fn gather(&self, arguments: &[Tensor]) -> Vec<Tensor> {
        let read: &[Parameter] = self.reads.as_ref().map(Gathered::slots).unwrap_or_default();
        let input = |place: &Place| match *place {
            Place::Argument(at) => arguments[at].clone(),
            Place::Captured(at) => self.captured[at].clone(),
            Place::Read(at) => read[at].value(),
            Place::Loaded(at) => self.loaded[at].value(),
        };
        self.inputs.iter().map(input).collect()
    }
}
