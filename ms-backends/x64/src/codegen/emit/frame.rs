//! Lays out the stack frame, and locates the words of the argument block.

use super::super::Body;
use super::super::vinst::{AccArray, AccId, Op, Program};
use super::asm::Mem;
use super::fixed;
use iced_x86::Register;
use ms_ir::{Kernel, Param, ParamId, Role};

/// The size limit of a frame in bytes. A kernel that needs more is interpreted.
pub const MAX_BYTES: usize = 256 * 1024;

/// The location of a parameter's pointer.
#[derive(Clone, Copy, Debug)]
pub enum PointerLocation {
    Register(Register),
    Stack(Mem),
    /// None: an immediate is in the argument block.
    Block,
}

/// The 64-bit state variables of blocked reductions ([`ms_ir::ReductionOrder::Blocks`]).
#[derive(Clone, Copy, Debug)]
pub enum Cursor {
    /// The number of elements, or steps, that are partitioned into blocks together.
    Section,
    /// The number of elements, or steps, in a block.
    Block,
    /// Whether there are several blocks.
    Several,
    /// The number of elements, or steps, left in the current block.
    Left,
    /// The number of elements, or steps, of the current section after the current block.
    Rest,
    /// The number of completed blocks of the current group.
    Ended,
    /// The number of completed groups.
    Groups,
    /// The position at which the blocked loop stops next.
    Stop,
    /// The start of the current block.
    Start,
    /// The position of the lanes in their row, which selects the accumulators.
    InRow,
    /// The index of a block result.
    Number,
    /// The remaining bits of the number of groups, while results are carried to higher levels.
    Carry,
    /// The distance between two results that are combined.
    Half,
}

impl Cursor {
    const COUNT: usize = Self::Half as usize + 1;
}

/// Returns the size of an accumulator array in bytes, padded to cache lines.
fn room(array: &AccArray) -> usize {
    (array.count * array.size).next_multiple_of(64)
}

/// The offsets of the parts of the stack frame from `rsp`, which is aligned to 64 bytes inside the kernel.
///
/// In order of address:
/// - the caller's `rsp`,
/// - a counter for each loop,
/// - the state of blocked reductions,
/// - pointers that have no register,
/// - row addresses of indexed buffers,
/// - lane offsets of gathered buffers,
/// - the scratch area of divisions,
/// - accumulators,
/// - spill slots.
pub struct Frame {
    /// The size of the frame.
    pub bytes: usize,
    loops: usize,
    pointer_locations: Vec<PointerLocation>,
    /// The number of pointers that are in registers.
    registers: usize,
    /// The first word of each parameter in the argument block.
    words: Vec<usize>,
    gathers: Vec<Option<usize>>,
    /// The row address of each pair of an indexed buffer and the buffer of its positions.
    rows: Vec<((ParamId, ParamId), Mem)>,
    divide: Option<usize>,
    accs: usize,
    spills: usize,
}

impl Frame {
    /// Lays out the frame of a kernel with several bodies. The first body must contain all kinds of instructions that
    /// occur in the others.
    pub fn new(kernel: &Kernel, bodies: &[&Body]) -> Self {
        let program = &bodies[0].program;
        let loops = kernel.loops();
        let mut bytes = 8 + (loops + Cursor::COUNT) * 8;
        let mut registers = 0;
        let pointer_location = |param: &Param| match fixed::POINTERS.get(registers) {
            _ if param.role == Role::Immediate => PointerLocation::Block,
            Some(&register) => {
                registers += 1;
                PointerLocation::Register(register)
            }
            None => {
                bytes += 8;
                PointerLocation::Stack(Mem::at(fixed::STACK, bytes as i32 - 8))
            }
        };
        let pointer_locations = kernel.params.iter().map(pointer_location).collect();
        let words = (0..kernel.params.len()).map(|it| kernel.param_word(it)).collect();
        let mut rows: Vec<((ParamId, ParamId), Mem)> = Vec::new();
        for inst in &program.insts {
            if let Op::ReadAt { param, index: Some(index), .. } = inst.op
                && rows.iter().all(|it| it.0 != (param, index))
            {
                rows.push(((param, index), Mem::at(fixed::STACK, bytes as i32)));
                bytes += 8;
            }
        }
        bytes = bytes.next_multiple_of(64);
        let mut gathers = vec![None; kernel.params.len()];
        for inst in &program.insts {
            if let Some(param) = inst.op.spread()
                && gathers[param.0 as usize].is_none()
            {
                gathers[param.0 as usize] = Some(bytes);
                bytes += (program.lanes * 8).next_multiple_of(64);
            }
        }
        let divides = program.insts.iter().any(|it| matches!(it.op, Op::Divide { .. }));
        let divide = divides.then(|| {
            bytes += 3 * 64;
            bytes - 3 * 64
        });
        let accs = bytes;
        bytes += bodies.iter().map(|it| it.program.arrays.iter().map(room).sum()).max().unwrap_or(0);
        let spills = bytes;
        let slots = bodies.iter().map(|it| it.allocation.slot_bytes as usize).max().unwrap_or(0);
        bytes = (bytes + slots).next_multiple_of(64);
        Self { bytes, loops, pointer_locations, registers, words, gathers, rows, divide, accs, spills }
    }

