//! Emits strided and indexed loads, lane by lane.

use super::super::alloc::scratch;
use super::super::opcodes;
use super::super::target::{Target, Width};
use super::super::vinst::Op;
use super::asm::{Label, Mem, Operand};
use super::frame::{Frame, PointerLocation};
use super::{Emitter, Mode, fixed, resized, width_of};
use iced_x86::{Code, Register};
use ms_ir::data::DType;
use ms_ir::{ParamId, Role, StrideClass};
use std::ops::Range;

/// A read of an indexed buffer: elements of `size` bytes, for copy `copy` of the body.
#[derive(Clone, Copy)]
pub struct Indexed {
    pub param: ParamId,
    pub size: u8,
    pub copy: u8,
}

/// The location of a position that is uniform across lanes.
#[derive(Clone, Copy)]
pub enum Position {
    /// In lane 0 of a register.
    Lane(Register),
    /// In memory: an element of a buffer.
    Element(ParamId),
}

impl Emitter<'_> {
    /// Gathers elements at the lane stride of the argument block.
    pub fn gather(&mut self, param: ParamId, size: u8, result: Option<Register>, mode: Mode) {
        let result = result.expect("a gather has a result");
        let mem = self.element(param, size, 0);
        if self.kernel.params[param.0 as usize].role == Role::Iota {
            return self.iota(param, Operand::Mem(mem), result, mode);
        }
        if mode == Mode::One {
            return self.load_at(Operand::Mem(mem), size, true, result, mode);
        }
        self.address(mem);
        self.gather_lanes(param, size, result, mode);
    }

    /// Loads an address into `rax`.
    fn address(&mut self, mem: Mem) {
        self.asm.op(Code::Lea_r64_m, &[Operand::Reg(fixed::SCRATCH), Operand::Mem(mem)]);
    }

    /// Gathers lanes at the lane stride of the argument block, from base `rax`.
    fn gather_lanes(&mut self, param: ParamId, size: u8, result: Register, mode: Mode) {
        let offsets = self.frame.gather(param);
        let last = self.target.vector_registers() - 1;
        let per_gather = self.target.vector_bytes() / 8;
        let parts = self.program.lanes / per_gather;
        for part in 0..parts {
            let index = Mem::at(fixed::STACK, offsets + (part * self.target.vector_bytes()) as i32);
            let part_width = Width::from_bytes(per_gather * size as usize);
            let target = if part == 0 { resized(result, part_width) } else { part_width.register(last - 1) };
            self.gather_part(index, size, target, part, mode);
            if part > 0 {
                let opcode =
                    if self.target == Target::Avx512 { opcodes::INSERT_HIGH_YMM } else { opcodes::INSERT_HIGH_XMM };
                let result = Operand::Reg(result);
                self.encode(opcode, Width::Xmm, &[result, result, Operand::Reg(target), Operand::Imm8(1)]);
            }
        }
    }

    /// Gathers one vector of 64-bit offsets, from base `rax`.
    fn gather_part(&mut self, index: Mem, size: u8, target: Register, part: usize, mode: Mode) {
        let last = self.target.vector_registers() - 1;
        let wide = Width::from_bytes(self.target.vector_bytes());
        let offsets = wide.register(last);
        self.encode(opcodes::MOVE, wide, &[Operand::Reg(offsets), Operand::Mem(index)]);
        let mem = Operand::Mem(Mem::indexed(fixed::SCRATCH, offsets, 1));
        let opcode = if size == 8 { opcodes::GATHER_Q } else { opcodes::GATHER_D };
        let width = width_of(target);
        let target = Operand::Reg(target);
        // Clears the destination to avoid a false dependency on its previous contents.
        self.encode(opcodes::XOR_D, width, &[target, target, target]);
        match self.target {
            Target::Avx512 => {
                let mask = Width::Mask.register(scratch::GATHER_MASK);
                let k = Operand::Reg(mask);
                match (mode, part) {
                    (Mode::Tail, 0) => self.encode(opcodes::K_MOVE, wide, &[k, Operand::Reg(self.tail_mask())]),
                    (Mode::Tail, _) => {
                        let shift = [k, Operand::Reg(self.tail_mask()), Operand::Imm8(8)];
                        self.encode(opcodes::K_SHIFT_RIGHT, wide, &shift);
                    }
                    _ => self.encode(opcodes::K_XNOR, wide, &[k, k, k]),
                }
                self.asm.masked(opcode.code(self.target, wide), &[target, mem], mask, false);
            }
            Target::Avx2 => {
                let mask = Operand::Reg(width.register(last - 2));
                self.encode(opcodes::CMPEQ_D, width, &[mask, mask, mask]);
                self.encode(opcode, wide, &[target, mem, mask]);
            }
        }
    }

    /// Computes the row addresses of the indexed buffers in some blocks, for the current step of the loops around the
    /// lanes.
    pub fn find_rows(&mut self, blocks: Range<usize>) {
        let mut rows: Vec<(ParamId, ParamId)> = Vec::new();
        for inst in blocks.flat_map(|it| self.program.block_range(it)) {
            if let Op::ReadAt { param, index: Some(index), .. } = self.program.insts[inst].op
                && !rows.contains(&(param, index))
            {
                rows.push((param, index));
            }
        }
        for (param, index) in rows {
            let found = self.asm.label();
            let row = self.frame.row(param, index);
            self.asm.op(Code::Mov_rm64_imm32, &[Operand::Mem(row), Operand::Imm32(0)]);
            self.position(Position::Element(index));
            self.address_at(param, found);
            self.store_reg(Code::Mov_rm64_r64, row, fixed::SCRATCH);
            self.asm.place(found);
        }
    }

    /// Loads elements of an indexed buffer at a position that is uniform across lanes.
    pub fn read_at(&mut self, from: Indexed, position: Position, result: Register, mode: Mode) {
        let Indexed { param, size, copy } = from;
        let (address, lane, done) = (fixed::SCRATCH, fixed::LANE, self.asm.label());
        let zero = Operand::Reg(result);
        let row = match position {
            Position::Element(index) if self.rows_are_found => Some(self.frame.row(param, index)),
            _ => None,
        };
        match row {
            Some(row) => self.load_reg(Code::Mov_r64_rm64, address, row),
            None => self.position(position),
        }
        self.encode(opcodes::XOR_D, width_of(result), &[zero, zero, zero]);
        match row {
            // The address of an element is never zero: zero means out of range.
            Some(_) => {
                self.reg(Code::Test_rm64_r64, address, address);
                self.asm.jump(Code::Je_rel32_64, done);
            }
            None => self.address_at(param, done),
        }
        match self.kernel.params[param.0 as usize].step {
            StrideClass::Zero => self.load_at(Operand::Mem(Mem::at(address, 0)), size, true, result, mode),
            StrideClass::Unit => {
                let offset = (copy as usize * self.program.lanes * size as usize) as i32;
                let mem = Mem { offset, ..Mem::indexed(address, lane, size.into()) };
                self.load_at(Operand::Mem(mem), size, false, result, mode);
            }
            StrideClass::Any => {
                let offset = fixed::SCRATCH2;
                self.reg(Code::Mov_r64_rm64, offset, lane);
                let stride = self.frame.stride(param.0 as usize, self.kernel.par as usize);
                self.load_reg(Code::Imul_r64_rm64, offset, stride);
                self.reg(Code::Add_r64_rm64, address, offset);
                match mode {
                    Mode::One => self.load_at(Operand::Mem(Mem::at(address, 0)), size, true, result, mode),
                    _ => self.gather_lanes(param, size, result, mode),
                }
            }
        }
        self.asm.place(done);
    }

    /// Loads a uniform position into `rax`.
    fn position(&mut self, position: Position) {
        let (wide, low) = (fixed::SCRATCH, fixed::SCRATCH_32);
        let param = match position {
            Position::Lane(register) => {
                let lane = Operand::Reg(resized(register, Width::Xmm));
                return self.encode(opcodes::TO_GPR, Width::Xmm, &[Operand::Reg(wide), lane]);
            }
            Position::Element(param) => param,
        };
        let mem = self.pointed(param);
        match self.kernel.params[param.0 as usize].dtype {
            DType::I8 => self.load_reg(Code::Movsx_r64_rm8, wide, mem),
            DType::U8 => self.load_reg(Code::Movzx_r32_rm8, low, mem),
            DType::I16 => self.load_reg(Code::Movsx_r64_rm16, wide, mem),
            DType::U16 => self.load_reg(Code::Movzx_r32_rm16, low, mem),
            DType::I32 => self.load_reg(Code::Movsxd_r64_rm32, wide, mem),
            DType::U32 => self.load_reg(Code::Mov_r32_rm32, low, mem),
            _ => self.load_reg(Code::Mov_r64_rm64, wide, mem),
        }
    }

    /// Replaces the position in `rax` by the address of the element of the first lane. Jumps to `outside` if the
    /// position is out of range.
    fn address_at(&mut self, param: ParamId, outside: Label) {
        let (at, wrap) = (fixed::SCRATCH, fixed::SCRATCH2);
        let (stride, extent) = (Frame::axis_stride(self.kernel, param), Frame::axis_extent(self.kernel, param));
        self.reg(Code::Mov_r64_rm64, wrap, at);
        self.asm.op(Code::Sar_rm64_imm8, &[Operand::Reg(wrap), Operand::Imm8(63)]);
        self.load_reg(Code::And_r64_rm64, wrap, extent);
        self.reg(Code::Add_r64_rm64, at, wrap);
        // The unsigned comparison also rejects positions that are still negative.
        self.load_reg(Code::Cmp_r64_rm64, at, extent);
        self.asm.jump(Code::Jae_rel32_64, outside);
        self.load_reg(Code::Imul_r64_rm64, at, stride);
        match self.frame.pointer_location(param.0 as usize) {
            PointerLocation::Register(pointer) => self.reg(Code::Add_r64_rm64, at, pointer),
            PointerLocation::Stack(pointer) => self.load_reg(Code::Add_r64_rm64, at, pointer),
            PointerLocation::Block => unreachable!("an indexed buffer has an address"),
        }
    }

    /// Gathers elements of an indexed buffer, each lane at its own position. The sources are the positions, their byte
    /// offsets, and the mask of positions in range.
    pub fn gather_at(&mut self, from: Indexed, sources: [Register; 3], result: Register, mode: Mode) {
        let Indexed { param, size, .. } = from;
        let [positions, offsets, mask] = sources;
        if mode == Mode::One {
            return self.read_at(from, Position::Lane(positions), result, mode);
        }
        let mem = self.element(param, size, 0);
        self.address(mem);
        let last = self.target.vector_registers() - 1;
        let wide = Width::from_bytes(self.target.vector_bytes());
        let all = wide.register(last);
        // The sources are read first, as the result may share the register of a source.
        match self.kernel.params[param.0 as usize].step {
            StrideClass::Zero => self.encode(opcodes::MOVE, wide, &[Operand::Reg(all), Operand::Reg(offsets)]),
            _ => {
                let lanes = Operand::Mem(Mem::at(fixed::STACK, self.frame.gather(param)));
                self.encode(opcodes::ADD_Q, wide, &[Operand::Reg(all), Operand::Reg(offsets), lanes]);
            }
        }
        let opcode = if size == 8 { opcodes::GATHER_Q } else { opcodes::GATHER_D };
        let (width, target) = (width_of(result), Operand::Reg(result));
        let mem = Operand::Mem(Mem::indexed(fixed::SCRATCH, all, 1));
        let zero = [target, target, target];
        match self.target {
            Target::Avx512 => {
                let taken = Width::Mask.register(scratch::GATHER_MASK);
                let (k, mask) = (Operand::Reg(taken), Operand::Reg(mask));
                match mode {
                    Mode::Tail => self.encode(opcodes::K_AND, wide, &[k, mask, Operand::Reg(self.tail_mask())]),
                    _ => self.encode(opcodes::K_MOVE, wide, &[k, mask]),
                }
                self.encode(opcodes::XOR_D, width, &zero);
                self.asm.masked(opcode.code(self.target, wide), &[target, mem], taken, false);
            }
            Target::Avx2 => {
                let taken = Operand::Reg(width.register(last - 2));
                self.encode(opcodes::MOVE, width, &[taken, Operand::Reg(resized(mask, width))]);
                self.encode(opcodes::XOR_D, width, &zero);
                self.encode(opcode, wide, &[target, mem, taken]);
            }
        }
    }

    /// Broadcasts the stride or the extent of an indexed buffer's axis.
    pub fn axis_word(&mut self, mem: Mem, result: Register) {
        self.encode(opcodes::SPLAT_Q, width_of(result), &[Operand::Reg(result), Operand::Mem(mem)]);
    }
}
