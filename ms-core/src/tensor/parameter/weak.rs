//! Slots that are referred to without being kept.

use super::{Parameter, Side, Slot, SlotId};
use std::sync::{PoisonError, Weak};

/// A slot that is referred to without being kept: what is made for a model goes with the model.
#[derive(Clone)]
pub struct WeakParameter {
    id: SlotId,
    slot: Weak<Slot>,
    side: Side,
}

impl WeakParameter {
    /// The slot; nothing where nobody keeps it any more.
    #[inline]
    pub fn upgrade(&self) -> Option<Parameter> {
        self.slot.upgrade().map(|slot| Parameter(slot, self.side))
    }

    /// The identity of the slot.
    #[inline]
    pub fn id(&self) -> SlotId {
        self.id
    }

    /// Whether somebody keeps the slot.
    pub fn is_kept(&self) -> bool {
        self.slot.strong_count() > 0
    }
}

/// What is of no use without a slot that it does not keep.
pub trait Dependent: Send + Sync {
    /// A slot is dropped, on any thread.
    fn slot_dropped(&self);
}

impl Parameter {
    /// A reference that does not keep the slot.
    pub fn downgrade(&self) -> WeakParameter {
        WeakParameter { id: self.id(), slot: std::sync::Arc::downgrade(&self.0), side: self.1 }
    }

    /// Tells `dependent` when the slot is dropped.
    pub fn add_dependent(&self, dependent: Weak<dyn Dependent>) {
        let mut all = self.0.dependents.lock().unwrap_or_else(PoisonError::into_inner);
        // What is gone is looked for whenever the list is full, so that each costs little.
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
