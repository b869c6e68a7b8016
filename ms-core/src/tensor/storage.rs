//! Memory shared by arrays.

use super::memory;
use crate::error::Result;
use std::ptr::NonNull;

/// A block of host memory, freed when the last array that uses it is dropped, unless it is
/// [borrowed](Storage::borrowed).
///
/// Several threads may read it at once. Writing goes through [`Storage::as_mut_ptr`], whose
/// callers hold the only reference or own the bytes they write.
#[derive(Debug)]
pub struct Storage {
    ptr: NonNull<u8>,
    bytes: usize,
    /// Whether the block is freed with this value.
    owned: bool,
}

// SAFETY: the block is plain memory owned by this value; shared access only reads, and
// writers uphold the contract of `as_mut_ptr`.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// A block of at least `bytes` bytes, all zero.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has none.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        let storage = Self::uninit(bytes)?;
        // SAFETY: the block has room for that many bytes.
        unsafe { storage.ptr.as_ptr().write_bytes(0, bytes) };
        Ok(storage)
    }

    /// A block that is not initialised; the caller writes every element before any is read.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has none.
    #[inline]
    pub fn uninit(bytes: usize) -> Result<Self> {
        Ok(Self { ptr: memory::allocate(bytes)?, bytes, owned: true })
    }

    /// A block of borrowed memory.
    ///
    /// # Safety
    /// The `bytes` bytes from `first` on are valid until this value and all that shares it are
    /// dropped.
    pub unsafe fn borrowed(first: NonNull<u8>, bytes: usize) -> Self {
        Self { ptr: first, bytes, owned: false }
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

    /// Whether the block is freed with this value, and not borrowed.
    pub fn is_owned(&self) -> bool {
        self.owned
    }

    /// The first byte, for reading.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// The first byte, for writing. The caller ensures that nothing else reads or writes the
    /// same bytes meanwhile.
    #[inline]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: allocated in `uninit` for as many bytes, and dropped once.
            unsafe { memory::release(self.ptr, self.bytes) };
        }
    }
}
