//! Defines the memory that arrays share.

use super::device::use_device;
use super::memory::stream::{sync_step, with_stream};
use super::memory::{Fence, Fences, Memory, MemorySpace, PeerAddress, Stream, StreamKind, host, release_caches};
use super::owner::Owner;
use crate::error::{Code, Result};
use std::any::Any;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A block of host or device memory, freed when the last array that uses it is dropped, unless it is
/// [borrowed](Storage::borrowed).
///
/// Several threads may read it at once. Writing goes through [`Storage::device_ptr`]. Its callers hold the only
/// reference or own the bytes that they write.
///
/// Device accesses to a block are work of streams, and a block in device memory holds the fences of the work that last
/// accessed it. The first is the fence of its allocation. Work that reads it begins when it is written. Work that
/// writes or frees it begins when nothing else accesses it. Both wait on the device, while the host goes on; the host
/// waits when it reads.
#[derive(Debug)]
pub struct Storage {
    ptr: NonNull<u8>,
    bytes: usize,
    backing: Backing,
    owner: Owner,
}

/// The location of a block.
#[derive(Debug)]
enum Backing {
    Host,
    Device(Box<OnDevice>),
}

/// The state of a block in device memory.
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

// SAFETY: the block is plain memory owned by this value, and its contents are not tied to a thread.
unsafe impl Send for Storage {}
// SAFETY: shared access only reads, and writers uphold the contract of `device_ptr`: nothing else accesses their bytes.
unsafe impl Sync for Storage {}

