//! Implements the memory of the device: a second heap.

use ms_ir::data::{Device, DeviceKind, Fence, Memory, Origin, Restored, StagingRing, Stream, StreamKind, Streams};
use ms_ir::error::{Code, Error, Result};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

/// The kind of the device.
pub const KIND: DeviceKind = DeviceKind::named("heap");

/// The memory of the device. Blocks come from the system's allocator, so the host could read them, but the core never
/// does.
pub struct Heap;

/// The alignment of blocks in bytes.
const ALIGN: usize = 64;

/// The only stream. All work has ended when it is submitted, so it has no errors, and its fences need no numbers.
const STREAM: Stream = Stream(0);

impl Streams for Heap {
    fn lend(&self, _: StreamKind) -> Stream {
        STREAM
    }

    fn give_back(&self, _: Stream) {}

    fn set_origin(&self, _: Stream, _: Option<Arc<dyn Origin>>) {}

    fn fence(&self, stream: Stream) -> Fence {
        Fence { stream, serial: 0 }
    }

    fn order_after(&self, _: Stream, _: Fence) {}

    fn depend_on(&self, _: Stream, _: Fence) {}

    fn check(&self, _: Fence) -> Result<()> {
        Ok(())
    }

    fn wait(&self, _: Fence) -> Result<()> {
        Ok(())
    }

    fn finish(&self, _: Fence) {}

    fn synchronize(&self, _: Option<&[Stream]>) -> Result<()> {
        Ok(())
    }
}

/// Returns the layout of a block. `None` if no block can be so large.
fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGN).ok()
}

// SAFETY: the system's allocator returns separate blocks. Copies and fills access only the bytes that they name, and
// have ended when they return.
unsafe impl Memory for Heap {
    fn device(&self) -> Device {
        Device::new(KIND, 0)
    }

    fn allocate(&self, _: Stream, bytes: usize) -> Result<NonNull<u8>> {
        // SAFETY: the layout has at least one byte.
        let block = layout(bytes).and_then(|it| NonNull::new(unsafe { std::alloc::alloc(it) }));
        block.ok_or_else(|| Error::new(Code::Memory, format!("`heap:0` has no memory for {bytes} bytes")))
    }

    unsafe fn free(&self, _: Stream, block: NonNull<u8>, bytes: usize) {
        let layout = layout(bytes).expect("the block was allocated");
        // SAFETY: `allocate` returned the block for this layout, and nothing uses it, by this method's contract.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
    }

    unsafe fn copy(&self, _: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: both ranges are inside blocks and do not overlap, by this method's contract.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        Ok(())
    }

    fn staging(&self) -> &StagingRing {
        static RING: StagingRing = StagingRing::new();
        &RING
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.allocate(STREAM, bytes)
    }

    unsafe fn copy_from_pinned(&self, stream: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: pinned memory is a block too, and the rest is this method's contract.
        unsafe { self.copy(stream, from, to, bytes) }
    }

    unsafe fn copy_to_pinned(&self, stream: Stream, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: pinned memory is a block too, and the rest is this method's contract.
        unsafe { self.copy(stream, from, to, bytes) }
    }

    unsafe fn fill(&self, _: Stream, to: *mut u8, bytes: usize, value: u8) -> Result<()> {
        // SAFETY: the target is inside a block, by this method's contract.
        unsafe { to.write_bytes(value, bytes) };
        Ok(())
    }

    /// Does nothing, since the error word is never set: a step that fails returns its error at once.
    unsafe fn restore(&self, _: Stream, _: &[Restored]) {}
}
