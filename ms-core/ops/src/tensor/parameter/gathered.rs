//! Caches the values of several slots.

use super::{Parameter, WeakParameter};
use crate::tensor::Tensor;
use ms_ir::MapVec;
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// The values of some slots, gathered once and cached until one of the slots is written.
///
/// The cache shares the current values of the slots. It needs no additional memory, and keeps neither replaced values
/// nor the slots alive.
pub struct Gathered {
    slots: Vec<WeakParameter>,
    kept: Arc<RwLock<CachedValues>>,
}

#[derive(Default)]
struct CachedValues {
    values: Option<Arc<[Tensor]>>,
    /// The number of writes that have invalidated the cache.
    writes: u64,
}

/// The value of a slot.
pub(super) struct Held {
    /// The value; `None` while a run that writes the slot has [taken](super::store::Store::take) it.
    value: Option<Tensor>,
    /// The caches that contain it.
    kept: Vec<Weak<RwLock<CachedValues>>>,
}

impl Gathered {
    /// Creates a cache of the values of these slots, which are gathered on first use. No slot may be thread-local: see
    /// [`Parameter::is_of_thread`].
    pub fn new(slots: &[Parameter]) -> Self {
        debug_assert!(!slots.iter().any(Parameter::is_of_thread), "what is kept is for all threads");
        Self { slots: slots.map_vec(Parameter::downgrade), kept: Arc::default() }
    }

    /// Returns the slots; `None` if one is dropped.
    pub fn slots(&self) -> Option<Vec<Parameter>> {
        self.slots.iter().map(WeakParameter::upgrade).collect()
    }

    /// Returns the values of the slots, in order, bypassing the dispatcher; `None` if one is dropped.
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

    /// Gathers the values, and caches them unless a slot was written since `writes` was read.
    #[cold]
    fn gather(&self, writes: u64) -> Option<Arc<[Tensor]>> {
        let value = |it: &Parameter| match it.0.store.exclusive() {
            Some(mut held) => held.kept_in(&self.kept),
            None => it.load(),
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
        Self { value: Some(held(value)), kept: Vec::new() }
    }

    #[inline]
    pub fn value(&self) -> &Tensor {
        self.value.as_ref().expect("whoever takes the value keeps the slot locked until there is one again")
    }

    /// Returns the value and registers `kept`, which is invalidated when the value is replaced.
    fn kept_in(&mut self, kept: &Arc<RwLock<CachedValues>>) -> Tensor {
        if !self.kept.iter().any(|it| std::ptr::eq(it.as_ptr(), Arc::as_ptr(kept))) {
            self.kept.retain(|it| it.strong_count() > 0);
            self.kept.push(Arc::downgrade(kept));
        }
        self.value().clone()
    }

    /// Replaces the value. Later reads of the slot return the new one everywhere. Returns the old one and the
    /// invalidated caches, to be dropped outside of the slot's lock.
    pub fn replace(&mut self, value: Tensor) -> (Option<Tensor>, Vec<Arc<[Tensor]>>) {
        let ended = self.invalidate();
        // The new value may share the old one's memory.
        self.release();
        (self.value.replace(held(value)), ended)
    }

    /// Takes the value, without references to it from caches.
    pub fn take(&mut self) -> Tensor {
        // Other slots of these caches keep their values alive, so no user code runs here.
        drop(self.invalidate());
        self.release();
        self.value.take().expect("a slot is taken once, under its lock")
    }

    /// Puts a value into a slot that has none.
    pub fn put(&mut self, value: Tensor) {
        debug_assert!(self.value.is_none(), "the value was taken");
        self.value = Some(held(value));
    }

    /// Records that this slot no longer holds the value's memory.
    fn release(&self) {
        if let Some(array) = self.value.as_ref().and_then(Tensor::as_array) {
            array.storage().release();
        }
    }

    /// Invalidates the caches that contain the value, and returns them.
    fn invalidate(&mut self) -> Vec<Arc<[Tensor]>> {
        let ended = |it: Weak<RwLock<CachedValues>>| {
            let kept = it.upgrade()?;
            let mut kept = kept.write().unwrap_or_else(PoisonError::into_inner);
            kept.writes += 1;
            kept.values.take()
        };
        self.kept.drain(..).filter_map(ended).collect()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

/// Records that a slot holds the value's memory from now on, and returns the value.
fn held(value: Tensor) -> Tensor {
    let value = value.unstamped();
    if let Some(array) = value.as_array() {
        array.storage().hold();
    }
    value
}
