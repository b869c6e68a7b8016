//! Assembles instructions, labels and a constant pool into position-independent bytes.

use super::super::pool::Pool;
use super::super::target::{Target, Width};
use super::super::vinst::Constant;
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};

/// An operand.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A register.
    Reg(Register),
    /// A memory operand.
    Mem(Mem),
    /// A constant in the pool: one lane, which the instruction broadcasts.
    Splat(Constant),
    /// A constant in the pool: one lane.
    Scalar(Constant),
    /// A vector in the pool that holds a constant in every lane.
    Filled(Constant, Width),
    /// The iota vector 0, 1, 2.. of 64-bit lanes in the pool.
    Iota,
    /// An 8-bit immediate.
    Imm8(u8),
    /// A 32-bit immediate, sign-extended to 64 bits.
    Imm32(i32),
}

/// An address.
#[derive(Clone, Copy, Debug)]
pub struct Mem {
    pub base: Register,
    pub index: Register,
    pub scale: u32,
    pub offset: i32,
}

impl Mem {
    /// Returns the address `base + offset`.
    pub const fn at(base: Register, offset: i32) -> Self {
        Self { base, index: Register::None, scale: 1, offset }
    }

    /// Returns the address `base + index * scale`.
    pub const fn indexed(base: Register, index: Register, scale: u32) -> Self {
        Self { base, index, scale, offset: 0 }
    }
}

/// A position in the code.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// A 32-bit displacement to patch, relative to the end of its instruction.
struct Fixup {
    at: usize,
    end: usize,
    goal: Goal,
}

/// The target of a displacement.
enum Goal {
    Label(Label),
    Pool(usize),
}

/// The code that is being assembled.
pub struct Asm {
    target: Target,
    encoder: Encoder,
    position: usize,
    labels: Vec<Option<usize>>,
    fixups: Vec<Fixup>,
    pool: Pool,
}

impl Asm {
    pub fn new(target: Target) -> Self {
        Self {
            target,
            encoder: Encoder::new(64),
            position: 0,
            labels: Vec::new(),
            fixups: Vec::new(),
            pool: Pool::default(),
        }
    }

    /// Appends an instruction without a mask.
    pub fn op(&mut self, code: Code, operands: &[Operand]) {
        self.masked(code, operands, Register::None, false);
    }

    /// Appends an instruction under an AVX-512 op mask (or none). Lanes outside the mask are unchanged, or zeroed.
    pub fn masked(&mut self, code: Code, operands: &[Operand], mask: Register, zeroing: bool) {
        let mut inst = Instruction::default();
        inst.set_code(code);
        inst.set_op_mask(mask);
        inst.set_zeroing_masking(zeroing);
        let mut pooled = None;
        for (i, operand) in operands.iter().enumerate() {
            let i = i as u32;
            match *operand {
                Operand::Reg(register) => inst.set_op_register(i, register),
                Operand::Mem(mem) => {
                    inst.set_op_kind(i, OpKind::Memory);
                    inst.set_memory_base(mem.base);
                    inst.set_memory_index(mem.index);
                    inst.set_memory_index_scale(mem.scale);
                    inst.set_memory_displacement64(mem.offset as i64 as u64);
                    inst.set_memory_displ_size(u32::from(mem.offset != 0));
                }
                Operand::Splat(_) | Operand::Scalar(_) | Operand::Filled(..) | Operand::Iota => {
                    pooled = Some(match *operand {
                        Operand::Filled(constant, width) => self.pool.filled(constant, width),
                        Operand::Splat(constant) | Operand::Scalar(constant) => self.pool.scalar(constant),
                        _ => self.pool.iota(self.target),
                    });
                    inst.set_op_kind(i, OpKind::Memory);
                    inst.set_memory_base(Register::RIP);
                    inst.set_memory_displ_size(8);
                    inst.set_memory_displacement64(self.position as u64);
                    inst.set_is_broadcast(matches!(operand, Operand::Splat(_)));
                }
                Operand::Imm8(imm) => {
                    inst.set_op_kind(i, OpKind::Immediate8);
                    inst.set_immediate8(imm);
                }
                Operand::Imm32(imm) => {
                    let kind = if is_64_bit(code) { OpKind::Immediate32to64 } else { OpKind::Immediate32 };
                    inst.set_op_kind(i, kind);
                    if is_64_bit(code) {
                        inst.set_immediate32to64(imm.into());
                    } else {
                        inst.set_immediate32(imm as u32);
                    }
                }
            }
        }
        let start = self.position;
        self.encode(&inst);
        if let Some(entry) = pooled {
            let at = start + self.encoder.get_constant_offsets().displacement_offset();
            self.fixups.push(Fixup { at, end: self.position, goal: Goal::Pool(entry) });
        }
    }

    /// Encodes an instruction.
    fn encode(&mut self, inst: &Instruction) {
        match self.encoder.encode(inst, self.position as u64) {
            Ok(length) => self.position += length,
            Err(error) => unreachable!("{:?} has operands it does not take: {error}", inst.code()),
        }
    }

    /// Creates an unbound label.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds a label to the current position.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.position);
    }

    /// Appends a jump with a 32-bit displacement.
    pub fn jump(&mut self, code: Code, label: Label) {
        let mut inst = Instruction::default();
        inst.set_code(code);
        inst.set_op_kind(0, OpKind::NearBranch64);
        inst.set_near_branch64(self.position as u64);
        self.encode(&inst);
        let end = self.position;
        self.fixups.push(Fixup { at: end - 4, end, goal: Goal::Label(label) });
    }

    /// Returns the code, followed by the constant pool.
    pub fn finish(mut self) -> Vec<u8> {
        let mut bytes = self.encoder.take_buffer();
        let start = bytes.len().next_multiple_of(64);
        bytes.resize(start, 0xcc);
        let offsets = self.pool.write(&mut bytes);
        for fixup in &self.fixups {
            let goal = match fixup.goal {
                Goal::Label(label) => self.labels[label.0].expect("every label is placed"),
                Goal::Pool(entry) => offsets[entry],
            };
            let displacement = (goal as i64 - fixup.end as i64) as i32;
            bytes[fixup.at..fixup.at + 4].copy_from_slice(&displacement.to_le_bytes());
        }
        bytes
    }
}

/// Returns whether an instruction with an immediate has 64-bit operands.
fn is_64_bit(code: Code) -> bool {
    !matches!(code, Code::Mov_r32_imm32 | Code::And_rm32_imm32)
}
