//! Defines the order of a kernel's reductions.

use super::{Inst, Kernel, Reducer};
use crate::data::DType;

/// The tree in which the elements of a float sum or product are combined, which determines the bits of the result.
///
/// All other reductions have equal results in any order, except for the payload of a NaN. Integers wrap, bools and
/// extremes do not round, and +0 is larger than -0. The order of these is unspecified.
///
/// In every order an accumulator starts from the identity, and elements are combined with it in loop order, `a = a ⊕
/// x`. Then `n` accumulators are combined by halves: `a[k] = a[k] ⊕ a[k + n/2]` for `k < n/2`, and so on down to one.
/// The orders depend only on the extents of the reduced loops and the dtype of the accumulators. They do not depend on
/// the instruction set, threads, strides or fusion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum ReductionOrder {
    /// A single level, which suits the vector registers of a CPU.
    ///
    /// With reduced lanes, element `i` of the lanes goes to accumulator `i mod 16` (`i mod 8` for 8-byte dtypes), over
    /// all iterations of the reduced loops. With parallel lanes, each lane has one accumulator.
    #[default]
    Lanes,
    /// Blocks with results that are combined in several levels, which suit both CPUs and the thread blocks of a GPU.
    ///
    /// 1. With reduced lanes a *row* is the lanes together with the innermost [`Kernel::run`] reduced loops, its
    ///    elements numbered consecutively; it has `L` elements. Element `i` of a row goes to accumulator `i mod 128`
    ///    (`i mod 64` for 8-byte dtypes) of a block. If `L > 1024`, a row is partitioned into blocks of 2048 elements,
    ///    of which the last may have fewer. Otherwise `2048 / L'` successive rows share a block, where `L'` is the
    ///    smallest power of two that is not below `L`. The accumulators of a block are combined by halves.
    /// 2. The result of block `b`, counted over all rows, goes to accumulator `b mod 32` of the second level, in order
    ///    of the blocks. These accumulators are combined by halves.
    /// 3. With parallel lanes 64 successive iterations of the reduced loops are a block, of which the last may have
    ///    fewer. Each lane has one accumulator in a block. Then rule 2 applies.
    /// 4. Every 1,024 blocks are a group, whose second level begins afresh; the last group may have fewer. The results
    ///    of groups are combined by adjacent pairs, level by level; an odd last one is carried up.
    ///
    /// Two kinds of reductions therefore have the same bits as with [`ReductionOrder::Lanes`]. The first are rows of up
    /// to 16 elements (8 for 8-byte dtypes) that share one block. The second are reductions of up to 64 iterations with
    /// parallel lanes.
    ///
    /// The parameters suit a warp whose threads have four adjacent accumulators each. They need one load of 16 bytes
    /// per iteration, and combine by halves mostly with shuffles. The second level has as many accumulators as a thread
    /// block has warps.
    Blocks,
}

impl ReductionOrder {
    /// The number of accumulators of the second level of [`ReductionOrder::Blocks`].
    pub const PARTIALS: usize = 32;

    /// The number of blocks of a group, in [`ReductionOrder::Blocks`].
    pub const GROUP: usize = 1024;

    /// The number of levels of pairs of groups. The results of the last level are added one after the other, from 2^19
    /// groups on.
    pub const LEVELS: usize = 20;

    /// The number of elements of a block of a long row, in [`ReductionOrder::Blocks`].
    pub const ROW_BLOCK: usize = 2048;

    /// The number of iterations of a block with parallel lanes, in [`ReductionOrder::Blocks`].
    pub const COLUMN_BLOCK: usize = 64;

    /// Returns the [`Kernel::run`] of a kernel in which `run` reduced loops and the lanes are one row. Returns zero if
    /// the order does not depend on it.
    pub const fn run(self, run: u8) -> u8 {
        match self {
            Self::Lanes => 0,
            Self::Blocks => run,
        }
    }

    /// Returns the number of accumulators of a reduction along the lanes, by their dtype.
    pub const fn accumulators(self, dtype: DType) -> usize {
        match self {
            Self::Lanes => run_multiple(dtype),
            Self::Blocks => 8 * run_multiple(dtype),
        }
    }
}

/// Returns, by accumulator dtype, the number of which the lane count must be a multiple if a row includes reduced loops
/// around the lanes. The elements of a vector of adjacent accumulators are then adjacent, in all orders of reduction.
pub const fn run_multiple(dtype: DType) -> usize {
    if dtype.size() == 8 { 8 } else { 16 }
}

impl Kernel {
    /// Returns whether the kernel can be called with these extents of all loops. If reduced loops belong to a row and
    /// have several iterations, the number of lanes must be a [multiple](run_multiple).
    pub fn takes(&self, extents: &[usize]) -> bool {
        let steps = &extents[extents.len() - self.run as usize..];
        let reductions = (0..self.insts.len()).filter(|&it| self.is_ordered_reduction(it));
        let multiple = reductions.map(|it| run_multiple(self.types[it])).max().unwrap_or(1);
        extents[self.par as usize].is_multiple_of(multiple) || steps.iter().all(|&it| it <= 1)
    }

    /// Returns whether the result of an instruction depends on the [order of
    /// reduction](ReductionOrder): sums and products of floats do.
    pub fn is_ordered_reduction(&self, inst: usize) -> bool {
        matches!(self.insts[inst], Inst::Reduce(Reducer::Sum | Reducer::Prod, _)) && self.types[inst].is_float()
    }
}
