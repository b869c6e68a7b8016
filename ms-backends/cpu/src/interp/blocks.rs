//! The blocks of a reduction, as [`ms_core::ir::ReductionOrder`] describes them.

use super::frame::Frame;
use ms_core::ir::{LaneAxis, ReductionOrder};

/// Where the loops of a stage stand in the blocks of its reductions. What is counted are elements,
/// or, with parallel lanes, steps.
pub struct Blocks {
    /// What is cut into blocks together.
    section: u64,
    /// The length of a block, of which the last one of a section may have less.
    block: u64,
    /// What the block under way still takes.
    left: u64,
    /// What the section under way has behind this block.
    rest: u64,
    /// Blocks that have ended.
    ended: usize,
    /// Whether there are several blocks; a single one does not end.
    several: bool,
}

impl Blocks {
    /// The blocks of a stage of the frame's kernel, before its first step.
    pub fn of(frame: &Frame<'_>) -> Self {
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

    /// What the block under way still takes.
    pub fn left(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }

    /// Goes on by `count`, which is not more than is left; gives the number of the block that ends
    /// there, if one does.
    pub fn advance(&mut self, count: usize) -> Option<usize> {
        self.left -= count as u64;
        if self.left > 0 {
            return None;
        }
        self.begin();
        self.ended += 1;
        Some(self.ended - 1)
    }

    /// Whether there are several blocks, of which all have ended after the last step.
    pub fn several(&self) -> bool {
        self.several
    }
}
