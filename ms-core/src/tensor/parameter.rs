//! Named mutable slots.

use super::dispatch::dispatcher;
use super::tensor::Tensor;
use crate::error::{OrRaise, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

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
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Parameter {
    /// A trainable slot that holds `value`. The name may be empty: its path in the cell stands for it.
    pub fn new(value: Tensor, name: impl Into<String>) -> Self {
        Self(Arc::new(Slot {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            requires_grad: AtomicBool::new(true),
            value: RwLock::new(value),
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
        dispatcher(|it| it.write_parameter(self, value))
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
