//! Implements the memory of a simulated device.

use crate::blocks::Blocks;
use crate::scheduler::{Peer, Queue, Random, Simulation, Work};
use ms_ir::data::{
    Array, Device, Fence, Memory, Origin, PeerAddress, Restored, StagingRing, Storage, Stream, StreamKind, Streams,
};
use ms_ir::environment::{Variable, number};
use ms_ir::environment_variables;
use ms_ir::error::{Code, Error, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::any::Any;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

environment_variables! {
    static SEED: Variable<u64> = Variable::new("MS_SIM_SEED", number, || "a number".to_owned());
}

/// The size of a device's memory in bytes.
pub const BYTES: usize = 8 << 30;

/// The alignment of blocks in bytes.
const ALIGN: usize = 64;

/// The value of uninitialised bytes, with which floats are NaN.
const UNWRITTEN: u8 = 0xff;

/// The number of bytes at the start of a block that are set to [`UNWRITTEN`].
const MARKED_BYTES: usize = 64 << 10;

/// The number of freed bytes that may be available to one stream only. Beyond it the device runs its work, which
/// releases them to all streams.
const MAX_PENDING_FREE: usize = 256 << 20;

/// The memory of a simulated device: a range of inaccessible addresses, and the bytes behind them.
pub struct SimMemory {
    device: Device,
    /// The first device address.
    first: usize,
    /// The first of the bytes behind the addresses, at the same offsets.
    bytes: NonNull<u8>,
    blocks: Arc<Blocks>,
    queue: Arc<Queue>,
    staging: StagingRing,
    pub simulation: Arc<Simulation>,
}

/// Bytes of the device that a stream copies to the host. They are available after a wait for the stream.
pub type Copied = Arc<OnceLock<Box<[MaybeUninit<u8>]>>>;

/// The host address of bytes that queued work accesses.
#[derive(Clone, Copy)]
struct Bytes(*mut u8);

// SAFETY: only the work of streams accesses the bytes, and one item of work runs at a time.
unsafe impl Send for Bytes {}

impl Bytes {
    fn get(self) -> *mut u8 {
        self.0
    }
}

// SAFETY: the mapping is plain memory that no thread owns, and its accesses follow the contract of `Memory`.
unsafe impl Send for SimMemory {}
// SAFETY: locks and atomics protect the fields that change, and accesses of the mapping follow the contract of
// `Memory`.
unsafe impl Sync for SimMemory {}

impl SimMemory {
    /// Reserves the memory of a device, which is never unmapped.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`] if the system cannot reserve the addresses.
    pub fn new(device: Device) -> Result<Self> {
        let refuse = |errno: rustix::io::Errno| {
            let message = format!("`{device}` is not available: the system reserves no {BYTES} bytes: {errno}");
            Error::new(Code::DeviceUnavailable, message)
        };
        let first = map(BYTES, ProtFlags::empty()).map_err(refuse)?.as_ptr() as usize;
        let bytes = map(BYTES, ProtFlags::READ | ProtFlags::WRITE).map_err(refuse)?;
        Ok(Self {
            device,
            first,
            bytes,
            blocks: Arc::new(Blocks::new(BYTES)),
            queue: Arc::new(Queue::new(SEED.value().unwrap_or(0))),
            staging: StagingRing::default(),
            simulation: Arc::default(),
        })
    }

    /// Returns the host address of the bytes behind a device address.
    ///
    /// # Panics
    /// If the address is not one of the device.
    pub fn real(&self, address: usize) -> *mut u8 {
        let offset = address.wrapping_sub(self.first);
        assert!(offset <= BYTES, "{address:#x} is no address of `{}`", self.device);
        self.bytes.as_ptr().wrapping_add(offset)
    }

    /// Returns a host array that borrows the bytes of a device array.
    ///
    /// # Safety
    /// The array on the device outlives the borrowed one.
    ///
    /// # Panics
    /// If the array is not on the device.
    pub unsafe fn borrowed(&self, array: &Array) -> Array {
        assert_eq!(array.device(), self.device, "operands are on the device");
        let storage = array.storage();
        let first = NonNull::new(self.real(storage.device_ptr() as usize)).expect("no bytes are at address zero");
        // SAFETY: the bytes lie in the array's block, which outlives the storage by this function's contract.
        let storage = unsafe { Storage::borrowed(first, storage.len()) };
        // SAFETY: the layout is inside the storage, and the elements hold values of the dtype before they are read.
        unsafe { Array::new(Arc::new(storage), array.layout().clone(), array.dtype()) }
    }

    /// Queues a step on a stream and counts it as a run. Its arguments are those of [`Work::Step`].
    pub fn run(&self, stream: Stream, step: impl FnOnce(bool, &mut Random) -> Result<()> + Send + 'static) {
        self.simulation.ran();
        self.queue.put(stream, Work::Step(Box::new(step)), &self.simulation);
    }

    /// Queues a step on a stream, with the origin of the work of another stream, on whose work it depends.
    ///
    /// Returns the end of the step.
    pub fn fork(
        &self,
        from: Stream,
        stream: Stream,
        step: impl FnOnce(bool, &mut Random) -> Result<()> + Send + 'static,
    ) -> Fence {
        self.depend_on(stream, self.fence(from));
        self.queue.share_origin(from, stream);
        self.run(stream, step);
        self.queue.set_origin(stream, None);
        self.fence(stream)
    }

    /// Queues a transfer on a stream. Behind a failure it takes place or not.
    fn transfer(&self, stream: Stream, transfer: impl FnOnce() + Send + 'static) {
        let step = |is_behind: bool, random: &mut Random| {
            if !is_behind || random.flip() {
                transfer();
            }
            Ok(())
        };
        self.queue.put(stream, Work::Step(Box::new(step)), &self.simulation);
    }

    /// Queues a copy of bytes to the host on a stream.
    ///
    /// # Safety
    /// The source is inside a block, and when this runs, no other work writes it.
    ///
    /// # Errors
    /// The errors of the device.
    pub unsafe fn read(&self, stream: Stream, from: *const u8, bytes: usize) -> Result<Copied> {
        self.simulation.call()?;
        self.simulation.copied_to_host();
        let (from, copied) = (self.bytes_at(from), Copied::default());
        let to = copied.clone();
        self.transfer(stream, move || {
            // SAFETY: the source is inside a block, by this function's contract.
            let source = unsafe { std::slice::from_raw_parts(from.get().cast::<MaybeUninit<u8>>(), bytes) };
            let _first = to.set(source.into());
        });
        Ok(copied)
    }

    /// Restarts the scheduler with a seed.
    pub fn set_seed(&self, seed: u64) {
        self.queue.set_seed(seed);
    }

    /// Returns the queue for the work of another device.
    fn peer(&self) -> Peer {
        Peer { queue: self.queue.clone(), simulation: self.simulation.clone() }
    }

    /// Makes later work of a stream begin when the work of another device up to a fence has ended.
    fn await_peer(&self, stream: Stream, peer: &Self, fence: Fence, depends: bool) {
        let work = Work::AwaitPeer { own: self.peer(), peer: peer.peer(), fence, depends };
        self.queue.put(stream, work, &self.simulation);
    }

    fn bytes_at(&self, address: *const u8) -> Bytes {
        Bytes(self.real(address as usize))
    }
}

/// Maps memory that is never unmapped. The system only provides the pages that are used.
fn map(bytes: usize, access: ProtFlags) -> rustix::io::Result<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the mapping is new, at an address that the system chooses, so it replaces no other memory.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)? };
    Ok(NonNull::new(mapped.cast()).expect("a mapping is not at address zero"))
}

