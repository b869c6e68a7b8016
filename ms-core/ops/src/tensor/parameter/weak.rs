//! Defines weak references to slots.

use super::{Parameter, Side, Slot, SlotId};
use crate::tensor::Tensor;
use std::sync::{PoisonError, Weak};

/// A weak reference to a slot. Objects that depend on a model do not keep it alive.
#[derive(Clone)]
pub struct WeakParameter {
    id: SlotId,
    slot: Weak<Slot>,
    side: Side,
}

impl WeakParameter {
    /// Returns the slot; `None` if it is dropped.
    #[inline]
    pub fn upgrade(&self) -> Option<Parameter> {
        self.slot.upgrade().map(|slot| Parameter(slot, self.side))
    }

    /// The identity of the slot.
    #[inline]
    pub fn id(&self) -> SlotId {
        self.id
    }

    /// Returns whether the slot is alive.
    pub fn is_alive(&self) -> bool {
        self.slot.strong_count() > 0
    }
}

/// An object that is useless without a slot to which it refers weakly.
pub trait Dependent: Send + Sync {
    /// Called on any thread when a slot is dropped or gets a value of another type.
    fn slot_dropped(&self);
}

impl Parameter {
    /// Returns a weak reference to the slot.
    pub fn downgrade(&self) -> WeakParameter {
        WeakParameter { id: self.id(), slot: std::sync::Arc::downgrade(&self.0), side: self.1 }
    }

    /// Replaces the value of the slot by one of another shape or dtype, bypassing the dispatcher. Dependents of the
    /// slot, such as a compiled version for the old type, are dropped.
    pub fn retype(&self, value: Tensor) {
        self.store(value);
        let dependents = std::mem::take(&mut *self.0.dependents.lock().unwrap_or_else(PoisonError::into_inner));
        dependents.into_iter().filter_map(|it| it.upgrade()).for_each(|it| it.slot_dropped());
    }

    /// Registers `dependent` to be notified when the slot is dropped.
    pub fn add_dependent(&self, dependent: Weak<dyn Dependent>) {
        let mut all = self.0.dependents.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropped dependents are removed whenever the list is full, so the cost is amortised.
        if all.len() == all.capacity() {
            all.retain(|it| it.strong_count() > 0);
        }
        all.push(dependent);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let dependents = self.dependents.get_mut().unwrap_or_else(PoisonError::into_inner);
        dependents.drain(..).filter_map(|it| it.upgrade()).for_each(|it| it.slot_dropped());
    }
}
