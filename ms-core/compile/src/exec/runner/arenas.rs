//! Arenas: one for each run in flight.
//!
//! On the host, small arenas are kept by their executables, and large ones by a pool that all executables share, so
//! that their number is that of concurrent runs and not that of executables, of which a function has one for each set
//! of sizes. On a device, an arena is allocated for every run and given up when the run is submitted: it is free
//! behind the run, in the order of its stream, and the next run on the stream may have the same memory.

use crate::error::Result;
use crate::tensor::{MemorySpace, Storage};
use std::sync::{Mutex, PoisonError};

/// Arenas of the host of at least this many bytes are shared; smaller ones are kept by their executables, which
/// is faster.
const SHARED_BYTES: usize = 256 << 10;

/// Unused arenas, in ascending order of their sizes.
static IDLE: Mutex<Vec<Storage>> = Mutex::new(Vec::new());

/// Whether an executable keeps its arenas of this size.
#[inline]
pub(super) fn are_kept(space: MemorySpace, bytes: usize) -> bool {
    space.is_host() && bytes < SHARED_BYTES
}

/// An arena of at least this many bytes.
///
/// # Errors
/// [`Code::Memory`](crate::Code::Memory) if memory runs out; those of the device.
pub(super) fn acquire(space: MemorySpace, bytes: usize) -> Result<Storage> {
    if !space.is_host() || bytes < SHARED_BYTES {
        return Storage::uninit_in(space, bytes);
    }
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.partition_point(|it| it.len() < bytes);
    if at < idle.len() {
        return Ok(idle.remove(at));
    }
    // Frees one that is too small, so that there are never more arenas than concurrent runs.
    let outgrown = idle.pop();
    drop(idle);
    drop(outgrown);
    Storage::uninit(bytes)
}

/// Gives up an arena of [`acquire`], when the run is submitted.
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
