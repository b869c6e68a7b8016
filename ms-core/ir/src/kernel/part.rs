//! Parts of calls of kernels.

use super::Kernel;

/// The words in the blocks of a kernel's calls that are other ones for a part of its loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopWords {
    loops: usize,
    /// Number of params with an address.
    addressed: usize,
    /// The word with the base of the first loop, if positions along loops are read.
    bases: Option<usize>,
}

impl LoopWords {
    /// Those of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        let bases = kernel.reads_position().then(|| kernel.base_word(0));
        Self { loops: kernel.loops(), addressed: kernel.addressed(), bases }
    }

    /// Number of loops.
    #[inline]
    pub fn loops(self) -> usize {
        self.loops
    }

    /// Makes the block that of `steps` steps of a loop, from step `first` of those that it is of.
    ///
    /// # Panics
    /// If the block has fewer words than those of the kernel.
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
