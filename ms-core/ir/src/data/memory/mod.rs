//! Defines the memory of arrays: of the host, and of devices, which backends implement.

mod caches;
mod chunks;
mod fences;
pub(super) mod host;
mod huge_page;
mod staging;
pub(super) mod stream;

pub(super) use caches::release_caches;
pub use caches::{MemoryCache, add_memory_cache};
pub(super) use fences::Fences;
pub use staging::StagingRing;
pub use stream::{Fence, Origin, Stream, StreamKind, Streams};

use super::device::Device;
use crate::error::Result;
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

/// The memory of a device other than the host.
///
/// Addresses are the device's: the host passes them on and never dereferences them. Copies and fills are work of a
/// stream. They take place when the earlier work on the stream has ended. If that has failed, they may take place or
/// not.
///
/// Bytes go between the host and the device through pinned host memory, which the device accesses while the host goes
/// on. [`copy_from_host`](#method.copy_from_host) and [`copy_to_host`](#method.copy_to_host) transfer any bytes through
/// the [ring](Memory::staging) of the device.
///
/// # Safety
/// Allocated blocks do not overlap. Copies and fills access only the bytes that they name. The work of streams runs in
/// the order that [`Streams`] promises, and a wait sees its effects.
pub unsafe trait Memory: Streams + Any {
    /// The device.
    fn device(&self) -> Device;

    /// Allocates an uninitialised block of `bytes` bytes, aligned to 64 bytes, for later work on a stream. Zero bytes
    /// are a valid request.
    ///
    /// Earlier work on the stream may still use the memory: a block that the stream [frees](Memory::free) is reused at
    /// once. Other streams use the block after they [await](Streams::order_after) the [fence](Streams::fence) of the
    /// stream after this call.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the device has none, even after all work that frees memory.
    fn allocate(&self, stream: Stream, bytes: usize) -> Result<NonNull<u8>>;

    /// Frees a block when the earlier work on a stream has ended, even if it fails. Later allocations for the stream
    /// may reuse it at once, others when that work has ended.
    ///
    /// # Safety
    /// [`Memory::allocate`] returned the block for `bytes` bytes, it is freed once, and no work uses it then.
    unsafe fn free(&self, stream: Stream, block: NonNull<u8>, bytes: usize);

    /// Copies bytes within the device.
    ///
    /// # Safety
    /// Both ranges are inside blocks and do not overlap. When this runs, no other work writes the source or accesses
    /// the target.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn copy(&self, stream: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;

    /// Copies bytes from another device of the same kind, without the host, and returns whether these two devices can.
    /// If not, there is no copy.
    ///
    /// The copy is work of both streams: it takes place when the earlier work on both has ended, and their later work
    /// begins after it. The copy [depends](Streams::depend_on) on the work of the other stream.
    ///
    /// # Safety
    /// The source is inside a block of the other device, and the target inside one of this device. When this runs, no
    /// other work writes the source or accesses the target.
    ///
    /// # Errors
    /// The errors of both devices.
    unsafe fn copy_from_peer(&self, stream: Stream, from: PeerAddress<'_>, to: *mut u8, bytes: usize) -> Result<bool> {
        let _ = (stream, from, to, bytes);
        Ok(false)
    }

    /// Returns the ring of pinned memory for transfers, which the device holds.
    fn staging(&self) -> &StagingRing;

    /// Allocates pinned host memory, which is never freed.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the system has none.
    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Copies bytes from [pinned](Memory::allocate_pinned) memory to the device. They are read when this runs.
    ///
    /// # Safety
    /// The source is initialised pinned memory, and the target is inside a block. When this runs, nothing writes the
    /// source or accesses the target.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn copy_from_pinned(&self, stream: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;

    /// Copies bytes from the device to [pinned](Memory::allocate_pinned) memory. They are there after a
    /// [wait](Streams::wait).
    ///
    /// # Safety
    /// The source is inside a block, and the target is pinned memory. When this runs, nothing writes the source or
    /// accesses the target.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn copy_to_pinned(&self, stream: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;

    /// Sets bytes to a value.
    ///
    /// # Safety
    /// The target is inside a block, and when this runs, no other work accesses it.
    ///
    /// # Errors
    /// The errors of the device.
    unsafe fn fill(&self, stream: Stream, to: *mut u8, bytes: usize, value: u8) -> Result<()>;

    /// Copies old values over new ones, atomically, if the error word of the stream is set when this runs. For
    /// [`Streams::check`], this work always has a result.
    ///
    /// A new value may be in the memory of an old one. Then the work that writes it is guarded: it has left the old
    /// value in place if the word was set.
    ///
    /// # Safety
    /// All ranges are inside blocks. When this runs, no other work writes old values or accesses new ones. New values
    /// do not overlap each other.
    unsafe fn restore(&self, stream: Stream, values: &[Restored]);
}

/// Bytes of another device, and the stream of that device on which they are read.
#[derive(Clone, Copy)]
pub struct PeerAddress<'a> {
    /// The memory of the other device.
    pub memory: &'a dyn Memory,
    /// The stream of the other device.
    pub stream: Stream,
    /// The address of the first byte.
    pub address: *const u8,
}

/// A value of a slot that a run writes. The slot keeps the old value if the run fails.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The old value.
    pub old: *const u8,
    /// The new value, which may be in the same memory.
    pub new: *mut u8,
    /// The size of both.
    pub bytes: usize,
}

/// The memory that contains an array.
#[derive(Clone, Copy)]
pub enum MemorySpace {
    /// The host's memory.
    Host,
    /// The memory of another device.
    Device(&'static dyn Memory),
}

impl MemorySpace {
    /// Returns the device.
    pub fn device(self) -> Device {
        match self {
            Self::Host => Device::CPU,
            Self::Device(memory) => memory.device(),
        }
    }

    /// Returns whether this is host memory.
    #[inline]
    pub fn is_host(self) -> bool {
        matches!(self, Self::Host)
    }
}

impl fmt::Debug for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.device(), f)
    }
}
