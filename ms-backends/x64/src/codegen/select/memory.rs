//! Selects loads and stores, with conversions to and from the compute dtype.

use super::super::opcodes;
use super::super::target::Width;
use super::super::vinst::{Machine, Op, VReg, View};
use super::Select;
use ms_ir::data::DType;
use ms_ir::{ParamId, StrideClass};

impl Select<'_> {
    /// Loads elements of a buffer and widens them.
    pub fn load(&mut self, id: ParamId) -> VReg {
        let param = self.kernel.params[id.0 as usize];
        let size = param.dtype.size();
        let raw = self.vector(size);
        let op = match param.step {
            StrideClass::Any if size >= 4 => Op::Gather { param: id, size: size as u8 },
            step => Op::Load { param: id, size: size as u8, splat: step == StrideClass::Zero, copy: self.copy as u8 },
        };
        self.push(op, Some(raw), &[]);
        self.widened(param.dtype, raw)
    }

    /// Widens elements from their storage format to the compute dtype.
    pub fn widened(&mut self, dtype: DType, raw: VReg) -> VReg {
        match dtype {
            DType::F16 => self.op1(opcodes::CVT_PH_PS, 4, raw),
            DType::BF16 => {
                let wide = self.op1(opcodes::ZX_W_D, 4, raw);
                self.op1_imm(opcodes::SLL_D, 4, wide, 16)
            }
            DType::I8 => self.op1(opcodes::SX_B_D, 4, raw),
            DType::U8 => self.op1(opcodes::ZX_B_D, 4, raw),
            DType::I16 => self.op1(opcodes::SX_W_D, 4, raw),
            DType::U16 => self.op1(opcodes::ZX_W_D, 4, raw),
            DType::Bool if self.avx512() => self.mask_op(opcodes::TEST_B, &[raw, raw]),
            DType::Bool => {
                let size = self.bool_size();
                let wide = self.op1(Self::sized(size, opcodes::ZX_B_D, opcodes::ZX_B_Q), size, raw);
                let zero = self.constant(0, size);
                self.op2(Self::sized(size, opcodes::CMPGT_D, opcodes::CMPGT_Q), wide, zero)
            }
            _ => raw,
        }
    }

    /// Narrows `value` and stores it. The conversion to the buffer's dtype is exact, except for narrow integers:
    /// results of their reductions wrap only here.
    pub fn store(&mut self, id: ParamId, value: VReg) {
        let dtype = self.kernel.params[id.0 as usize].dtype;
        let size = dtype.size();
        let raw = match dtype {
            DType::F16 => self.op1_imm(opcodes::CVT_PS_PH, 2, value, 0),
            DType::BF16 => {
                let high = self.op1_imm(opcodes::SRL_D, 4, value, 16);
                self.narrow(2, high)
            }
            DType::I8 | DType::U8 | DType::I16 | DType::U16 if self.avx512() => self.narrow(size, value),
            DType::I8 | DType::U8 | DType::I16 | DType::U16 => {
                let low = self.keep_bits(value, (1 << (size * 8)) - 1);
                self.narrow(size, low)
            }
            DType::Bool if self.avx512() => {
                let ones = self.op1(opcodes::M2B, 1, value);
                self.op1(opcodes::ABS_B, 1, ones)
            }
            DType::Bool => {
                let lanes = self.mask_lanes(value, 4);
                let bits = self.keep_bits(lanes, 1);
                self.narrow(1, bits)
            }
            _ => value,
        };
        self.push(Op::Store { param: id, size: size as u8, copy: self.copy as u8 }, None, &[raw]);
    }

    /// Packs the low bits of 32-bit integers into adjacent integers of `size` bytes, 1 or 2. On AVX2, all higher bits
    /// of `value` must be zero.
    fn narrow(&mut self, size: usize, value: VReg) -> VReg {
        if self.avx512() {
            return self.op1(if size == 1 { opcodes::TRUNC_D_B } else { opcodes::TRUNC_D_W }, size, value);
        }
        let low = |opcode| Machine::new(opcode).view(View::LowAll);
        let high = self.high_half(value);
        let words = self.reg(Width::Xmm);
        self.machine(low(opcodes::PACKUS_D_W), words, &[value, high]);
        if size == 2 {
            return words;
        }
        let bytes = self.reg(Width::Xmm);
        self.machine(low(opcodes::PACKUS_W_B), bytes, &[words, words])
    }

    /// Extracts the upper 128 bits of a 256-bit register. A 128-bit register is returned unchanged.
    pub fn high_half(&mut self, value: VReg) -> VReg {
        if self.program.info(value).width == Width::Xmm {
            return value;
        }
        let dst = self.reg(Width::Xmm);
        self.machine(Machine::new(opcodes::EXTRACT_HIGH_XMM).imm(1), dst, &[value])
    }

    /// Converts a truth value of AVX2 to lanes of `size` bytes.
    pub fn mask_lanes(&mut self, mask: VReg, size: usize) -> VReg {
        match (self.bool_size(), size) {
            (8, 4) => self.low_words(mask),
            (4, 8) => unreachable!("truth values are as wide as the widest value"),
            _ => mask,
        }
    }

    /// Packs the low 32 bits of each 64-bit lane, on AVX2.
    pub fn low_words(&mut self, value: VReg) -> VReg {
        let high = self.high_half(value);
        let dst = self.reg(Width::Xmm);
        self.machine(Machine::new(opcodes::SHUFFLE2_PS).imm(0x88).view(View::LowAll), dst, &[value, high])
    }

    /// Converts the result of a comparison in lanes of `size` bytes to a truth value of AVX2.
    pub fn mask_from_lanes(&mut self, lanes: VReg, size: usize) -> VReg {
        if self.bool_size() == 8 && size == 4 { self.op1(opcodes::SX_D_Q, 8, lanes) } else { lanes }
    }
}
