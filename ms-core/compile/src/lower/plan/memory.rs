//! Plans the arena: offsets of intermediate values from their lifetimes.

use std::collections::{BTreeMap, BTreeSet};

/// The alignment of buffers in bytes.
pub(in crate::lower) const ALIGN: usize = 64;

/// The steps during which a value of the arena is live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lower) struct Lifetime {
    /// The size in bytes.
    pub bytes: usize,
    /// The first step that writes it.
    pub first: usize,
    /// The last step that needs it.
    pub last: usize,
    /// The value that this one may overwrite. The step reads it element by element, before it writes, and it is dead
    /// afterwards.
    pub over: Option<usize>,
}

/// Offsets of values in the arena.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::lower) struct Arena {
    /// The first byte of each value.
    pub offsets: Vec<usize>,
    /// The size of the arena.
    pub bytes: usize,
}

/// Assigns memory to each value, disjoint from all other values that are live at the same time. Takes the smallest free
/// block that is large enough (best fit), or new space at the end. Values are ordered by their first step.
pub(in crate::lower) fn plan(values: &[Lifetime]) -> Arena {
    debug_assert!(values.is_sorted_by_key(|it| it.first));
    let mut arena = Arena { offsets: Vec::with_capacity(values.len()), bytes: 0 };
    let mut free = Free::default();
    // Blocks in use, by their last step: first byte and size.
    let mut ends: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    let block = |bytes: usize| bytes.max(1).next_multiple_of(ALIGN);
    for value in values {
        while let Some(entry) = ends.first_entry().filter(|it| *it.key() < value.first) {
            entry.remove().into_iter().for_each(|(at, bytes)| free.release(at, bytes));
        }
        let bytes = block(value.bytes);
        let over = value.over.filter(|&it| values[it].last == value.first && block(values[it].bytes) == bytes);
        let at = match over.and_then(|it| take_over(&mut ends, value.first, arena.offsets[it])) {
            Some(at) => at,
            None => free.take(bytes).unwrap_or_else(|| free.extend(&mut arena.bytes, bytes)),
        };
        arena.offsets.push(at);
        ends.entry(value.last).or_default().push((at, bytes));
    }
    arena
}

/// Free blocks, no two of which are adjacent.
#[derive(Default)]
struct Free {
    /// Sizes by first byte.
    blocks: BTreeMap<usize, usize>,
    /// Sizes, each with its first byte.
    by_length: BTreeSet<(usize, usize)>,
}

impl Free {
    fn insert(&mut self, at: usize, bytes: usize) {
        self.blocks.insert(at, bytes);
        self.by_length.insert((bytes, at));
    }

    fn remove(&mut self, at: usize) -> Option<usize> {
        let bytes = self.blocks.remove(&at)?;
        self.by_length.remove(&(bytes, at));
        Some(bytes)
    }

    /// Allocates from the smallest block that is large enough.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let &(room, at) = self.by_length.range((bytes, 0)..).next()?;
        self.remove(at);
        if room > bytes {
            self.insert(at + bytes, room - bytes);
        }
        Some(at)
    }

    /// Allocates space at the end, extending the free block there if there is one.
    fn extend(&mut self, end: &mut usize, bytes: usize) -> usize {
        let at = match self.blocks.last_key_value() {
            Some((&at, &room)) if at + room == *end => {
                self.remove(at);
                at
            }
            _ => *end,
        };
        *end = at + bytes;
        at
    }

    fn release(&mut self, mut at: usize, mut bytes: usize) {
        if let Some(room) = self.remove(at + bytes) {
            bytes += room;
        }
        if let Some((&before, &room)) = self.blocks.range(..at).next_back()
            && before + room == at
        {
            self.remove(before);
            (at, bytes) = (before, bytes + room);
        }
        self.insert(at, bytes);
    }
}

/// Removes and returns a block that is in use until the step `last`. Returns `None` if another value took it.
fn take_over(ends: &mut BTreeMap<usize, Vec<(usize, usize)>>, last: usize, at: usize) -> Option<usize> {
    let blocks = ends.get_mut(&last)?;
    let found = blocks.iter().position(|it| it.0 == at)?;
    Some(blocks.swap_remove(found).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: usize, first: usize, last: usize) -> Lifetime {
        Lifetime { bytes, first, last, over: None }
    }

    #[test]
    fn blocks_are_used_again() {
        let values = [value(100, 0, 1), value(64, 1, 2), value(128, 2, 3), value(10, 3, 4)];
        let arena = plan(&values);
        assert_eq!(arena.offsets, [0, 128, 0, 128]);
        assert_eq!(arena.bytes, 192);
    }

    #[test]
    fn writing_in_place() {
        let mut values = [value(100, 0, 1), value(100, 1, 2), value(100, 1, 3)];
        values[1].over = Some(0);
        values[2].over = Some(0);
        assert_eq!(plan(&values).offsets, [0, 0, 128]);
    }

    #[test]
    fn values_of_one_time_never_overlap() {
        let mut seed = 1u64;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        let mut step = 0;
        let values: Vec<Lifetime> = (0..500)
            .map(|_| {
                step += below(2);
                value(below(1000), step, step + below(12))
            })
            .collect();
        let arena = plan(&values);
        let end = |i: usize| arena.offsets[i] + values[i].bytes;
        for i in 0..values.len() {
            assert!(arena.offsets[i].is_multiple_of(ALIGN) && end(i) <= arena.bytes);
            for j in 0..i {
                let together = values[j].last >= values[i].first && values[i].last >= values[j].first;
                let overlap = arena.offsets[i] < end(j) && arena.offsets[j] < end(i);
                assert!(!(together && overlap), "{:?} {:?}", values[i], values[j]);
            }
        }
        let total: usize = values.iter().map(|it| it.bytes).sum();
        assert!(arena.bytes * 4 < total, "{} of {total} bytes", arena.bytes);
    }
}
