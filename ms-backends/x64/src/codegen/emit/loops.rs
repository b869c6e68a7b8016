//! Emits the prologue, the epilogue, and the loop nest around the body.

use super::super::target::{Target, Width};
use super::super::vinst::{Span, When};
use super::super::{Tuning, opcodes};
use super::asm::{Mem, Operand};
use super::frame::PointerLocation;
use super::{Body, Emitter, Mode, fixed, resized};
use iced_x86::{Code, Register};
use ms_ir::{LaneAxis, ParamId};
use std::ops::Range;

/// The size in bytes of the guard page that is assumed below the stack.
const GUARD: usize = 4096;

impl<'a> Emitter<'a> {
    /// Emits the whole function.
    pub fn kernel(&mut self) {
        self.enter();
        let others = self.partition_blocks();
        self.points();
        self.leave();
        for (label, body) in others {
            self.asm.place(label);
            (self.program, self.allocation) = (&body.program, &body.allocation);
            self.points();
            self.leave();
        }
    }

    /// Emits the parallel loops around the body.
    fn points(&mut self) {
        let all: Vec<usize> = (0..self.kernel.params.len()).filter(|&it| self.has_pointer(it)).collect();
        let axes: Vec<usize> = (0..self.kernel.par as usize).collect();
        self.nest(&axes, &all, &mut |it| it.point());
    }

    /// Emits an instruction with two registers.
    pub fn reg(&mut self, code: Code, a: Register, b: Register) {
        self.asm.op(code, &[Operand::Reg(a), Operand::Reg(b)]);
    }

    /// Emits an instruction with a register and a memory source.
    pub fn load_reg(&mut self, code: Code, register: Register, mem: Mem) {
        self.asm.op(code, &[Operand::Reg(register), Operand::Mem(mem)]);
    }

    /// Emits an instruction with a memory destination and a register.
    pub fn store_reg(&mut self, code: Code, mem: Mem, register: Register) {
        self.asm.op(code, &[Operand::Mem(mem), Operand::Reg(register)]);
    }

