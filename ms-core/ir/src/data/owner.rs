//! Tracks the owner of a block of memory, and the packed forms of its bytes that backends cache while a slot holds it.

use crate::error::Result;
use std::any::Any;
use std::fmt;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ownership of a block of memory: who frees it and who may write it.
///
/// A block that a slot holds is never written: a write of the slot replaces the block, or takes it out of the slot
/// first. Until then, backends may cache forms of its bytes, such as packed operands of products. One word encodes all
/// of this, because most blocks have no forms.
pub(super) struct Owner(AtomicPtr<Mutex<Forms>>);

/// The cached forms of the bytes of a block.
struct Forms {
    /// Whether a slot holds the block.
    held: bool,
    cached: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Forms {
    fn find<F: Any + Send + Sync>(&self, fits: impl Fn(&F) -> bool) -> Option<Arc<F>> {
        self.cached.iter().filter_map(|it| it.clone().downcast::<F>().ok()).find(|it| fits(it))
    }
}

/// The maximum number of forms of a block.
const MAX_FORMS: usize = 8;

/// The block is freed with its value.
const OWNED: usize = 0;

/// The block is borrowed: its owner frees it and may write it.
const BORROWED: usize = 1;

/// A slot holds the block, and no form has been requested.
const HELD: usize = 2;

/// The number of requests for a form that fail before one is cached. Blocks of slots that are written at every step
/// have few requests in between, and packing takes longer than using the result.
const REQUESTS_BEFORE_CACHING: usize = 3;

/// Larger words are the addresses of [`Forms`], which are aligned.
const LAST: usize = HELD + REQUESTS_BEFORE_CACHING;
const _: () = assert!(align_of::<Mutex<Forms>>() > LAST);

impl Owner {
    pub const fn owned() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    pub const fn borrowed() -> Self {
        Self(AtomicPtr::new(without_provenance_mut(BORROWED)))
    }

    #[inline]
    pub fn is_borrowed(&self) -> bool {
        self.0.load(Ordering::Relaxed).addr() == BORROWED
    }

    /// Returns whether a slot holds the block, as far as is known without waiting.
    #[inline]
    pub fn may_be_held(&self) -> bool {
        self.0.load(Ordering::Relaxed).addr() >= HELD
    }

    /// Records that a slot holds the block from now on.
    #[inline]
    pub fn hold(&self) {
        let held = without_provenance_mut(HELD);
        if let Err(other) = self.0.compare_exchange(null_mut(), held, Ordering::AcqRel, Ordering::Acquire)
            && let Some(mut forms) = self.locked(other)
        {
            forms.held = true;
        }
    }

    /// Records that the slot no longer holds the block, and drops its forms.
    #[inline]
    pub fn release(&self) {
        let mut word = self.0.load(Ordering::Acquire);
        while (HELD..=LAST).contains(&word.addr()) {
            match self.0.compare_exchange(word, null_mut(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
        if let Some(mut forms) = self.locked(word) {
            forms.held = false;
            let cached = std::mem::take(&mut forms.cached);
            drop(forms);
            drop(cached);
        }
    }

    /// Returns the form of this type that `fits` accepts, or creates it by `make`. Returns `None` if no slot holds the
    /// block, few forms have been requested, or it has the maximum number of forms. At most one form of a block is
    /// created at a time.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn form<F: Any + Send + Sync>(
        &self,
        fits: impl Fn(&F) -> bool,
        make: impl FnOnce() -> Result<F>,
    ) -> Result<Option<Arc<F>>> {
        let Some(table) = self.table() else { return Ok(None) };
        let mut forms = lock(table);
        let known = forms.find(fits);
        if known.is_some() {
            return Ok(known);
        }
        if !forms.held || forms.cached.len() >= MAX_FORMS {
            return Ok(None);
        }
        let form = Arc::new(make()?);
        forms.cached.push(form.clone());
        Ok(Some(form))
    }

    /// Returns the form of this type that `fits` accepts, if it is cached.
    pub fn known_form<F: Any + Send + Sync>(&self, fits: impl Fn(&F) -> bool) -> Option<Arc<F>> {
        self.locked(self.0.load(Ordering::Acquire))?.find(fits)
    }

    /// Returns the number of cached forms.
    pub fn forms(&self) -> usize {
        self.locked(self.0.load(Ordering::Acquire)).map_or(0, |it| it.cached.len())
    }

    /// Returns the table of forms; `None` if no slot holds the block, or few forms have been requested.
    fn table(&self) -> Option<&Mutex<Forms>> {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let next = match word.addr() {
                OWNED | BORROWED => return None,
                LAST => Box::into_raw(Box::new(Mutex::new(Forms { held: true, cached: Vec::new() }))),
                count @ HELD..LAST => without_provenance_mut(count + 1),
                // SAFETY: other words are addresses of tables, and a table lives as long as `self`, which is borrowed
                // here.
                _ => return Some(unsafe { &*word }),
            };
            let made = word.addr() == LAST;
            match self.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if !made => return None,
                Ok(_) => word = next,
                Err(other) => {
                    if made {
                        // SAFETY: `Box::into_raw` above returned `next`, and the failed exchange did not publish it.
                        drop(unsafe { Box::from_raw(next) });
                    }
                    word = other;
                }
            }
        }
    }

    /// Locks the table at an address that was read from the word, if it is one.
    fn locked(&self, word: *mut Mutex<Forms>) -> Option<MutexGuard<'_, Forms>> {
        // SAFETY: words above `LAST` are addresses of tables, and a table lives as long as `self`, which is borrowed
        // here.
        (word.addr() > LAST).then(|| lock(unsafe { &*word }))
    }

    /// Drops the forms of a block that is about to be written.
    pub fn forget(&mut self) {
        let word = *self.0.get_mut();
        if word.addr() != BORROWED {
            *self.0.get_mut() = null_mut();
        }
        if word.addr() > LAST {
            // SAFETY: `Box::into_raw` in `table` returned this address, and `&mut self` excludes other references to
            // the table.
            drop(unsafe { Box::from_raw(word) });
        }
    }
}

impl Drop for Owner {
    #[inline]
    fn drop(&mut self) {
        if self.0.get_mut().addr() > BORROWED {
            self.forget();
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.0.load(Ordering::Acquire);
        match word.addr() {
            OWNED => f.write_str("owned"),
            BORROWED => f.write_str("borrowed"),
            HELD..=LAST => f.write_str("held"),
            _ => write!(f, "held, with {} forms", self.forms()),
        }
    }
}

fn lock(table: &Mutex<Forms>) -> MutexGuard<'_, Forms> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