/// Returns the number of bytes that a block of `bytes` bytes occupies. `None` if no block can be so large.
fn room(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(ALIGN)
}

impl Streams for SimMemory {
    fn lend(&self, kind: StreamKind) -> Stream {
        self.queue.lend(kind)
    }

    fn give_back(&self, stream: Stream) {
        self.queue.give_back(stream);
    }

    fn set_origin(&self, stream: Stream, origin: Option<Arc<dyn Origin>>) {
        self.queue.set_origin(stream, origin);
    }

    fn fence(&self, stream: Stream) -> Fence {
        self.queue.fence(stream)
    }

    fn order_after(&self, stream: Stream, fence: Fence) {
        self.queue.put(stream, Work::Await { fence, depends: false }, &self.simulation);
    }

    fn depend_on(&self, stream: Stream, fence: Fence) {
        self.queue.put(stream, Work::Await { fence, depends: true }, &self.simulation);
    }

    fn check(&self, fence: Fence) -> Result<()> {
        self.queue.check(fence)
    }

    fn wait(&self, fence: Fence) -> Result<()> {
        self.simulation.waited();
        self.queue.wait(fence, &self.simulation)
    }

    fn finish(&self, fence: Fence) {
        if !self.queue.has_ended(fence) {
            self.simulation.waited();
            self.queue.finish(fence, &self.simulation);
        }
    }

