//! The slots that functions make when they run.

use super::{Parameter, Role};
use crate::tensor::Type;
use std::any::TypeId;
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// The slots that a compiled function makes when it runs: the same ones at every run, on every
/// thread. Slots of different keys (monomorphisations) are apart.
#[derive(Default)]
pub struct Created(Mutex<Vec<(TypeId, Parameter)>>);

impl Created {
    /// No slots yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Whether the function has made none.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// A run that may make slots.
struct Run {
    created: &'static Created,
    key: TypeId,
    /// Positions of the slots that this run has met.
    met: Vec<usize>,
}

impl Run {
    /// The first slot of that name, type and role that this run has not met yet, or a new one.
    fn slot(&mut self, name: &str, ty: &Type, role: Role, make: impl FnOnce() -> Parameter) -> Parameter {
        // Held while a new slot is made, so that two threads do not make it twice.
        let mut slots = self.created.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |(at, (key, slot)): &(usize, &(TypeId, Parameter))| {
            let same = *key == self.key && slot.name() == name && slot.role() == role;
            same && !self.met.contains(at) && slot.load().ty() == *ty
        };
        let at = match slots.iter().enumerate().find(fits) {
            Some((at, _)) => at,
            None => {
                slots.push((self.key, make()));
                slots.len() - 1
            }
        };
        self.met.push(at);
        slots[at].1.clone()
    }
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Puts a run back when it is dropped.
struct Restore(Option<Run>);

impl Drop for Restore {
    fn drop(&mut self) {
        RUN.with(|it| *it.borrow_mut() = self.0.take());
    }
}

/// Runs `f` so that [`Parameter::init`] gives the slots of `created` again before it makes new ones.
pub fn with_created<R>(created: &'static Created, key: TypeId, f: impl FnOnce() -> R) -> R {
    let run = Run { created, key, met: Vec::new() };
    let _restore = Restore(RUN.with(|it| it.borrow_mut().replace(run)));
    f()
}

/// Whether slots that are made here belong to no function.
pub fn is_apart() -> bool {
    RUN.with(|it| it.borrow().is_none())
}

/// Runs `f` so that the slots it makes belong to no function: those of the process.
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore(RUN.with(|it| it.borrow_mut().take()));
    f()
}

/// The slot that the running function made for this name, type and role before, or a new one.
pub(super) fn once(name: &str, ty: &Type, role: Role, make: impl FnOnce() -> Parameter) -> Parameter {
    // Taken out meanwhile: slots that `init` makes are no part of the run.
    match RUN.with(|it| it.borrow_mut().take()) {
        None => make(),
        Some(run) => {
            let mut running = Restore(Some(run));
            running.0.as_mut().expect("put there above").slot(name, ty, role, make)
        }
    }
}
