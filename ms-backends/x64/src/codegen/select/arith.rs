//! Selects arithmetic, comparison and selection instructions.

use super::super::Unsupported;
use super::super::opcodes::{self, Opcode};
use super::super::vinst::{Machine, Op, Tie, VReg};
use super::Select;
use ms_ir::data::DType;
use ms_ir::{BinaryOp, Compare, UnaryOp};

/// The predicate immediates of `vcmpps` and `vcmppd`.
mod predicate {
    /// Equal, false for NaN.
    pub const EQ: u8 = 0x00;
    /// Less, false for NaN, quiet.
    pub const LT: u8 = 0x11;
    /// Less or equal, false for NaN, quiet.
    pub const LE: u8 = 0x12;
    /// Not equal, true for NaN.
    pub const NE: u8 = 0x04;
    /// Not less, true for NaN, quiet.
    pub const NOT_LT: u8 = 0x15;
    /// Greater or equal, false for NaN, quiet.
    pub const GE: u8 = 0x1d;
    /// Either operand is NaN.
    pub const UNORDERED: u8 = 0x03;
    /// Neither operand is NaN.
    pub const ORDERED: u8 = 0x07;
}

/// A floating-point comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FloatTest {
    /// A comparison of the kernel IR.
    Compare(Compare),
    /// Greater or equal.
    Ge,
    /// Either operand is NaN.
    Unordered,
    /// Neither operand is NaN.
    Ordered,
}

