//! Memory shared by arrays.

use super::device::use_device;
use super::memory::stream::{sync_step, with_stream};
use super::memory::{Fence, Fences, Memory, MemorySpace, Stream, StreamKind, host};
use super::owner::Owner;
use crate::error::Result;
use std::any::Any;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A block of memory of the host or of another device, freed when the last array that uses it is
/// dropped, unless it is [borrowed](Storage::borrowed).
///
/// Several threads may read it at once. Writing goes through [`Storage::device_ptr`], whose callers
/// hold the only reference or own the bytes they write.
///
/// What a device does with a block is work of its streams, and a block in its memory holds the fences of the
/// work that last accessed it. Work that reads it begins when it is written, work that writes or frees
/// it when nothing else accesses it: on the device, while the host goes on. The host waits when it reads.
#[derive(Debug)]
pub struct Storage {
    ptr: NonNull<u8>,
    bytes: usize,
    place: Place,
    owner: Owner,
}

/// Where a block is.
#[derive(Debug)]
enum Place {
    Host,
    Device(Box<OnDevice>),
}

/// What is known of a block in memory of a device.
struct OnDevice {
    memory: &'static dyn Memory,
    fences: Mutex<Fences>,
}

impl OnDevice {
    fn fences(&self) -> MutexGuard<'_, Fences> {
        self.fences.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for OnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.memory.device(), self.fences())
    }
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
        Ok(Self { ptr: host::allocate(bytes)?, bytes, place: Place::Host, owner: Owner::owned() })
    }

    /// [`Storage::uninit`] in any memory.
    ///
    /// # Errors
    /// As [`Storage::uninit`].
    #[inline]
    pub fn uninit_in(space: MemorySpace, bytes: usize) -> Result<Self> {
        match space {
            MemorySpace::Host => Self::uninit(bytes),
            MemorySpace::Device(memory) => Self::uninit_on(memory, bytes),
        }
    }

    #[cold]
    fn uninit_on(memory: &'static dyn Memory, bytes: usize) -> Result<Self> {
        use_device(memory.device());
        let place = Place::Device(Box::new(OnDevice { memory, fences: Mutex::default() }));
        Ok(Self { ptr: memory.allocate(bytes)?, bytes, place, owner: Owner::owned() })
    }

    /// A block of borrowed memory of the host.
    ///
    /// # Safety
    /// The `bytes` bytes from `first` on are valid until this value and all that shares it are
    /// dropped.
    pub unsafe fn borrowed(first: NonNull<u8>, bytes: usize) -> Self {
        Self { ptr: first, bytes, place: Place::Host, owner: Owner::borrowed() }
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
        match &self.place {
            // SAFETY: the bytes are inside the block, and the two do not overlap.
            Place::Host => unsafe { from.copy_to_nonoverlapping(copy.device_ptr(), bytes) },
            Place::Device(at) => with_stream(at.memory, StreamKind::Copy, |stream| {
                self.await_written(stream)?;
                // SAFETY: the bytes are inside the block, which is written when the copy begins; shared storage is
                // only read.
                unsafe { at.memory.copy_to_host(stream, from, to) }
            })?,
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
            MemorySpace::Device(memory) => with_stream(memory, StreamKind::Copy, |stream| {
                // SAFETY: as above, and no work uses it.
                unsafe { memory.copy_from_host(stream, bytes, storage.device_ptr())? };
                let fence = memory.fence(stream);
                storage.written_by(fence);
                sync_step(memory, fence)
            })?,
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
        match &self.place {
            Place::Host => MemorySpace::Host,
            Place::Device(at) => MemorySpace::Device(at.memory),
        }
    }

    /// Whether the block is in memory of the host.
    #[inline]
    pub fn is_host(&self) -> bool {
        matches!(self.place, Place::Host)
    }

    /// Makes later work of a stream begin when the block is written: by the work that is recorded, or else by any of
    /// the calling thread.
    ///
    /// # Errors
    /// That of the work that writes it, if a wait has returned it: there is nothing to read.
    #[doc(hidden)]
    pub fn await_written(&self, stream: Stream) -> Result<()> {
        let Place::Device(at) = &self.place else { return Ok(()) };
        if self.is_fresh() {
            with_stream(at.memory, StreamKind::Compute, |own| {
                if own != stream {
                    at.memory.depend_on(stream, at.memory.fence(own));
                }
            });
        }
        at.fences().await_written(at.memory, stream)
    }

    /// Makes later work of a stream begin when no other work accesses the block.
    #[doc(hidden)]
    pub fn await_unused(&self, stream: Stream) {
        if let Place::Device(at) = &self.place {
            at.fences().await_unused(at.memory, stream);
        }
    }

    /// Records work that reads the block, and [awaited](Storage::await_written) it.
    #[doc(hidden)]
    pub fn used_by(&self, fence: Fence) {
        if let Place::Device(at) = &self.place {
            at.fences().used_by(fence);
        }
    }

    /// Records work that writes the block, and [awaited](Storage::await_unused) it if it is not fresh.
    #[doc(hidden)]
    pub fn written_by(&self, fence: Fence) {
        if let Place::Device(at) = &self.place {
            at.fences().written_by(fence);
        }
    }

    /// Whether the block is in memory of a device, and no work that writes it is recorded.
    #[doc(hidden)]
    pub fn is_fresh(&self) -> bool {
        match &self.place {
            Place::Host => false,
            Place::Device(at) => at.fences().is_fresh(),
        }
    }

    /// Whether the block is freed with this value, and not borrowed.
    pub fn is_owned(&self) -> bool {
        !self.owner.is_borrowed()
    }

    /// Whether a slot holds the block, so that [forms](Storage::form) of its bytes may be kept.
    #[inline]
    pub fn may_be_held(&self) -> bool {
        self.owner.may_be_held()
    }

    /// A slot holds the block from now on: nobody writes it until the slot [releases](Storage::release) it.
    #[inline]
    #[doc(hidden)]
    pub fn hold(&self) {
        self.owner.hold();
    }

    /// A slot that held the block does not any more.
    #[inline]
    #[doc(hidden)]
    pub fn release(&self) {
        self.owner.release();
    }

    /// A form of the block's bytes, for backends: the one of this type that `fits`, or else the result of `make`, which
    /// is kept until the block is written, freed, or in no slot any more; `None` for a block that no slot holds, that
    /// was asked for few forms so far, or that has many.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn form<F: Any + Send + Sync>(
        &self,
        fits: impl Fn(&F) -> bool,
        make: impl FnOnce() -> Result<F>,
    ) -> Result<Option<Arc<F>>> {
        self.owner.form(fits, make)
    }

    /// The [form](Storage::form) of this type that fits, if it is kept.
    pub fn known_form<F: Any + Send + Sync>(&self, fits: impl Fn(&F) -> bool) -> Option<Arc<F>> {
        self.owner.known_form(fits)
    }

    /// The number of [forms](Storage::form) that are kept.
    pub fn forms(&self) -> usize {
        self.owner.forms()
    }

    /// Whether the block is freed with this value; then drops the forms of its bytes, as they may be written now.
    #[inline]
    pub(super) fn is_writable(&mut self) -> bool {
        let owned = self.is_owned();
        if self.owner.may_be_held() {
            self.owner.forget();
        }
        owned
    }

    /// The address of the first byte on the device of the block, for backends: a pointer of the host
    /// only if [the block is there](Storage::is_host). A writer ensures that nothing else reads or
    /// writes the same bytes meanwhile.
    #[inline]
    pub fn device_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.is_owned() {
            match &self.place {
                // SAFETY: allocated in `uninit` for as many bytes, and dropped once.
                Place::Host => unsafe { host::release(self.ptr, self.bytes) },
                Place::Device(at) => free_on(at, self.ptr, self.bytes),
            }
        }
    }
}

/// Frees a block of a device that is dropped.
#[cold]
fn free_on(at: &OnDevice, block: NonNull<u8>, bytes: usize) {
    with_stream(at.memory, StreamKind::Compute, |stream| {
        at.fences().await_unused(at.memory, stream);
        // SAFETY: allocated in `uninit_on` for as many bytes, and dropped once; the stream awaits the work that is
        // recorded, and other work with the block is of this stream.
        unsafe { at.memory.free(stream, block, bytes) };
    });
}
