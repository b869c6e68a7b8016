//! Assigns the values of a kernel to slots of the frame.

use ms_ir::{Inst, Kernel, ReductionOrder, Scope, Val};

/// The number of lanes of a block, chosen such that its values fit in the L1 cache.
pub const BLOCK: usize = 512;

/// The number of block results of a reduction: the second-level accumulators, and one per level of groups.
pub const RESULTS: usize = ReductionOrder::PARTIALS + ReductionOrder::LEVELS;

/// The slots of scratch memory for all values. Values with overlapping live ranges have different slots, so a result
/// never shares the slot of an operand.
pub struct Slots {
    slot: Vec<u32>,
    spread: Vec<bool>,
    count: usize,
    slot_bytes: usize,
    /// The reductions with block results. Empty unless the order is by blocks.
    reductions: Vec<usize>,
}

impl Slots {
    /// Assigns slots by a linear scan over the kernel.
    pub fn assign(kernel: &Kernel) -> Self {
        let len = kernel.insts.len();
        let stages = stage_of(kernel);
        let (ends, spread) = live_ranges(kernel, &stages);
        let mut dying: Vec<Vec<u32>> = vec![Vec::new(); len];
        let (mut slot, mut free, mut count) = (vec![0; len], Vec::new(), 0);
        let mut take = |free: &mut Vec<u32>| {
            free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            })
        };
        // Constants are written once per call, before everything else.
        for (i, inst) in kernel.insts.iter().enumerate() {
            if matches!(inst, Inst::Const(_)) {
                slot[i] = take(&mut free);
            }
        }
        for stage in 0..kernel.stages.len() {
            let range = kernel.stage_range(stage);
            // Accumulators are live from the start of their stage.
            for i in range.clone().filter(|&i| matches!(kernel.insts[i], Inst::Reduce(..))) {
                slot[i] = take(&mut free);
                dying[ends[i]].push(slot[i]);
            }
            for i in range {
                if !matches!(kernel.insts[i], Inst::Const(_) | Inst::Reduce(..) | Inst::Store(..)) {
                    slot[i] = take(&mut free);
                    dying[ends[i]].push(slot[i]);
                }
                free.append(&mut dying[i]);
            }
        }
        let widest = kernel.types.iter().map(|dtype| dtype.compute().size()).max().unwrap_or(1);
        let reductions = match kernel.order {
            ReductionOrder::Lanes => Vec::new(),
            ReductionOrder::Blocks => (0..len).filter(|&it| matches!(kernel.insts[it], Inst::Reduce(..))).collect(),
        };
        Self { slot, spread, count: count as usize, slot_bytes: widest * BLOCK, reductions }
    }

    /// Returns the byte offset of a value's slot.
    #[inline]
    pub fn offset(&self, value: usize) -> usize {
        self.slot[value] as usize * self.slot_bytes
    }

    /// Returns the byte offset of the block results of a reduction.
    pub fn partials(&self, reduction: usize) -> usize {
        let number = self.reductions.binary_search(&reduction).expect("a reduction that has blocks");
        (self.count + number * RESULTS) * self.slot_bytes
    }

    /// Returns whether the value is one scalar per row that lanes of a later stage read.
    pub fn spread(&self, value: usize) -> bool {
        self.spread[value]
    }

    /// Returns the size in bytes of all slots and block results.
    pub fn bytes(&self) -> usize {
        (self.count + self.reductions.len() * RESULTS) * self.slot_bytes
    }
}

/// Returns the stage of every instruction.
fn stage_of(kernel: &Kernel) -> Vec<usize> {
    (0..kernel.stages.len()).flat_map(|stage| kernel.stage_range(stage).map(move |_| stage)).collect()
}

/// Returns, for every value, the last instruction at which it is live, and whether a later `Loop` stage reads it.
fn live_ranges(kernel: &Kernel, stages: &[usize]) -> (Vec<usize>, Vec<bool>) {
    let mut ends: Vec<usize> = (0..kernel.insts.len()).collect();
    let mut spread = vec![false; kernel.insts.len()];
    for (i, inst) in kernel.insts.iter().enumerate() {
        // Accumulators and carries are live until their stage ends. So are next values, until all carries are assigned.
        if matches!(inst, Inst::Reduce(..) | Inst::Carry(_) | Inst::Next(..)) {
            ends[i] = ends[i].max(kernel.stage_range(stages[i]).end - 1);
        }
        for Val(operand) in inst.operands() {
            let operand = operand as usize;
            let scope = kernel.stages[stages[i]].scope;
            let crosses = stages[operand] != stages[i] && scope != Scope::Point;
            // A loop reads values from outside again in its next iteration.
            let end = if crosses { kernel.stage_range(stages[i]).end - 1 } else { i };
            ends[operand] = ends[operand].max(end);
            spread[operand] |= crosses && scope == Scope::Loop && !matches!(kernel.insts[operand], Inst::Const(_));
        }
    }
    (ends, spread)
}
