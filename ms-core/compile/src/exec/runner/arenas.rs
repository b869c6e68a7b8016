//! Manages arenas, one for each run in flight.
//!
//! On the host, executables cache small arenas, and a pool that all executables share caches large ones. A function has
//! an executable for each set of sizes, but there are only as many large arenas as concurrent runs.
//!
//! On a device, every run allocates an arena and releases it when the run is submitted. It is freed after the run in
//! stream order, and the next run on the stream may get the same memory.

use ms_ir::data::{MemorySpace, Storage};
use ms_ir::error::Result;
use std::sync::{Mutex, PoisonError};

/// The minimum size in bytes of host arenas that are shared. Executables cache smaller ones, which is faster.
const SHARED_BYTES: usize = 256 << 10;

/// Unused arenas, in ascending order of their sizes.
static IDLE: Mutex<Vec<Storage>> = Mutex::new(Vec::new());

/// Returns whether an executable caches its arenas of this size.
#[inline]
pub(super) fn are_cached(space: MemorySpace, bytes: usize) -> bool {
    space.is_host() && bytes < SHARED_BYTES
}

/// Returns an arena of at least `bytes` bytes.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if memory runs out; the errors of the device.
pub(super) fn acquire(space: MemorySpace, bytes: usize) -> Result<Storage> {
    if !space.is_host() || bytes < SHARED_BYTES {
        return Storage::uninit_in(space, bytes);
    }
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.partition_point(|it| it.len() < bytes);
    if at < idle.len() {
        return Ok(idle.remove(at));
    }
    // Frees an arena that is too small, so that there are never more arenas than concurrent runs.
    let outgrown = idle.pop();
    drop(idle);
    drop(outgrown);
    Storage::uninit(bytes)
}

/// Releases an arena from [`acquire`] when the run is submitted.
pub(super) fn release(arena: Storage) {
    if !arena.is_host() || arena.len() < SHARED_BYTES {
        return;
    }
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.partition_point(|it| it.len() < arena.len());
    idle.insert(at, arena);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(bytes: usize) -> Storage {
        super::acquire(MemorySpace::Host, bytes).expect("the system has so much")
    }

    /// No other test has arenas of this size.
    #[test]
    fn an_arena_is_reused_for_all_that_fit() {
        let large = acquire(64 << 20);
        let at = large.device_ptr();
        release(large);
        let fits = acquire((64 << 20) - 5);
        assert_eq!(fits.device_ptr(), at);
        let other = acquire((64 << 20) - 7);
        assert_ne!(other.device_ptr(), at, "an arena has one user at a time");
        release(fits);
        release(other);
        let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|it| it.len()).collect::<Vec<_>>();
        assert!(idle().is_sorted());
        let grown = acquire(65 << 20);
        assert!(grown.len() >= 65 << 20 && !idle().contains(&(64 << 20)), "the one that was too small is freed");
    }
}
