//! Manages arenas.
//!
//! On the host, every run in flight has a separate arena. Executables cache small arenas, and a pool that all
//! executables share caches large ones. A function has an executable for each set of sizes, but there are only as many
//! large arenas as concurrent runs.
//!
//! On a device, an executable has an arena for each stream. The runs of a stream follow each other, so queued ones
//! share the arena, and its addresses stay the same. The device gets idle arenas back when it has no other memory.

use ms_ir::data::{
    Device, Memory, MemoryCache, MemorySpace, Storage, Stream, StreamKind, add_memory_cache, with_stream,
};
use ms_ir::error::Result;
use std::sync::{Arc, Mutex, PoisonError};

/// The minimum size in bytes of host arenas that are shared. Executables cache smaller ones, which is faster.
const SHARED_BYTES: usize = 256 << 10;

/// Unused arenas, in ascending order of their sizes.
static IDLE: Mutex<Vec<Storage>> = Mutex::new(Vec::new());

/// Returns whether an executable caches its host arenas of this size.
#[inline]
pub(super) fn are_cached(bytes: usize) -> bool {
    bytes < SHARED_BYTES
}

/// Returns a host arena of at least `bytes` bytes.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if memory runs out.
pub(super) fn acquire(bytes: usize) -> Result<Storage> {
    if bytes < SHARED_BYTES {
        return Storage::uninit(bytes);
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

/// Releases an arena from [`acquire`].
pub(super) fn release(arena: Storage) {
    if arena.len() < SHARED_BYTES {
        return;
    }
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.partition_point(|it| it.len() < arena.len());
    idle.insert(at, arena);
}

/// The arenas of an executable on a device that no run is being issued in, by the compute streams that use them.
pub(super) struct StreamArenas {
    memory: &'static dyn Memory,
    idle: Mutex<Vec<(Stream, Storage)>>,
}

impl StreamArenas {
    /// Creates an empty cache of arenas in a memory.
    pub fn new(memory: &'static dyn Memory) -> Arc<Self> {
        let arenas = Arc::new(Self { memory, idle: Mutex::default() });
        let cache: Arc<dyn MemoryCache> = arenas.clone();
        add_memory_cache(Arc::downgrade(&cache));
        arenas
    }

    /// Returns the arena of the calling thread's stream, which has `bytes` bytes.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if memory runs out; the errors of the device.
    pub fn acquire(&self, bytes: usize) -> Result<Storage> {
        with_stream(self.memory, StreamKind::Compute, |stream| {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let known = idle.iter().position(|it| it.0 == stream).map(|at| idle.swap_remove(at).1);
            drop(idle);
            known.map_or_else(|| Storage::uninit_in(MemorySpace::Device(self.memory), bytes), Ok)
        })
    }

    /// Releases an arena when the run in it is submitted. It is kept, unless the stream has one: a host step of a run
    /// may start another run, in a second arena.
    pub fn release(&self, arena: Storage) {
        with_stream(self.memory, StreamKind::Compute, |stream| {
            arena.written_by(self.memory.fence(stream));
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.iter().all(|it| it.0 != stream) {
                idle.push((stream, arena));
            }
        });
    }
}

impl MemoryCache for StreamArenas {
    fn release(&self, device: Device) {
        if self.memory.device() == device {
            let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
            drop(idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(bytes: usize) -> Storage {
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
