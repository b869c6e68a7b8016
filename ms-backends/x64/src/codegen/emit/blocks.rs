//! Emits the loops of blocked reductions ([`ReductionOrder::Blocks`]).
//!
//! The state of the loops is on the stack ([`Cursor`]). It counts elements if the lanes are reduced, and loop steps if
//! the lanes are parallel. With parallel lanes, `rcx` and `rsi` belong to the enclosing loop over the lanes.

use super::super::Body;
use super::super::target::Target;
use super::super::vinst::{Blocked, Slice, Span, When};
use super::asm::{Label, Mem, Operand};
use super::frame::{Cursor, PointerLocation};
use super::{Emitter, Mode, fixed};
use iced_x86::{Code, Register};
use ms_ir::{LaneAxis, Param, ReductionOrder, Role, StrideClass, run_multiple};
use smallvec::SmallVec;

const A: Register = fixed::SCRATCH;
const D: Register = fixed::SCRATCH2;

impl<'a> Emitter<'a> {
    /// Computes how the reduced loops of this call are partitioned into blocks. Jumps to the returned labels if another
    /// body is to run.
    pub fn partition_blocks(&mut self) -> SmallVec<[(Label, &'a Body); 2]> {
        if self.program.blocked.is_empty() {
            return SmallVec::new();
        }
        let first = self.kernel.par as usize + 1;
        let inner = self.kernel.loops() - self.kernel.run as usize;
        let (row, block) = (fixed::LANE, fixed::LANES_END);
        match self.kernel.lanes {
            LaneAxis::Parallel => {
                self.product(D, first..inner);
                self.number(block, ReductionOrder::COLUMN_BLOCK);
                self.set(Cursor::Section, D);
            }
            LaneAxis::Reduced => {
                self.product(row, inner..self.kernel.loops());
                self.load_reg(Code::Imul_r64_rm64, row, self.frame.extent(self.kernel.par as usize));
                self.product(D, first..inner);
                self.reg(Code::Imul_r64_rm64, D, row);
                self.number(block, ReductionOrder::ROW_BLOCK);
                let (short, done) = (self.asm.label(), self.asm.label());
                self.compare(row, ReductionOrder::ROW_BLOCK / 2);
                self.asm.jump(Code::Jbe_rel32_64, short);
                self.set(Cursor::Section, row);
                self.asm.jump(Code::Jmp_rel32_64, done);
                self.asm.place(short);
                self.set(Cursor::Section, D);
                // `rax` becomes the least power of two that is not below the row length, and a block has
                // `ROW_BLOCK / rax` rows.
                let (head, found) = (self.asm.label(), self.asm.label());
                self.number(A, 1);
                self.asm.place(head);
                self.reg(Code::Cmp_r64_rm64, A, row);
                self.asm.jump(Code::Jae_rel32_64, found);
                self.reg(Code::Add_r64_rm64, A, A);
                self.asm.op(Code::Shr_rm64_imm8, &[Operand::Reg(block), Operand::Imm8(1)]);
                self.asm.jump(Code::Jmp_rel32_64, head);
                self.asm.place(found);
                self.reg(Code::Imul_r64_rm64, block, row);
                self.asm.place(done);
                self.clear(Cursor::InRow);
            }
        }
        self.set(Cursor::Block, block);
        let several = self.asm.label();
        self.number(A, 1);
        self.reg(Code::Cmp_r64_rm64, D, block);
        self.asm.jump(Code::Ja_rel32_64, several);
        self.number(A, 0);
        self.asm.place(several);
        self.set(Cursor::Several, A);
        // A single block never ends.
        self.number(D, i32::MAX as usize);
        self.asm.op(Code::Shl_rm64_imm8, &[Operand::Reg(D), Operand::Imm8(32)]);
        self.set(Cursor::Left, D);
        let mut others = SmallVec::new();
        if let Some(body) = self.short {
            // This body runs for a single block whose rows have at most one element per accumulator, in every order.
            let (short, long) = (self.asm.label(), self.asm.label());
            self.compare(A, 0);
            self.asm.jump(Code::Jne_rel32_64, long);
            let reductions = (0..self.kernel.insts.len()).filter(|&it| self.kernel.is_ordered_reduction(it));
            self.compare(row, reductions.map(|it| run_multiple(self.kernel.types[it])).min().unwrap_or(0));
            self.asm.jump(Code::Jbe_rel32_64, short);
            self.asm.place(long);
            others.push((short, body));
        }
        if let Some(body) = self.whole {
            let whole = self.asm.label();
            let low = Operand::Imm32(self.program.lanes as i32 - 1);
            self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(row), low]);
            self.asm.jump(Code::Je_rel32_64, whole);
            others.push((whole, body));
        }
        others
    }

    /// Emits `body` under the condition that there are several blocks.
    pub fn if_several(&mut self, body: impl FnOnce(&mut Self)) {
        let done = self.asm.label();
        self.compare_cursor(Cursor::Several, 0);
        self.asm.jump(Code::Je_rel32_64, done);
        body(self);
        self.asm.place(done);
    }

    /// Emits the blocked loops of a stage with their instructions, and the pairwise reduction of the block results.
    pub fn blocked(&mut self, blocked: &Blocked, mode: Mode) {
        self.if_several(|it| {
            it.clear(Cursor::Ended);
            it.clear(Cursor::Groups);
            it.clear(Cursor::Rest);
            it.begin_block();
        });
        let params = self.params_of(blocked.blocks.clone());
        let first = self.kernel.par as usize + 1;
        let axes: Vec<usize> = (first..self.kernel.loops()).collect();
        match self.kernel.lanes {
            LaneAxis::Parallel => match axes.split_last() {
                Some((&last, outer)) => {
                    self.nest(outer, &params, &mut |it| it.partitioned_steps(last, &params, blocked, mode));
                }
                None => self.when(blocked, |it| it == When::Loop(Span::All), mode),
            },
            LaneAxis::Reduced => {
                let (outer, run) = axes.split_at(axes.len() - self.kernel.run as usize);
                self.nest(outer, &params, &mut |it| {
                    if !run.is_empty() {
                        it.clear(Cursor::InRow);
                    }
                    it.nest(run, &params, &mut |it| {
                        it.find_rows(blocked.blocks.clone());
                        it.rows_are_found = true;
                        it.partitioned_lanes(blocked, mode);
                        it.rows_are_found = false;
                    });
                });
            }
        }
        let (one, done) = (self.asm.label(), self.asm.label());
        self.compare_cursor(Cursor::Several, 0);
        self.asm.jump(Code::Je_rel32_64, one);
        self.reduce_partials(blocked, mode);
        self.reduce_groups(blocked, mode);
        self.when(blocked, |it| it == When::SeveralBlocks, mode);
        self.asm.jump(Code::Jmp_rel32_64, done);
        self.asm.place(one);
        self.when(blocked, |it| it == When::SingleBlock, mode);
        self.asm.place(done);
    }

    /// Emits the instruction blocks whose [`When`] matches.
    fn when(&mut self, blocked: &Blocked, which: impl Fn(When) -> bool, mode: Mode) {
        for i in blocked.blocks.clone().filter(|&it| which(self.program.blocks[it].when)) {
            self.block(i, mode);
        }
    }

    /// Emits the innermost reduced loop with parallel lanes.
    fn partitioned_steps(&mut self, axis: usize, params: &[usize], blocked: &Blocked, mode: Mode) {
        let (counter, extent) = (self.frame.counter(axis), self.frame.extent(axis));
        let (part, head, end) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.number(A, 0);
        self.store_reg(Code::Mov_rm64_r64, counter, A);
        self.load_reg(Code::Cmp_r64_rm64, A, extent);
        self.asm.jump(Code::Jae_rel32_64, end);
        self.asm.place(part);
        self.load_reg(Code::Mov_r64_rm64, D, counter);
        self.stop(D, extent);
        self.asm.place(head);
        self.when(blocked, |it| it == When::Loop(Span::All), mode);
        self.advance(axis, params);
        self.load_reg(Code::Cmp_r64_rm64, A, self.frame.cursor(Cursor::Stop));
        self.asm.jump(Code::Jb_rel32_64, head);
        self.end_block(blocked, mode);
        self.load_reg(Code::Mov_r64_rm64, A, counter);
        self.load_reg(Code::Cmp_r64_rm64, A, extent);
        self.asm.jump(Code::Jb_rel32_64, part);
        self.go_back(axis, params);
        self.asm.place(end);
    }

    /// Emits the loop over reduced lanes.
    fn partitioned_lanes(&mut self, blocked: &Blocked, mode: Mode) {
        let extent = self.frame.extent(self.kernel.par as usize);
        let (lane, stop) = (fixed::LANE, self.frame.cursor(Cursor::Stop));
        let (part, end) = (self.asm.label(), self.asm.label());
        self.number(lane, 0);
        self.load_reg(Code::Cmp_r64_rm64, lane, extent);
        self.asm.jump(Code::Jae_rel32_64, end);
        self.asm.place(part);
        self.reg(Code::Mov_r64_rm64, D, lane);
        self.stop(D, extent);
        if blocked.slices.is_empty() {
            self.whole_rounds(blocked);
            self.vectors_and_rest(stop, &mut |it, mode| it.when(blocked, |it| it == When::Loop(Span::All), mode));
        } else {
            self.set(Cursor::Start, lane);
            if blocked.slices.len() > 1 {
                self.prefetch_next_block(blocked);
            }
            blocked.slices.iter().for_each(|it| self.slice(it));
        }
        self.load_reg(Code::Mov_r64_rm64, lane, stop);
        self.end_block(blocked, mode);
        self.load_reg(Code::Cmp_r64_rm64, lane, extent);
        self.asm.jump(Code::Jb_rel32_64, part);
        self.asm.place(end);
        if self.kernel.run > 0 {
            self.load_reg(Code::Mov_r64_rm64, A, self.frame.cursor(Cursor::InRow));
            self.load_reg(Code::Add_r64_rm64, A, extent);
            self.set(Cursor::InRow, A);
        }
    }

    /// Emits the loop over whole rounds of the accumulators, up to the stop of the lanes. It runs only if the lanes
    /// begin with the first accumulator.
    fn whole_rounds(&mut self, blocked: &Blocked) {
        let whole = |it: When| match it {
            When::Loop(Span::Whole(vectors)) => Some(vectors),
            _ => None,
        };
        let Some(vectors) = blocked.blocks.clone().find_map(|it| whole(self.program.blocks[it].when)) else { return };
        let step = self.program.lanes * vectors;
        let (lane, last) = (fixed::LANE, fixed::LANES_END);
        let (head, done) = (self.asm.label(), self.asm.label());
        if self.kernel.run > 0 {
            self.reg(Code::Mov_r64_rm64, A, lane);
            self.load_reg(Code::Add_r64_rm64, A, self.frame.cursor(Cursor::InRow));
            let low = Operand::Imm32(step as i32 - 1);
            self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(A), low]);
            self.asm.jump(Code::Jne_rel32_64, done);
        }
        self.load_reg(Code::Mov_r64_rm64, last, self.frame.cursor(Cursor::Stop));
        self.reg(Code::Sub_r64_rm64, last, lane);
        self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(last), Operand::Imm32(-(step as i32))]);
        self.asm.jump(Code::Je_rel32_64, done);
        self.reg(Code::Add_r64_rm64, last, lane);
        self.when(blocked, |it| it == When::Before, Mode::Full);
        self.asm.place(head);
        self.when(blocked, |it| whole(it).is_some(), Mode::Full);
        self.asm.op(Code::Add_rm64_imm32, &[Operand::Reg(lane), Operand::Imm32(step as i32)]);
        self.reg(Code::Cmp_r64_rm64, lane, last);
        self.asm.jump(Code::Jb_rel32_64, head);
        self.when(blocked, |it| it == When::After, Mode::Full);
        self.asm.place(done);
    }

    /// Prefetches the next block of rows that are so long that they come from memory. The slices pass over a block
    /// several times, which the hardware prefetcher does not detect as a stream.
    fn prefetch_next_block(&mut self, blocked: &Blocked) {
        const LONG: usize = 1 << 16;
        const LINE: usize = 64;
        let done = self.asm.label();
        self.load_reg(Code::Mov_r64_rm64, A, self.frame.extent(self.kernel.par as usize));
        self.compare(A, LONG);
        self.asm.jump(Code::Jb_rel32_64, done);
        for param in self.params_of(blocked.blocks.clone()) {
            let (PointerLocation::Register(pointer), Param { step: StrideClass::Unit, role, dtype }) =
                (self.frame.pointer_location(param), self.kernel.params[param])
            else {
                continue;
            };
            if !matches!(role, Role::Input | Role::Reloaded | Role::Scratch) {
                continue;
            }
            let head = self.asm.label();
            let ahead = Operand::Imm32(ReductionOrder::ROW_BLOCK as i32);
            self.reg(Code::Mov_r64_rm64, A, fixed::LANE);
            self.asm.op(Code::Add_rm64_imm32, &[Operand::Reg(A), ahead]);
            self.reg(Code::Mov_r64_rm64, D, A);
            self.asm.op(Code::Add_rm64_imm32, &[Operand::Reg(D), ahead]);
            self.asm.place(head);
            let line = Mem::indexed(pointer, A, dtype.size() as u32);
            self.asm.op(Code::Prefetcht0_m8, &[Operand::Mem(line)]);
            let step = Operand::Imm32((LINE / dtype.size()) as i32);
            self.asm.op(Code::Add_rm64_imm32, &[Operand::Reg(A), step]);
            self.reg(Code::Cmp_r64_rm64, A, D);
            self.asm.jump(Code::Jb_rel32_64, head);
        }
        self.asm.place(done);
    }

    /// Emits a slice of the accumulators over the lanes from the start of the block to their stop.
    fn slice(&mut self, slice: &Slice) {
        let (start, stop) = (self.frame.cursor(Cursor::Start), self.frame.cursor(Cursor::Stop));
        let (lane, end, lanes) = (fixed::LANE, fixed::LANES_END, self.program.lanes);
        let (rest, combine, done) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.load_reg(Code::Mov_r64_rm64, end, stop);
        self.load_reg(Code::Mov_r64_rm64, lane, start);
        self.reg(Code::Sub_r64_rm64, end, lane);
        if slice.skipped > 0 {
            self.compare(end, slice.skipped);
            self.asm.jump(Code::Jbe_rel32_64, done);
        }
        self.block(slice.in_registers.start - 1, Mode::Full);
        let whole = slice.in_registers.start;
        let When::Loop(Span::Whole(vectors)) = self.program.blocks[whole].when else {
            unreachable!("a slice begins with whole turns");
        };
        let step = (lanes * vectors) as i32;
        self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(end), Operand::Imm32(-step)]);
        self.asm.jump(Code::Je_rel32_64, rest);
        self.reg(Code::Add_r64_rm64, end, lane);
        let head = self.asm.label();
        self.asm.place(head);
        self.block(whole, Mode::Full);
        self.asm.op(Code::Add_rm64_imm32, &[Operand::Reg(lane), Operand::Imm32(step)]);
        self.reg(Code::Cmp_r64_rm64, lane, end);
        self.asm.jump(Code::Jb_rel32_64, head);
        self.asm.place(rest);
        self.load_reg(Code::Mov_r64_rm64, end, stop);
        self.reg(Code::Sub_r64_rm64, end, lane);
        // The last vector may be partial.
        let mut parts = Vec::new();
        for i in slice.in_registers.clone() {
            let When::Rest(vector) = self.program.blocks[i].when else { continue };
            let part = self.asm.label();
            self.compare(end, (vector + 1) * lanes);
            self.asm.jump(Code::Jb_rel32_64, part);
            self.block(i, Mode::Full);
            parts.push((part, i, vector * lanes));
        }
        if self.target == Target::Avx512 {
            self.asm.jump(Code::Jmp_rel32_64, combine);
            for (part, i, before) in parts {
                self.asm.place(part);
                self.reg(Code::Mov_r64_rm64, D, end);
                self.asm.op(Code::Sub_rm64_imm32, &[Operand::Reg(D), Operand::Imm32(before as i32)]);
                self.asm.jump(Code::Jbe_rel32_64, combine);
                self.set_tail_mask();
                self.block(i, Mode::Tail);
                self.asm.jump(Code::Jmp_rel32_64, combine);
            }
        } else {
            parts.into_iter().for_each(|it| self.asm.place(it.0));
        }
        self.asm.place(combine);
        for i in slice.in_registers.clone() {
            let When::IfMoreThan(lanes) = self.program.blocks[i].when else { continue };
            let nothing = self.asm.label();
            self.load_reg(Code::Mov_r64_rm64, A, stop);
            self.load_reg(Code::Sub_r64_rm64, A, start);
            self.compare(A, lanes);
            self.asm.jump(Code::Jbe_rel32_64, nothing);
            self.block(i, Mode::Full);
            self.asm.place(nothing);
        }
        self.block(slice.in_registers.end, Mode::Full);
        self.asm.place(done);
    }

    /// Computes the stop of a loop from step `from`: the end of the loop or of the block, whichever comes first.
    /// Subtracts the steps up to it from the rest of the block.
    fn stop(&mut self, from: Register, extent: Mem) {
        let left = self.frame.cursor(Cursor::Left);
        self.load_reg(Code::Mov_r64_rm64, A, extent);
        self.reg(Code::Sub_r64_rm64, A, from);
        self.load_reg(Code::Cmp_r64_rm64, A, left);
        self.load_reg(Code::Cmova_r64_rm64, A, left);
        self.store_reg(Code::Sub_rm64_r64, left, A);
        self.reg(Code::Add_r64_rm64, A, from);
        self.set(Cursor::Stop, A);
    }

    /// Computes the length of the next block.
    fn begin_block(&mut self) {
        let inside = self.asm.label();
        self.load_reg(Code::Mov_r64_rm64, A, self.frame.cursor(Cursor::Rest));
        self.compare(A, 0);
        self.asm.jump(Code::Jne_rel32_64, inside);
        self.load_reg(Code::Mov_r64_rm64, A, self.frame.cursor(Cursor::Section));
        self.asm.place(inside);
        self.load_reg(Code::Mov_r64_rm64, D, self.frame.cursor(Cursor::Block));
        self.reg(Code::Cmp_r64_rm64, D, A);
        self.reg(Code::Cmova_r64_rm64, D, A);
        self.reg(Code::Sub_r64_rm64, A, D);
        self.set(Cursor::Rest, A);
        self.set(Cursor::Left, D);
    }

    /// Ends the current block if it is complete, and begins the next one.
    fn end_block(&mut self, blocked: &Blocked, mode: Mode) {
        let (known, done) = (self.asm.label(), self.asm.label());
        let ended = self.frame.cursor(Cursor::Ended);
        self.compare_cursor(Cursor::Left, 0);
        self.asm.jump(Code::Jne_rel32_64, done);
        self.load_reg(Code::Mov_r64_rm64, A, ended);
        self.set(Cursor::Number, A);
        self.compare(A, ReductionOrder::PARTIALS);
        self.asm.jump(Code::Jae_rel32_64, known);
        self.when(blocked, |it| it == When::StartPartial, mode);
        self.asm.place(known);
        self.load_reg(Code::Mov_r64_rm64, A, ended);
        let low = Operand::Imm32(ReductionOrder::PARTIALS as i32 - 1);
        self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(A), low]);
        self.set(Cursor::Number, A);
        self.when(blocked, |it| it == When::EndBlock, mode);
        self.asm.op(Code::Inc_rm64, &[Operand::Mem(ended)]);
        let within = self.asm.label();
        self.compare_cursor(Cursor::Ended, ReductionOrder::GROUP as i32);
        self.asm.jump(Code::Jb_rel32_64, within);
        self.end_group(blocked, mode);
        self.asm.place(within);
        self.begin_block();
        self.asm.place(done);
    }

    /// Combines the result of a group with the results of earlier groups, like a binary counter. Each level holds at
    /// most one result that waits for its pair. Level `i` is used if bit `i` of the number of groups is set. An unused
    /// level holds the identity.
    fn end_group(&mut self, blocked: &Blocked, mode: Mode) {
        let (number, half) = (self.frame.cursor(Cursor::Number), self.frame.cursor(Cursor::Half));
        let (groups, last) = (self.frame.cursor(Cursor::Groups), ReductionOrder::PARTIALS + ReductionOrder::LEVELS - 1);
        self.reduce_partials(blocked, mode);
        let (fill, filled) = (self.asm.label(), self.asm.label());
        self.compare_cursor(Cursor::Groups, 0);
        self.asm.jump(Code::Jne_rel32_64, filled);
        self.number(A, ReductionOrder::PARTIALS);
        self.set(Cursor::Number, A);
        self.asm.place(fill);
        self.when(blocked, |it| it == When::StartPartial, mode);
        self.asm.op(Code::Inc_rm64, &[Operand::Mem(number)]);
        self.compare_cursor(Cursor::Number, last as i32);
        self.asm.jump(Code::Jbe_rel32_64, fill);
        self.asm.place(filled);
        // The result is combined with used levels, lowest first, up to the first unused one.
        let (carry, carried) = (self.asm.label(), self.asm.label());
        self.load_reg(Code::Mov_r64_rm64, A, groups);
        self.set(Cursor::Carry, A);
        self.number(A, ReductionOrder::PARTIALS);
        self.set(Cursor::Half, A);
        self.asm.place(carry);
        self.compare_cursor(Cursor::Half, last as i32);
        self.asm.jump(Code::Jae_rel32_64, carried);
        self.load_reg(Code::Mov_r64_rm64, A, self.frame.cursor(Cursor::Carry));
        self.asm.op(Code::And_rm64_imm32, &[Operand::Reg(A), Operand::Imm32(1)]);
        self.asm.jump(Code::Je_rel32_64, carried);
        self.clear(Cursor::Number);
        self.when(blocked, |it| it == When::ReducePartials, mode);
        self.load_reg(Code::Mov_r64_rm64, A, half);
        self.set(Cursor::Number, A);
        self.when(blocked, |it| it == When::StartPartial, mode);
        self.asm.op(Code::Inc_rm64, &[Operand::Mem(half)]);
        self.asm.op(Code::Shr_rm64_imm8, &[Operand::Mem(self.frame.cursor(Cursor::Carry)), Operand::Imm8(1)]);
        self.asm.jump(Code::Jmp_rel32_64, carry);
        self.asm.place(carried);
        // The accumulator at distance `-Number` is the first one, which holds the result of the group.
        self.load_reg(Code::Mov_r64_rm64, D, half);
        self.set(Cursor::Number, D);
        self.number(A, 0);
        self.reg(Code::Sub_r64_rm64, A, D);
        self.set(Cursor::Half, A);
        self.when(blocked, |it| it == When::ReducePartials, mode);
        self.asm.op(Code::Inc_rm64, &[Operand::Mem(groups)]);
        self.clear(Cursor::Ended);
    }

    /// Combines the result of the last group, which may have no block, with the results in the levels.
    fn reduce_groups(&mut self, blocked: &Blocked, mode: Mode) {
        let (head, done) = (self.asm.label(), self.asm.label());
        self.compare_cursor(Cursor::Groups, 0);
        self.asm.jump(Code::Je_rel32_64, done);
        self.clear(Cursor::Number);
        self.number(A, ReductionOrder::PARTIALS);
        self.set(Cursor::Half, A);
        self.asm.place(head);
        self.when(blocked, |it| it == When::ReducePartials, mode);
        self.asm.op(Code::Inc_rm64, &[Operand::Mem(self.frame.cursor(Cursor::Half))]);
        let end = (ReductionOrder::PARTIALS + ReductionOrder::LEVELS) as i32;
        self.compare_cursor(Cursor::Half, end);
        self.asm.jump(Code::Jb_rel32_64, head);
        self.asm.place(done);
    }

    /// Reduces the block results pairwise. Unused accumulators are set to the identity. So the reduction starts from
    /// the least power of two that is not below the number of blocks.
    fn reduce_partials(&mut self, blocked: &Blocked, mode: Mode) {
        let (number, half) = (self.frame.cursor(Cursor::Number), self.frame.cursor(Cursor::Half));
        let (grow, grown) = (self.asm.label(), self.asm.label());
        self.load_reg(Code::Mov_r64_rm64, A, self.frame.cursor(Cursor::Ended));
        self.number(D, ReductionOrder::PARTIALS);
        self.reg(Code::Cmp_r64_rm64, A, D);
        self.reg(Code::Cmova_r64_rm64, A, D);
        self.set(Cursor::Number, A);
        self.number(D, 1);
        self.asm.place(grow);
        self.reg(Code::Cmp_r64_rm64, D, A);
        self.asm.jump(Code::Jae_rel32_64, grown);
        self.reg(Code::Add_r64_rm64, D, D);
        self.asm.jump(Code::Jmp_rel32_64, grow);
        self.asm.place(grown);
        self.set(Cursor::Half, D);
        let (fill, filled) = (self.asm.label(), self.asm.label());
        self.asm.place(fill);
        self.load_reg(Code::Mov_r64_rm64, A, number);
        self.load_reg(Code::Cmp_r64_rm64, A, half);
        self.asm.jump(Code::Jae_rel32_64, filled);
        self.when(blocked, |it| it == When::StartPartial, mode);
        self.asm.op(Code::Inc_rm64, &[Operand::Mem(number)]);
        self.asm.jump(Code::Jmp_rel32_64, fill);
        self.asm.place(filled);
        let (level, pair, done) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.place(level);
        self.asm.op(Code::Shr_rm64_imm8, &[Operand::Mem(half), Operand::Imm8(1)]);
        self.asm.jump(Code::Je_rel32_64, done);
        self.clear(Cursor::Number);
        self.asm.place(pair);
        self.when(blocked, |it| it == When::ReducePartials, mode);
        self.asm.op(Code::Inc_rm64, &[Operand::Mem(number)]);
        self.load_reg(Code::Mov_r64_rm64, A, number);
        self.load_reg(Code::Cmp_r64_rm64, A, half);
        self.asm.jump(Code::Jb_rel32_64, pair);
        self.asm.jump(Code::Jmp_rel32_64, level);
        self.asm.place(done);
    }

    /// Computes the product of the extents of `loops`.
    fn product(&mut self, to: Register, loops: std::ops::Range<usize>) {
        self.number(to, 1);
        for axis in loops {
            self.load_reg(Code::Imul_r64_rm64, to, self.frame.extent(axis));
        }
    }

    /// Loads a constant below 2^31.
    fn number(&mut self, register: Register, number: usize) {
        self.asm.op(Code::Mov_rm64_imm32, &[Operand::Reg(register), Operand::Imm32(number as i32)]);
    }

    fn compare(&mut self, register: Register, number: usize) {
        self.asm.op(Code::Cmp_rm64_imm32, &[Operand::Reg(register), Operand::Imm32(number as i32)]);
    }

    fn compare_cursor(&mut self, which: Cursor, number: i32) {
        let mem = Operand::Mem(self.frame.cursor(which));
        self.asm.op(Code::Cmp_rm64_imm32, &[mem, Operand::Imm32(number)]);
    }

    fn set(&mut self, which: Cursor, register: Register) {
        self.store_reg(Code::Mov_rm64_r64, self.frame.cursor(which), register);
    }

    fn clear(&mut self, which: Cursor) {
        let mem = Operand::Mem(self.frame.cursor(which));
        self.asm.op(Code::Mov_rm64_imm32, &[mem, Operand::Imm32(0)]);
    }
}
