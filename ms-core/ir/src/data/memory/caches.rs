//! Releases device memory that is kept for later use, when a device has no other.

use crate::data::device::Device;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Device memory that is kept for later use.
pub trait MemoryCache: Send + Sync {
    /// Frees the blocks of a device that are not in use.
    fn release(&self, device: Device);
}

static CACHES: Mutex<Vec<Weak<dyn MemoryCache>>> = Mutex::new(Vec::new());

/// Adds a cache. An allocation that fails asks all caches to release their memory, and is then repeated.
#[doc(hidden)]
pub fn add_memory_cache(cache: Weak<dyn MemoryCache>) {
    let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches.retain(|it| it.strong_count() > 0);
    caches.push(cache);
}

/// Asks all caches to release their memory of a device.
pub(in crate::data) fn release_caches(device: Device) {
    // The memory is freed outside the lock, since work of the device may drop caches.
    let caches: Vec<Arc<dyn MemoryCache>> = {
        let caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
        caches.iter().filter_map(Weak::upgrade).collect()
    };
    caches.iter().for_each(|it| it.release(device));
}
