//! Slots that functions create when they run.

use super::{Parameter, Role};
use crate::error::{Code, Error, OrRaise, Result};
use crate::tensor::Type;
use std::any::TypeId;
use std::cell::RefCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The slots that a compiled function creates when it runs: the same ones at every run, on every
/// thread. Slots of different keys (monomorphisations) are separate.
#[derive(Default)]
pub struct Created {
    slots: Mutex<Slots>,
    /// Signals that a slot was created, or could not be.
    ended: Condvar,
}

#[derive(Default)]
struct Slots {
    made: Vec<(TypeId, Parameter)>,
    /// The slots whose initial values are being computed, and the threads that compute them.
    begun: Vec<(Kind, ThreadId)>,
}

/// The properties by which slots of different runs correspond.
#[derive(Clone, PartialEq, Eq)]
struct Kind {
    key: TypeId,
    name: String,
    ty: Type,
    role: Role,
}

impl Kind {
    fn is_of(&self, key: TypeId, slot: &Parameter) -> bool {
        key == self.key && slot.name() == self.name && slot.role() == self.role && slot.load().ty() == self.ty
    }
}

impl Created {
    /// No slots yet.
    pub const fn new() -> Self {
        let slots = Slots { made: Vec::new(), begun: Vec::new() };
        Self { slots: Mutex::new(slots), ended: Condvar::new() }
    }

    /// Whether the function has created none.
    pub fn is_empty(&self) -> bool {
        self.lock().made.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot that is being created; dropped when it is created or cannot be.
struct Begun<'a> {
    created: &'a Created,
    kind: &'a Kind,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.created.lock().begun.retain(|it| it.0 != *self.kind);
        self.created.ended.notify_all();
    }
}

/// A run that may create slots.
struct Run {
    created: &'static Created,
    key: TypeId,
    /// The slots that this run has already returned.
    met: Vec<usize>,
}

impl Run {
    /// The first slot of that name, type and role that this run has not returned yet, or a new one.
    ///
    /// # Errors
    /// [`Code::Created`] for a slot that is needed for its own initial value.
    fn slot(&mut self, name: &str, ty: &Type, role: Role, make: &mut dyn FnMut() -> Parameter) -> Result<Parameter> {
        let kind = Kind { key: self.key, name: name.to_owned(), ty: ty.clone(), role };
        let created = self.created;
        let this = thread::current().id();
        let mut slots = created.lock();
        loop {
            let fits = |(at, it): &(usize, &(TypeId, Parameter))| !self.met.contains(at) && kind.is_of(it.0, &it.1);
            if let Some((at, (_, slot))) = slots.made.iter().enumerate().find(fits) {
                self.met.push(at);
                return Ok(slot.clone());
            }
            // No two threads create it; user code computes the value, and may create other slots.
            match slots.begun.iter().find(|it| it.0 == kind) {
                None => break,
                Some((_, thread)) if *thread == this => {
                    let message = format!("the first value of the parameter {name:?} needs the parameter itself");
                    let help = "compute the first value without a call of the function that makes the parameter";
                    return Err(Error::new(Code::Created, message).help(help));
                }
                Some(_) => slots = created.ended.wait(slots).unwrap_or_else(PoisonError::into_inner),
            }
        }
        slots.begun.push((kind.clone(), this));
        drop(slots);
        let begun = Begun { created, kind: &kind };
        let slot = make();
        let mut slots = created.lock();
        self.met.push(slots.made.len());
        slots.made.push((self.key, slot.clone()));
        drop(slots);
        drop(begun);
        Ok(slot)
    }
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Restores a run when it is dropped.
struct Restore(Option<Run>);

impl Restore {
    /// Runs, or has no run, until this is dropped.
    fn begin(run: Option<Run>) -> Self {
        Self(RUN.with(|it| std::mem::replace(&mut *it.borrow_mut(), run)))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        RUN.with(|it| *it.borrow_mut() = self.0.take());
    }
}

/// Runs `f` such that [`Parameter::init`] returns the slots of `created` before it creates new
/// ones.
pub fn with_created<R>(created: &'static Created, key: TypeId, f: impl FnOnce() -> R) -> R {
    let _restore = Restore::begin(Some(Run { created, key, met: Vec::new() }));
    f()
}

/// Whether slots that are created here belong to no function.
pub fn is_apart() -> bool {
    RUN.with(|it| it.borrow().is_none())
}

/// Runs `f` such that the slots it creates belong to no function, but to the process.
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore::begin(None);
    f()
}

/// The slot that the running function created for this name, type and role before, or a new one.
#[track_caller]
pub(super) fn once(name: &str, ty: &Type, role: Role, make: impl FnOnce() -> Parameter) -> Parameter {
    // Taken out: slots that `init` creates are not part of the run.
    match RUN.with(|it| it.borrow_mut().take()) {
        None => make(),
        Some(run) => {
            let (mut running, mut make) = (Restore(Some(run)), Some(make));
            let run = running.0.as_mut().expect("put there above");
            run.slot(name, ty, role, &mut || (make.take().expect("a slot is made once"))()).or_raise()
        }
    }
}
