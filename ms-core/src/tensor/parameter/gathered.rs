//! The values of many slots at once.

use super::store::Store;
use super::{Parameter, WeakParameter};
use crate::tensor::Tensor;
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// The values of some slots, gathered once and kept until one of the slots is written.
///
/// What is kept is what the slots hold at this moment: it needs no memory of its own, and no value
/// that was replaced lives on in it. The slots themselves are not kept.
pub struct Gathered {
    slots: Vec<WeakParameter>,
    kept: Arc<RwLock<Kept>>,
}

#[derive(Default)]
struct Kept {
    values: Option<Arc<[Tensor]>>,
    /// How often a write has ended what was kept.
    writes: u64,
}

/// What a slot holds.
pub(super) struct Held {
    value: Tensor,
    /// Where it is kept among the values of other slots.
    kept: Vec<Weak<RwLock<Kept>>>,
}

impl Gathered {
    /// Of these slots, which are gathered when they are first asked for. None of them is of a thread:
    /// see [`Parameter::is_of_thread`].
    pub fn new(slots: &[Parameter]) -> Self {
        debug_assert!(!slots.iter().any(Parameter::is_of_thread), "what is kept is for all threads");
        Self { slots: slots.iter().map(Parameter::downgrade).collect(), kept: Arc::default() }
    }

    /// The slots; nothing where one is gone.
    pub fn slots(&self) -> Option<Vec<Parameter>> {
        self.slots.iter().map(WeakParameter::upgrade).collect()
    }

    /// What the slots hold, in their order, by-passing the dispatcher; nothing where one is gone.
    pub fn values(&self) -> Option<Arc<[Tensor]>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        match &kept.values {
            Some(values) => Some(values.clone()),
            None => {
                let writes = kept.writes;
                drop(kept);
                self.gather(writes)
            }
        }
    }

    /// Gathers the values, and keeps them unless a slot was written since `writes` was read.
    #[cold]
    fn gather(&self, writes: u64) -> Option<Arc<[Tensor]>> {
        let value = |it: &Parameter| {
            let Store::Shared { held, .. } = &it.0.store else { return it.load() };
            held.write().unwrap_or_else(PoisonError::into_inner).kept_in(&self.kept)
        };
        let values: Arc<[Tensor]> = self.slots()?.iter().map(value).collect();
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.writes == writes {
            kept.values = Some(values.clone());
        }
        Some(values)
    }
}

impl Held {
    pub fn new(value: Tensor) -> Self {
        Self { value: value.unstamped(), kept: Vec::new() }
    }

    #[inline]
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// The value, which `kept` is told of when it is replaced.
    fn kept_in(&mut self, kept: &Arc<RwLock<Kept>>) -> Tensor {
        if !self.kept.iter().any(|it| std::ptr::eq(it.as_ptr(), Arc::as_ptr(kept))) {
            self.kept.retain(|it| it.strong_count() > 0);
            self.kept.push(Arc::downgrade(kept));
        }
        self.value.clone()
    }

    /// Replaces the value. Who reads the slot after this finds the new one everywhere. Gives the old
    /// one, and what was kept of it, to be dropped when nobody waits for the slot.
    pub fn replace(&mut self, value: Tensor) -> (Tensor, Vec<Arc<[Tensor]>>) {
        let ended = |it: Weak<RwLock<Kept>>| {
            let kept = it.upgrade()?;
            let mut kept = kept.write().unwrap_or_else(PoisonError::into_inner);
            kept.writes += 1;
            kept.values.take()
        };
        let ended = self.kept.drain(..).filter_map(ended).collect();
        (std::mem::replace(&mut self.value, value.unstamped()), ended)
    }
}
