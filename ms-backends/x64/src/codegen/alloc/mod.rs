//! Allocates registers by linear scan, evicting the value whose next use is furthest away.
//!
//! A value that is evicted anywhere is stored right after its definition, so that its register can be reused at any
//! later point. Constants are never stored: they are rematerialised.
//!
//! Over a reduced loop, accumulators keep their registers, and so do values from outside while registers suffice. All
//! other registers are free at the head of the loop and dropped at its end. Loops of a stage are treated the same way,
//! with their carries as accumulators. So are blocked reductions, over all of their instruction blocks. A block inside
//! them that several paths reach begins with only the pinned registers.

mod liveness;
mod scan;
mod slots;

use super::opcodes::Opcode;
use super::target::{Target, Width};
use super::vinst::{Constant, Program, Span, VReg, When};
use scan::Scan;
use smallvec::SmallVec;

/// An operand after allocation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AllocatedOperand {
    /// A register by its number, with the width of the virtual register.
    Reg(VReg, u8),
    /// A memory operand in the constant pool.
    Pool(VReg, Constant),
}

/// An instruction after allocation.
#[derive(Clone, Debug)]
pub enum AllocatedInst {
    /// A virtual instruction.
    Run {
        /// The index of the instruction in the program.
        inst: usize,
        /// The opcode, if the allocator chose it (see [`Tie::Fma`](super::vinst::Tie::Fma)).
        opcode: Option<Opcode>,
        /// The physical register of the result.
        dst: Option<u8>,
        /// The operands, except the one that the result overwrites.
        srcs: SmallVec<[AllocatedOperand; 4]>,
    },
    /// Copies a physical register.
    Copy { reg: VReg, from: u8, to: u8 },
    /// Reloads a value from its spill slot, or rematerialises a constant.
    Reload { reg: VReg, to: u8 },
}

/// The result of register allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// All instructions, in order.
    pub steps: Vec<AllocatedInst>,
    /// The end (exclusive) of each block of the program in `steps`.
    pub blocks: Vec<usize>,
    /// The offset of each virtual register's spill slot, if it has one.
    pub slots: Vec<Option<u32>>,
    /// The size of all spill slots in bytes.
    pub slot_bytes: u32,
    /// The number of spilled values.
    pub spills: usize,
}

/// Registers that are reserved for the emitter.
pub mod scratch {
    use super::{Target, Width};

    /// The number of vector registers that a gather uses, taken from the highest numbers.
    pub const fn gather_vectors(target: Target) -> u8 {
        match target {
            Target::Avx2 => 3,
            Target::Avx512 => 2,
        }
    }

    /// The mask register of the active lanes in the tail of the lane loop.
    pub const TAIL_MASK: u8 = 1;

    /// The mask register that a gather clears.
    pub const GATHER_MASK: u8 = 7;

    /// Returns the allocatable registers as a bit set.
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

/// Assigns physical registers and spill slots.
pub fn allocate(program: &Program, target: Target) -> Allocation {
    let mut scan = Scan::new(program, target);
    let mut blocks = Vec::with_capacity(program.blocks.len());
    for (i, block) in program.blocks.iter().enumerate() {
        let range = program.block_range(i);
        for range in program.register_ranges().filter(|it| it.start == i) {
            scan.enter_loop(program.insts_of(&range), &mut blocks);
        }
        // Where several paths join, only pinned values may be in registers.
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
        for _ in program.register_ranges().filter(|it| it.end == i + 1) {
            scan.drop_unpinned();
            scan.leave_loop();
        }
    }
    scan.finish(blocks)
}