impl Select<'_> {
    /// Selects a unary op.
    pub fn unary(&mut self, op: UnaryOp, ty: DType, a: VReg) -> Result<VReg, Unsupported> {
        let size = self.size(ty);
        let sign = 1 << (size * 8 - 1);
        Ok(match (op, ty) {
            (UnaryOp::Bitcast, _) => a,
            (UnaryOp::Not, DType::Bool) if self.avx512() => self.mask_op(opcodes::K_NOT, &[a]),
            (UnaryOp::Not, _) if !ty.is_float() => {
                let ones = self.constant(!0, size);
                self.op2(Self::sized(size, opcodes::XOR_D, opcodes::XOR_Q), a, ones)
            }
            (UnaryOp::Neg, _) if ty.is_float() => {
                let sign = self.constant(sign, size);
                self.op2(Self::sized(size, opcodes::XOR_D, opcodes::XOR_Q), a, sign)
            }
            (UnaryOp::Abs, _) if ty.is_float() => {
                let rest = self.constant(sign - 1, size);
                self.op2(Self::sized(size, opcodes::AND_D, opcodes::AND_Q), a, rest)
            }
            (UnaryOp::Neg, _) if ty.is_int() => {
                let zero = self.constant(0, size);
                self.op2(Self::sized(size, opcodes::SUB_D, opcodes::SUB_Q), zero, a)
            }
            (UnaryOp::Abs, DType::U32 | DType::U64) => a,
            (UnaryOp::Abs, DType::I32) => self.op1(opcodes::ABS_D, 4, a),
            (UnaryOp::Abs, DType::I64) if self.avx512() => self.op1(opcodes::ABS_Q, 8, a),
            (UnaryOp::Abs, DType::I64) => {
                let negative = self.negative_q(a);
                let flipped = self.op2(opcodes::XOR_Q, a, negative);
                self.op2(opcodes::SUB_Q, flipped, negative)
            }
            (UnaryOp::Sqrt, _) if ty.is_float() => {
                self.op1(Self::sized(size, opcodes::SQRT_PS, opcodes::SQRT_PD), size, a)
            }
            (UnaryOp::RoundEven, _) if ty.is_float() => self.round(size, a, 0x8),
            (UnaryOp::Floor, _) if ty.is_float() => self.round(size, a, 0x9),
            (UnaryOp::Ceil, _) if ty.is_float() => self.round(size, a, 0xa),
            (UnaryOp::Trunc, _) if ty.is_float() => self.round(size, a, 0xb),
            _ => return Err(Unsupported::new(format!("{op:?} of {ty}"))),
        })
    }

    /// Rounds to an integer in the rounding mode of the immediate, without raising flags.
    pub fn round(&mut self, size: usize, a: VReg, imm: u8) -> VReg {
        self.op1_imm(Self::sized(size, opcodes::ROUND_PS, opcodes::ROUND_PD), size, a, imm)
    }

    /// Returns all ones in the negative 64-bit lanes, on AVX2.
    fn negative_q(&mut self, a: VReg) -> VReg {
        let zero = self.constant(0, 8);
        self.op2(opcodes::CMPGT_Q, zero, a)
    }

    /// Selects a binary op on values of one dtype.
    pub fn binary(&mut self, op: BinaryOp, ty: DType, a: VReg, b: VReg) -> Result<VReg, Unsupported> {
        match ty {
            DType::Bool => self.binary_bool(op, a, b),
            DType::F32 | DType::F64 => self.binary_float(op, ty.size(), a, b),
            _ => self.binary_int(op, ty, a, b),
        }
    }

    fn binary_bool(&mut self, op: BinaryOp, a: VReg, b: VReg) -> Result<VReg, Unsupported> {
        let (mask, lanes) = match op {
            BinaryOp::And | BinaryOp::Min => (opcodes::K_AND, opcodes::AND_D),
            BinaryOp::Or | BinaryOp::Max => (opcodes::K_OR, opcodes::OR_D),
            BinaryOp::Xor => (opcodes::K_XOR, opcodes::XOR_D),
            _ => return Err(Unsupported::new(format!("{op:?} of bool"))),
        };
        Ok(if self.avx512() { self.mask_op(mask, &[a, b]) } else { self.op2_commutative(lanes, a, b) })
    }

    fn binary_float(&mut self, op: BinaryOp, size: usize, a: VReg, b: VReg) -> Result<VReg, Unsupported> {
        let opcode = |ps, pd| Self::sized(size, ps, pd);
        Ok(match op {
            BinaryOp::Add => self.op2_commutative(opcode(opcodes::ADD_PS, opcodes::ADD_PD), a, b),
            BinaryOp::Sub => self.op2(opcode(opcodes::SUB_PS, opcodes::SUB_PD), a, b),
            BinaryOp::Mul => self.op2_commutative(opcode(opcodes::MUL_PS, opcodes::MUL_PD), a, b),
            BinaryOp::Div => self.op2(opcode(opcodes::DIV_PS, opcodes::DIV_PD), a, b),
            BinaryOp::Min | BinaryOp::Max => match self.extremum_constant(op, size, a, b) {
                Some(extremum) => extremum,
                None if self.avx512() => self.extremum_range(op, size, a, b),
                None => self.extremum_twice(op, size, a, b),
            },
            _ => return Err(Unsupported::new(format!("{op:?} of floats"))),
        })
    }

    /// Returns the opcode of `min` or `max` for floats of `size` bytes.
    fn extremum_opcode(op: BinaryOp, size: usize) -> Opcode {
        match op {
            BinaryOp::Min => Self::sized(size, opcodes::MIN_PS, opcodes::MIN_PD),
            _ => Self::sized(size, opcodes::MAX_PS, opcodes::MAX_PD),
        }
    }

    /// Selects the minimum or maximum of a float and a constant. The instruction returns its second operand if both are
    /// zeros or either is NaN. So the second operand must be the float.
    fn extremum_constant(&mut self, op: BinaryOp, size: usize, a: VReg, b: VReg) -> Option<VReg> {
        let (x, limit) = if self.is_constant(a) { (b, a) } else { (a, b) };
        let bits = self.program.info(limit).constant?.bits;
        let value = if size == 8 { f64::from_bits(bits) } else { f32::from_bits(bits as u32).into() };
        let pick = Self::extremum_opcode(op, size);
        match op {
            _ if value.is_nan() => None,
            // `max(-0.0, 0.0)` must be 0.0: adding 0.0 turns -0.0 into 0.0.
            BinaryOp::Max if value == 0.0 && value.is_sign_positive() => {
                let larger = self.op2(pick, limit, x);
                Some(self.op2(Self::sized(size, opcodes::ADD_PS, opcodes::ADD_PD), larger, limit))
            }
            BinaryOp::Min if value == 0.0 && value.is_sign_negative() => None,
            _ => Some(self.op2(pick, limit, x)),
        }
    }

    /// Selects the minimum or maximum of two floats. `vrange` orders zeros but prefers numbers to NaN. So lanes with a
    /// NaN are replaced by the sum, which is NaN.
    fn extremum_range(&mut self, op: BinaryOp, size: usize, a: VReg, b: VReg) -> VReg {
        let opcode = |ps, pd| Self::sized(size, ps, pd);
        // Bits 0 and 1 of the immediate select min or max. Bits 2 and 3 take the sign from the result.
        let imm = if op == BinaryOp::Min { 0b0100 } else { 0b0101 };
        let (a, b) = if self.is_constant(a) { (b, a) } else { (a, b) };
        let range = self.vector(size);
        self.machine(Machine::new(opcode(opcodes::RANGE_PS, opcodes::RANGE_PD)).imm(imm).fold(), range, &[a, b]);
        let unordered = self.float_test(FloatTest::Unordered, size, a, b);
        let sum = Machine::new(opcode(opcodes::ADD_PS, opcodes::ADD_PD)).tie(Tie::First).masked().fold();
        let dst = self.vector(size);
        self.machine(sum, dst, &[range, a, b, unordered])
    }

    /// Selects the minimum or maximum of two floats on AVX2. `min(a, b)` returns `b` if both are zeros or either is
    /// NaN. Computing both orders detects these cases.
    fn extremum_twice(&mut self, op: BinaryOp, size: usize, a: VReg, b: VReg) -> VReg {
        let pick = Self::extremum_opcode(op, size);
        let one = self.op2(pick, a, b);
        let other = self.op2(pick, b, a);
        if op == BinaryOp::Min {
            // The OR yields -0.0 if either zero is negative. A NaN keeps its exponent bits.
            return self.op2(opcodes::OR_D, one, other);
        }
        let both = self.op2(opcodes::AND_D, one, other);
        let unordered = self.float_lanes(predicate::UNORDERED, size, a, b);
        self.op2(opcodes::OR_D, both, unordered)
    }

    fn binary_int(&mut self, op: BinaryOp, ty: DType, a: VReg, b: VReg) -> Result<VReg, Unsupported> {
        let size = ty.size();
        let signed = ty.is_signed_int();
        let wide_avx2 = size == 8 && !self.avx512();
        let opcode = |d, q| Self::sized(size, d, q);
        Ok(match op {
            BinaryOp::Add => self.op2_commutative(opcode(opcodes::ADD_D, opcodes::ADD_Q), a, b),
            BinaryOp::Sub => self.op2(opcode(opcodes::SUB_D, opcodes::SUB_Q), a, b),
            BinaryOp::Mul if wide_avx2 => self.multiply_q(a, b),
            BinaryOp::Mul => self.op2_commutative(opcode(opcodes::MULL_D, opcodes::MULL_Q), a, b),
            BinaryOp::Min | BinaryOp::Max if wide_avx2 => {
                let greater = self.greater_lanes(ty, a, b);
                let (then, other) = if op == BinaryOp::Max { (a, b) } else { (b, a) };
                self.blend_lanes(8, greater, then, other)
            }
            BinaryOp::Min if signed => self.op2_commutative(opcode(opcodes::MINS_D, opcodes::MINS_Q), a, b),
            BinaryOp::Min => self.op2_commutative(opcode(opcodes::MINU_D, opcodes::MINU_Q), a, b),
            BinaryOp::Max if signed => self.op2_commutative(opcode(opcodes::MAXS_D, opcodes::MAXS_Q), a, b),
            BinaryOp::Max => self.op2_commutative(opcode(opcodes::MAXU_D, opcodes::MAXU_Q), a, b),
            BinaryOp::And => self.op2_commutative(opcode(opcodes::AND_D, opcodes::AND_Q), a, b),
            BinaryOp::Or => self.op2_commutative(opcode(opcodes::OR_D, opcodes::OR_Q), a, b),
            BinaryOp::Xor => self.op2_commutative(opcode(opcodes::XOR_D, opcodes::XOR_Q), a, b),
            // The hardware returns zero if the shift amount, as an unsigned number, is not below the width.
            BinaryOp::Shl => self.op2(opcode(opcodes::SLLV_D, opcodes::SLLV_Q), a, b),
            BinaryOp::Shr if !signed => self.op2(opcode(opcodes::SRLV_D, opcodes::SRLV_Q), a, b),
            BinaryOp::Shr if wide_avx2 => {
                let negative = self.negative_q(a);
                let flipped = self.op2(opcodes::XOR_Q, a, negative);
                let shifted = self.op2(opcodes::SRLV_Q, flipped, b);
                self.op2(opcodes::XOR_Q, shifted, negative)
            }
            BinaryOp::Shr => self.op2(opcode(opcodes::SRAV_D, opcodes::SRAV_Q), a, b),
            BinaryOp::MulWide => self.op2_commutative(opcodes::MULU_DQ, a, b),
            BinaryOp::Div | BinaryOp::Rem => {
                let dst = self.vector(size);
                let remainder = op == BinaryOp::Rem;
                self.push(Op::Divide { size: size as u8, signed, remainder }, Some(dst), &[a, b]);
                dst
            }
        })
    }

    /// Computes the low halves of 64-bit products on AVX2 from 32-bit products.
    pub fn multiply_q(&mut self, a: VReg, b: VReg) -> VReg {
        let swapped = self.op1_imm(opcodes::SHUFFLE_D, 8, b, 0xb1);
        let cross = self.op2(opcodes::MULL_D, a, swapped);
        let upper = self.op1_imm(opcodes::SRL_Q, 8, cross, 32);
        let sum = self.op2(opcodes::ADD_D, cross, upper);
        let high = self.op1_imm(opcodes::SLL_Q, 8, sum, 32);
        let low = self.op2(opcodes::MULU_DQ, a, b);
        self.op2(opcodes::ADD_Q, low, high)
    }

    /// Selects a fused multiply-add `a * b + c`.
    pub fn fma(&mut self, ty: DType, operands: [VReg; 3]) -> Result<VReg, Unsupported> {
        let forms = match ty {
            DType::F32 => [opcodes::FMA132_PS, opcodes::FMA213_PS, opcodes::FMA231_PS],
            DType::F64 => [opcodes::FMA132_PD, opcodes::FMA213_PD, opcodes::FMA231_PD],
            _ => return Err(Unsupported::new(format!("Fma of {ty}"))),
        };
        let dst = self.vector(ty.size());
        Ok(self.machine(Machine::new(forms[0]).tie(Tie::Fma(forms)).fold(), dst, &operands))
    }

    /// Selects a comparison of values of one dtype.
    pub fn compare(&mut self, op: Compare, ty: DType, a: VReg, b: VReg) -> VReg {
        match ty {
            DType::Bool => self.compare_bool(op, a, b),
            DType::F32 | DType::F64 => self.float_test(FloatTest::Compare(op), ty.size(), a, b),
            _ if self.avx512() => {
                let opcode = match ty {
                    DType::I32 => opcodes::CMP_D,
                    DType::U32 => opcodes::CMP_UD,
                    DType::I64 => opcodes::CMP_Q,
                    _ => opcodes::CMP_UQ,
                };
                let imm = match op {
                    Compare::Eq => 0,
                    Compare::Lt => 1,
                    Compare::Le => 2,
                    Compare::Ne => 4,
                };
                let dst = self.mask();
                self.machine(Machine::new(opcode).imm(imm).fold(), dst, &[a, b])
            }
            _ => {
                let size = ty.size();
                let lanes = match op {
                    Compare::Eq | Compare::Ne => {
                        self.op2_commutative(Self::sized(size, opcodes::CMPEQ_D, opcodes::CMPEQ_Q), a, b)
                    }
                    Compare::Lt => self.greater_lanes(ty, b, a),
                    Compare::Le => self.greater_lanes(ty, a, b),
                };
                let inverted = matches!(op, Compare::Ne | Compare::Le);
                let mask = self.mask_from_lanes(lanes, size);
                if !inverted {
                    return mask;
                }
                let ones = self.constant(!0, self.bool_size());
                self.op2(opcodes::XOR_D, mask, ones)
            }
        }
    }

    fn compare_bool(&mut self, op: Compare, a: VReg, b: VReg) -> VReg {
        if self.avx512() {
            match op {
                Compare::Eq => self.mask_op(opcodes::K_XNOR, &[a, b]),
                Compare::Ne => self.mask_op(opcodes::K_XOR, &[a, b]),
                Compare::Lt => self.mask_op(opcodes::K_ANDN, &[a, b]),
                Compare::Le => {
                    let not = self.mask_op(opcodes::K_NOT, &[a]);
                    self.mask_op(opcodes::K_OR, &[not, b])
                }
            }
        } else {
            let ones = self.constant(!0, self.bool_size());
            match op {
                Compare::Eq => {
                    let differ = self.op2_commutative(opcodes::XOR_D, a, b);
                    self.op2(opcodes::XOR_D, differ, ones)
                }
                Compare::Ne => self.op2_commutative(opcodes::XOR_D, a, b),
                Compare::Lt => self.op2(opcodes::ANDN, a, b),
                Compare::Le => {
                    let not = self.op2(opcodes::XOR_D, a, ones);
                    self.op2(opcodes::OR_D, not, b)
                }
            }
        }
    }

    /// Returns all ones in the lanes where `a > b`, on AVX2.
    fn greater_lanes(&mut self, ty: DType, a: VReg, b: VReg) -> VReg {
        let size = ty.size();
        let greater = Self::sized(size, opcodes::CMPGT_D, opcodes::CMPGT_Q);
        if ty.is_signed_int() {
            return self.op2(greater, a, b);
        }
        let sign = self.constant(1 << (size * 8 - 1), size);
        let flip = Self::sized(size, opcodes::XOR_D, opcodes::XOR_Q);
        let (a, b) = (self.op2_commutative(flip, a, sign), self.op2_commutative(flip, b, sign));
        self.op2(greater, a, b)
    }

    /// Selects a floating-point comparison on AVX2. The result is in lanes of all ones or zeros.
    pub fn float_lanes(&mut self, predicate: u8, size: usize, a: VReg, b: VReg) -> VReg {
        let dst = self.vector(size);
        let opcode = Self::sized(size, opcodes::CMP_PS, opcodes::CMP_PD);
        self.machine(Machine::new(opcode).imm(predicate).fold(), dst, &[a, b])
    }

    /// Selects a floating-point comparison on AVX2. The result is in lanes of the operands' size.
    pub fn float_test_lanes(&mut self, test: FloatTest, size: usize, a: VReg, b: VReg) -> VReg {
        self.float_lanes(predicate_of(test), size, a, b)
    }

    /// Selects a floating-point comparison. The result is a truth value.
    pub fn float_test(&mut self, test: FloatTest, size: usize, a: VReg, b: VReg) -> VReg {
        if !self.avx512() {
            let lanes = self.float_test_lanes(test, size, a, b);
            return self.mask_from_lanes(lanes, size);
        }
        let dst = self.mask();
        let opcode = Self::sized(size, opcodes::CMP_PS, opcodes::CMP_PD);
        self.machine(Machine::new(opcode).imm(predicate_of(test)).fold(), dst, &[a, b])
    }

    /// Computes `factor * 2^power` on AVX-512. `factor` is near one, and `power` is a whole number.
    pub fn scale(&mut self, ty: DType, factor: VReg, power: VReg) -> VReg {
        let size = ty.size();
        // Products that underflow to zero, which are common in masked attention, are about a hundred times slower on
        // some processors. Masking these lanes off makes them zero.
        let least = if size == 8 { (-1075f64).to_bits() } else { (-150f32).to_bits().into() };
        let least = self.constant(least, size);
        let mask = self.mask();
        let test = Machine::new(Self::sized(size, opcodes::CMP_PS, opcodes::CMP_PD)).imm(predicate::NOT_LT).fold();
        self.machine(test, mask, &[power, least]);
        let dst = self.vector(size);
        let opcode = Self::sized(size, opcodes::SCALE_PS, opcodes::SCALE_PD);
        self.machine(Machine::new(opcode).masked().zeroing(), dst, &[factor, power, mask])
    }

    /// Selects `then` where the condition is true, and `other` elsewhere.
    pub fn select(&mut self, ty: DType, condition: VReg, then: VReg, other: VReg) -> VReg {
        if ty == DType::Bool && self.avx512() {
            let chosen = self.mask_op(opcodes::K_AND, &[condition, then]);
            let rest = self.mask_op(opcodes::K_ANDN, &[condition, other]);
            return self.mask_op(opcodes::K_OR, &[chosen, rest]);
        }
        let size = self.size(ty);
        if self.avx512() {
            return self.blend_masked(size, condition, then, other);
        }
        let lanes = self.mask_lanes(condition, size);
        self.blend_lanes(size, lanes, then, other)
    }

    /// Blends `then` into the lanes of the mask and `other` into the rest, on AVX-512.
    pub fn blend_masked(&mut self, size: usize, mask: VReg, then: VReg, other: VReg) -> VReg {
        let dst = self.vector(size);
        let opcode = Self::sized(size, opcodes::BLENDM_PS, opcodes::BLENDM_PD);
        self.machine(Machine::new(opcode).masked().fold(), dst, &[other, then, mask])
    }

    /// Blends `then` into the lanes of all ones and `other` into the rest, on AVX2.
    pub fn blend_lanes(&mut self, size: usize, lanes: VReg, then: VReg, other: VReg) -> VReg {
        let dst = self.vector(size);
        let opcode = Self::sized(size, opcodes::BLENDV_PS, opcodes::BLENDV_PD);
        self.machine(Machine::new(opcode), dst, &[other, then, lanes])
    }
}

const fn predicate_of(test: FloatTest) -> u8 {
    match test {
        FloatTest::Compare(Compare::Eq) => predicate::EQ,
        FloatTest::Compare(Compare::Ne) => predicate::NE,
        FloatTest::Compare(Compare::Lt) => predicate::LT,
        FloatTest::Compare(Compare::Le) => predicate::LE,
        FloatTest::Ge => predicate::GE,
        FloatTest::Unordered => predicate::UNORDERED,
        FloatTest::Ordered => predicate::ORDERED,
    }
}
