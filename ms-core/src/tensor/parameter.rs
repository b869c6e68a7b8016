//! Named mutable slots.

use super::dispatch::{Eagerly, current_dispatcher, dispatcher, eager, with_dispatcher};
use super::dtype::DType;
use super::layout::IntoShape;
use super::tensor::Tensor;
use super::types::Type;
use crate::error::{Code, Error, OrRaise, Result, raise};
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The identity of a slot; never reused in a process.
pub type SlotId = u64;

/// A named, shared, mutable slot for a [`Tensor`].
///
/// Clones alias one slot. Reading and writing go through the current dispatcher, so that
/// inside a trace they become inputs and outputs of the graph.
#[derive(Clone)]
pub struct Parameter(Arc<Slot>);

struct Slot {
    id: SlotId,
    name: String,
    requires_grad: AtomicBool,
    value: RwLock<Tensor>,
    /// Held by the run of a compiled function that writes the slot.
    writing: Mutex<()>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The slots that a compiled function makes when it runs: the same ones at every run, on every
/// thread. Slots of different keys (monomorphisations) are apart.
#[derive(Default)]
pub struct Created(Mutex<Vec<(u64, Parameter)>>);

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
    key: u64,
    /// Positions of the slots that this run has met.
    met: Vec<usize>,
}

impl Run {
    /// The first slot of that name and type that this run has not met yet, or a new one.
    fn slot(&mut self, name: &str, ty: &Type, make: impl FnOnce() -> Parameter) -> Parameter {
        // Held while a new slot is made, so that two threads do not make it twice.
        let mut slots = self.created.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |(at, (key, slot)): &(usize, &(u64, Parameter))| {
            *key == self.key && slot.name() == name && !self.met.contains(at) && slot.load().ty() == *ty
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
pub fn with_created<R>(created: &'static Created, key: u64, f: impl FnOnce() -> R) -> R {
    let run = Run { created, key, met: Vec::new() };
    let _restore = Restore(RUN.with(|it| it.borrow_mut().replace(run)));
    f()
}

/// Runs `f` so that the slots it makes belong to no function: those of the process.
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore(RUN.with(|it| it.borrow_mut().take()));
    f()
}

impl Parameter {
    /// A trainable slot whose first value `init` gives: eagerly, even while a function that makes
    /// the slot is being traced, and once, however often that function runs.
    ///
    /// # Panics
    /// Raises [`Code::Shape`](crate::Code::Shape) when the value is not of the given shape and dtype.
    #[track_caller]
    pub fn init(name: &str, shape: impl IntoShape, dtype: DType, init: impl FnOnce() -> Tensor) -> Self {
        let ty = Type::of(dtype, &shape.into_shape());
        let here = Location::caller();
        let make = || {
            let value = with_dispatcher(Rc::new(Eagerly), init);
            if value.ty() != ty {
                let message = format!("the initial value of a parameter of {ty} is {}", value.ty());
                raise(Error::new(Code::Shape, message).at(here));
            }
            Self::make(value, name.to_owned())
        };
        Self::once(name, &ty, make)
    }

    /// The slot that the running function made for this name and type before, or a new one.
    fn once(name: &str, ty: &Type, make: impl FnOnce() -> Self) -> Self {
        // Taken out meanwhile: slots that `init` makes are no part of the run.
        match RUN.with(|it| it.borrow_mut().take()) {
            None => make(),
            Some(run) => {
                let mut running = Restore(Some(run));
                running.0.as_mut().expect("put there above").slot(name, ty, make)
            }
        }
    }

    /// A trainable slot that holds `value`. The name may be empty: its path in the cell stands for it.
    ///
    /// A function that makes a slot makes it once: compiled or run eagerly, its later calls get the
    /// first slot of the same name and type again.
    ///
    /// # Panics
    /// Raises [`Code::Created`](crate::Code::Created) for a value that is computed by the function
    /// that is being compiled; [`Parameter::init`] computes it eagerly.
    #[track_caller]
    pub fn new(value: Tensor, name: impl Into<String>) -> Self {
        if let Some(traced) = value.as_traced() {
            let message = "the first value of a parameter is computed by the function that is being compiled";
            let help = "compute it eagerly: `Parameter::init(name, shape, dtype, || ..)`";
            raise(Error::new(Code::Created, message).with_operands([traced.ty.to_string()]).help(help));
        }
        let (name, ty) = (name.into(), value.ty());
        Self::once(&name.clone(), &ty, || Self::make(value, name))
    }

    fn make(value: Tensor, name: String) -> Self {
        Self(Arc::new(Slot {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            requires_grad: AtomicBool::new(true),
            value: RwLock::new(value),
            writing: Mutex::new(()),
        }))
    }

    /// The identity of the slot.
    #[inline]
    pub fn id(&self) -> SlotId {
        self.0.id
    }

    /// The name that was given, or nothing.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether training changes it.
    pub fn requires_grad(&self) -> bool {
        self.0.requires_grad.load(Ordering::Relaxed)
    }

    /// Sets whether training changes it.
    pub fn set_requires_grad(&self, yes: bool) {
        self.0.requires_grad.store(yes, Ordering::Relaxed);
    }

    /// The value at this point of the program.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        dispatcher(|it| it.read_parameter(self)).or_raise()
    }

    /// Writes a value of the same shape and dtype. The new value carries no gradient.
    #[track_caller]
    pub fn set(&self, value: &Tensor) {
        self.try_set(value).or_raise();
    }

    /// Writes a value.
    ///
    /// # Errors
    /// [`Code::Shape`](crate::Code::Shape) or [`Code::DType`](crate::Code::DType) when it is of another type.
    #[track_caller]
    pub fn try_set(&self, value: &Tensor) -> Result<()> {
        let here = Location::caller();
        let written = match current_dispatcher() {
            Some(top) => top.write_parameter(self, value),
            None => eager().write_parameter(self, value),
        };
        written.map_err(|error| error.at(here))
    }

    /// Waits for other runs of compiled functions that write the slot, and makes later ones wait
    /// while the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the slot holds, by-passing the dispatcher.
    pub fn load(&self) -> Tensor {
        self.0.value.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces what the slot holds, by-passing the dispatcher.
    pub fn store(&self, value: Tensor) {
        *self.0.value.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameter({:?}, {})", self.name(), self.load().ty())
    }
}