    fn synchronize(&self, streams: Option<&[Stream]>) -> Result<()> {
        self.simulation.waited();
        self.queue.synchronize(streams, &self.simulation)
    }
}

// SAFETY: blocks are disjoint ranges of one mapping, and copies and fills only access the ranges that they name. The
// queue runs the work of streams in the order of their fences.
unsafe impl Memory for SimMemory {
    fn device(&self) -> Device {
        self.device
    }

    fn allocate(&self, stream: Stream, bytes: usize) -> Result<NonNull<u8>> {
        self.simulation.call()?;
        let refuse = || Error::new(Code::Memory, format!("`{}` has no memory for {bytes} bytes", self.device));
        let room = room(bytes).ok_or_else(refuse)?;
        let take = || self.blocks.take(stream, room, self.simulation.limit());
        let offset = take().or_else(|| {
            self.simulation.waited();
            self.queue.finish_all(&self.simulation);
            take()
        });
        let offset = offset.ok_or_else(refuse)?;
        self.simulation.allocated(bytes);
        self.simulation.reserved(self.blocks.reserved());
        let address = self.first + offset;
        let to = Bytes(self.real(address));
        // SAFETY: the block is inside the mapping, and only later work of the stream uses it.
        let mark = move || unsafe { to.get().write_bytes(UNWRITTEN, bytes.min(MARKED_BYTES)) };
        self.queue.put(stream, Work::Mark(Box::new(mark)), &self.simulation);
        Ok(NonNull::new(address as *mut u8).expect("no address of a device is zero"))
    }

    unsafe fn free(&self, stream: Stream, block: NonNull<u8>, bytes: usize) {
        let offset = block.as_ptr() as usize - self.first;
        let len = room(bytes).expect("the block was allocated");
        self.simulation.freed(bytes);
        let free = self.blocks.free(stream, offset, len);
        let (blocks, simulation) = (self.blocks.clone(), self.simulation.clone());
        let release = move || {
            blocks.release(stream, free);
            simulation.reserved(blocks.reserved());
        };
        self.queue.put(stream, Work::Free(Box::new(release)), &self.simulation);
        if self.blocks.freed() > MAX_PENDING_FREE {
            self.queue.advance(&self.simulation);
        }
    }

    unsafe fn copy(&self, stream: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        self.simulation.call()?;
        let (from, to) = (self.bytes_at(from), self.bytes_at(to));
        self.transfer(stream, move || {
            // SAFETY: by the contract of `Memory::copy`, both ranges are inside blocks, and they do not overlap.
            unsafe { to.get().copy_from_nonoverlapping(from.get(), bytes) };
        });
        Ok(())
    }

    unsafe fn copy_from_peer(&self, stream: Stream, from: PeerAddress<'_>, to: *mut u8, bytes: usize) -> Result<bool> {
        let Some(peer) = (from.memory as &dyn Any).downcast_ref::<Self>() else { return Ok(false) };
        self.simulation.call()?;
        self.simulation.copied_from_peer();
        self.await_peer(stream, peer, peer.queue.fence(from.stream), true);
        let (source, to) = (peer.bytes_at(from.address), self.bytes_at(to));
        self.transfer(stream, move || {
            // SAFETY: by the contract of `Memory::copy_from_peer`, both ranges are inside blocks of their devices.
            unsafe { to.get().copy_from_nonoverlapping(source.get(), bytes) };
        });
        peer.await_peer(from.stream, self, self.queue.fence(stream), false);
        Ok(true)
    }

    fn staging(&self) -> &StagingRing {
        &self.staging
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.simulation.call()?;
        let refuse = |errno| Error::new(Code::Memory, format!("the system has no memory for {bytes} bytes: {errno}"));
        let block = map(bytes, ProtFlags::READ | ProtFlags::WRITE).map_err(refuse)?;
        self.simulation.pinned(bytes);
        Ok(block)
    }

    unsafe fn copy_from_pinned(&self, stream: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        self.simulation.call()?;
        self.simulation.copied_from_host();
        let (from, to) = (Bytes(from.cast_mut()), self.bytes_at(to));
        self.transfer(stream, move || {
            // SAFETY: by the contract of `Memory::copy_from_pinned`, the target is inside a block, and nothing writes
            // the source before this runs.
            unsafe { to.get().copy_from_nonoverlapping(from.get(), bytes) };
        });
        Ok(())
    }

