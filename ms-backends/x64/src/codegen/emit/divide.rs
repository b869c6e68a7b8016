//! Emits integer quotients and remainders lane by lane, as x86 has no vector instructions for them.

use super::super::opcodes;
use super::asm::{Mem, Operand};
use super::{Emitter, fixed, width_of};
use iced_x86::{Code, Register};

/// A lane-wise division of two vector registers.
#[derive(Clone, Copy)]
pub struct Division {
    /// The size of a lane in bytes: 4 or 8.
    pub size: u8,
    pub signed: bool,
    /// Whether the result is the remainder.
    pub remainder: bool,
}

impl Emitter<'_> {
    /// Stores both operands on the stack and divides 64-bit integers in a loop over the lanes.
    pub fn divide(&mut self, division: Division, a: Register, b: Register, result: Register) {
        let Division { size, signed, remainder } = division;
        let area = self.frame.divide();
        let (position, divisor) = (fixed::LANE, fixed::LANES_END);
        let (quotient, rest) = (fixed::SCRATCH, fixed::SCRATCH2);
        let bytes = width_of(a).bytes() as i32;
        let saved = [(position, Mem::at(fixed::STACK, area)), (divisor, Mem::at(fixed::STACK, area + 8))];
        let [dividends, divisors] =
            [64, 128].map(|it| Mem { offset: area + it, ..Mem::indexed(fixed::STACK, position, 1) });
        let [first, second] = [64, 128].map(|it| Operand::Mem(Mem::at(fixed::STACK, area + it)));
        self.encode(opcodes::STORE, width_of(a), &[first, Operand::Reg(a)]);
        self.encode(opcodes::STORE, width_of(b), &[second, Operand::Reg(b)]);
        for (register, mem) in saved {
            self.store_reg(Code::Mov_rm64_r64, mem, register);
        }
        let [head, by_zero, by_minus_one, done] = [(); 4].map(|()| self.asm.label());
        self.asm.op(Code::Mov_r32_imm32, &[Operand::Reg(fixed::LANE_32), Operand::Imm32(bytes - i32::from(size))]);
        self.asm.place(head);
        for (register, narrow, mem) in [(divisor, Register::ESI, divisors), (quotient, fixed::SCRATCH_32, dividends)] {
            match (size, signed) {
                (4, true) => self.load_reg(Code::Movsxd_r64_rm32, register, mem),
                (4, false) => self.load_reg(Code::Mov_r32_rm32, narrow, mem),
                _ => self.load_reg(Code::Mov_r64_rm64, register, mem),
            }
        }
        self.reg(Code::Test_rm64_r64, divisor, divisor);
        self.asm.jump(Code::Je_rel32_64, by_zero);
        if signed {
            // `idiv` traps on the least integer divided by -1.
            self.asm.op(Code::Cmp_rm64_imm32, &[Operand::Reg(divisor), Operand::Imm32(-1)]);
            self.asm.jump(Code::Je_rel32_64, by_minus_one);
            self.asm.op(Code::Cqo, &[]);
            self.asm.op(Code::Idiv_rm64, &[Operand::Reg(divisor)]);
        } else {
            self.reg(Code::Xor_r32_rm32, fixed::SCRATCH2_32, fixed::SCRATCH2_32);
            self.asm.op(Code::Div_rm64, &[Operand::Reg(divisor)]);
        }
        if remainder {
            self.reg(Code::Mov_r64_rm64, quotient, rest);
        }
        self.asm.jump(Code::Jmp_rel32_64, done);
        self.asm.place(by_minus_one);
        if !remainder {
            self.asm.op(Code::Neg_rm64, &[Operand::Reg(quotient)]);
            self.asm.jump(Code::Jmp_rel32_64, done);
        }
        self.asm.place(by_zero);
        self.reg(Code::Xor_r32_rm32, fixed::SCRATCH_32, fixed::SCRATCH_32);
        self.asm.place(done);
        if size == 4 {
            self.store_reg(Code::Mov_rm32_r32, dividends, fixed::SCRATCH_32);
        } else {
            self.store_reg(Code::Mov_rm64_r64, dividends, quotient);
        }
        self.asm.op(Code::Sub_rm64_imm32, &[Operand::Reg(position), Operand::Imm32(size.into())]);
        self.asm.jump(Code::Jns_rel32_64, head);
        for (register, mem) in saved {
            self.load_reg(Code::Mov_r64_rm64, register, mem);
        }
        self.encode(opcodes::MOVE, width_of(result), &[Operand::Reg(result), first]);
    }
}
