//! Tracks the blocks of a reduction, as in [`ms_ir::ReductionOrder`].

use super::frame::Frame;
use ms_ir::{LaneAxis, ReductionOrder};

/// The position of a stage's loops within the blocks of its reductions. Lengths count elements if the lanes are
/// reduced, and loop steps if the lanes are parallel.
pub struct Blocks {
    /// The length of a section. Each section is partitioned into blocks.
    section: u64,
    /// The length of a block. The last block of a section may be shorter.
    block: u64,
    /// The length of the rest of the current block.
    left: u64,
    /// The length of the rest of the current section after this block.
    rest: u64,
    /// The number of completed blocks.
    ended: usize,
    /// Whether there are several blocks. A single block never ends.
    several: bool,
}

impl Blocks {
    /// Partitions the loops of the frame's kernel, before its first step.
    pub fn new(frame: &Frame<'_>) -> Self {
        let (kernel, extents) = (frame.kernel, frame.extents());
        let (outer, inner) = extents[kernel.par as usize..].split_at(1 + (kernel.seq - kernel.run) as usize);
        let product = |loops: &[u64]| loops.iter().fold(1u64, |all, &it| all.saturating_mul(it));
        let (lanes, rows) = (outer[0], product(&outer[1..]));
        let (total, section, block) = match (kernel.order, kernel.lanes) {
            (ReductionOrder::Lanes, _) => (0, u64::MAX, u64::MAX),
            (ReductionOrder::Blocks, LaneAxis::Parallel) => (rows, rows, ReductionOrder::COLUMN_BLOCK as u64),
            (ReductionOrder::Blocks, LaneAxis::Reduced) => {
                let (row, whole) = (lanes.saturating_mul(product(inner)), ReductionOrder::ROW_BLOCK as u64);
                let total = rows.saturating_mul(row);
                if row > whole / 2 {
                    (total, row, whole)
                } else {
                    (total, total, whole / row.max(1).next_power_of_two() * row)
                }
            }
        };
        let mut blocks =
            Self { section, block, left: u64::MAX, rest: 0, ended: 0, several: total > block.min(section) };
        if blocks.several {
            blocks.begin();
        }
        blocks
    }

    fn begin(&mut self) {
        if self.rest == 0 {
            self.rest = self.section;
        }
        self.left = self.rest.min(self.block);
        self.rest -= self.left;
    }

    /// Returns the length of the rest of the current block.
    pub fn left(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }

    /// Advances by `count`, which is at most the rest of the block. Returns the index of the block that ends there, if
    /// one does.
    pub fn advance(&mut self, count: usize) -> Option<usize> {
        self.left -= count as u64;
        if self.left > 0 {
            return None;
        }
        self.begin();
        self.ended += 1;
        Some(self.ended - 1)
    }

    /// Returns whether there are several blocks. If so, all of them are complete after the last step.
    pub fn several(&self) -> bool {
        self.several
    }
}
