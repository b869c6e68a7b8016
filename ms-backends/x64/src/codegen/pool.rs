//! Collects the constants of a kernel in a pool that follows its code.

use super::target::{Target, Width};
use super::vinst::Constant;
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    /// A constant, repeated over this many bytes.
    Repeated(Constant, usize),
    /// The iota vector 0, 1, 2.. of this many 64-bit lanes.
    Iota(usize),
}

impl Entry {
    fn bytes(self) -> usize {
        match self {
            Self::Repeated(_, bytes) => bytes,
            Self::Iota(lanes) => lanes * 8,
        }
    }
}

/// The constant pool, without duplicates.
#[derive(Default)]
pub struct Pool {
    entries: Vec<Entry>,
    indices: FxHashMap<Entry, usize>,
}

impl Pool {
    fn add(&mut self, entry: Entry) -> usize {
        *self.indices.entry(entry).or_insert_with(|| {
            self.entries.push(entry);
            self.entries.len() - 1
        })
    }

    /// Returns the entry of one lane of a constant.
    pub fn scalar(&mut self, constant: Constant) -> usize {
        self.add(Entry::Repeated(constant, constant.size as usize))
    }

    /// Returns the entry of a vector that holds a constant in every lane.
    pub fn filled(&mut self, constant: Constant, width: Width) -> usize {
        self.add(Entry::Repeated(constant, width.bytes()))
    }

    /// Returns the entry of the iota vector in 64-bit lanes.
    pub fn iota(&mut self, target: Target) -> usize {
        self.add(Entry::Iota(target.vector_bytes() / 8))
    }

    /// Appends the constants to `out` and returns their offsets.
    pub fn write(&self, out: &mut Vec<u8>) -> Vec<usize> {
        let mut offsets = vec![0; self.entries.len()];
        // Entries are sorted by decreasing size, so that each is aligned to its size.
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&it| std::cmp::Reverse(self.entries[it].bytes()));
        for at in order {
            offsets[at] = out.len();
            match self.entries[at] {
                Entry::Repeated(constant, bytes) => {
                    let lane = &constant.bits.to_le_bytes()[..constant.size as usize];
                    (0..bytes / lane.len()).for_each(|_| out.extend_from_slice(lane));
                }
                Entry::Iota(lanes) => out.extend((0..lanes as u64).flat_map(u64::to_le_bytes)),
            }
        }
        offsets
    }
}
