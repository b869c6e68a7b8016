//! Memory shared by arrays.

use super::device::use_device;
use super::memory::{Memory, MemorySpace, host};
use crate::error::Result;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// A block of memory of the host or of another device, freed when the last array that uses it is
/// dropped, unless it is [borrowed](Storage::borrowed).
///
/// Several threads may read it at once. Writing goes through [`Storage::device_ptr`], whose callers
/// hold the only reference or own the bytes they write.
#[derive(Debug)]
pub struct Storage {
    ptr: NonNull<u8>,
    bytes: usize,
    space: MemorySpace,
    /// Whether the block is freed with this value.
    owned: bool,
}

// SAFETY: the block is plain memory owned by this value; shared access only reads, and
// writers uphold the contract of `device_ptr`.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// A block of at least `bytes` bytes of memory of the host, all zero.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has none.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        let storage = Self::uninit(bytes)?;
        // SAFETY: the block has room for that many bytes.
        unsafe { storage.ptr.as_ptr().write_bytes(0, bytes) };
        Ok(storage)
    }

    /// A block of memory of the host that is not initialised; the caller writes every element before
    /// any is read.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has none.
    #[inline]
    pub fn uninit(bytes: usize) -> Result<Self> {
        Ok(Self { ptr: host::allocate(bytes)?, bytes, space: MemorySpace::Host, owned: true })
    }

    /// [`Storage::uninit`] in any memory.
    ///
    /// # Errors
    /// As [`Storage::uninit`].
    #[inline]
    pub fn uninit_in(space: MemorySpace, bytes: usize) -> Result<Self> {
        let ptr = match space {
            MemorySpace::Host => host::allocate(bytes)?,
            MemorySpace::Device(memory) => allocate_on(memory, bytes)?,
        };
        Ok(Self { ptr, bytes, space, owned: true })
    }

    /// A block of borrowed memory of the host.
    ///
    /// # Safety
    /// The `bytes` bytes from `first` on are valid until this value and all that shares it are
    /// dropped.
    pub unsafe fn borrowed(first: NonNull<u8>, bytes: usize) -> Self {
        Self { ptr: first, bytes, space: MemorySpace::Host, owned: false }
    }

    /// A copy of some of the bytes in memory of the host, after the work that writes them.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has no memory for them; those of the
    /// device.
    ///
    /// # Panics
    /// When they are outside the block.
    pub(super) fn copied_to_host(&self, first: usize, bytes: usize) -> Result<Self> {
        assert!(first <= self.bytes && bytes <= self.bytes - first, "the bytes are inside the block");
        let copy = Self::uninit(bytes)?;
        let from = self.device_ptr().wrapping_add(first).cast_const();
        // SAFETY: the new block has so many bytes, and nobody else has it.
        let to = unsafe { std::slice::from_raw_parts_mut(copy.ptr.as_ptr().cast::<MaybeUninit<u8>>(), bytes) };
        match self.space {
            // SAFETY: the bytes are inside the block, and the two do not overlap.
            MemorySpace::Host => unsafe { from.copy_to_nonoverlapping(copy.device_ptr(), bytes) },
            // SAFETY: the bytes are inside the block; shared storage is only read.
            MemorySpace::Device(memory) => unsafe { memory.copy_to_host(from, to)? },
        }
        Ok(copy)
    }

    /// A block of any memory that holds these bytes.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the device has none; those of the device.
    pub(super) fn from_host(space: MemorySpace, bytes: &[u8]) -> Result<Self> {
        let storage = Self::uninit_in(space, bytes.len())?;
        match space {
            // SAFETY: the new block has room for the bytes.
            MemorySpace::Host => unsafe { storage.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) },
            // SAFETY: as above, and nobody else has it.
            MemorySpace::Device(memory) => unsafe { memory.copy_from_host(bytes, storage.device_ptr())? },
        }
        Ok(storage)
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

    /// The memory that the block is in.
    #[inline]
    pub fn space(&self) -> MemorySpace {
        self.space
    }

    /// Whether the block is in memory of the host.
    #[inline]
    pub fn is_host(&self) -> bool {
        self.space.is_host()
    }

    /// Whether the block is freed with this value, and not borrowed.
    pub fn is_owned(&self) -> bool {
        self.owned
    }

    /// The address of the first byte on the device of the block, for backends: a pointer of the host
    /// only if [the block is there](Storage::is_host). A writer ensures that nothing else reads or
    /// writes the same bytes meanwhile.
    #[inline]
    pub fn device_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

#[cold]
fn allocate_on(memory: &'static dyn Memory, bytes: usize) -> Result<NonNull<u8>> {
    use_device(memory.device());
    memory.allocate(bytes)
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.owned {
            match self.space {
                // SAFETY: allocated in `uninit` for as many bytes, and dropped once.
                MemorySpace::Host => unsafe { host::release(self.ptr, self.bytes) },
                // SAFETY: allocated in `uninit_in` for as many bytes, and dropped once.
                MemorySpace::Device(memory) => unsafe { memory.free(self.ptr, self.bytes) },
            }
        }
    }
}
