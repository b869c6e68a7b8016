//! Transfers bytes between the host and a device through a ring of pinned host memory.

use super::Memory;
use super::stream::{Fence, Stream};
use crate::error::Result;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A ring of pinned host memory, through which all transfers between the host and a device go.
///
/// A transfer is cut into parts of at most [`PART_BYTES`](Self::PART_BYTES), each of which takes a slot of its size.
/// Slots lie one after another in a block that the first transfer [allocates](Memory::allocate_pinned). The memory of a
/// slot is reused when the work that accesses it has ended. If the ring is full, a transfer waits for the first slot.
#[derive(Default)]
pub struct StagingRing {
    state: Mutex<State>,
    /// Signals that a thread no longer accesses a slot.
    released: Condvar,
}

#[derive(Default)]
struct State {
    block: Option<Block>,
    /// The slots that are not yet reused, in the order of the ring.
    slots: VecDeque<Range>,
    /// The number of the first of these slots. Later ones have the following numbers.
    first: u64,
    /// The end of the last slot.
    end: usize,
}

/// The address of the ring's memory.
#[derive(Clone, Copy)]
struct Block(NonNull<u8>);

// SAFETY: the block is plain memory, and each slot has one user at a time.
unsafe impl Send for Block {}

/// The memory of a slot, by its offset in the ring.
struct Range {
    first: usize,
    user: User,
}

/// The user of a slot.
#[derive(Clone, Copy, PartialEq)]
enum User {
    /// A thread.
    Host,
    /// Work up to a fence.
    Device(Fence),
    Nobody,
}

/// The alignment of slots in bytes.
const ALIGN: usize = 64;

/// A slot of a ring. Its memory is reused when the work up to `fence` has ended, after the slot is dropped.
struct Slot<'a> {
    ring: &'a StagingRing,
    number: u64,
    memory: *mut u8,
    fence: Option<Fence>,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut state = self.ring.state();
        let at = (self.number - state.first) as usize;
        state.slots[at].user = self.fence.map_or(User::Nobody, User::Device);
        self.ring.released.notify_all();
    }
}

impl State {
    /// Returns the offset of the next slot of this size, if there is room for it.
    fn room(&self, bytes: usize) -> Option<usize> {
        let Some(first) = self.slots.front().map(|it| it.first) else { return Some(0) };
        match self.end > first {
            true if self.end + bytes <= StagingRing::BYTES => Some(self.end),
            true => (bytes <= first).then_some(0),
            false => (self.end + bytes <= first).then_some(self.end),
        }
    }

    /// Removes the first slots that nobody uses.
    fn retire(&mut self) {
        while self.slots.front().is_some_and(|it| it.user == User::Nobody) {
            self.slots.pop_front();
            self.first += 1;
        }
    }
}

impl StagingRing {
    /// The size of the ring in bytes.
    pub const BYTES: usize = 8 << 20;

    /// The size in bytes of the largest part of a transfer.
    pub const PART_BYTES: usize = 1 << 20;