    /// Returns the callee-saved registers in use.
    fn saved(&self) -> &'static [Register] {
        let used = self.frame.pointer_registers();
        &fixed::POINTERS[fixed::VOLATILE.min(used)..used]
    }

    /// Emits the prologue: saves registers, allocates the frame, and loads the pointers.
    fn enter(&mut self) {
        for &register in self.saved() {
            self.asm.op(Code::Push_r64, &[Operand::Reg(register)]);
        }
        let (stack, scratch) = (fixed::STACK, fixed::SCRATCH);
        self.reg(Code::Mov_r64_rm64, scratch, stack);
        self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(stack), Operand::Imm32(-64)]);
        // Touches every page in order, so that a stack overflow hits the guard page.
        let mut left = self.frame.bytes;
        while left > 0 {
            let step = left.min(GUARD);
            self.asm.op(Code::Sub_rm64_imm32, &[Operand::Reg(stack), Operand::Imm32(step as i32)]);
            left -= step;
            self.store_reg(Code::Mov_rm64_r64, Mem::at(stack, 0), scratch);
        }
        for param in 0..self.kernel.params.len() {
            let address = self.frame.word(param);
            match self.frame.pointer_location(param) {
                PointerLocation::Register(register) => self.load_reg(Code::Mov_r64_rm64, register, address),
                PointerLocation::Stack(mem) => {
                    self.load_reg(Code::Mov_r64_rm64, scratch, address);
                    self.store_reg(Code::Mov_rm64_r64, mem, scratch);
                }
                PointerLocation::Block => {}
            }
        }
        self.gather_offsets();
    }

    /// Stores the lane offsets of each gathered buffer.
    fn gather_offsets(&mut self) {
        for param in self.frame.gathered() {
            let stride = self.frame.stride(param, self.kernel.par as usize);
            let offsets = self.frame.gather(ParamId(param as u32));
            self.reg(Code::Xor_r32_rm32, fixed::SCRATCH_32, fixed::SCRATCH_32);
            for lane in 0..self.program.lanes {
                let mem = Mem::at(fixed::STACK, offsets + 8 * lane as i32);
                self.store_reg(Code::Mov_rm64_r64, mem, fixed::SCRATCH);
                self.load_reg(Code::Add_r64_rm64, fixed::SCRATCH, stride);
            }
        }
    }

    /// Emits the epilogue: restores registers and returns.
    fn leave(&mut self) {
        if self.tuning == Tuning::Streaming {
            // Non-temporal stores are weakly ordered: the fence makes them visible before the end of the call is
            // signalled.
            self.asm.op(Code::Sfence, &[]);
        }
        self.load_reg(Code::Mov_r64_rm64, fixed::STACK, Mem::at(fixed::STACK, 0));
        for &register in self.saved().iter().rev() {
            self.asm.op(Code::Pop_r64, &[Operand::Reg(register)]);
        }
        self.asm.op(Code::VEX_Vzeroupper, &[]);
        self.asm.op(Code::Retnq, &[]);
    }

    /// Emits loops over `axes`, outermost first, that advance the pointers of `params`.
    pub fn nest(&mut self, axes: &[usize], params: &[usize], body: &mut dyn FnMut(&mut Self)) {
        let Some((&axis, inner)) = axes.split_first() else { return body(self) };
        let (extent, counter) = (self.frame.extent(axis), self.frame.counter(axis));
        let (head, end) = (self.asm.label(), self.asm.label());
        self.reg(Code::Xor_r32_rm32, fixed::SCRATCH_32, fixed::SCRATCH_32);
        self.store_reg(Code::Mov_rm64_r64, counter, fixed::SCRATCH);
        self.load_reg(Code::Cmp_r64_rm64, fixed::SCRATCH, extent);
        self.asm.jump(Code::Jae_rel32_64, end);
        self.asm.place(head);
        self.nest(inner, params, body);
        self.advance(axis, params);
        self.load_reg(Code::Cmp_r64_rm64, fixed::SCRATCH, extent);
        self.asm.jump(Code::Jb_rel32_64, head);
        self.go_back(axis, params);
        self.asm.place(end);
    }

    /// Advances to the next step of a loop, and leaves its number in `rax`.
    pub fn advance(&mut self, axis: usize, params: &[usize]) {
        let counter = self.frame.counter(axis);
        for &param in params {
            let stride = self.frame.stride(param, axis);
            match self.frame.pointer_location(param) {
                PointerLocation::Register(register) => self.load_reg(Code::Add_r64_rm64, register, stride),
                PointerLocation::Stack(mem) => {
                    self.load_reg(Code::Mov_r64_rm64, fixed::SCRATCH, stride);
                    self.store_reg(Code::Add_rm64_r64, mem, fixed::SCRATCH);
                }
                PointerLocation::Block => unreachable!("only pointers advance"),
            }
        }
        self.load_reg(Code::Mov_r64_rm64, fixed::SCRATCH, counter);
        self.asm.op(Code::Inc_rm64, &[Operand::Reg(fixed::SCRATCH)]);
        self.store_reg(Code::Mov_rm64_r64, counter, fixed::SCRATCH);
    }

    /// Rewinds the pointers of a loop from the step in `rax` to the first one.
    pub fn go_back(&mut self, axis: usize, params: &[usize]) {
        for &param in params {
            self.load_reg(Code::Mov_r64_rm64, fixed::SCRATCH2, self.frame.stride(param, axis));
            self.reg(Code::Imul_r64_rm64, fixed::SCRATCH2, fixed::SCRATCH);
            match self.frame.pointer_location(param) {
                PointerLocation::Register(register) => self.reg(Code::Sub_r64_rm64, register, fixed::SCRATCH2),
                PointerLocation::Stack(mem) => self.store_reg(Code::Sub_rm64_r64, mem, fixed::SCRATCH2),
                PointerLocation::Block => unreachable!("only pointers advance"),
            }
        }
    }

    /// Emits one step of the parallel loops outside the lanes.
    fn point(&mut self) {
        match self.kernel.lanes {
            LaneAxis::Parallel => {
                // With reduced loops inside the lanes, the row addresses change in each step.
                let rows = self.kernel.seq == 0;
                if rows {
                    self.find_rows(0..self.program.blocks.len());
                }
                self.rows_are_found = rows;
                self.lanes(Span::All, self.strips, &mut |it, mode| it.blocks(mode));
                self.rows_are_found = false;
            }
            LaneAxis::Reduced => self.blocks(Mode::One),
        }
    }

    /// Emits all blocks of the body.
    fn blocks(&mut self, mode: Mode) {
        let mut i = 0;
        while i < self.program.blocks.len() {
            match self.program.blocked_at(i) {
                Some(blocked) => {
                    self.blocked(blocked, mode);
                    i = blocked.blocks.end;
                }
                None => {
                    self.stage_block(i, mode);
                    i += 1;
                }
            }
        }
    }

    /// Emits block `i` as a loop that runs until its condition is false.
    fn repeat(&mut self, i: usize, mode: Mode) {
        let (head, end) = (self.asm.label(), self.asm.label());
        self.asm.place(head);
        self.end = Some(end);
        self.block(i, mode);
        self.asm.jump(Code::Jmp_rel32_64, head);
        self.asm.place(end);
    }

    /// Leaves the loop unless lane 0 of a truth value is true.
    pub fn leave_unless(&mut self, condition: Register) {
        let scratch = Operand::Reg(fixed::SCRATCH_32);
        if condition.is_k() {
            self.encode(opcodes::K_TO_GPR, Width::Mask, &[scratch, Operand::Reg(condition)]);
        } else {
            let low = Operand::Reg(resized(condition, Width::Xmm));
            self.encode(opcodes::TO_GPR, Width::Xmm, &[Operand::Reg(fixed::SCRATCH), low]);
        }
        self.asm.op(Code::Test_AL_imm8, &[Operand::Reg(fixed::SCRATCH_8), Operand::Imm8(1)]);
        let end = self.end.expect("only a loop is left");
        self.asm.jump(Code::Je_rel32_64, end);
    }

    /// Emits block `i`, inside the reduced loops if it belongs to a loop stage.
    fn stage_block(&mut self, i: usize, mode: Mode) {
        let reduced = self.kernel.lanes == LaneAxis::Reduced;
        let span = match self.program.blocks[i].when {
            When::Loop(span) => span,
            When::Repeat => return self.repeat(i, mode),
            _ => {
                if reduced {
                    self.reg(Code::Xor_r32_rm32, fixed::LANE_32, fixed::LANE_32);
                }
                return self.block(i, mode);
            }
        };
        let params = self.params_of(i..i + 1);
        let first = self.kernel.par as usize + 1;
        let axes: Vec<usize> = (first..self.kernel.loops()).collect();
        self.nest(&axes, &params, &mut |it| {
            if reduced {
                it.find_rows(i..i + 1);
                it.rows_are_found = true;
                it.lanes(span, &[], &mut |it, mode| it.block(i, mode));
                it.rows_are_found = false;
            } else {
                it.block(i, mode);
            }
        });
    }

    /// Returns whether a parameter has a pointer that advances with the loops.
    fn has_pointer(&self, param: usize) -> bool {
        !matches!(self.frame.pointer_location(param), PointerLocation::Block)
    }

    /// Returns the buffers that some blocks read or write.
    pub fn params_of(&self, blocks: Range<usize>) -> Vec<usize> {
        let insts = blocks.flat_map(|it| self.program.block_range(it));
        let buffers = insts.flat_map(|it| self.program.insts[it].op.buffers());
        let mut params: Vec<usize> = buffers.map(|it| it.0 as usize).collect();
        params.retain(|&it| self.has_pointer(it));
        params.sort_unstable();
        params.dedup();
        params
    }

    /// Emits the loop over the lanes: whole strips, widest first, then whole vectors, then the tail.
    fn lanes(&mut self, span: Span, strips: &'a [Body], body: &mut dyn FnMut(&mut Self, Mode)) {
        let extent = self.frame.extent(self.kernel.par as usize);
        let lane = fixed::LANE;
        let lanes = self.program.lanes;
        if let Span::Rest(vectors) = span {
            self.load_reg(Code::Mov_r64_rm64, lane, extent);
            let whole = Operand::Imm32(-((lanes * vectors) as i32));
            self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(lane), whole]);
        } else {
            self.reg(Code::Xor_r32_rm32, fixed::LANE_32, fixed::LANE_32);
        }
        if let Span::Whole(vectors) = span {
            return self.whole_steps(extent, lanes * vectors, body);
        }
        for strip in strips {
            let one = (self.program, self.allocation);
            (self.program, self.allocation) = (&strip.program, &strip.allocation);
            self.whole_steps(extent, lanes * strip.program.copies, &mut *body);
            (self.program, self.allocation) = one;
        }
        self.vectors_and_rest(extent, body);
    }

    /// Emits the loop over the lanes up to `extent`, vector by vector, and its tail.
    pub fn vectors_and_rest(&mut self, extent: Mem, body: &mut dyn FnMut(&mut Self, Mode)) {
        let (lane, lanes) = (fixed::LANE, self.program.lanes);
        let done = self.asm.label();
        if !self.program.one_lane {
            self.whole_steps(extent, lanes, &mut *body);
        }
        if self.target == Target::Avx512 && !self.program.one_lane {
            self.load_reg(Code::Mov_r64_rm64, fixed::SCRATCH2, extent);
            self.reg(Code::Sub_r64_rm64, fixed::SCRATCH2, lane);
            self.asm.jump(Code::Je_rel32_64, done);
            self.set_tail_mask();
            body(self, Mode::Tail);
        } else {
            let head = self.asm.label();
            self.load_reg(Code::Cmp_r64_rm64, lane, extent);
            self.asm.jump(Code::Jae_rel32_64, done);
            self.asm.place(head);
            body(self, Mode::One);
            self.asm.op(Code::Inc_rm64, &[Operand::Reg(lane)]);
            self.load_reg(Code::Cmp_r64_rm64, lane, extent);
            self.asm.jump(Code::Jb_rel32_64, head);
        }
        self.asm.place(done);
    }

    /// Sets the tail mask for the number of lanes in `edx`, which is less than the vector length.
    pub fn set_tail_mask(&mut self) {
        // The mask is 2^count - 1.
        self.reg(Code::Xor_r32_rm32, fixed::SCRATCH_32, fixed::SCRATCH_32);
        self.reg(Code::Bts_rm32_r32, fixed::SCRATCH_32, fixed::SCRATCH2_32);
        let mask = Operand::Reg(fixed::SCRATCH_32);
        self.asm.op(Code::Dec_rm32, &[mask]);
        self.encode(opcodes::K_FROM_GPR, Width::Mask, &[Operand::Reg(self.tail_mask()), mask]);
    }

    /// Emits a loop with steps of `step` lanes, for as long as a full step remains.
    fn whole_steps(&mut self, extent: Mem, step: usize, body: &mut dyn FnMut(&mut Self, Mode)) {
        let step = step as i32;
        let (lane, end) = (fixed::LANE, fixed::LANES_END);
        let (head, done) = (self.asm.label(), self.asm.label());
        self.load_reg(Code::Mov_r64_rm64, end, extent);
        self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(end), Operand::Imm32(-step)]);
        self.reg(Code::Cmp_r64_rm64, lane, end);
        self.asm.jump(Code::Jae_rel32_64, done);
        self.asm.place(head);
        body(self, Mode::Full);
        self.asm.op(Code::Add_rm64_imm32, &[Operand::Reg(lane), Operand::Imm32(step)]);
        self.reg(Code::Cmp_r64_rm64, lane, end);
        self.asm.jump(Code::Jb_rel32_64, head);
        self.asm.place(done);
    }
}
