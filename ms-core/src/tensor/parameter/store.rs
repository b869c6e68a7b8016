//! The storage of the values of slots.

use super::gathered::Held;
use crate::tensor::Tensor;
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::thread::LocalKey;

/// The value of a slot: one for the process, or one for each thread.
pub(super) enum Store {
    /// One that all threads share.
    Shared {
        held: RwLock<Held>,
        /// Held by the run of a compiled function that writes the slot.
        writing: Mutex<()>,
    },
    /// That of the calling thread.
    Thread(&'static LocalKey<RefCell<Tensor>>),
}

/// A slot whose value is taken by a run that writes it. While this lives, other threads that read or write
/// the slot wait; the thread that holds it must not access the slot, so it runs no code of users meanwhile.
pub struct TakenSlot<'a>(RwLockWriteGuard<'a, Held>);

impl TakenSlot<'_> {
    /// Puts a value into the slot, once: the old one or a new one.
    pub fn put(mut self, value: Tensor) {
        self.0.put(value);
    }
}

impl Store {
    /// One value for all threads.
    pub fn shared(value: Tensor) -> Self {
        Self::Shared { held: RwLock::new(Held::new(value)), writing: Mutex::new(()) }
    }

    /// Excludes other runs that write the slot; `None` if no other thread shares the value.
    pub fn lock(&self) -> Option<MutexGuard<'_, ()>> {
        match self {
            Self::Shared { writing, .. } => Some(writing.lock().unwrap_or_else(PoisonError::into_inner)),
            Self::Thread(_) => None,
        }
    }

    /// The value.
    #[inline]
    pub fn load(&self) -> Tensor {
        match self {
            Self::Shared { held, .. } => held.read().unwrap_or_else(PoisonError::into_inner).value().clone(),
            Self::Thread(values) => values.with_borrow(Tensor::clone),
        }
    }

    /// Takes the value, if it is one that all threads share.
    pub fn take(&self) -> Option<(TakenSlot<'_>, Tensor)> {
        match self {
            Self::Shared { held, .. } => {
                let mut held = held.write().unwrap_or_else(PoisonError::into_inner);
                let value = held.take();
                Some((TakenSlot(held), value))
            }
            Self::Thread(_) => None,
        }
    }

    /// Replaces the value if `fits` returns true for the old one and the new one.
    ///
    /// # Errors
    /// The new value, if it does not fit.
    pub fn replace_if(&self, value: Tensor, fits: impl FnOnce(&Tensor, &Tensor) -> bool) -> Result<(), Tensor> {
        match self {
            Self::Shared { held, .. } => {
                let mut held = held.write().unwrap_or_else(PoisonError::into_inner);
                if !fits(held.value(), &value) {
                    return Err(value);
                }
                let old = held.replace(value);
                // Dropped outside of the slot's lock.
                drop(held);
                drop(old);
            }
            Self::Thread(values) => {
                if !values.with_borrow(|old| fits(old, &value)) {
                    return Err(value);
                }
                drop(values.replace(value));
            }
        }
        Ok(())
    }
}