    /// Creates a ring without memory.
    pub const fn new() -> Self {
        let state = State { block: None, slots: VecDeque::new(), first: 0, end: 0 };
        Self { state: Mutex::new(state), released: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a part of a transfer. If there is no room, waits for it, or returns `None` unless `waits`.
    ///
    /// A thread that holds a slot does not wait for another, so that each slot is released some time.
    fn slot(&self, memory: &dyn Memory, bytes: usize, waits: bool) -> Result<Option<Slot<'_>>> {
        let bytes = bytes.next_multiple_of(ALIGN);
        let mut state = self.state();
        let block = match state.block {
            Some(block) => block,
            None => *state.block.insert(Block(memory.allocate_pinned(Self::BYTES)?)),
        };
        loop {
            state.retire();
            if let Some(first) = state.room(bytes) {
                state.slots.push_back(Range { first, user: User::Host });
                state.end = first + bytes;
                let number = state.first + state.slots.len() as u64 - 1;
                return Ok(Some(Slot {
                    ring: self,
                    number,
                    memory: block.0.as_ptr().wrapping_add(first),
                    fence: None,
                }));
            }
            if !waits {
                return Ok(None);
            }
            let number = state.first;
            match state.slots.front().map(|it| it.user) {
                Some(User::Device(fence)) => {
                    drop(state);
                    memory.finish(fence);
                    state = self.state();
                    // Another thread may have removed the slot in the meantime.
                    if state.first == number {
                        state.slots[0].user = User::Nobody;
                    }
                }
                _ => state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl dyn Memory {
    /// Copies host bytes to the device. The bytes are read before the call returns.
    ///
    /// # Safety
    /// The target is inside a block, and when this runs, no other work accesses it.
    ///
    /// # Errors
    /// The errors of [`Memory::allocate_pinned`] and of the device.
    pub unsafe fn copy_from_host(&self, stream: Stream, from: &[u8], to: *mut u8) -> Result<()> {
        for (at, part) in from.chunks(StagingRing::PART_BYTES).enumerate() {
            let mut slot = self.staging().slot(self, part.len(), true)?.expect("the call waits for it");
            let to = to.wrapping_add(at * StagingRing::PART_BYTES);
            // SAFETY: the slot has room for the part, and nothing else uses it before it is dropped, or before the
            // fence. The part of the target satisfies the conditions by this method's contract.
            unsafe {
                slot.memory.copy_from_nonoverlapping(part.as_ptr(), part.len());
                self.copy_from_pinned(stream, slot.memory, to, part.len())?;
            }
            slot.fence = Some(self.fence(stream));
        }
        Ok(())
    }

    /// Copies bytes to the host and waits. Writes all of `to` unless there is an error.
    ///
    /// # Safety
    /// The source is inside a block, and when this runs, no other work writes it.
    ///
    /// # Errors
    /// The errors of [`Memory::allocate_pinned`], of the device and of [`Streams::wait`](super::Streams::wait).
    pub unsafe fn copy_to_host(&self, stream: Stream, from: *const u8, to: &mut [MaybeUninit<u8>]) -> Result<()> {
        let mut parts = to.chunks_mut(StagingRing::PART_BYTES).enumerate().peekable();
        let mut issued: VecDeque<(Slot<'_>, &mut [MaybeUninit<u8>])> = VecDeque::new();
        while let Some((_, part)) = parts.peek() {
            // While parts are on their way, the next one is issued only if there is room.
            if let Some(mut slot) = self.staging().slot(self, part.len(), issued.is_empty())? {
                let (at, part) = parts.next().expect("there is a next part");
                let from = from.wrapping_add(at * StagingRing::PART_BYTES);
                // SAFETY: the slot has room for the part, and nothing else uses it before it is dropped, or before the
                // fence. The part of the source satisfies the conditions by this method's contract.
                unsafe { self.copy_to_pinned(stream, from, slot.memory, part.len())? };
                slot.fence = Some(self.fence(stream));
                issued.push_back((slot, part));
            } else {
                self.receive(issued.pop_front())?;
            }
        }
        issued.into_iter().try_for_each(|it| self.receive(Some(it)))
    }

    /// Waits for a part of a transfer to the host, and copies it from its slot.
    fn receive(&self, part: Option<(Slot<'_>, &mut [MaybeUninit<u8>])>) -> Result<()> {
        let Some((slot, to)) = part else { return Ok(()) };
        self.wait(slot.fence.expect("the part is issued"))?;
        // SAFETY: the slot has room for the part, which the work before the fence has written, and this thread has the
        // slot.
        to.copy_from_slice(unsafe { std::slice::from_raw_parts(slot.memory.cast_const().cast(), to.len()) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of one size, up to the wait for the first.
    #[test]
    fn slots_lie_one_after_another_in_a_bounded_ring() {
        let mut state = State::default();
        let take = |state: &mut State, bytes: usize| {
            let first = state.room(bytes)?;
            state.slots.push_back(Range { first, user: User::Host });
            state.end = first + bytes;
            Some(first)
        };
        let retire = |state: &mut State, count: usize| {
            state.slots.iter_mut().take(count).for_each(|it| it.user = User::Nobody);
            state.retire();
        };
        let third = StagingRing::BYTES / 4 + 64;
        assert_eq!([(); 4].map(|()| take(&mut state, third)), [Some(0), Some(third), Some(2 * third), None]);
        assert_eq!(take(&mut state, 64), Some(3 * third), "a smaller one still fits");
        retire(&mut state, 1);
        assert_eq!(take(&mut state, third + 64), None, "the last slots are in the way");
        assert_eq!((take(&mut state, third), take(&mut state, 64)), (Some(0), None), "the ring is full");
        retire(&mut state, 2);
        assert_eq!(take(&mut state, 2 * third), Some(third), "up to the first slot in use");
        retire(&mut state, 9);
        assert_eq!((take(&mut state, 64), state.first), (Some(0), 6), "an empty ring begins anew");
    }
}
