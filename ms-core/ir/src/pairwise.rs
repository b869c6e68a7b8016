//! Pairwise summation of long sums of products.
//!
//! A sum is partitioned into chunks of [`CHUNK`] terms. The sums of chunks are combined by adjacent pairs, level by
//! level; an odd last one is carried up:
//!
//! ```text
//! chunk   0     1     2     3     4
//!          \   /       \   /      |
//!           0-1         2-3       4
//!              \       /          |
//!                 0-3             4
//!                     \          /
//!                        0-4
//! ```
//!
//! An aligned block of 2^j chunks is a subtree. So a sum may be split at such blocks, over thread blocks of a GPU or
//! over processes: the upper levels combine the results of blocks with the same bits. The rounding error grows with the
//! logarithm of the number of chunks (N. Higham, The accuracy of floating point summation, 1993).

use std::ops::{Add, Range};

/// The number of terms of a chunk, which is one accumulation chain.
pub const CHUNK: usize = 1024;

/// The tree that combines the sums of chunks.
///
/// Chunks are summed in order, as a binary counter counts: sums that wait for their pair are in a stack of *slots*.
///
/// ```
/// use ms_core::ir::PairwiseTree;
/// let (tree, mut slots) = (PairwiseTree::new(5), [0.0; 2]);
/// assert_eq!(tree.slots(), 2);
/// (0..5).for_each(|chunk| tree.push(chunk, &mut slots, f64::from(1 << chunk)));
/// assert_eq!(slots[0], 31.0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairwiseTree {
    chunks: usize,
}

impl PairwiseTree {
    /// Returns the tree of a number of chunks.
    pub const fn new(chunks: usize) -> Self {
        Self { chunks }
    }

    /// Returns the tree of a number of terms.
    pub const fn of_terms(terms: usize) -> Self {
        Self::new(terms.div_ceil(CHUNK))
    }

    /// Returns the number of slots, at least one.
    pub const fn slots(self) -> usize {
        let last = self.chunks.saturating_sub(1);
        // Of the chunks up to the last one, it or the last one below a power of two follows the most waiting sums.
        let (waiting, below) = (last.count_ones(), (last + 1).ilog2());
        let most = if waiting > below { waiting } else { below };
        if most > 1 { most as usize } else { 1 }
    }

    /// Returns the slots that the sum of a chunk is combined with, from the last one to the first one, each by
    /// `sum = slot + sum`. The first slot of the range then holds the sum, also if the range is empty. After the last
    /// chunk, slot 0 holds the sum of all.
    pub const fn combined(self, chunk: usize) -> Range<usize> {
        let waiting = chunk.count_ones() as usize;
        let pairs = if chunk + 1 == self.chunks { waiting } else { chunk.trailing_ones() as usize };
        waiting - pairs..waiting
    }

    /// Combines the sum of the next chunk with the slots.
    ///
    /// # Panics
    /// If there are fewer than [`slots`](Self::slots).
    pub fn push<T: Copy + Add<Output = T>>(self, chunk: usize, slots: &mut [T], sum: T) {
        let Range { start, end } = self.combined(chunk);
        slots[start] = slots[start..end].iter().rev().fold(sum, |sum, &slot| slot + sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Combines sums by adjacent pairs, level by level.
    fn by_levels(mut sums: Vec<f32>) -> f32 {
        while sums.len() > 1 {
            sums = sums.chunks(2).map(|pair| pair.iter().copied().reduce(|a, b| a + b).expect("one or two")).collect();
        }
        sums.first().copied().unwrap_or_default()
    }

    fn by_slots(sums: &[f32]) -> f32 {
        let tree = PairwiseTree::new(sums.len());
        let mut slots = vec![0.0; tree.slots()];
        sums.iter().enumerate().for_each(|(chunk, &sum)| tree.push(chunk, &mut slots, sum));
        slots[0]
    }

    /// Returns sums whose total depends on the order.
    fn sums(count: usize) -> Vec<f32> {
        (0..count).map(|it| 1.0 / (it as f32 + 0.3)).collect()
    }

    #[test]
    fn slots_combine_adjacent_pairs() {
        for count in (0..200).chain([1000, 1023, 1024, 1025, 4095]) {
            assert_eq!(by_slots(&sums(count)).to_bits(), by_levels(sums(count)).to_bits(), "{count} chunks");
        }
        assert_ne!(by_slots(&sums(1000)), sums(1000).into_iter().sum(), "the order matters");
    }

    #[test]
    fn no_slot_is_left_unused() {
        for count in 0..600 {
            let tree = PairwiseTree::new(count);
            let used = (0..count).map(|it| tree.combined(it)).map(|it| it.end.max(it.start + 1)).max().unwrap_or(1);
            assert_eq!(tree.slots(), used, "{count} chunks");
        }
    }

    #[test]
    fn aligned_blocks_are_subtrees() {
        for (count, blocks) in (1..150).flat_map(|count| (0..8).map(move |it| (count, 1 << it))) {
            let parts: Vec<f32> = sums(count).chunks(blocks).map(by_slots).collect();
            assert_eq!(by_slots(&parts).to_bits(), by_slots(&sums(count)).to_bits(), "{count} in blocks of {blocks}");
        }
    }
}
