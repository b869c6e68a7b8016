//! Selects instructions for reductions: accumulators, their steps, and the final tree.

use super::super::Unsupported;
use super::super::opcodes;
use super::super::target::{Target, Width};
use super::super::vinst::{AccArray, AccId, Machine, Op, Tie, VReg, View};
use super::Select;
use ms_ir::data::{DType, Scalar};
use ms_ir::{BinaryOp, LaneAxis, Reducer, ReductionOrder};

/// A reduction of one loop stage.
#[derive(Clone, Copy)]
pub struct Reduction {
    /// The index of the instruction.
    pub at: usize,
    /// The op that combines two accumulators.
    op: BinaryOp,
    /// The dtype of the accumulators. Bools are reduced as integers of all ones or zeros.
    ty: DType,
    /// Whether the operands are bools.
    truth: bool,
    /// Whether the [order of reduction](ReductionOrder) matters.
    pub ordered: bool,
    /// The initial value of the accumulators.
    pub identity: VReg,
    accumulators: Accumulators,
}

impl Reduction {
    /// Returns the size of an accumulator in bytes.
    pub fn size(&self) -> usize {
        self.ty.size()
    }

    /// Returns whether both use the same accumulators. If so, their steps must not be interleaved.
    pub fn shares_accumulators(&self, other: &Self) -> bool {
        self.accumulators == other.accumulators
    }

    /// Returns whether the accumulators are in one register.
    pub fn is_in_register(&self) -> bool {
        matches!(self.accumulators, Accumulators::Register(_))
    }

