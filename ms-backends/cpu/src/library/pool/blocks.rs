//! Partitions positions into blocks of constant size, whose loops are vectorised.

/// Maximum number of positions of a block.
const MOST: usize = 16;

/// A loop over blocks of a constant number of positions.
pub trait Blocks {
    /// Computes `COUNT` positions from `at` on, all below the loop's count. Some may be computed already.
    fn block<const COUNT: usize>(&mut self, at: usize);
}

/// Runs a loop on the positions below `count`, in order and in few blocks. The last block may overlap the one before
/// it.
#[inline(always)]
pub fn in_blocks(count: usize, blocks: &mut impl Blocks) {
    match count {
        MOST.. => run_blocks::<MOST>(count, blocks),
        8.. => run_blocks::<8>(count, blocks),
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
