//! The storage of the values of slots.

use super::gathered::Held;
use crate::tensor::Tensor;
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
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
