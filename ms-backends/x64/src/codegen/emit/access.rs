//! Emits loads and stores of buffers, accumulators and loop positions.

use super::super::alloc::scratch;
use super::super::opcodes::{self, Opcode};
use super::super::target::Width;
use super::super::vinst::{AccId, Partial};
use super::asm::{Mem, Operand};
use super::frame::{Cursor, Frame, PointerLocation};
use super::{Emitter, Mode, fixed, resized, width_of};
use iced_x86::{Code, Register};
use ms_ir::{LaneAxis, ParamId, Role, StrideClass};

impl Emitter<'_> {
    /// Returns the memory that the pointer of a buffer points to, or the memory of an immediate.
    pub fn pointed(&mut self, param: ParamId) -> Mem {
        match self.frame.pointer_location(param.0 as usize) {
            PointerLocation::Register(register) => Mem::at(register, 0),
            PointerLocation::Stack(mem) => {
                self.asm.op(Code::Mov_r64_rm64, &[Operand::Reg(fixed::SCRATCH), Operand::Mem(mem)]);
                Mem::at(fixed::SCRATCH, 0)
            }
            PointerLocation::Block => self.frame.word(param.0 as usize),
        }
    }

    /// Returns the address of a buffer's element at the current lane, or the address of an immediate.
    pub fn element(&mut self, param: ParamId, size: u8, copy: u8) -> Mem {
        match self.kernel.params[param.0 as usize].step {
            StrideClass::Unit => {
                let offset = (copy as usize * self.program.lanes * size as usize) as i32;
                Mem { offset, ..Mem::indexed(self.pointed(param).base, fixed::LANE, size.into()) }
            }
            StrideClass::Zero => self.pointed(param),
            StrideClass::Any => {
                let stride = self.frame.stride(param.0 as usize, self.kernel.par as usize);
                let (offset, lane) = (Operand::Reg(fixed::SCRATCH2), Operand::Reg(fixed::LANE));
                self.asm.op(Code::Mov_r64_rm64, &[offset, lane]);
                self.asm.op(Code::Imul_r64_rm64, &[offset, Operand::Mem(stride)]);
                Mem::indexed(self.pointed(param).base, fixed::SCRATCH2, 1)
            }
        }
    }

    /// Returns the mask register of the active lanes in a tail.
    pub fn tail_mask(&self) -> Register {
        Width::Mask.register(scratch::TAIL_MASK)
    }

    /// Loads contiguous elements, or broadcasts one element.
    pub fn load(&mut self, param: ParamId, size: u8, splat: bool, copy: u8, result: Option<Register>, mode: Mode) {
        let result = result.expect("a load has a result");
        let mem = Operand::Mem(self.element(param, size, copy));
        if self.kernel.params[param.0 as usize].role == Role::Iota {
            return self.iota(param, mem, result, mode);
        }
        self.load_at(mem, size, splat, result, mode);
    }

    /// Computes iota: the element indices of the lanes' addresses, the first of which is `mem`.
    pub fn iota(&mut self, param: ParamId, mem: Operand, result: Register, mode: Mode) {
        /// The size of an i64 in bytes, as a power of two.
        const SHIFT: u8 = 3;
        let (width, position) = (width_of(result), self.frame.position(self.kernel));
        self.asm.op(Code::Lea_r64_m, &[Operand::Reg(fixed::SCRATCH), mem]);
        self.store_reg(Code::Mov_rm64_r64, position, fixed::SCRATCH);
        let result = Operand::Reg(result);
        self.encode(opcodes::SPLAT_Q, width, &[result, Operand::Mem(position)]);
        let step = self.kernel.params[param.0 as usize].step;
        if step == StrideClass::Any && mode != Mode::One {
            let offsets = Operand::Mem(Mem::at(fixed::STACK, self.frame.gather(param)));
            self.encode(opcodes::ADD_Q, width, &[result, result, offsets]);
        }
        self.encode(opcodes::SRL_Q, width, &[result, result, Operand::Imm8(SHIFT)]);
        if step == StrideClass::Unit && mode != Mode::One {
            self.encode(opcodes::ADD_Q, width, &[result, result, Operand::Iota]);
        }
    }

    /// Loads elements of `size` bytes from an address.
    pub fn load_at(&mut self, mem: Operand, size: u8, splat: bool, result: Register, mode: Mode) {
        let width = width_of(result);
        if splat || mode == Mode::One {
            return self.encode(splat_opcode(size), width, &[Operand::Reg(result), mem]);
        }
        let operands = [Operand::Reg(result), mem];
        if mode == Mode::Tail {
            let opcode = by_size(
                size,
                [opcodes::LOAD_MASKED_B, opcodes::LOAD_MASKED_W, opcodes::LOAD_MASKED_D, opcodes::LOAD_MASKED_Q],
            );
            return self.asm.masked(opcode.code(self.target, width), &operands, self.tail_mask(), true);
        }
        let opcode = match self.program.lanes * size as usize {
            4 => opcodes::LOAD_4,
            8 => opcodes::LOAD_8,
            _ => opcodes::MOVE,
        };
        self.encode(opcode, width, &operands);
    }

    /// Stores elements of a buffer.
    pub fn store(&mut self, param: ParamId, size: u8, copy: u8, value: Register, mode: Mode) {
        let mem = Operand::Mem(self.element(param, size, copy));
        let streams = mode == Mode::Full && self.tuning.stream(&self.kernel.params[param.0 as usize]);
        if streams && self.program.lanes * size as usize >= Width::Xmm.bytes() {
            return self.encode(opcodes::STREAM, width_of(value), &[mem, Operand::Reg(value)]);
        }
        self.store_at(mem, size, value, mode);
    }

    /// Stores elements of `size` bytes at an address.
    fn store_at(&mut self, mem: Operand, size: u8, value: Register, mode: Mode) {
        let width = width_of(value);
        match mode {
            Mode::One => {
                let value = Operand::Reg(resized(value, Width::Xmm));
                let opcode =
                    by_size(size, [opcodes::STORE_LANE_B, opcodes::STORE_LANE_W, opcodes::STORE_4, opcodes::STORE_8]);
                let lane = [mem, value, Operand::Imm8(0)];
                self.encode(opcode, Width::Xmm, if size < 4 { &lane } else { &lane[..2] });
            }
            Mode::Tail => {
                let opcode = by_size(
                    size,
                    [
                        opcodes::STORE_MASKED_B,
                        opcodes::STORE_MASKED_W,
                        opcodes::STORE_MASKED_D,
                        opcodes::STORE_MASKED_Q,
                    ],
                );
                let code = opcode.code(self.target, width);
                self.asm.masked(code, &[mem, Operand::Reg(value)], self.tail_mask(), false);
            }
            Mode::Full => {
                let opcode = match self.program.lanes * size as usize {
                    4 => opcodes::STORE_4,
                    8 => opcodes::STORE_8,
                    _ => opcodes::STORE,
                };
                self.encode(opcode, width, &[mem, Operand::Reg(value)]);
            }
        }
    }

    /// Computes the position of each lane along a loop.
    pub fn index(&mut self, axis: u8, result: Option<Register>, mode: Mode) {
        let result = result.expect("a position has a result");
        let width = width_of(result);
        let lanes = axis == self.kernel.par;
        let (counter, position) = (self.frame.counter(axis as usize), self.frame.position(self.kernel));
        let base = Frame::base(self.kernel, axis as usize);
        match lanes {
            true => self.reg(Code::Mov_r64_rm64, fixed::SCRATCH, fixed::LANE),
            false => self.load_reg(Code::Mov_r64_rm64, fixed::SCRATCH, counter),
        }
        self.load_reg(Code::Add_r64_rm64, fixed::SCRATCH, base);
        self.store_reg(Code::Mov_rm64_r64, position, fixed::SCRATCH);
        let result = Operand::Reg(result);
        self.encode(opcodes::SPLAT_Q, width, &[result, Operand::Mem(position)]);
        if lanes && mode != Mode::One {
            self.encode(opcodes::ADD_Q, width, &[result, result, Operand::Iota]);
        }
    }

    /// Returns the address of the accumulators of the current lanes, and the size of one accumulator.
    fn acc_at(&mut self, id: AccId) -> (Mem, u8) {
        let array = self.program.arrays[id.0 as usize];
        debug_assert_eq!(self.kernel.lanes, LaneAxis::Reduced, "with parallel lanes an array has no order");
        let offset = Operand::Reg(fixed::SCRATCH_32);
        self.asm.op(Code::Mov_r32_rm32, &[offset, Operand::Reg(fixed::LANE_32)]);
        if self.kernel.run > 0 && !self.program.blocked.is_empty() {
            self.asm.op(Code::Add_r32_rm32, &[offset, Operand::Mem(self.frame.cursor(Cursor::InRow))]);
        }
        self.asm.op(Code::And_rm32_imm32, &[offset, Operand::Imm32(array.count as i32 - 1)]);
        let offset = self.frame.acc(self.program, id);
        let mem = Mem { base: fixed::STACK, index: fixed::SCRATCH, scale: array.size as u32, offset };
        (mem, array.size as u8)
    }

    /// Reads the accumulators of the current lanes.
    pub fn acc_load(&mut self, id: AccId, result: Option<Register>, mode: Mode) {
        let result = result.expect("accumulators have a result");
        let (mem, size) = self.acc_at(id);
        // In a tail, lanes past the end are loaded too, but not stored.
        let mode = if mode == Mode::Tail { Mode::Full } else { mode };
        self.load_at(Operand::Mem(mem), size, false, result, mode);
    }

    /// Writes the accumulators of the current lanes.
    pub fn acc_store(&mut self, id: AccId, value: Register, mode: Mode) {
        let (mem, size) = self.acc_at(id);
        self.store_at(Operand::Mem(mem), size, value, mode);
    }

    /// Returns the address of a vector of block results.
    pub fn partial(&mut self, id: AccId, which: Partial) -> Operand {
        let bytes = self.program.lanes * self.program.arrays[id.0 as usize].size;
        self.load_reg(Code::Mov_r64_rm64, fixed::SCRATCH, self.frame.cursor(Cursor::Number));
        if which == Partial::Other {
            self.load_reg(Code::Add_r64_rm64, fixed::SCRATCH, self.frame.cursor(Cursor::Half));
        }
        let shift = [Operand::Reg(fixed::SCRATCH), Operand::Imm8(bytes.trailing_zeros() as u8)];
        self.asm.op(Code::Shl_rm64_imm8, &shift);
        let offset = self.frame.acc(self.program, id);
        Operand::Mem(Mem { offset, ..Mem::indexed(fixed::STACK, fixed::SCRATCH, 1) })
    }
}

/// Returns the opcode for elements of 1, 2, 4 or 8 bytes.
fn by_size(size: u8, rows: [Opcode; 4]) -> Opcode {
    rows[size.trailing_zeros() as usize]
}

fn splat_opcode(size: u8) -> Opcode {
    by_size(size, [opcodes::SPLAT_B, opcodes::SPLAT_W, opcodes::SPLAT_D, opcodes::SPLAT_Q])
}
