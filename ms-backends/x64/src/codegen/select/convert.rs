//! Selects conversions between dtypes.

use super::super::Unsupported;
use super::super::opcodes;
use super::super::vinst::{Machine, Tie, VReg};
use super::Select;
use super::arith::FloatTest;
use ms_ir::Compare;
use ms_ir::data::DType;

/// The bits of the f64 2^63.
const TWO_63: u64 = 0x43e0_0000_0000_0000;
/// The bits of the f64 2^52. Adding a smaller integer puts that integer into the low bits of the sum.
const TWO_52: u64 = 0x4330_0000_0000_0000;

impl Select<'_> {
    /// Converts to the compute dtype of `to`, then rounds or wraps to `to`.
    pub fn cast(&mut self, from: DType, to: DType, value: VReg) -> Result<VReg, Unsupported> {
        let wide = self.convert(from, to.compute(), value)?;
        Ok(match to {
            DType::I8 => self.sign_extend(wide, 24),
            DType::I16 => self.sign_extend(wide, 16),
            DType::U8 => self.keep_bits(wide, 0xff),
            DType::U16 => self.keep_bits(wide, 0xffff),
            DType::F16 => {
                let half = self.op1_imm(opcodes::CVT_PS_PH, 2, wide, 0);
                self.op1(opcodes::CVT_PH_PS, 4, half)
            }
            DType::BF16 => self.round_bf16(wide),
            _ => wide,
        })
    }

    fn sign_extend(&mut self, value: VReg, bits: u8) -> VReg {
        let up = self.op1_imm(opcodes::SLL_D, 4, value, bits);
        self.op1_imm(opcodes::SRA_D, 4, up, bits)
    }

    /// Masks 32-bit lanes with `bits`.
    pub fn keep_bits(&mut self, value: VReg, bits: u64) -> VReg {
        let bits = self.constant(bits, 4);
        self.op2(opcodes::AND_D, value, bits)
    }

    /// Rounds f32 to its upper half, ties to even. A NaN becomes a quiet NaN.
    fn round_bf16(&mut self, value: VReg) -> VReg {
        let (half, one) = (self.constant(0x7fff, 4), self.constant(1, 4));
        let upper = self.constant(0xffff_0000, 4);
        let shifted = self.op1_imm(opcodes::SRL_D, 4, value, 16);
        let odd = self.op2(opcodes::AND_D, shifted, one);
        let bias = self.op2(opcodes::ADD_D, odd, half);
        let sum = self.op2(opcodes::ADD_D, bias, value);
        let chosen = if self.avx512() {
            // Tokens 0 and 1 (quiet and signalling NaN) have response 2: the quiet NaN. Other tokens have response 0,
            // which preserves the sum.
            let (responses, dst) = (self.constant(0x22, 4), self.vector(4));
            self.machine(Machine::new(opcodes::FIXUP_PS).tie(Tie::First).imm(0).fold(), dst, &[sum, value, responses])
        } else {
            let quiet = self.constant(0x0040_0000, 4);
            let nan = self.op2(opcodes::OR_D, value, quiet);
            let unordered = self.float_test_lanes(FloatTest::Unordered, 4, value, value);
            self.blend_lanes(4, unordered, nan, sum)
        };
        self.op2(opcodes::AND_D, chosen, upper)
    }

    /// Converts between compute dtypes.
    fn convert(&mut self, from: DType, to: DType, a: VReg) -> Result<VReg, Unsupported> {
        use DType::{Bool, F32, F64, I32, I64, U32, U64};
        let avx512 = self.avx512();
        Ok(match (from, to) {
            _ if from == to => a,
            (Bool, _) => self.bool_to(a, to),
            (_, Bool) => {
                let zero = self.constant(0, from.size());
                self.compare(Compare::Ne, from, a, zero)
            }
            (I32 | U32, I32 | U32) | (I64 | U64, I64 | U64) => a,
            (I32, I64 | U64) => self.op1(opcodes::SX_D_Q, 8, a),
            (U32, I64 | U64) => self.op1(opcodes::ZX_D_Q, 8, a),
            (I64 | U64, I32 | U32) if avx512 => self.op1(opcodes::TRUNC_Q_D, 4, a),
            (I64 | U64, I32 | U32) => self.low_words(a),

            (F32, F64) => self.op1(opcodes::CVT_PS_PD, 8, a),
            (F64, F32) => self.op1(opcodes::CVT_PD_PS, 4, a),
            (I32, F32) => self.op1(opcodes::CVT_D_PS, 4, a),
            (I32, F64) => self.op1(opcodes::CVT_D_PD, 8, a),
            (U32, F32) if avx512 => self.op1(opcodes::CVT_UD_PS, 4, a),
            (U32, F64) if avx512 => self.op1(opcodes::CVT_UD_PD, 8, a),
            (I64, F32) if avx512 => self.op1(opcodes::CVT_Q_PS, 4, a),
            (I64, F64) if avx512 => self.op1(opcodes::CVT_Q_PD, 8, a),
            (U64, F32) if avx512 => self.op1(opcodes::CVT_UQ_PS, 4, a),
            (U64, F64) if avx512 => self.op1(opcodes::CVT_UQ_PD, 8, a),
            (U32, F32) => self.u32_to_f32(a),
            (U32, F64) => self.u32_to_f64(a),
            (I64, F32) => self.i64_to_f32(a),
            (I64, F64) => self.i64_to_f64(a),

            (F32, I32) => self.f32_to_i32(a),
            (F64, I32) => {
                // NaN is replaced by zero, and numbers that are too large by the largest integer. For numbers that are
                // too small, the instruction itself returns the least integer.
                let number = self.nan_to_zero(8, a);
                let largest = self.constant(f64::from(i32::MAX).to_bits(), 8);
                let clamped = self.op2(opcodes::MIN_PD, number, largest);
                self.op1(opcodes::CVTT_PD_D, 4, clamped)
            }
            (F32, U32) if avx512 => self.unsigned_from_float(opcodes::CVTT_PS_UD, 4, 4, a),
            (F64, U32) if avx512 => self.unsigned_from_float(opcodes::CVTT_PD_UD, 8, 4, a),
            (F32, U64) if avx512 => self.unsigned_from_float(opcodes::CVTT_PS_UQ, 4, 8, a),
            (F64, U64) if avx512 => self.unsigned_from_float(opcodes::CVTT_PD_UQ, 8, 8, a),
            (F32, I64) if avx512 => {
                let wide = self.op1(opcodes::CVT_PS_PD, 8, a);
                self.f64_to_i64_masked(wide)
            }
            (F64, I64) if avx512 => self.f64_to_i64_masked(a),
            (F32, I64) => {
                let wide = self.op1(opcodes::CVT_PS_PD, 8, a);
                self.f64_to_i64_lanes(wide)
            }
            (F64, I64) => self.f64_to_i64_lanes(a),
            _ => return Err(Unsupported::new(format!("a cast from {from} to {to}"))),
        })
    }

    /// Converts true lanes to one and false lanes to zero.
    fn bool_to(&mut self, a: VReg, to: DType) -> VReg {
        let size = to.size();
        let one = match to {
            DType::F32 => 1.0_f32.to_bits().into(),
            DType::F64 => 1.0_f64.to_bits(),
            _ => 1,
        };
        let one = self.constant(one, size);
        let ones = if self.avx512() {
            self.op1(Self::sized(size, opcodes::M2D, opcodes::M2Q), size, a)
        } else {
            self.mask_lanes(a, size)
        };
        self.op2(Self::sized(size, opcodes::AND_D, opcodes::AND_Q), ones, one)
    }

    /// Replaces NaN by zero.
    fn nan_to_zero(&mut self, size: usize, a: VReg) -> VReg {
        if self.avx512() {
            let ordered = self.float_test(FloatTest::Ordered, size, a, a);
            let dst = self.vector(size);
            let opcode = Self::sized(size, opcodes::MOVE, opcodes::MOVE_Q);
            self.machine(Machine::new(opcode).masked().zeroing(), dst, &[a, ordered])
        } else {
            let ordered = self.float_test_lanes(FloatTest::Ordered, size, a, a);
            self.op2(opcodes::AND_D, a, ordered)
        }
    }

    /// Converts f32 to i32 with saturation. The instruction returns the least integer for numbers that are too large.
    /// It is replaced by the largest.
    fn f32_to_i32(&mut self, a: VReg) -> VReg {
        let number = self.nan_to_zero(4, a);
        let integer = self.op1(opcodes::CVTT_PS_D, 4, number);
        let limit = self.constant(2_147_483_648_f32.to_bits().into(), 4);
        if self.avx512() {
            let over = self.float_test(FloatTest::Ge, 4, a, limit);
            let largest = self.constant(i32::MAX as u64, 4);
            self.blend_masked(4, over, largest, integer)
        } else {
            let over = self.float_test_lanes(FloatTest::Ge, 4, a, limit);
            self.op2(opcodes::XOR_D, integer, over)
        }
    }

    fn f64_to_i64_masked(&mut self, a: VReg) -> VReg {
        let number = self.nan_to_zero(8, a);
        let integer = self.op1(opcodes::CVTT_PD_Q, 8, number);
        let limit = self.constant(TWO_63, 8);
        let over = self.float_test(FloatTest::Ge, 8, a, limit);
        let largest = self.constant(i64::MAX as u64, 8);
        self.blend_masked(8, over, largest, integer)
    }

    /// Converts to unsigned integers on AVX-512. The instruction returns the largest integer for numbers that are too
    /// large. Negative numbers and NaN are replaced by zero first.
    fn unsigned_from_float(&mut self, opcode: opcodes::Opcode, from: usize, to: usize, a: VReg) -> VReg {
        let zero = self.constant(0, from);
        let clamped = self.op2(Self::sized(from, opcodes::MAX_PS, opcodes::MAX_PD), a, zero);
        self.op1(opcode, to, clamped)
    }

    /// Converts f64 to i64 on AVX2. The upper and lower 32 bits are converted separately, each exact in f64.
    fn f64_to_i64_lanes(&mut self, a: VReg) -> VReg {
        let scale = self.constant(2_f64.powi(-32).to_bits(), 8);
        let unscale = self.constant((-(2_f64.powi(32))).to_bits(), 8);
        // The sum with an integer of either sign holds it in its low bits, in two's complement.
        let magic = self.constant((1.5 * 2_f64.powi(52)).to_bits(), 8);
        let two_52 = self.constant(TWO_52, 8);
        let limit = self.constant(TWO_63, 8);
        let whole = self.round(8, a, 0xb);
        let scaled = self.op2(opcodes::MUL_PD, whole, scale);
        let upper = self.round(8, scaled, 0x9);
        let forms = [opcodes::FMA132_PD, opcodes::FMA213_PD, opcodes::FMA231_PD];
        let lower = self.vector(8);
        self.machine(Machine::new(forms[0]).tie(Tie::Fma(forms)).fold(), lower, &[upper, unscale, whole]);
        let upper = self.op2(opcodes::ADD_PD, upper, magic);
        let upper = self.op1_imm(opcodes::SLL_Q, 8, upper, 32);
        let lower = self.op2(opcodes::ADD_PD, lower, two_52);
        let lower = self.op2(opcodes::XOR_Q, lower, two_52);
        let integer = self.op2(opcodes::OR_Q, upper, lower);
        let over = self.float_test_lanes(FloatTest::Ge, 8, a, limit);
        let largest = self.constant(i64::MAX as u64, 8);
        let integer = self.blend_lanes(8, over, largest, integer);
        let lowest = self.constant((-(2_f64.powi(63))).to_bits(), 8);
        let under = self.float_test_lanes(FloatTest::Compare(Compare::Lt), 8, a, lowest);
        let least = self.constant(i64::MIN as u64, 8);
        let integer = self.blend_lanes(8, under, least, integer);
        let ordered = self.float_test_lanes(FloatTest::Ordered, 8, a, a);
        self.op2(opcodes::AND_Q, integer, ordered)
    }

    /// Converts u32 to f32 on AVX2. The halves are converted exactly, and only their sum is rounded.
    fn u32_to_f32(&mut self, a: VReg) -> VReg {
        let upper = self.op1_imm(opcodes::SRL_D, 4, a, 16);
        let upper = self.op1(opcodes::CVT_D_PS, 4, upper);
        let lower = self.keep_bits(a, 0xffff);
        let lower = self.op1(opcodes::CVT_D_PS, 4, lower);
        let scale = self.constant(65536_f32.to_bits().into(), 4);
        let forms = [opcodes::FMA132_PS, opcodes::FMA213_PS, opcodes::FMA231_PS];
        let dst = self.vector(4);
        self.machine(Machine::new(forms[0]).tie(Tie::Fma(forms)).fold(), dst, &[upper, scale, lower])
    }

    /// Converts u32 to f64 on AVX2, via the low bits of 2^52.
    fn u32_to_f64(&mut self, a: VReg) -> VReg {
        let wide = self.op1(opcodes::ZX_D_Q, 8, a);
        let two_52 = self.constant(TWO_52, 8);
        let biased = self.op2(opcodes::OR_Q, wide, two_52);
        self.op2(opcodes::SUB_PD, biased, two_52)
    }

    /// Converts i64 to f64 on AVX2. The lower 32 bits go into 2^52. The upper 32 bits, made unsigned by adding 2^31, go
    /// into 2^84. Only the last sum is rounded.
    fn i64_to_f64(&mut self, a: VReg) -> VReg {
        let two_52 = self.constant(TWO_52, 8);
        let low_bits = self.constant(0xffff_ffff, 8);
        let lower = self.op2(opcodes::AND_Q, a, low_bits);
        let lower = self.op2(opcodes::OR_Q, lower, two_52);
        let upper = self.op1_imm(opcodes::SRL_Q, 8, a, 32);
        let biased_84 = self.constant(0x4530_0000_8000_0000, 8);
        let upper = self.op2(opcodes::XOR_Q, upper, biased_84);
        let excess = self.constant((2_f64.powi(84) + 2_f64.powi(63) + 2_f64.powi(52)).to_bits(), 8);
        let upper = self.op2(opcodes::SUB_PD, upper, excess);
        self.op2(opcodes::ADD_PD, upper, lower)
    }

    /// Converts i64 to f32 on AVX2, via f64. If f64 cannot represent the integer, its last eleven bits are replaced by
    /// a sticky bit, which avoids double rounding.
    fn i64_to_f32(&mut self, a: VReg) -> VReg {
        let last = self.constant(0x7ff, 8);
        let rest = self.constant(!0x7ff, 8);
        let tail = self.op2(opcodes::AND_Q, a, last);
        let carry = self.op2(opcodes::ADD_Q, tail, last);
        let sticky = self.op2(opcodes::OR_Q, a, carry);
        let sticky = self.op2(opcodes::AND_Q, sticky, rest);
        // The value is zero where -2^53 <= a < 2^53.
        let two_53 = self.constant(1 << 53, 8);
        let shifted = self.op2(opcodes::ADD_Q, a, two_53);
        let beyond = self.op1_imm(opcodes::SRL_Q, 8, shifted, 54);
        let zero = self.constant(0, 8);
        let large = self.op2(opcodes::CMPGT_Q, beyond, zero);
        let exact = self.blend_lanes(8, large, sticky, a);
        let wide = self.i64_to_f64(exact);
        self.op1(opcodes::CVT_PD_PS, 4, wide)
    }
}