    /// Returns the reduction with its accumulators in register `acc`.
    pub fn in_register(&self, acc: VReg) -> Self {
        Self { accumulators: Accumulators::Register(acc), ..*self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Accumulators {
    /// A register with an accumulator in each lane.
    Register(VReg),
    /// An array on the stack. Each step uses the next vector, in round-robin order.
    Array(AccId),
    /// A vector of such an array.
    Vector(AccId, u8),
    /// An array on the stack with one accumulator for each lane.
    PerLane(AccId),
}

impl Select<'_> {
    /// Allocates the accumulators. Sets them to the identity if `starts`.
    pub fn begin_reduction(
        &mut self,
        at: usize,
        reducer: Reducer,
        reductions: usize,
        starts: bool,
    ) -> Result<Reduction, Unsupported> {
        let dtype = self.kernel.types[at];
        let truth = dtype == DType::Bool;
        let op = match reducer {
            Reducer::All => BinaryOp::And,
            Reducer::Any => BinaryOp::Or,
            Reducer::Min if truth => BinaryOp::And,
            Reducer::Max if truth => BinaryOp::Or,
            Reducer::Sum | Reducer::Prod if truth => return Err(Unsupported::new("a sum of truth values")),
            Reducer::Sum => BinaryOp::Add,
            Reducer::Prod => BinaryOp::Mul,
            Reducer::Min => BinaryOp::Min,
            Reducer::Max => BinaryOp::Max,
        };
        let ty = match (truth, self.avx512() || self.bool_size() == 4) {
            (false, _) => dtype,
            (true, true) => DType::I32,
            (true, false) => DType::I64,
        };
        let identity = if truth { if op == BinaryOp::And { !0 } else { 0 } } else { identity(reducer, ty).to_bits(ty) };
        let reduced = self.kernel.lanes == LaneAxis::Reduced;
        let ordered = self.kernel.is_ordered_reduction(at);
        let order = if ordered { self.order } else { ReductionOrder::Lanes };
        // Idempotent operations need only one accumulator per lane, even if lanes hold equal values.
        let any_times = matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Min | BinaryOp::Max);
        let count = if any_times || !reduced { self.program.lanes } else { order.accumulators(ty) };
        let in_registers = reductions <= self.accumulators;
        let one_by_one = self.program.one_lane && reduced && !any_times;
        let identity = self.constant(identity, ty.size());
        let accumulators = if in_registers && count == self.program.lanes && !one_by_one {
            let acc = self.vector(ty.size());
            self.machine(Machine::new(opcodes::MOVE), acc, &[identity]);
            self.program.accumulators.push(acc);
            Accumulators::Register(acc)
        } else {
            let id = AccId(self.program.arrays.len() as u32);
            self.program.arrays.push(AccArray { count, size: ty.size() });
            for part in 0..if starts { count / self.program.lanes } else { 0 } {
                self.push(Op::AccWrite(id, part as u8), None, &[identity]);
            }
            if reduced && !any_times { Accumulators::Array(id) } else { Accumulators::PerLane(id) }
        };
        Ok(Reduction { at, op, ty, truth, ordered, identity, accumulators })
    }

    /// Returns the number of accumulator vectors on the stack, if they are used in round-robin order.
    pub fn accumulator_vectors(&self, reduction: &Reduction) -> Option<usize> {
        match reduction.accumulators {
            Accumulators::Array(id) => Some(self.program.arrays[id.0 as usize].count / self.program.lanes),
            _ => None,
        }
    }

    /// Returns the reduction with accumulator vector `part` in a register.
    pub fn load_accumulator(&mut self, reduction: &Reduction, part: usize) -> Reduction {
        match reduction.accumulators {
            Accumulators::Array(id) => {
                let acc = self.vector(reduction.size());
                self.push(Op::AccRead(id, part as u8), Some(acc), &[]);
                self.program.accumulators.push(acc);
                reduction.in_register(acc)
            }
            Accumulators::Register(_) if part > 0 && !reduction.ordered => self.fresh_accumulator(reduction),
            _ => *reduction,
        }
    }

    /// Returns the reduction with a new register of accumulators, set to the identity.
    pub fn fresh_accumulator(&mut self, reduction: &Reduction) -> Reduction {
        let acc = self.vector(reduction.size());
        self.machine(Machine::new(opcodes::MOVE), acc, &[reduction.identity]);
        self.program.accumulators.push(acc);
        reduction.in_register(acc)
    }

    /// Returns the reduction with the accumulators of step `part` of a round.
    pub fn static_accumulator(&self, reduction: &Reduction, part: usize) -> Reduction {
        match (reduction.accumulators, self.accumulator_vectors(reduction)) {
            (Accumulators::Array(id), Some(parts)) => {
                Reduction { accumulators: Accumulators::Vector(id, (part % parts) as u8), ..*reduction }
            }
            _ => *reduction,
        }
    }

    /// Writes accumulator vector `part` back to the stack, or combines it with the others if these are in a register.
    pub fn store_accumulator(
        &mut self,
        reduction: &Reduction,
        part: usize,
        loaded: &Reduction,
    ) -> Result<(), Unsupported> {
        match (reduction.accumulators, loaded.accumulators) {
            (Accumulators::Array(id), Accumulators::Register(acc)) => {
                self.push(Op::AccWrite(id, part as u8), None, &[acc]);
            }
            (Accumulators::Register(acc), Accumulators::Register(other)) if acc != other => {
                let both = self.binary(reduction.op, reduction.ty, acc, other)?;
                self.machine(Machine::new(opcodes::MOVE), acc, &[both]);
            }
            _ => {}
        }
        Ok(())
    }

    /// Resets the accumulators to the identity.
    pub fn restart_reduction(&mut self, reduction: &Reduction) {
        match reduction.accumulators {
            Accumulators::Register(acc) => {
                self.machine(Machine::new(opcodes::MOVE), acc, &[reduction.identity]);
            }
            Accumulators::Array(id) | Accumulators::Vector(id, _) | Accumulators::PerLane(id) => {
                for part in 0..self.program.arrays[id.0 as usize].count / self.program.lanes {
                    self.push(Op::AccWrite(id, part as u8), None, &[reduction.identity]);
                }
            }
        }
    }

    /// Sets the accumulators of parallel lanes to `value`.
    pub fn set_reduction(&mut self, reduction: &Reduction, value: VReg) {
        match reduction.accumulators {
            Accumulators::Register(acc) => {
                self.machine(Machine::new(opcodes::MOVE), acc, &[value]);
            }
            Accumulators::Array(id) | Accumulators::Vector(id, _) | Accumulators::PerLane(id) => {
                self.push(Op::AccWrite(id, 0), None, &[value]);
            }
        }
    }

    /// Combines the accumulators in a register with vector `part` on the stack.
    pub fn combine_stored(
        &mut self,
        reduction: &Reduction,
        loaded: &Reduction,
        part: usize,
    ) -> Result<(), Unsupported> {
        if let (Accumulators::Array(id), Accumulators::Register(acc)) = (reduction.accumulators, loaded.accumulators) {
            let other = self.vector(reduction.size());
            self.push(Op::AccRead(id, part as u8), Some(other), &[]);
            let sum = self.binary(reduction.op, reduction.ty, acc, other)?;
            self.machine(Machine::new(opcodes::MOVE), acc, &[sum]);
        }
        Ok(())
    }

    /// Reduces accumulators in registers to the result of a row.
    pub fn end_slice(&mut self, parts: &[Reduction]) -> Result<VReg, Unsupported> {
        let registers = parts.iter().filter_map(|it| match it.accumulators {
            Accumulators::Register(acc) => Some(acc),
            _ => None,
        });
        let all = self.halve(&parts[0], registers.collect())?;
        self.reduce_lanes(&parts[0], all)
    }

    /// Reduces vectors pairwise.
    fn halve(&mut self, reduction: &Reduction, mut all: Vec<VReg>) -> Result<VReg, Unsupported> {
        while all.len() > 1 {
            let high = all.split_off(all.len() / 2);
            for (low, high) in all.iter_mut().zip(high) {
                *low = self.binary(reduction.op, reduction.ty, *low, high)?;
            }
        }
        Ok(all[0])
    }

    /// Selects the combination of two accumulators.
    pub fn combine(&mut self, reduction: &Reduction, a: VReg, b: VReg) -> Result<VReg, Unsupported> {
        self.binary(reduction.op, reduction.ty, a, b)
    }

    /// Accumulates `value` in the lanes' accumulators.
    pub fn accumulate(&mut self, reduction: &Reduction, value: VReg) -> Result<(), Unsupported> {
        let value = if reduction.truth && self.avx512() { self.op1(opcodes::M2D, 4, value) } else { value };
        match reduction.accumulators {
            Accumulators::Register(acc) => {
                let sum = self.binary(reduction.op, reduction.ty, acc, value)?;
                self.retarget(reduction.ty.size(), sum, acc);
            }
            Accumulators::Array(id) => {
                let acc = self.vector(reduction.ty.size());
                self.push(Op::AccLoad(id), Some(acc), &[]);
                let sum = self.binary(reduction.op, reduction.ty, acc, value)?;
                self.push(Op::AccStore(id), None, &[sum]);
            }
            Accumulators::Vector(id, part) => {
                let acc = self.vector(reduction.ty.size());
                self.push(Op::AccRead(id, part), Some(acc), &[]);
                let sum = self.binary(reduction.op, reduction.ty, acc, value)?;
                let merged = self.merge_tail(reduction, acc, sum);
                self.push(Op::AccWrite(id, part), None, &[merged]);
            }
            Accumulators::PerLane(id) => {
                let acc = self.vector(reduction.ty.size());
                self.push(Op::AccRead(id, 0), Some(acc), &[]);
                let sum = self.binary(reduction.op, reduction.ty, acc, value)?;
                let merged = self.merge_tail(reduction, acc, sum);
                self.push(Op::AccWrite(id, 0), None, &[merged]);
            }
        }
        Ok(())
    }

    /// Returns the new contents of the stack accumulators `acc`: `sum` in active lanes, and the old value in lanes past
    /// the end.
    fn merge_tail(&mut self, reduction: &Reduction, acc: VReg, sum: VReg) -> VReg {
        if !self.avx512() || self.kernel.lanes != LaneAxis::Reduced {
            return sum;
        }
        let merged = self.reg(self.program.info(acc).width);
        let opcode = Self::sized(reduction.size(), opcodes::MOVE, opcodes::MOVE_Q);
        self.machine(Machine::new(opcode).tie(Tie::First).merge(), merged, &[acc, sum])
    }

    /// Redirects the result of the last instruction from `sum` to `acc`, merging in a tail.
    fn retarget(&mut self, size: usize, sum: VReg, acc: VReg) {
        let last = self.program.insts.last_mut().expect("the reduction has pushed an instruction");
        if let Op::Machine(machine) = &mut last.op
            && last.dst == Some(sum)
            && machine.tie == Tie::Free
            && !machine.masked
        {
            last.dst = Some(acc);
            *machine = machine.merge();
        } else {
            let opcode = Self::sized(size, opcodes::MOVE, opcodes::MOVE_Q);
            self.machine(Machine::new(opcode).merge(), acc, &[sum]);
        }
    }

    /// Reduces the accumulators to the result.
    pub fn end_reduction(&mut self, reduction: &Reduction) -> Result<VReg, Unsupported> {
        let size = reduction.ty.size();
        let all = match reduction.accumulators {
            Accumulators::Register(acc) => {
                let dst = self.vector(size);
                self.machine(Machine::new(opcodes::MOVE), dst, &[acc])
            }
            Accumulators::Array(id) | Accumulators::PerLane(id) | Accumulators::Vector(id, _) => {
                let parts = self.program.arrays[id.0 as usize].count / self.program.lanes;
                let read = |it: &mut Self, part: usize| {
                    let dst = it.vector(size);
                    it.push(Op::AccRead(id, part as u8), Some(dst), &[]);
                    dst
                };
                let mut all = vec![];
                for part in 0..(parts / 2).max(1) {
                    let low = read(self, part);
                    all.push(if parts > 1 {
                        let high = read(self, part + parts / 2);
                        self.binary(reduction.op, reduction.ty, low, high)?
                    } else {
                        low
                    });
                }
                self.halve(reduction, all)?
            }
        };
        let one = if self.kernel.lanes == LaneAxis::Reduced { self.reduce_lanes(reduction, all)? } else { all };
        Ok(if reduction.truth && self.avx512() { self.mask_op(opcodes::D2M, &[one]) } else { one })
    }

    /// Reduces the lanes pairwise. The result is broadcast to every lane.
    fn reduce_lanes(&mut self, reduction: &Reduction, mut all: VReg) -> Result<VReg, Unsupported> {
        let size = reduction.ty.size();
        let width = self.program.info(all).width;
        let mut bytes = self.program.lanes * size / 2;
        while bytes >= size {
            let dst = self.reg(width);
            let high = match (bytes, width) {
                (32, _) => self.machine(Machine::new(opcodes::SHUFFLE_ZMM_128).imm(0x0e), dst, &[all, all]),
                (16, Width::Zmm) => self.machine(Machine::new(opcodes::SHUFFLE_ZMM_128).imm(0x01), dst, &[all, all]),
                (16, _) => self.machine(Machine::new(opcodes::PERMUTE_YMM_Q).imm(0x0e), dst, &[all]),
                (8, _) => self.machine(Machine::new(opcodes::SHUFFLE_D).imm(0x0e), dst, &[all]),
                _ => self.machine(Machine::new(opcodes::SHUFFLE_D).imm(0x01), dst, &[all]),
            };
            all = self.binary(reduction.op, reduction.ty, all, high)?;
            bytes /= 2;
        }
        let dst = self.reg(width);
        let opcode = Self::sized(size, opcodes::SPLAT_D, opcodes::SPLAT_Q);
        Ok(self.machine(Machine::new(opcode).view(View::LowSources), dst, &[all]))
    }
}

/// Returns the largest number of accumulator vectors of one stage that are held in registers.
pub const fn register_accumulators(target: Target) -> usize {
    match target {
        Target::Avx2 => 5,
        Target::Avx512 => 12,
    }
}

/// Returns the initial value of a reduction of numbers.
fn identity(reducer: Reducer, ty: DType) -> Scalar {
    match reducer {
        Reducer::Prod => Scalar::Int(1),
        Reducer::Max if ty.is_float() => Scalar::Float(f64::NEG_INFINITY),
        Reducer::Min if ty.is_float() => Scalar::Float(f64::INFINITY),
        Reducer::Max => match ty {
            DType::I32 => Scalar::Int(i32::MIN.into()),
            DType::I64 => Scalar::Int(i64::MIN),
            _ => Scalar::UInt(0),
        },
        Reducer::Min => match ty {
            DType::I32 => Scalar::Int(i32::MAX.into()),
            DType::I64 => Scalar::Int(i64::MAX),
            _ => Scalar::UInt(u64::MAX),
        },
        Reducer::Sum | Reducer::All | Reducer::Any => Scalar::Int(0),
    }
}