impl Storage {
    /// Allocates a block of at least `bytes` bytes of host memory, all zero.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has none.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        let storage = Self::uninit(bytes)?;
        // SAFETY: `uninit` returned a block of at least `bytes` bytes that nothing else uses.
        unsafe { storage.ptr.as_ptr().write_bytes(0, bytes) };
        Ok(storage)
    }

    /// Allocates an uninitialised block of host memory. The caller writes every element before any is read.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has none.
    #[inline]
    pub fn uninit(bytes: usize) -> Result<Self> {
        Ok(Self { ptr: host::allocate(bytes)?, bytes, backing: Backing::Host, owner: Owner::owned() })
    }

    /// Allocates a block like [`Storage::uninit`], in any memory. On a device it is for work of the calling thread's
    /// compute stream.
    ///
    /// # Errors
    /// See [`Storage::uninit`].
    #[inline]
    pub fn uninit_in(space: MemorySpace, bytes: usize) -> Result<Self> {
        match space {
            MemorySpace::Host => Self::uninit(bytes),
            MemorySpace::Device(memory) => {
                with_stream(memory, StreamKind::Compute, |stream| Self::uninit_on(memory, stream, bytes))
            }
        }
    }

    /// Allocates a block of device memory for later work on a stream. If the device has none, the memory that is kept
    /// for later use is released first.
    #[cold]
    fn uninit_on(memory: &'static dyn Memory, stream: Stream, bytes: usize) -> Result<Self> {
        use_device(memory.device());
        let ptr = memory.allocate(stream, bytes).or_else(|error| {
            if error.code() != Code::Memory {
                return Err(error);
            }
            release_caches(memory.device());
            memory.allocate(stream, bytes)
        })?;
        let fences = Mutex::new(Fences::allocated(memory.fence(stream)));
        Ok(Self { ptr, bytes, backing: Backing::Device(Box::new(OnDevice { memory, fences })), owner: Owner::owned() })
    }

    /// Wraps a block of borrowed host memory.
    ///
    /// # Safety
    /// The `bytes` bytes from `first` on are valid until this value and everything that shares it are dropped.
    pub unsafe fn borrowed(first: NonNull<u8>, bytes: usize) -> Self {
        Self { ptr: first, bytes, backing: Backing::Host, owner: Owner::borrowed() }
    }

    /// Copies some of the bytes to host memory, after the work that writes them.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has no memory for them; the errors of the device.
    ///
    /// # Panics
    /// Panics when the bytes are outside the block.
    pub(super) fn copied_to_host(&self, first: usize, bytes: usize) -> Result<Self> {
        assert!(first <= self.bytes && bytes <= self.bytes - first, "the bytes are inside the block");
        let copy = Self::uninit(bytes)?;
        let from = self.device_ptr().wrapping_add(first).cast_const();
        // SAFETY: `uninit` returned a block of at least `bytes` bytes that nothing else uses.
        let to = unsafe { std::slice::from_raw_parts_mut(copy.ptr.as_ptr().cast::<MaybeUninit<u8>>(), bytes) };
        match &self.backing {
            // SAFETY: `first + bytes <= self.bytes` by the assertion, and the new block of `bytes` bytes does not
            // overlap this one.
            Backing::Host => unsafe { from.copy_to_nonoverlapping(copy.device_ptr(), bytes) },
            Backing::Device(at) => with_stream(at.memory, StreamKind::Copy, |stream| {
                self.await_written(stream)?;
                // SAFETY: the bytes are inside the block by the assertion. The stream awaits the work that writes them,
                // and shared storage is only read.
                unsafe { at.memory.copy_to_host(stream, from, to) }
            })?,
        }
        Ok(copy)
    }

    /// Allocates a block of any memory with these bytes.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the device has none; the errors of the device.
    pub(super) fn from_host(space: MemorySpace, bytes: &[u8]) -> Result<Self> {
        match space {
            MemorySpace::Host => {
                let storage = Self::uninit(bytes.len())?;
                // SAFETY: the new block has `bytes.len()` bytes that nothing else uses.
                unsafe { storage.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                Ok(storage)
            }
            MemorySpace::Device(memory) => with_stream(memory, StreamKind::Copy, |stream| {
                let storage = Self::uninit_on(memory, stream, bytes.len())?;
                // SAFETY: the block of `bytes.len()` bytes was allocated for this stream, and no other work uses it.
                unsafe { memory.copy_from_host(stream, bytes, storage.device_ptr())? };
                let fence = memory.fence(stream);
                storage.written_by(fence);
                sync_step(memory, fence)?;
                Ok(storage)
            }),
        }
    }

    /// Copies some of the bytes to another device, without the host. Returns `None` if the devices cannot.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the device has no memory for them; the errors of both devices.
    ///
    /// # Panics
    /// Panics when the bytes are outside the block, or the block is in host memory.
    pub(super) fn copied_to_peer(&self, to: &'static dyn Memory, first: usize, bytes: usize) -> Result<Option<Self>> {
        assert!(first <= self.bytes && bytes <= self.bytes - first, "the bytes are inside the block");
        let Backing::Device(at) = &self.backing else { panic!("the block is on a device") };
        let (of, own) = (at.memory, StreamKind::Copy);
        with_stream(of, own, |of_stream| {
            with_stream(to, own, |stream| {
                let storage = Self::uninit_on(to, stream, bytes)?;
                self.await_written(of_stream)?;
                let address = self.device_ptr().wrapping_add(first).cast_const();
                let from = PeerAddress { memory: of, stream: of_stream, address };
                // SAFETY: the bytes are inside the block by the assertion, and their stream awaits the work that writes
                // them. The new block was allocated for the other stream, and no other work uses it.
                if !unsafe { to.copy_from_peer(stream, from, storage.device_ptr(), bytes)? } {
                    return Ok(None);
                }
                let fence = to.fence(stream);
                storage.written_by(fence);
                self.used_by(of.fence(of_stream));
                sync_step(to, fence)?;
                Ok(Some(storage))
            })
        })
    }

    /// Returns the number of usable bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether there are no usable bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the memory that contains the block.
    #[inline]
    pub fn space(&self) -> MemorySpace {
        match &self.backing {
            Backing::Host => MemorySpace::Host,
            Backing::Device(at) => MemorySpace::Device(at.memory),
        }
    }

    /// Returns whether the block is in host memory.
    #[inline]
    pub fn is_host(&self) -> bool {
        matches!(self.backing, Backing::Host)
    }

    /// Makes later work of a stream begin when the block is written: by the recorded work, or else by any work of the
    /// calling thread.
    ///
    /// # Errors
    /// The error of the work that writes it, if a wait has returned it: there is nothing to read.
    #[doc(hidden)]
    pub fn await_written(&self, stream: Stream) -> Result<()> {
        let Backing::Device(at) = &self.backing else { return Ok(()) };
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
        if let Backing::Device(at) = &self.backing {
            at.fences().await_unused(at.memory, stream);
        }
    }

    /// Records work that reads the block and has [awaited](Storage::await_written) it.
    #[doc(hidden)]
    pub fn used_by(&self, fence: Fence) {
        if let Backing::Device(at) = &self.backing {
            at.fences().used_by(fence);
        }
    }

    /// Records work that writes the block and has [awaited](Storage::await_unused) it, or is on the stream for which
    /// the block was allocated if it is fresh.
    #[doc(hidden)]
    pub fn written_by(&self, fence: Fence) {
        if let Backing::Device(at) = &self.backing {
            at.fences().written_by(fence);
        }
    }

    /// Returns whether the block is in device memory and has no recorded write.
    #[doc(hidden)]
    pub fn is_fresh(&self) -> bool {
        match &self.backing {
            Backing::Host => false,
            Backing::Device(at) => at.fences().is_fresh(),
        }
    }

    /// Returns whether the block is freed with this value, rather than borrowed.
    pub fn is_owned(&self) -> bool {
        !self.owner.is_borrowed()
    }

    /// Returns whether a slot holds the block, so that [forms](Storage::form) of its bytes may be cached.
    #[inline]
    pub fn may_be_held(&self) -> bool {
        self.owner.may_be_held()
    }

    /// Records that a slot holds the block from now on. It is not written until the slot [releases](Storage::release)
    /// it.
    #[inline]
    #[doc(hidden)]
    pub fn hold(&self) {
        self.owner.hold();
    }

    /// Records that the slot no longer holds the block.
    #[inline]
    #[doc(hidden)]
    pub fn release(&self) {
        self.owner.release();
    }

    /// Returns a cached form of the block's bytes, for backends: the one of this type that `fits` accepts, or else the
    /// result of `make`. A form is cached until the block is written, freed, or released by its slot. Returns `None`
    /// for a block that no slot holds, that has had few requests so far, or that has many forms.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn form<F: Any + Send + Sync>(
        &self,
        fits: impl Fn(&F) -> bool,
        make: impl FnOnce() -> Result<F>,
    ) -> Result<Option<Arc<F>>> {
        self.owner.form(fits, make)
    }

    /// Returns the [form](Storage::form) of this type that `fits` accepts, if it is cached.
    pub fn known_form<F: Any + Send + Sync>(&self, fits: impl Fn(&F) -> bool) -> Option<Arc<F>> {
        self.owner.known_form(fits)
    }

    /// Returns the number of cached [forms](Storage::form).
    pub fn forms(&self) -> usize {
        self.owner.forms()
    }

    /// Returns whether the block is freed with this value. If so, drops the forms of its bytes, since these may now be
    /// written.
    #[inline]
    pub(super) fn is_writable(&mut self) -> bool {
        let owned = self.is_owned();
        if self.owner.may_be_held() {
            self.owner.forget();
        }
        owned
    }

    /// Returns the address of the first byte on the block's device, for backends. It is a host pointer only if [the
    /// block is on the host](Storage::is_host). A writer ensures that nothing else reads or writes the same bytes
    /// meanwhile.
    #[inline]
    pub fn device_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.is_owned() {
            match &self.backing {
                // SAFETY: `uninit` allocated the block for as many bytes, and `drop` runs once.
                Backing::Host => unsafe { host::release(self.ptr, self.bytes) },
                Backing::Device(at) => free_on(at, self.ptr, self.bytes),
            }
        }
    }
}

/// Frees a block of device memory.
#[cold]
fn free_on(at: &OnDevice, block: NonNull<u8>, bytes: usize) {
    with_stream(at.memory, StreamKind::Compute, |stream| {
        at.fences().await_unused(at.memory, stream);
        // SAFETY: `uninit_on` allocated the block for as many bytes, and it is dropped once. The stream awaits the
        // recorded work, and other work with the block is on this stream.
        unsafe { at.memory.free(stream, block, bytes) };
    });
}