    unsafe fn copy_to_pinned(&self, stream: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        self.simulation.call()?;
        self.simulation.copied_to_host();
        // SAFETY: by the contract of `Memory::copy_to_pinned`, the target is pinned memory. Nothing accesses it before
        // the copy, so that what is read before it is not what was copied.
        unsafe { to.write_bytes(UNWRITTEN, bytes) };
        let (from, to) = (self.bytes_at(from), Bytes(to));
        self.transfer(stream, move || {
            // SAFETY: by the contract of `Memory::copy_to_pinned`, the source is inside a block, and nothing accesses
            // the target before this runs.
            unsafe { to.get().copy_from_nonoverlapping(from.get(), bytes) };
        });
        Ok(())
    }

    unsafe fn fill(&self, stream: Stream, to: *mut u8, bytes: usize, value: u8) -> Result<()> {
        self.simulation.call()?;
        let to = self.bytes_at(to);
        self.transfer(stream, move || {
            // SAFETY: by the contract of `Memory::fill`, the target is inside a block.
            unsafe { to.get().write_bytes(value, bytes) };
        });
        Ok(())
    }

    unsafe fn restore(&self, stream: Stream, values: &[Restored]) {
        let moves = values.iter().map(|it| (self.bytes_at(it.old), self.bytes_at(it.new), it.bytes));
        let moves: Vec<(Bytes, Bytes, usize)> = moves.collect();
        let restore = move || {
            // SAFETY: old values are inside blocks and were written, by the contract of `Memory::restore`. All are read
            // first, as a new value may share the memory of another's old one.
            let read = |it: &(Bytes, Bytes, usize)| unsafe { std::slice::from_raw_parts(it.0.get(), it.2) }.to_vec();
            let old: Vec<Vec<u8>> = moves.iter().map(read).collect();
            for ((_, new, bytes), old) in moves.iter().zip(&old) {
                // SAFETY: by the contract of `Memory::restore`, new values are inside blocks.
                unsafe { new.get().copy_from_nonoverlapping(old.as_ptr(), *bytes) };
            }
        };
        self.queue.put(stream, Work::Restore(Box::new(restore)), &self.simulation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::data::DeviceKind;

    #[test]
    fn free_ranges_are_joined() {
        let memory = SimMemory::new(Device::new(DeviceKind::named("sim"), 0)).expect("the system has addresses");
        let stream = memory.lend(StreamKind::Compute);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let sizes = [1usize, 100, 5000];
            let blocks = sizes.map(|it| memory.allocate(stream, it).expect("there is memory"));
            for (at, block) in blocks.iter().enumerate() {
                assert_eq!(block.as_ptr() as usize % ALIGN, 0);
                // SAFETY: the test owns the block, which has `sizes[at]` bytes.
                unsafe { memory.fill(stream, block.as_ptr(), sizes[at], at as u8) }.expect("a fill");
            }
            let mut read = [MaybeUninit::new(9); 100];
            // SAFETY: the test owns both blocks, which have at least 100 bytes.
            unsafe { memory.copy(stream, blocks[1].as_ptr(), blocks[2].as_ptr(), 100) }.expect("a copy");
            // SAFETY: the test owns the block, which has at least 100 bytes.
            unsafe { (&memory as &dyn Memory).copy_to_host(stream, blocks[2].as_ptr(), &mut read) }.expect("a copy");
            // SAFETY: all elements of `read` were initialised.
            assert!(read.iter().all(|it| unsafe { it.assume_init() } == 1));
            // SAFETY: each block is freed once, with its size.
            order.iter().for_each(|&it| unsafe { memory.free(stream, blocks[it], sizes[it]) });
            memory.synchronize(None).expect("nothing failed");
            assert_eq!(memory.blocks.reserved(), 0);
            // All of the memory is one range again.
            let all = memory.allocate(stream, BYTES).expect("all of it is free");
            // SAFETY: the block is freed once, with its size.
            unsafe { memory.free(stream, all, BYTES) };
        }
        assert_eq!(memory.allocate(stream, BYTES + 1).expect_err("too much").code(), Code::Memory);
        assert_eq!(memory.allocate(stream, usize::MAX).expect_err("too much").code(), Code::Memory);
    }
}
