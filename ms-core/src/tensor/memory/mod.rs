//! Memory in which arrays lie: that of the host, and that of devices, which backends implement.

pub(super) mod host;

use super::device::Device;
use crate::error::Result;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The memory of a device other than the host.
///
/// Addresses are the device's: the host passes them on and never dereferences them.
///
/// # Safety
/// Blocks that are allocated do not overlap. Copies and fills access the bytes that they name, and no
/// others, and later calls and work of the device see their effects.
pub unsafe trait Memory: Send + Sync {
    /// The device.
    fn device(&self) -> Device;

    /// A block of `bytes` bytes at a multiple of 64 bytes, not initialised. No bytes are a valid
    /// request.
    ///
    /// # Errors
    /// [`Code::Memory`](crate::Code::Memory) when the device has none.
    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>>;

    /// Frees a block when the work that was given to the device until now no longer uses it.
    ///
    /// # Safety
    /// [`Memory::allocate`] returned the block for as many bytes, it is freed once, and no later work
    /// uses it.
    unsafe fn free(&self, block: NonNull<u8>, bytes: usize);

    /// Copies bytes from one place of the device to another.
    ///
    /// # Safety
    /// Both ranges are inside blocks and do not overlap. Nobody else writes the source or accesses the
    /// target meanwhile.
    ///
    /// # Errors
    /// Those of the device.
    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;

    /// Copies bytes of the host to the device; the bytes are read before the call returns.
    ///
    /// # Safety
    /// The target is inside a block, and nobody else accesses it meanwhile.
    ///
    /// # Errors
    /// Those of the device.
    unsafe fn copy_from_host(&self, from: &[u8], to: *mut u8) -> Result<()>;

    /// Waits for the work that was given to the device until now, and copies bytes to the host; all of
    /// `to` is written unless there is an error.
    ///
    /// # Safety
    /// The source is inside a block, and nobody else writes it meanwhile.
    ///
    /// # Errors
    /// Those of the device, and of the work that is waited for.
    unsafe fn copy_to_host(&self, from: *const u8, to: &mut [MaybeUninit<u8>]) -> Result<()>;

    /// Sets bytes to a value.
    ///
    /// # Safety
    /// The target is inside a block, and nobody else accesses it meanwhile.
    ///
    /// # Errors
    /// Those of the device.
    unsafe fn fill(&self, to: *mut u8, bytes: usize, value: u8) -> Result<()>;
}

/// The memory that an array lies in.
#[derive(Clone, Copy)]
pub enum MemorySpace {
    /// That of the host.
    Host,
    /// That of another device.
    Device(&'static dyn Memory),
}

impl MemorySpace {
    /// The device.
    pub fn device(self) -> Device {
        match self {
            Self::Host => Device::CPU,
            Self::Device(memory) => memory.device(),
        }
    }

    /// Whether it is the memory of the host.
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
