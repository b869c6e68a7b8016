//! Partitions calls of kernels.

use super::Kernel;

/// The positions of the argument-block words that vary when a loop is partitioned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopArguments {
    loops: usize,
    /// The number of params with an address.
    addressed: usize,
    /// The word with the base of the first loop, if indices along loops are read.
    bases: Option<usize>,
}

impl LoopArguments {
    /// Returns the words of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        let bases = kernel.reads_position().then(|| kernel.base_word(0));
        Self { loops: kernel.loops(), addressed: kernel.addressed(), bases }
    }

    /// Returns the number of loops.
    #[inline]
    pub fn loops(self) -> usize {
        self.loops
    }

    /// Restricts the block to `steps` iterations of a loop, from iteration `first` of the current ones.
    ///
    /// # Panics
    /// Panics if the block has fewer words than the kernel's.
    #[inline]
    pub fn restrict(self, block: &mut [u64], axis: usize, first: usize, steps: usize) {
        block[axis] = steps as u64;
        for param in 0..self.addressed {
            let words = &mut block[self.loops + param * (1 + self.loops)..][..1 + self.loops];
            words[0] = words[0].wrapping_add((first as u64).wrapping_mul(words[1 + axis]));
        }
        if let Some(bases) = self.bases {
            block[bases + axis] += first as u64;
        }
    }
}
