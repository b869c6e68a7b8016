//! Large arenas between runs: all executables share them, so that their number is that of runs at
//! one time and not that of executables, of which a function has one for each set of sizes.

use crate::error::Result;
use crate::tensor::Storage;
use std::sync::{Arc, Mutex, PoisonError};

/// Arenas from this many bytes on are shared; smaller ones stay with their executables, where
/// taking one costs nothing.
pub(super) const SHARED_BYTES: usize = 256 << 10;

/// Arenas that no run uses, in ascending order of their lengths.
static IDLE: Mutex<Vec<Arc<Storage>>> = Mutex::new(Vec::new());

/// An arena of at least so many bytes.
///
/// # Errors
/// [`Code::Memory`](crate::Code::Memory) when the system has no memory for it.
pub(super) fn take(bytes: usize) -> Result<Arc<Storage>> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.partition_point(|it| it.len() < bytes);
    if at < idle.len() {
        return Ok(idle.remove(at));
    }
    // One that is too small makes room, so that there are never more than runs at one time.
    let outgrown = idle.pop();
    drop(idle);
    drop(outgrown);
    Ok(Arc::new(Storage::uninit(bytes)?))
}

/// Gives back an arena that [`take`] gave.
pub(super) fn give(arena: Arc<Storage>) {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.partition_point(|it| it.len() < arena.len());
    idle.insert(at, arena);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(bytes: usize) -> Arc<Storage> {
        super::take(bytes).expect("the system has so much")
    }

    /// No run of another test has so large an arena.
    #[test]
    fn an_arena_serves_all_that_fit_into_it() {
        let large = take(64 << 20);
        let at = large.as_ptr();
        give(large);
        let fits = take((64 << 20) - 5);
        assert_eq!(fits.as_ptr(), at);
        let other = take((64 << 20) - 7);
        assert_ne!(other.as_ptr(), at, "an arena is in one use at a time");
        give(fits);
        give(other);
        let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|it| it.len()).collect::<Vec<_>>();
        assert!(idle().is_sorted());
        let grown = take(65 << 20);
        assert!(grown.len() >= 65 << 20 && !idle().contains(&(64 << 20)), "the one that it outgrew is gone");
    }
}
