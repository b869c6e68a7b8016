//! Encodes allocated instructions as machine code.
//!
//! `rdi` points to the argument block. `rcx` is the position along the lanes, and `rsi` the end of the whole steps of
//! the lanes. `rax` and `rdx` are scratch registers. The pointers of the buffers are in the other registers, and on the
//! stack if there are too many.

mod access;
mod asm;
mod blocks;
mod divide;
mod frame;
mod gather;
mod loops;

use super::alloc::{AllocatedInst, AllocatedOperand, Allocation, scratch};
use super::opcodes::{self, Opcode};
use super::target::{Target, Width};
use super::vinst::{Machine, Op, Program, VReg, View};
use super::{Bodies, Body, Tuning};
use asm::{Asm, Label, Operand};
use divide::Division;
use frame::Frame;
use gather::{Indexed, Position};
use iced_x86::Register;
use ms_ir::Kernel;
use smallvec::SmallVec;

/// The lanes that an instance of the body computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// All lanes of the vector registers.
    Full,
    /// The lanes in the AVX-512 tail mask.
    Tail,
    /// A single lane. All lanes of a register hold its value.
    One,
}

/// Encodes an allocated kernel. Returns `None` if its stack frame would be too large.
pub fn emit(kernel: &Kernel, target: Target, tuning: Tuning, bodies: &Bodies) -> Option<Vec<u8>> {
    let Bodies { body, strips, whole, short } = bodies;
    let (whole, short) = (whole.as_ref(), short.as_ref());
    let all: SmallVec<[&Body; 4]> = [Some(body), whole, short].into_iter().flatten().chain(strips).collect();
    let frame = Frame::new(kernel, &all);
    if frame.bytes > frame::MAX_BYTES {
        return None;
    }
    let Body { program, allocation } = body;
    let asm = Asm::new(target);
    let mut emitter = Emitter {
        kernel,
        target,
        tuning,
        program,
        allocation,
        strips,
        whole,
        short,
        frame,
        asm,
        end: None,
        rows_are_found: false,
    };
    emitter.kernel();
    Some(emitter.asm.finish())
}

struct Emitter<'a> {
    kernel: &'a Kernel,
    target: Target,
    tuning: Tuning,
    /// The program of the body that is being emitted.
    program: &'a Program,
    allocation: &'a Allocation,
    strips: &'a [Body],
    whole: Option<&'a Body>,
    short: Option<&'a Body>,
    frame: Frame,
    asm: Asm,
    /// The exit of the loop whose body is being emitted.
    end: Option<Label>,
    /// Whether the [opcode addresses](Emitter::find_rows) were computed for the code that is being emitted.
    rows_are_found: bool,
}

