//! Tracks the device work that accesses a block of memory.

use super::Memory;
use super::stream::{Fence, Stream};
use crate::error::Result;
use smallvec::SmallVec;

/// The fences of the work that last accessed a block of device memory.
#[derive(Debug)]
pub(in crate::data) struct Fences {
    /// The last write, or the allocation if there is no write yet.
    written: Fence,
    /// Whether nothing has been written yet.
    is_fresh: bool,
    /// The last use since that write, by stream.
    used: SmallVec<[Fence; 2]>,
}

impl Fences {
    /// Returns the fences of a block that was allocated at a fence.
    pub fn allocated(fence: Fence) -> Self {
        Self { written: fence, is_fresh: true, used: SmallVec::new() }
    }

    /// Returns whether nothing has been written yet.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Makes later work of a stream begin when the block is written, or allocated if there is no write yet.
    ///
    /// # Errors
    /// The errors of [`Streams::check`](super::Streams::check).
    pub fn await_written(&self, memory: &dyn Memory, stream: Stream) -> Result<()> {
        if !self.is_fresh {
            memory.check(self.written)?;
        }
        match (self.written.stream == stream, self.is_fresh) {
            (true, _) => {}
            (false, true) => memory.order_after(stream, self.written),
            (false, false) => memory.depend_on(stream, self.written),
        }
        Ok(())
    }

    /// Makes later work of a stream begin when the block is allocated and nothing else accesses it.
    pub fn await_unused(&self, memory: &dyn Memory, stream: Stream) {
        let others = std::iter::once(&self.written).chain(&self.used).filter(|it| it.stream != stream);
        others.for_each(|&it| memory.order_after(stream, it));
    }

    /// Records a use.
    pub fn used_by(&mut self, fence: Fence) {
        match self.used.iter_mut().find(|it| it.stream == fence.stream) {
            Some(last) => *last = fence,
            None => self.used.push(fence),
        }
    }

    /// Records a write, after all other work that accesses the block.
    pub fn written_by(&mut self, fence: Fence) {
        self.written = fence;
        self.is_fresh = false;
        self.used.clear();
    }
}
