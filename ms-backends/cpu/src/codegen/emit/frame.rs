//! The layout of the stack frame and of a call's block.

use super::super::Body;
use super::super::vinst::{AccArray, AccId, Op, Program};
use super::asm::Mem;
use super::fixed;
use iced_x86::Register;
use ms_core::ir::{Kernel, Param, ParamId, Role};

/// The largest frame; a kernel that needs more is interpreted.
pub const LARGEST: usize = 256 * 1024;

/// Where the pointer of a param is.
#[derive(Clone, Copy, Debug)]
pub enum Home {
    Register(Register),
    Stack(Mem),
    /// There is no pointer: an immediate is in the block of the call.
    Block,
}

/// 64-bit numbers of the state of cut loops ([`ms_core::ir::ReductionOrder::Blocks`]).
#[derive(Clone, Copy, Debug)]
pub enum Cursor {
    /// Elements, or steps, that are cut into blocks together.
    Section,
    /// Elements, or steps, of a block.
    Block,
    /// Whether there are several blocks.
    Several,
    /// Number of elements, or steps, left in the current block.
    Left,
    /// Number of elements, or steps, of the current section that follow the current block.
    Rest,
    /// Number of completed blocks of the current group.
    Ended,
    /// Number of completed groups.
    Groups,
    /// The next stop of the cut loop.
    Stop,
    /// The start of the current block.
    Start,
    /// The position of the lanes in their row, as far as it determines accumulators.
    InRow,
    /// The number of a result of a block.
    Number,
    /// Digits of the number of groups that are left to look at.
    Carry,
    /// The distance of two results that are combined.
    Half,
}

impl Cursor {
    const COUNT: usize = Self::Half as usize + 1;
}

/// Bytes of an array of accumulators.
fn room(array: &AccArray) -> usize {
    (array.count * array.size).next_multiple_of(64)
}

/// Offsets from `rsp`, which is aligned to 64 bytes inside the kernel.
///
/// In order: the caller's `rsp`; a counter for each loop; the state of cut loops; pointers that have no
/// register; addresses of rows of indexed buffers; offsets of gathered lanes; the working space of divisions;
/// accumulators; spilled values.
pub struct Frame {
    /// Bytes of the whole frame.
    pub bytes: usize,
    loops: usize,
    homes: Vec<Home>,
    /// The number of pointers that have a register.
    registers: usize,
    /// The word of each param in the block of the call.
    words: Vec<usize>,
    gathers: Vec<Option<usize>>,
    /// By indexed buffer and the buffer of its positions.
    rows: Vec<((ParamId, ParamId), Mem)>,
    divide: Option<usize>,
    accs: usize,
    spills: usize,
}

impl Frame {
    /// The frame of a kernel with several bodies, the first of which has all kinds of instructions of the
    /// others.
    pub fn new(kernel: &Kernel, bodies: &[&Body]) -> Self {
        let program = &bodies[0].program;
        let loops = kernel.loops();
        let mut bytes = 8 + (loops + Cursor::COUNT) * 8;
        let mut registers = 0;
        let home = |param: &Param| match fixed::POINTERS.get(registers) {
            _ if param.role == Role::Immediate => Home::Block,
            Some(&register) => {
                registers += 1;
                Home::Register(register)
            }
            None => {
                bytes += 8;
                Home::Stack(Mem::at(fixed::STACK, bytes as i32 - 8))
            }
        };
        let homes = kernel.params.iter().map(home).collect();
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
        Self { bytes, loops, homes, registers, words, gathers, rows, divide, accs, spills }
    }

    /// The counter of a loop.
    pub fn counter(&self, axis: usize) -> Mem {
        Mem::at(fixed::STACK, 8 + 8 * axis as i32)
    }

    /// A number of the state of cut loops.
    pub fn cursor(&self, which: Cursor) -> Mem {
        Mem::at(fixed::STACK, 8 + 8 * (self.loops + which as usize) as i32)
    }

    /// Scratch space to compute a position: that of the counter of the lanes, which has a register.
    pub fn position(&self, kernel: &Kernel) -> Mem {
        self.counter(kernel.par as usize)
    }

    pub fn home(&self, param: usize) -> Home {
        self.homes[param]
    }

    /// The number of pointers that have a register.
    pub fn pointer_registers(&self) -> usize {
        self.registers
    }

    /// The offsets of the lanes of a gathered buffer.
    pub fn gather(&self, param: ParamId) -> i32 {
        self.gathers[param.0 as usize].expect("a gathered buffer has its offsets") as i32
    }

    /// The address of an indexed buffer at the position in another buffer, or zero if that is out of range.
    pub fn row(&self, param: ParamId, index: ParamId) -> Mem {
        let found = self.rows.iter().find(|it| it.0 == (param, index));
        found.expect("what is read at an element of a buffer has a place for the address").1
    }

    /// The buffers that are gathered.
    pub fn gathered(&self) -> Vec<usize> {
        (0..self.gathers.len()).filter(|&it| self.gathers[it].is_some()).collect()
    }

    /// The working space of divisions: a line of saved registers, and one for each operand.
    pub fn divide(&self) -> i32 {
        self.divide.expect("a kernel that divides has the space for it") as i32
    }

    /// An array of accumulators of a program.
    pub fn acc(&self, program: &Program, id: AccId) -> i32 {
        (self.accs + program.arrays[..id.0 as usize].iter().map(room).sum::<usize>()) as i32
    }

    /// One vector of an array of accumulators.
    pub fn acc_part(&self, program: &Program, id: AccId, part: u8) -> Mem {
        let bytes = program.lanes * program.arrays[id.0 as usize].size;
        Mem::at(fixed::STACK, self.acc(program, id) + (part as usize * bytes) as i32)
    }

    pub fn spill(&self, offset: u32) -> Mem {
        Mem::at(fixed::STACK, (self.spills + offset as usize) as i32)
    }

    /// The extent of a loop, in the block of the call.
    pub fn extent(&self, axis: usize) -> Mem {
        Mem::at(fixed::BLOCK, 8 * axis as i32)
    }

    /// The base of a loop, in the block of the call of a kernel.
    pub fn base(kernel: &Kernel, axis: usize) -> Mem {
        Mem::at(fixed::BLOCK, 8 * kernel.base_word(axis) as i32)
    }

    /// The stride of an indexed buffer's axis, in the block of the call of a kernel.
    pub fn axis_stride(kernel: &Kernel, param: ParamId) -> Mem {
        Mem::at(fixed::BLOCK, 8 * kernel.axis_word(param.0 as usize) as i32)
    }

    /// The extent of an indexed buffer's axis, in the block of the call of a kernel.
    pub fn axis_extent(kernel: &Kernel, param: ParamId) -> Mem {
        Mem::at(fixed::BLOCK, 8 * (kernel.axis_word(param.0 as usize) + 1) as i32)
    }

    /// The address of a buffer or an immediate, in the block of the call.
    pub fn word(&self, param: usize) -> Mem {
        Mem::at(fixed::BLOCK, 8 * self.words[param] as i32)
    }

    /// The stride of a buffer along a loop, in the block of the call.
    pub fn stride(&self, param: usize, axis: usize) -> Mem {
        Mem::at(fixed::BLOCK, 8 * (self.words[param] + 1 + axis) as i32)
    }
}
