//! Manages the slots that functions create when they run.

use super::{Parameter, Role};
use crate::tensor::Type;
use ms_ir::error::{Code, Error, OrRaise, Result};
use std::any::TypeId;
use std::cell::RefCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The slots that a compiled function creates when it runs. They are identical in every run and on every thread. Slots
/// of different keys (monomorphisations) are separate.
#[derive(Default)]
pub struct Created {
    slots: Mutex<Slots>,
    /// Signals that the creation of a slot succeeded or failed.
    ended: Condvar,
}

#[derive(Default)]
struct Slots {
    made: Vec<(TypeId, Parameter)>,
    /// The slots with an initial value that is being computed, and the threads that compute it.
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
    /// Creates an empty set of slots.
    pub const fn new() -> Self {
        let slots = Slots { made: Vec::new(), begun: Vec::new() };
        Self { slots: Mutex::new(slots), ended: Condvar::new() }
    }

    /// Returns whether the function has created no slot.
    pub fn is_empty(&self) -> bool {
        self.lock().made.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot that is being created. Dropped when its creation succeeds or fails.
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
    /// Returns the first slot of that name, type and role that this run has not returned yet, or a new one.
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
            // Only one thread creates a slot. User code computes the value and may create other slots.
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

/// Restores a run when dropped.
struct Restore(Option<Run>);

impl Restore {
    /// Sets or clears the thread's run until the guard is dropped.
    fn begin(run: Option<Run>) -> Self {
        Self(RUN.with(|it| std::mem::replace(&mut *it.borrow_mut(), run)))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        RUN.with(|it| *it.borrow_mut() = self.0.take());
    }
}

/// Runs `f` so that [`Parameter::init`] returns the slots of `created` before it creates new ones.
pub fn with_created<R>(created: &'static Created, key: TypeId, f: impl FnOnce() -> R) -> R {
    let _restore = Restore::begin(Some(Run { created, key, met: Vec::new() }));
    f()
}

/// Returns whether slots that are created here belong to no function.
pub fn is_outside_functions() -> bool {
    RUN.with(|it| it.borrow().is_none())
}

/// Runs `f` so that the slots that it creates belong to the process instead of a function.
pub fn outside_functions<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore::begin(None);
    f()
}

/// Returns the slot that the running function created before for this name, type and role, or a new one.
#[track_caller]
pub(super) fn once(name: &str, ty: &Type, role: Role, make: impl FnOnce() -> Parameter) -> Parameter {
    // The run is taken out because slots that `init` creates are not part of it.
    match RUN.with(|it| it.borrow_mut().take()) {
        None => make(),
        Some(run) => {
            let (mut running, mut make) = (Restore(Some(run)), Some(make));
            let run = running.0.as_mut().expect("put there above");
            run.slot(name, ty, role, &mut || (make.take().expect("a slot is made once"))()).or_raise()
        }
    }
}
