//! The storage of the values of slots.

use super::gathered::Held;
use crate::error::{Code, Error, raise};
use crate::tensor::Tensor;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError, TryLockResult};
use std::thread::LocalKey;

/// The value of a slot: one for the process, or one for each thread.
pub(super) enum Store {
    /// One that all threads share.
    Shared {
        held: RwLock<Held>,
        /// Held by the run of a compiled function that writes the slot.
        writing: Mutex<()>,
        /// The number of the thread that has taken the value; zero if it is there.
        taker: AtomicU64,
    },
    /// The value of the calling thread.
    Thread(&'static LocalKey<RefCell<Tensor>>),
}

/// A slot whose value is taken by a run that writes it. While this lives, other threads that read or write
/// the slot wait. For the thread that holds it, which runs functions of custom ops meanwhile, such an access is
/// an error.
pub struct TakenSlot<'a> {
    held: RwLockWriteGuard<'a, Held>,
    taker: &'a AtomicU64,
}

impl TakenSlot<'_> {
    /// Puts a value into the slot, once: the old one or a new one.
    pub fn put(mut self, value: Tensor) {
        self.held.put(value);
    }
}

impl Drop for TakenSlot<'_> {
    /// Before the lock is released.
    fn drop(&mut self) {
        self.taker.store(0, Ordering::Relaxed);
    }
}

/// The number of the calling thread, which is not zero.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|it| *it)
}

/// The guard of a lock of a slot; waits for it unless the calling thread would wait for itself.
///
/// # Panics
/// Raises [`Code::CustomOp`] if that thread has taken the slot's value.
fn locked<G>(attempt: TryLockResult<G>, taker: &AtomicU64, wait: impl FnOnce() -> G) -> G {
    match attempt {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        // Only this thread stores its number.
        Err(TryLockError::WouldBlock) if taker.load(Ordering::Relaxed) == this_thread() => refuse_access(),
        Err(TryLockError::WouldBlock) => wait(),
    }
}

#[cold]
fn refuse_access() -> ! {
    let message = "the value of a parameter is read or written, which the compiled function that calls this writes";
    raise(Error::new(Code::CustomOp, message).help("make the parameter's value an operand of the op"));
}

impl Store {
    /// One value for all threads.
    pub fn shared(value: Tensor) -> Self {
        Self::Shared { held: RwLock::new(Held::new(value)), writing: Mutex::new(()), taker: AtomicU64::new(0) }
    }

    /// Excludes other runs that write the slot; `None` if no other thread shares the value.
    pub fn lock(&self) -> Option<MutexGuard<'_, ()>> {
        match self {
            Self::Shared { writing, taker, .. } => {
                let wait = || writing.lock().unwrap_or_else(PoisonError::into_inner);
                Some(locked(writing.try_lock(), taker, wait))
            }
            Self::Thread(_) => None,
        }
    }

    /// The value.
    #[inline]
    pub fn load(&self) -> Tensor {
        match self {
            Self::Shared { held, taker, .. } => {
                let wait = || held.read().unwrap_or_else(PoisonError::into_inner);
                locked(held.try_read(), taker, wait).value().clone()
            }
            Self::Thread(values) => values.with_borrow(Tensor::clone),
        }
    }

    /// The lock of the value; `None` if every thread has its own.
    pub fn exclusive(&self) -> Option<RwLockWriteGuard<'_, Held>> {
        match self {
            Self::Shared { held, taker, .. } => {
                let wait = || held.write().unwrap_or_else(PoisonError::into_inner);
                Some(locked(held.try_write(), taker, wait))
            }
            Self::Thread(_) => None,
        }
    }

    /// Takes the value, if it is one that all threads share.
    pub fn take(&self) -> Option<(TakenSlot<'_>, Tensor)> {
        match self {
            Self::Shared { taker, .. } => {
                let mut held = self.exclusive()?;
                let value = held.take();
                taker.store(this_thread(), Ordering::Relaxed);
                Some((TakenSlot { held, taker }, value))
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
            Self::Shared { .. } => {
                let mut held = self.exclusive().expect("all threads share the value");
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
