//! Register allocation: a linear scan that evicts the value whose next use is furthest away.
//!
//! A value that is evicted once is stored where it is defined, so that its register can be
//! reused at any later point. Constants are never stored: they are rematerialised. Over the
//! reduced loops accumulators, and values from outside as far as there is room, keep their
//! registers; all other registers are free at the head of such a loop and dropped at its end.
//! The same holds for loops of a stage, whose carries are accumulators here. Where reduced loops are cut, the same
//! holds for all blocks in them, and each of these that can be reached from several places begins with only the pinned
//! registers.

mod liveness;
mod scan;
mod slots;

use super::rows::Row;
use super::target::{Target, Width};
use super::vinst::{Constant, Program, Span, VReg, When};
use scan::Scan;
use smallvec::SmallVec;

/// An operand after allocation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AllocatedOperand {
    /// The register of this number, of the width of the virtual one.
    Reg(VReg, u8),
    /// A constant in memory.
    Pool(VReg, Constant),
}

/// An instruction after allocation.
#[derive(Clone, Debug)]
pub enum AllocatedInst {
    /// A virtual instruction.
    Run {
        /// Its position in the program.
        inst: usize,
        /// The row, if allocation chose it (see [`Tie::Fma`](super::vinst::Tie::Fma)).
        row: Option<Row>,
        /// The register of the result.
        dst: Option<u8>,
        /// The operands, without the one that the result overwrites.
        srcs: SmallVec<[AllocatedOperand; 4]>,
    },
    /// Copies a register.
    Copy { reg: VReg, from: u8, to: u8 },
    /// Reloads a value from its slot, or rematerialises a constant.
    Reload { reg: VReg, to: u8 },
}

/// The result of register allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// All steps, in order.
    pub steps: Vec<AllocatedInst>,
    /// For each block of the program, one past its last step.
    pub blocks: Vec<usize>,
    /// The offset of each virtual register's stack slot, if it has one.
    pub slots: Vec<Option<u32>>,
    /// The size of all slots in bytes.
    pub slot_bytes: u32,
    /// Number of values that have a slot.
    pub spills: usize,
}

/// Registers that are reserved for the emitter.
pub mod scratch {
    use super::{Target, Width};

    /// Vector registers that a gather uses, counted from the last.
    pub const fn gather_vectors(target: Target) -> u8 {
        match target {
            Target::Avx2 => 3,
            Target::Avx512 => 2,
        }
    }

    /// The mask of the lanes in the last step of the lanes' loop.
    pub const TAIL_MASK: u8 = 1;

    /// The mask that a gather consumes.
    pub const GATHER_MASK: u8 = 7;

    /// The registers to allocate, as bits.
    pub const fn allocatable(target: Target, width: Width, gathers: bool) -> u32 {
        match width {
            Width::Mask if gathers => 0b0111_1100,
            Width::Mask => 0b1111_1100,
            _ => {
                let count = target.vector_registers() - if gathers { gather_vectors(target) } else { 0 };
                ((1_u64 << count) - 1) as u32
            }
        }
    }
}

/// Assigns registers and slots.
pub fn allocate(program: &Program, target: Target) -> Allocation {
    let mut scan = Scan::new(program, target);
    let mut blocks = Vec::with_capacity(program.blocks.len());
    for (i, block) in program.blocks.iter().enumerate() {
        let range = program.block_range(i);
        for held in program.held().filter(|it| it.start == i) {
            scan.enter_loop(program.insts_of(&held), &mut blocks);
        }
        // Where several paths join, only pinned values are in registers.
        if !matches!(block.when, When::Once | When::After | When::Repeat | When::Loop(Span::Whole(_)))
            && scan.is_in_loop()
        {
            scan.drop_unpinned();
        }
        if block.when.is_loop() {
            scan.enter_loop(range.clone(), &mut blocks);
        }
        for at in range {
            scan.instruction(at);
        }
        if block.when.is_loop() {
            scan.leave_loop();
        }
        blocks.push(scan.len());
        for _ in program.held().filter(|it| it.end == i + 1) {
            scan.drop_unpinned();
            scan.leave_loop();
        }
    }
    scan.finish(blocks)
}