impl Emitter<'_> {
    fn width(&self, reg: VReg) -> Width {
        self.program.info(reg).width
    }

    fn register(&self, reg: VReg, index: u8) -> Register {
        self.width(reg).register(index)
    }

    /// Emits an opcode in its form for `width`.
    fn encode(&mut self, opcode: Opcode, width: Width, operands: &[Operand]) {
        self.asm.op(opcode.code(self.target, width), operands);
    }

    /// Emits the allocated instructions of block `i`, on the lanes of `mode`.
    fn block(&mut self, i: usize, mode: Mode) {
        let start = if i == 0 { 0 } else { self.allocation.blocks[i - 1] };
        let steps = &self.allocation.steps[start..self.allocation.blocks[i]];
        for step in steps {
            match step {
                AllocatedInst::Run { inst, opcode, dst, srcs } => self.run(*inst, *opcode, *dst, srcs, mode),
                AllocatedInst::Copy { reg, from, to } => {
                    let width = self.width(*reg);
                    self.copy(width, *from, *to);
                }
                AllocatedInst::Reload { reg, to } => self.reload(*reg, *to),
            }
        }
    }

    /// Copies a register.
    fn copy(&mut self, width: Width, from: u8, to: u8) {
        let opcode = if width == Width::Mask { opcodes::K_MOVE } else { opcodes::MOVE };
        self.encode(opcode, width, &[Operand::Reg(width.register(to)), Operand::Reg(width.register(from))]);
    }

    /// Returns the spill slot of a value, if it has one.
    fn slot(&self, reg: VReg) -> Option<Operand> {
        self.allocation.slots[reg.0 as usize].map(|offset| Operand::Mem(self.frame.spill(offset)))
    }

    /// Reloads a value from its spill slot, or rematerialises a constant.
    fn reload(&mut self, reg: VReg, to: u8) {
        let info = self.program.info(reg);
        let to = Operand::Reg(info.width.register(to));
        if let Some(constant) = info.constant {
            let opcode = if constant.size == 8 { opcodes::SPLAT_Q } else { opcodes::SPLAT_D };
            return self.encode(opcode, info.width, &[to, Operand::Scalar(constant)]);
        }
        let slot = self.slot(reg).expect("what is brought back was stored");
        let opcode = if info.width == Width::Mask { opcodes::K_MOVE } else { opcodes::MOVE };
        self.encode(opcode, info.width, &[to, slot]);
    }

    /// Stores a value that is spilled somewhere. This happens right after its definition.
    fn store_spilled(&mut self, reg: VReg, from: u8) {
        if let Some(slot) = self.slot(reg) {
            let width = self.width(reg);
            let opcode = if width == Width::Mask { opcodes::K_STORE } else { opcodes::STORE };
            self.encode(opcode, width, &[slot, Operand::Reg(width.register(from))]);
        }
    }

    /// Emits a virtual instruction with its allocated registers.
    fn run(&mut self, inst: usize, opcode: Option<Opcode>, dst: Option<u8>, srcs: &[AllocatedOperand], mode: Mode) {
        let inst = &self.program.insts[inst];
        let result = inst.dst.zip(dst).map(|(reg, index)| self.register(reg, index));
        let source = |i: usize| match srcs[i] {
            AllocatedOperand::Reg(reg, index) => self.register(reg, index),
            AllocatedOperand::Pool(..) => unreachable!("only machine instructions read constants from memory"),
        };
        match inst.op {
            Op::Machine(machine) => {
                self.machine(
                    Machine { opcode: opcode.unwrap_or(machine.opcode), ..machine },
                    inst.dst,
                    dst,
                    srcs,
                    mode,
                );
            }
            Op::Load { param, size, splat, copy } => self.load(param, size, splat, copy, result, mode),
            Op::Gather { param, size } => self.gather(param, size, result, mode),
            Op::ReadAt { param, size, index, copy, .. } => {
                let position = index.map_or_else(|| Position::Lane(source(0)), Position::Element);
                let result = result.expect("a read has a result");
                self.read_at(Indexed { param, size, copy }, position, result, mode);
            }
            Op::GatherAt { param, size, .. } => {
                let sources = [source(0), source(1), source(2)];
                let result = result.expect("a gather has a result");
                self.gather_at(Indexed { param, size, copy: 0 }, sources, result, mode);
            }
            Op::AxisStride(param) => {
                let mem = Frame::axis_stride(self.kernel, param);
                self.axis_word(mem, result.expect("a stride has a result"));
            }
            Op::AxisExtent(param) => {
                let mem = Frame::axis_extent(self.kernel, param);
                self.axis_word(mem, result.expect("an extent has a result"));
            }
            Op::Store { param, size, copy } => {
                let value = source(0);
                self.store(param, size, copy, value, mode);
            }
            Op::Index(axis) => self.index(axis, result, mode),
            Op::LeaveUnless => {
                let condition = source(0);
                self.leave_unless(condition);
            }
            Op::MaskConst(set) => {
                let opcode = if set { opcodes::K_XNOR } else { opcodes::K_XOR };
                let result = Operand::Reg(result.expect("a constant has a result"));
                self.encode(opcode, Width::Mask, &[result, result, result]);
            }
            Op::Divide { size, signed, remainder } => {
                let (a, b, result) = (source(0), source(1), result.expect("a division has a result"));
                self.divide(Division { size, signed, remainder }, a, b, result);
            }
            Op::AccLoad(id) => self.acc_load(id, result, mode),
            Op::AccStore(id) => {
                let value = source(0);
                self.acc_store(id, value, mode);
            }
            Op::AccRead(id, part) => {
                let result = result.expect("a read has a result");
                let mem = self.frame.acc_vector(self.program, id, part);
                self.encode(opcodes::MOVE, width_of(result), &[Operand::Reg(result), Operand::Mem(mem)]);
            }
            Op::AccWrite(id, part) => {
                let value = source(0);
                let mem = self.frame.acc_vector(self.program, id, part);
                self.encode(opcodes::STORE, width_of(value), &[Operand::Mem(mem), Operand::Reg(value)]);
            }
            Op::PartialLoad(id, which) => {
                let result = result.expect("a read has a result");
                let mem = self.partial(id, which);
                self.encode(opcodes::MOVE, width_of(result), &[Operand::Reg(result), mem]);
            }
            Op::PartialStore(id, which) => {
                let value = source(0);
                let mem = self.partial(id, which);
                self.encode(opcodes::STORE, width_of(value), &[mem, Operand::Reg(value)]);
            }
        }
        if let Some((reg, index)) = inst.dst.zip(dst) {
            self.store_spilled(reg, index);
        }
    }

    /// Emits a machine instruction whose result `dst` is the virtual register `reg`.
    fn machine(&mut self, machine: Machine, reg: Option<VReg>, dst: Option<u8>, srcs: &[AllocatedOperand], mode: Mode) {
        let viewed = |width: Width, source: bool| match machine.view {
            View::LowAll => Width::Xmm,
            View::LowSources if source => Width::Xmm,
            _ => width,
        };
        let (srcs, mut mask) = match srcs {
            [rest @ .., AllocatedOperand::Reg(mask, index)] if machine.masked => (rest, self.register(*mask, *index)),
            _ => (srcs, Register::None),
        };
        let mut widest = Width::Mask;
        let mut operands: SmallVec<[Operand; 5]> = SmallVec::new();
        if let Some((reg, index)) = reg.zip(dst) {
            let width = viewed(self.width(reg), false);
            widest = widest.max(width);
            operands.push(Operand::Reg(width.register(index)));
        }
        for place in srcs {
            let (AllocatedOperand::Reg(reg, _) | AllocatedOperand::Pool(reg, _)) = *place;
            let width = viewed(self.width(reg), true);
            widest = widest.max(width);
            operands.push(match *place {
                AllocatedOperand::Reg(_, index) => Operand::Reg(width.register(index)),
                AllocatedOperand::Pool(_, constant) if self.target == Target::Avx512 => Operand::Splat(constant),
                AllocatedOperand::Pool(_, constant) => Operand::Filled(constant, width),
            });
        }
        if machine.view == View::LowSources {
            widest = reg.map_or(widest, |it| self.width(it));
        }
        operands.extend(machine.imm.map(Operand::Imm8));
        if machine.merge && mode == Mode::Tail {
            mask = Width::Mask.register(scratch::TAIL_MASK);
        }
        self.asm.masked(machine.opcode.code(self.target, widest), &operands, mask, machine.zeroing);
    }
}