    /// Returns the counter of a loop.
    pub fn counter(&self, axis: usize) -> Mem {
        Mem::at(fixed::STACK, 8 + 8 * axis as i32)
    }

    /// Returns a state variable of blocked reductions.
    pub fn cursor(&self, which: Cursor) -> Mem {
        Mem::at(fixed::STACK, 8 + 8 * (self.loops + which as usize) as i32)
    }

    /// Returns scratch space to compute a position: the slot of the lane counter, which lives in a register.
    pub fn position(&self, kernel: &Kernel) -> Mem {
        self.counter(kernel.par as usize)
    }

    pub fn pointer_location(&self, param: usize) -> PointerLocation {
        self.pointer_locations[param]
    }

    /// Returns the number of pointers that are in registers.
    pub fn pointer_registers(&self) -> usize {
        self.registers
    }

    /// Returns the lane offsets of a gathered buffer.
    pub fn gather(&self, param: ParamId) -> i32 {
        self.gathers[param.0 as usize].expect("a gathered buffer has its offsets") as i32
    }

    /// Returns the address of an indexed buffer's row at the position in buffer `index`, or zero if that is out of
    /// range.
    pub fn row(&self, param: ParamId, index: ParamId) -> Mem {
        let found = self.rows.iter().find(|it| it.0 == (param, index));
        found.expect("what is read at an element of a buffer has a place for the address").1
    }

    /// Returns the gathered buffers.
    pub fn gathered(&self) -> Vec<usize> {
        (0..self.gathers.len()).filter(|&it| self.gathers[it].is_some()).collect()
    }

    /// Returns the scratch area of divisions: a cache line of saved registers, and one for each operand.
    pub fn divide(&self) -> i32 {
        self.divide.expect("a kernel that divides has the space for it") as i32
    }

    /// Returns an accumulator array of a program.
    pub fn acc(&self, program: &Program, id: AccId) -> i32 {
        (self.accs + program.arrays[..id.0 as usize].iter().map(room).sum::<usize>()) as i32
    }

    /// Returns one vector of an accumulator array.
    pub fn acc_vector(&self, program: &Program, id: AccId, part: u8) -> Mem {
        let bytes = program.lanes * program.arrays[id.0 as usize].size;
        Mem::at(fixed::STACK, self.acc(program, id) + (part as usize * bytes) as i32)
    }

    pub fn spill(&self, offset: u32) -> Mem {
        Mem::at(fixed::STACK, (self.spills + offset as usize) as i32)
    }

    /// Returns the extent of a loop, in the argument block.
    pub fn extent(&self, axis: usize) -> Mem {
        Mem::at(fixed::BLOCK, 8 * axis as i32)
    }

    /// Returns the base of a loop, in the argument block of `kernel`.
    pub fn base(kernel: &Kernel, axis: usize) -> Mem {
        Mem::at(fixed::BLOCK, 8 * kernel.base_word(axis) as i32)
    }

    /// Returns the stride of an indexed buffer's axis, in the argument block of `kernel`.
    pub fn axis_stride(kernel: &Kernel, param: ParamId) -> Mem {
        Mem::at(fixed::BLOCK, 8 * kernel.axis_word(param.0 as usize) as i32)
    }

    /// Returns the extent of an indexed buffer's axis, in the argument block of `kernel`.
    pub fn axis_extent(kernel: &Kernel, param: ParamId) -> Mem {
        Mem::at(fixed::BLOCK, 8 * (kernel.axis_word(param.0 as usize) + 1) as i32)
    }

    /// Returns the address of a buffer, or an immediate, in the argument block.
    pub fn word(&self, param: usize) -> Mem {
        Mem::at(fixed::BLOCK, 8 * self.words[param] as i32)
    }

    /// Returns the stride of a buffer along a loop, in the argument block.
    pub fn stride(&self, param: usize, axis: usize) -> Mem {
        Mem::at(fixed::BLOCK, 8 * (self.words[param] + 1 + axis) as i32)
    }
}
