//! The memory of a simulated device.

use crate::simulation::Simulation;
use ms_core::error::{Code, Error, Result};
use ms_core::tensor::{Array, Device, Memory, Storage};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of memory of a device. The system provides those that are used.
pub const BYTES: usize = 8 << 30;

/// Every block starts at a multiple of this many bytes.
const ALIGN: usize = 64;

/// The value of bytes that are not initialised: floats are NaN.
const UNWRITTEN: u8 = 0xff;

/// The first bytes of a block that are set to [`UNWRITTEN`].
const MARKED_BYTES: usize = 64 << 10;

/// The memory of a simulated device: a range of addresses without access, and the bytes behind them.
pub struct SimMemory {
    device: Device,
    /// The first address of the device.
    first: usize,
    /// The first of the bytes, at the same distances.
    bytes: NonNull<u8>,
    /// The free ranges by their offsets: lengths, with no two adjacent.
    free: Mutex<BTreeMap<usize, usize>>,
    pub simulation: Simulation,
}

// SAFETY: the mapping is plain memory, whose accesses follow the contract of `Memory`.
unsafe impl Send for SimMemory {}
// SAFETY: as above.
unsafe impl Sync for SimMemory {}

impl SimMemory {
    /// The memory of a device, which is never unmapped.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`] when the system reserves no addresses.
    pub fn new(device: Device) -> Result<Self> {
        let refuse = |errno: rustix::io::Errno| {
            let message = format!("`{device}` is not available: the system reserves no {BYTES} bytes: {errno}");
            Error::new(Code::DeviceUnavailable, message)
        };
        let map = |access: ProtFlags| {
            // SAFETY: a new mapping at an address that the system chooses.
            let mapped =
                unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, access, MapFlags::PRIVATE | MapFlags::NORESERVE) };
            mapped.map_err(refuse)
        };
        let first = map(ProtFlags::empty())? as usize;
        let bytes = map(ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Self {
            device,
            first,
            bytes: NonNull::new(bytes.cast()).expect("a mapping is not at address zero"),
            free: Mutex::new(BTreeMap::from([(0, BYTES)])),
            simulation: Simulation::default(),
        })
    }

    /// The bytes behind an address of the device.
    ///
    /// # Panics
    /// When the address is not one of the device.
    pub fn real(&self, address: usize) -> *mut u8 {
        let offset = address.wrapping_sub(self.first);
        assert!(offset <= BYTES, "{address:#x} is no address of `{}`", self.device);
        self.bytes.as_ptr().wrapping_add(offset)
    }

    /// An array of the device as one of the host that borrows its bytes.
    ///
    /// # Safety
    /// The array on the device outlives the borrowed one.
    ///
    /// # Panics
    /// When the array is not on the device.
    pub unsafe fn borrowed(&self, array: &Array) -> Array {
        assert_eq!(array.device(), self.device, "operands are on the device");
        let storage = array.storage();
        let first = NonNull::new(self.real(storage.device_ptr() as usize)).expect("no bytes are at address zero");
        // SAFETY: the bytes are those of the array's block, which the caller keeps.
        let storage = unsafe { Storage::borrowed(first, storage.len()) };
        // SAFETY: the elements of the array were written as values of its dtype.
        unsafe { Array::new(Arc::new(storage), array.layout().clone(), array.dtype()) }
    }

    /// The distance from an address of the device to that of its byte, modulo 2^64.
    pub fn offset(&self) -> usize {
        (self.bytes.as_ptr() as usize).wrapping_sub(self.first)
    }

    fn ranges(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that a block of `bytes` bytes takes; `None` if there are no such blocks.
fn room(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(ALIGN)
}

// SAFETY: blocks are disjoint ranges of one mapping, copies and fills access what they name, and calls
// take effect in their order.
unsafe impl Memory for SimMemory {
    fn device(&self) -> Device {
        self.device
    }

    fn allocate(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.simulation.call()?;
        let refuse = || Error::new(Code::Memory, format!("`{}` has no memory for {bytes} bytes", self.device));
        let room = room(bytes).ok_or_else(refuse)?;
        let mut free = self.ranges();
        let (&offset, &len) = free.iter().find(|it| *it.1 >= room).ok_or_else(refuse)?;
        free.remove(&offset);
        if len > room {
            free.insert(offset + room, len - room);
        }
        drop(free);
        self.simulation.allocated(bytes);
        let address = self.first + offset;
        // SAFETY: the block is inside the mapping, and nobody uses it yet.
        unsafe { self.real(address).write_bytes(UNWRITTEN, bytes.min(MARKED_BYTES)) };
        Ok(NonNull::new(address as *mut u8).expect("no address of a device is zero"))
    }

    unsafe fn free(&self, block: NonNull<u8>, bytes: usize) {
        let offset = block.as_ptr() as usize - self.first;
        let mut len = room(bytes).expect("the block was allocated");
        let mut free = self.ranges();
        len += free.remove(&(offset + len)).unwrap_or(0);
        match free.range_mut(..offset).next_back() {
            Some((&before, known)) if before + *known == offset => *known += len,
            _ => {
                free.insert(offset, len);
            }
        }
        drop(free);
        self.simulation.freed(bytes);
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        self.simulation.call()?;
        // SAFETY: by the caller's contract both are inside blocks, and do not overlap.
        unsafe { self.real(to as usize).copy_from_nonoverlapping(self.real(from as usize), bytes) };
        Ok(())
    }

    unsafe fn copy_from_host(&self, from: &[u8], to: *mut u8) -> Result<()> {
        self.simulation.call()?;
        self.simulation.copied_from_host();
        // SAFETY: by the caller's contract the target is inside a block.
        unsafe { self.real(to as usize).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }

    unsafe fn copy_to_host(&self, from: *const u8, to: &mut [MaybeUninit<u8>]) -> Result<()> {
        self.simulation.call()?;
        self.simulation.copied_to_host();
        // SAFETY: by the caller's contract the source is inside a block.
        unsafe { to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(self.real(from as usize), to.len()) };
        Ok(())
    }

    unsafe fn fill(&self, to: *mut u8, bytes: usize, value: u8) -> Result<()> {
        self.simulation.call()?;
        // SAFETY: by the caller's contract the target is inside a block.
        unsafe { self.real(to as usize).write_bytes(value, bytes) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_core::tensor::DeviceKind;

    #[test]
    fn free_ranges_are_joined() {
        let memory = SimMemory::new(Device::new(DeviceKind::named("sim"), 0)).expect("the system has addresses");
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let sizes = [1usize, 100, 5000];
            let blocks = sizes.map(|it| memory.allocate(it).expect("there is memory"));
            for (at, block) in blocks.iter().enumerate() {
                assert_eq!(block.as_ptr() as usize % ALIGN, 0);
                // SAFETY: the block is this test's.
                unsafe { memory.fill(block.as_ptr(), sizes[at], at as u8) }.expect("a fill");
            }
            let mut read = [MaybeUninit::new(9); 100];
            // SAFETY: as above.
            unsafe { memory.copy(blocks[1].as_ptr(), blocks[2].as_ptr(), 100) }.expect("a copy");
            // SAFETY: as above.
            unsafe { memory.copy_to_host(blocks[2].as_ptr(), &mut read) }.expect("a copy");
            // SAFETY: all of them were initialised.
            assert!(read.iter().all(|it| unsafe { it.assume_init() } == 1));
            // SAFETY: each block is freed once.
            order.iter().for_each(|&it| unsafe { memory.free(blocks[it], sizes[it]) });
            assert_eq!(*memory.ranges(), BTreeMap::from([(0, BYTES)]));
        }
        assert_eq!(memory.allocate(BYTES + 1).expect_err("too much").code(), Code::Memory);
        assert_eq!(memory.allocate(usize::MAX).expect_err("too much").code(), Code::Memory);
    }
}
