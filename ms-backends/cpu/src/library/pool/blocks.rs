//! Partitions positions into blocks of constant size, whose loops are vectorised.

/// Maximum number of positions of a block.
const MAX_COUNT: usize = 16;

/// A loop over blocks of a constant number of positions.
pub trait Blocks {
    /// Computes `COUNT` positions from `at` on, all below the loop's count. Some may be computed already.
    fn block<const COUNT: usize>(&mut self, at: usize);
}

/// Runs a loop on the positions below `count`, in order and in few blocks. The last block may overlap the one before
/// it. Without `SPECIALIZED`, blocks have four positions or one.
#[inline(always)]
pub fn in_blocks<const SPECIALIZED: bool>(count: usize, blocks: &mut impl Blocks) {
    match count {
        MAX_COUNT.. if SPECIALIZED => run_blocks::<MAX_COUNT>(count, blocks),
        8.. if SPECIALIZED => run_blocks::<8>(count, blocks),
        4.. => run_blocks::<4>(count, blocks),
        _ => run_blocks::<1>(count, blocks),
    }
}

#[inline(always)]
fn run_blocks<const COUNT: usize>(count: usize, blocks: &mut impl Blocks) {
    let mut at = 0;
    while at + COUNT <= count {
        blocks.block::<COUNT>(at);
        at += COUNT;
    }
    if at < count {
        blocks.block::<COUNT>(count - COUNT);
    }
}
