//! Memory that arrays share.

use std::alloc::{Layout as AllocLayout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Every allocation starts at a multiple of this many bytes: one cache line and one
/// AVX-512 register.
pub const ALIGN: usize = 64;

/// A block of host memory, freed when the last array that uses it is dropped.
///
/// Several threads may read it at once. Writing goes through [`Storage::as_mut_ptr`], whose
/// callers hold the only reference or own the bytes they write.
#[derive(Debug)]
pub struct Storage {
    ptr: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the block is plain memory owned by this value; shared access only reads, and
// writers uphold the contract of `as_mut_ptr`.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// A block of at least `bytes` bytes, all zero.
    pub fn zeroed(bytes: usize) -> Self {
        let storage = Self::uninit(bytes);
        // SAFETY: the block was allocated with room for `capacity(bytes)` bytes.
        unsafe { storage.ptr.as_ptr().write_bytes(0, capacity(bytes)) };
        storage
    }

    /// A block whose content is up to the caller, who writes every element before any is read.
    pub fn uninit(bytes: usize) -> Self {
        let layout = block(bytes);
        // SAFETY: `layout` has a size above zero.
        let ptr = unsafe { alloc(layout) };
        let ptr = NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(layout));
        Self { ptr, bytes }
    }

    /// Usable bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is no byte to use.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The first byte, for reading.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// The first byte, for writing. Who writes makes sure that nobody reads or writes the
    /// same bytes meanwhile.
    #[inline]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: allocated in `uninit` with the same layout, and dropped once.
        unsafe { dealloc(self.ptr.as_ptr(), block(self.bytes)) };
    }
}

/// Bytes that are really allocated: whole cache lines, at least one.
fn capacity(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(ALIGN)
}

fn block(bytes: usize) -> AllocLayout {
    AllocLayout::from_size_align(capacity(bytes), ALIGN).expect("a block is smaller than the address space")
}
