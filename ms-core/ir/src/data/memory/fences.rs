//! Tracks the device work that accesses a block of memory.

use super::Memory;
use super::stream::{Fence, Stream};
use crate::error::Result;
use smallvec::SmallVec;

/// The fences of the work that last accessed a block of device memory.
#[derive(Default, Debug)]
pub(in crate::data) struct Fences {
    /// The last write.
    written: Option<Fence>,
    /// The last use since that write, by stream.
    used: SmallVec<[Fence; 2]>,
}

impl Fences {
    /// Returns whether nothing has been written yet.
    pub fn is_fresh(&self) -> bool {
        self.written.is_none()
    }

    /// Makes later work of a stream begin when the block is written.
    ///
    /// # Errors
    /// The errors of [`Streams::check`](super::Streams::check).
    pub fn await_written(&self, memory: &dyn Memory, stream: Stream) -> Result<()> {
        let Some(written) = self.written else { return Ok(()) };
        memory.check(written)?;
        if written.stream != stream {
            memory.depend_on(stream, written);
        }
        Ok(())
    }

    /// Makes later work of a stream begin when nothing else accesses the block.
    pub fn await_unused(&self, memory: &dyn Memory, stream: Stream) {
        let others = self.written.iter().chain(&self.used).filter(|it| it.stream != stream);
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
        self.written = Some(fence);
        self.used.clear();
    }
}
