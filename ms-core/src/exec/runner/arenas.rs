//! The pool of large arenas. All executables share it, so that the number of arenas is that of
//! concurrent runs and not that of executables, of which a function has one for each set of sizes.

use crate::error::Result;
use crate::tensor::Storage;
use std::sync::{Arc, Mutex, PoisonError};

/// Arenas of at least this many bytes are shared; smaller ones are kept by their executables, which
/// is faster.
pub(super) const SHARED_BYTES: usize = 256 << 10;

/// Unused arenas, in ascending order of their sizes.
static IDLE: Mutex<Vec<Arc<Storage>>> = Mutex::new(Vec::new());

/// Takes an arena of at least this many bytes, or allocates one.
///
/// # Errors
/// [`Code::Memory`](crate::Code::Memory) if memory runs out.
pub(super) fn acquire(bytes: usize) -> Result<Arc<Storage>> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.partition_point(|it| it.len() < bytes);
    if at < idle.len() {
        return Ok(idle.remove(at));
    }
    // Frees one that is too small, so that there are never more arenas than concurrent runs.
    let outgrown = idle.pop();
    drop(idle);
    drop(outgrown);
    Ok(Arc::new(Storage::uninit(bytes)?))
}

/// Returns an arena of [`acquire`] to the pool.
pub(super) fn release(arena: Arc<Storage>) {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.partition_point(|it| it.len() < arena.len());
    idle.insert(at, arena);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(bytes: usize) -> Arc<Storage> {
        super::acquire(bytes).expect("the system has so much")
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