/// Returns the width of a vector register.
fn width_of(register: Register) -> Width {
    if register.is_zmm() {
        Width::Zmm
    } else if register.is_ymm() {
        Width::Ymm
    } else {
        Width::Xmm
    }
}

/// Returns the register with the same number and another width.
fn resized(register: Register, width: Width) -> Register {
    width.register((register as u32 - width_of(register).register(0) as u32) as u8)
}

/// The fixed assignment of general-purpose registers.
mod fixed {
    use iced_x86::Register;

    pub const BLOCK: Register = Register::RDI;
    pub const LANE: Register = Register::RCX;
    pub const LANE_32: Register = Register::ECX;
    pub const LANES_END: Register = Register::RSI;
    pub const SCRATCH: Register = Register::RAX;
    pub const SCRATCH_32: Register = Register::EAX;
    pub const SCRATCH_8: Register = Register::AL;
    pub const SCRATCH2: Register = Register::RDX;
    pub const SCRATCH2_32: Register = Register::EDX;
    pub const STACK: Register = Register::RSP;

    /// The registers for pointers, callee-saved ones last.
    pub const POINTERS: [Register; 10] = [
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::RBX,
        Register::RBP,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    /// The number of caller-saved registers in [`POINTERS`].
    pub const VOLATILE: usize = 4;
}
