//! Named mutable slots.

mod created;
mod gathered;

pub use created::{Created, apart, with_created};
pub use gathered::Gathered;

use super::dispatch::{Eagerly, current_dispatcher, dispatcher, eager, with_dispatcher};
use super::dtype::DType;
use super::layout::IntoShape;
use super::tensor::Tensor;
use super::types::Type;
use crate::error::{Code, Error, OrRaise, Result, raise};
use created::once;
use gathered::Held;
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
pub struct Parameter(Arc<Slot>, Side);

/// Who sees a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Forward,
    Backward,
}

struct Slot {
    id: SlotId,
    name: String,
    requires_grad: AtomicBool,
    held: RwLock<Held>,
    /// Held by the run of a compiled function that writes the slot.
    writing: Mutex<()>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

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
        once(name, &ty, make)
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
        once(&name.clone(), &ty, || Self::make(value, name))
    }

    fn make(value: Tensor, name: String) -> Self {
        let slot = Arc::new(Slot {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            requires_grad: AtomicBool::new(true),
            held: RwLock::new(Held::new(value)),
            writing: Mutex::new(()),
        });
        Self(slot, Side::Forward)
    }

    /// The identity of the slot.
    #[inline]
    pub fn id(&self) -> SlotId {
        self.0.id | (self.1 as SlotId) << (SlotId::BITS - 1)
    }

    /// The slot as backward functions see it: to a trace a slot of its own, whose value says
    /// nothing, and whose gradient is what the parameter holds while gradients are pulled back.
    pub fn backward(&self) -> Self {
        Self(self.0.clone(), Side::Backward)
    }

    /// Whether it is what [`Parameter::backward`] gives.
    #[inline]
    pub fn is_backward(&self) -> bool {
        self.1 == Side::Backward
    }

    /// The slot itself, of what [`Parameter::backward`] gives.
    pub fn forward(&self) -> Self {
        Self(self.0.clone(), Side::Forward)
    }

    /// The name that was given, or nothing.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether training changes it.
    #[inline]
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
        self.0.held.read().unwrap_or_else(PoisonError::into_inner).value().clone()
    }

    /// Replaces what the slot holds, by-passing the dispatcher.
    pub fn store(&self, value: Tensor) {
        let old = self.0.held.write().unwrap_or_else(PoisonError::into_inner).replace(value);
        drop(old);
    }

    /// [`Parameter::store`] of an array of the shape and dtype that the slot holds.
    ///
    /// # Errors
    /// The value, where it is another one.
    pub fn try_store(&self, value: Tensor) -> Result<(), Tensor> {
        let mut held = self.0.held.write().unwrap_or_else(PoisonError::into_inner);
        let alike = match (held.value().as_array(), value.as_array()) {
            (Some(old), Some(new)) => old.dtype() == new.dtype() && old.shape() == new.shape(),
            _ => false,
        };
        if !alike {
            return Err(value);
        }
        let old = held.replace(value);
        drop(held);
        drop(old);
        Ok(())
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
