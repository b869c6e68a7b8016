//! Tracks the free ranges of a device's memory, and those that streams have freed for their own later work.

use ms_ir::data::Stream;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The free ranges of a memory.
pub struct Blocks(Mutex<State>);

struct State {
    /// The size of the memory in bytes.
    bytes: usize,
    /// The ranges that all streams may use. Their frees have number zero.
    free: Ranges,
    /// The ranges that a stream has freed by work that is queued, by the number of the stream. Only this stream may use
    /// them.
    freed: BTreeMap<u32, Freed>,
}

/// The ranges that a stream has freed, and the number of its frees.
#[derive(Default)]
struct Freed {
    ranges: Ranges,
    frees: u64,
}

/// Ranges by their offsets, no two of which are adjacent.
#[derive(Default)]
struct Ranges(BTreeMap<usize, FreeRange>);

/// A free range of a memory.
#[derive(Clone, Copy)]
struct FreeRange {
    len: usize,
    /// The number of the last free that contributed to the range.
    free: u64,
}

impl Ranges {
    /// Takes a range of this length. Returns its offset.
    fn take(&mut self, len: usize) -> Option<usize> {
        let (&offset, &range) = self.0.iter().find(|it| it.1.len >= len)?;
        self.0.remove(&offset);
        if range.len > len {
            self.0.insert(offset + len, FreeRange { len: range.len - len, ..range });
        }
        Some(offset)
    }

    /// Adds a range, and joins it with adjacent ones.
    fn add(&mut self, offset: usize, mut range: FreeRange) {
        if let Some(after) = self.0.remove(&(offset + range.len)) {
            range = FreeRange { len: range.len + after.len, free: range.free.max(after.free) };
        }
        match self.0.range_mut(..offset).next_back() {
            Some((&before, known)) if before + known.len == offset => {
                *known = FreeRange { len: known.len + range.len, free: known.free.max(range.free) };
            }
            _ => {
                self.0.insert(offset, range);
            }
        }
    }

    /// Returns the number of bytes.
    fn bytes(&self) -> usize {
        self.0.values().map(|it| it.len).sum()
    }
}

impl State {
    fn reserved(&self) -> usize {
        self.bytes - self.free.bytes()
    }
}

impl Blocks {
    /// Creates the blocks of a free memory of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let mut free = Ranges::default();
        free.add(0, FreeRange { len: bytes, free: 0 });
        Self(Mutex::new(State { bytes, free, freed: BTreeMap::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a range of this length for a stream, so that at most `limit` bytes are [reserved](Blocks::reserved).
    /// Returns its offset.
    pub fn take(&self, stream: Stream, len: usize, limit: usize) -> Option<usize> {
        let mut state = self.state();
        if let Some(own) = state.freed.get_mut(&stream.0).and_then(|it| it.ranges.take(len)) {
            return Some(own);
        }
        let fits = state.reserved().checked_add(len).is_some_and(|it| it <= limit);
        if fits { state.free.take(len) } else { None }
    }

    /// Frees a range for later work of a stream. Returns how many ranges the
    /// stream has freed.
    pub fn free(&self, stream: Stream, offset: usize, len: usize) -> u64 {
        let mut state = self.state();
        let freed = state.freed.entry(stream.0).or_default();
        freed.frees += 1;
        let free = freed.frees;
        freed.ranges.add(offset, FreeRange { len, free });
        free
    }

    /// Releases the ranges to all streams that a stream has freed up to a free, and has not reused.
    pub fn release(&self, stream: Stream, free: u64) {
        let mut state = self.state();
        let State { free: all, freed, .. } = &mut *state;
        let Some(freed) = freed.get_mut(&stream.0) else { return };
        freed.ranges.0.retain(|&offset, range| {
            let is_queued = range.free > free;
            if !is_queued {
                all.add(offset, FreeRange { len: range.len, free: 0 });
            }
            is_queued
        });
    }

    /// Returns the number of bytes that are not available to all streams.
    pub fn reserved(&self) -> usize {
        self.state().reserved()
    }

    /// Returns the number of free bytes that only one stream may use.
    pub fn freed(&self) -> usize {
        self.state().freed.values().map(|it| it.ranges.bytes()).sum()
    }
}
