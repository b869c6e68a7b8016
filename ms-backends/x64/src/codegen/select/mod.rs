//! Selects virtual instructions for the body of a kernel.

mod arith;
mod blocks;
mod convert;
mod memory;
mod position;
mod reduction;
mod repeat;
mod scale;

use super::opcodes::Opcode;
use super::target::{Target, Width};
use super::vinst::{Block, Constant, Machine, Op, Program, RegInfo, Span, VInst, VReg, When};
use super::{Tuning, Unsupported};
use ms_ir::data::DType;
use ms_ir::{Inst, Kernel, LaneAxis, Reducer, ReductionOrder, Scope, StrideClass, Val};
use position::Positions;
use reduction::Reduction;
use rustc_hash::FxHashMap;
use scale::Exponentials;
use smallvec::SmallVec;
use std::ops::Range;

/// Selects instructions of `target` for `kernel`. Its reductions have the order `order`.
pub fn select(kernel: &Kernel, target: Target, order: ReductionOrder) -> Result<Program, Unsupported> {
    // AVX2 lacks the masks that partial vectors in slices need.
    let in_slices = target == Target::Avx512;
    run(Select { in_slices, ..Select::new(kernel, target, order, 1) })
}

/// Selects the body for extents that are a multiple of the vector length. Returns `None` if it would equal the general
/// body.
pub fn select_whole(kernel: &Kernel, target: Target) -> Option<Program> {
    if target == Target::Avx512 {
        return None;
    }
    let select = Select { in_slices: true, ..Select::new(kernel, target, kernel.order, 1) };
    if select.has_slices() { run(select).ok() } else { None }
}

/// Selects the body for several adjacent vectors of lanes, if all accumulators have registers and it is profitable for
/// `tuning`. A reduction down columns then reads longer runs of each row, and long dependency chains overlap.
pub fn select_strip(kernel: &Kernel, target: Target, tuning: Tuning) -> Option<Program> {
    /// The largest profitable number of instructions with reductions. Larger bodies have enough instruction-level
    /// parallelism.
    const MAX_REDUCING_INSTS: usize = 48;
    /// The least profitable number of instructions without reductions. Out-of-order execution overlaps the steps of
    /// shorter bodies anyway.
    const MIN_INSTS: usize = 40;
    /// Larger bodies are rare, and slow to compile.
    const MAX_INSTS: usize = 1024;
    let count = kernel.insts.len();
    let reductions = kernel.insts.iter().filter(|it| matches!(it, Inst::Reduce(..))).count();
    let copies = match reductions {
        0 if tuning != Tuning::General && (MIN_INSTS..=MAX_INSTS).contains(&count) => alternating(target),
        1.. if kernel.seq > 0
            && reductions <= reduction::register_accumulators(target) / MAX_COPIES
            && count <= MAX_REDUCING_INSTS =>
        {
            MAX_COPIES
        }
        _ => return None,
    };
    let fits = kernel.lanes == LaneAxis::Parallel
        && kernel.stages.iter().all(|it| it.scope != Scope::Repeat)
        && kernel.params.iter().all(|it| it.step != StrideClass::Any);
    let select = fits.then(|| Select::new(kernel, target, kernel.order, copies))?;
    if !select.takes_runs(0..kernel.insts.len()) {
        return None;
    }
    run(select).ok()
}

/// Selects the body for a strip of [`WIDE_COPIES`] vectors, for short kernels that have a narrow strip and reduce down
/// columns. It reads longer runs of each row, and distributes the cost of a loop step over more lanes. The narrow strip
/// of AVX-512 is as wide in bytes.
pub fn select_wide_strip(kernel: &Kernel, target: Target) -> Option<Program> {
    /// The largest number of instructions. Longer bodies spill.
    const MAX_INSTS: usize = 12;
    let reductions = kernel.insts.iter().filter(|it| matches!(it, Inst::Reduce(..))).count();
    let fits = target == Target::Avx2 && reductions == 1 && kernel.insts.len() <= MAX_INSTS;
    let select = fits.then(|| Select::new(kernel, target, kernel.order, WIDE_COPIES))?;
    run(Select { accumulators: WIDE_COPIES, ..select }).ok()
}

fn run(mut select: Select<'_>) -> Result<Program, Unsupported> {
    for i in 0..select.kernel.stages.len() {
        select.stage(i)?;
    }
    select.close(When::Once);
    Ok(select.program)
}

/// The largest number of adjacent vectors in a strip.
const MAX_COPIES: usize = 4;

/// The number of adjacent vectors in a wide strip.
const WIDE_COPIES: usize = 8;

/// Returns how many copies of the body are interleaved. Their values fit the registers.
const fn alternating(target: Target) -> usize {
    match target {
        Target::Avx2 => 2,
        Target::Avx512 => 4,
    }
}

struct Select<'k> {
    kernel: &'k Kernel,
    target: Target,
    /// The order of the reductions.
    order: ReductionOrder,
    /// Whether stages may be partitioned into [slices](blocks::Slices).
    in_slices: bool,
    /// The largest number of accumulator vectors of a stage that are held in registers.
    accumulators: usize,
    program: Program,
    positions: Positions,
    exponentials: Exponentials,
    /// For each copy of the body, the register of each selected value. A missing value is the first copy's.
    values: Vec<Vec<Option<VReg>>>,
    /// The copy of the body that is being selected.
    copy: usize,
    constants: FxHashMap<Constant, VReg>,
}

impl<'k> Select<'k> {
    fn new(kernel: &'k Kernel, target: Target, order: ReductionOrder, copies: usize) -> Self {
        let positions = Positions::new(kernel);
        let widest = if positions.has_wide(kernel) { 8 } else { 4 };
        let program = Program {
            lanes: target.vector_bytes() / widest,
            copies,
            one_lane: kernel.stages.iter().enumerate().any(|(i, it)| needs_one_lane(kernel, &positions, i, it.scope)),
            insts: Vec::with_capacity(kernel.insts.len() * 2),
            ..Program::default()
        };
        Self {
            kernel,
            target,
            order,
            in_slices: false,
            accumulators: reduction::register_accumulators(target),
            program,
            positions,
            exponentials: if target == Target::Avx512 { Exponentials::new(kernel) } else { Exponentials::default() },
            values: vec![vec![None; kernel.insts.len()]; copies],
            copy: 0,
            constants: FxHashMap::default(),
        }
    }

    /// Ends a block. Empty blocks are dropped.
    fn close(&mut self, when: When) {
        let end = self.program.insts.len();
        if self.program.blocks.last().map_or(0, |it| it.end) < end {
            self.program.blocks.push(Block { when, end });
        }
    }

    fn stage(&mut self, i: usize) -> Result<(), Unsupported> {
        let range = self.kernel.stage_range(i);
        let copies = self.program.copies;
        match self.kernel.stages[i].scope {
            Scope::Point => return self.copies(0, range, (0..copies).map(|_| -> &[Reduction] { &[] })),
            Scope::Repeat => return self.repeat(range),
            Scope::Loop => {}
        }
        let reduces = self.reduces(range.clone());
        let slices = self.slices(range.clone());
        let mut reductions = Vec::with_capacity(copies);
        for _ in 0..copies {
            let count = reduces.len() * copies;
            let begin = |&(at, reducer): &(usize, Reducer)| {
                let starts = slices.is_none() || !self.kernel.is_ordered_reduction(at);
                self.begin_reduction(at, reducer, count, starts)
            };
            reductions.push(reduces.iter().map(begin).collect::<Result<Vec<Reduction>, _>>()?);
        }
        if self.is_blocked(range.clone()) {
            return self.blocked_stage(range, &reductions, slices);
        }
        let mut span = Span::All;
        if let Some(parts) = self.whole_rounds(range.clone(), &reductions[0]) {
            // A loop over whole rounds of the accumulators, in registers, precedes the loop over the remaining lanes.
            let loaded: Vec<Vec<Reduction>> = (0..parts)
                .map(|part| reductions[0].iter().map(|it| self.load_accumulator(it, part)).collect())
                .collect();
            self.close(When::Once);
            self.copies(0, range.clone(), loaded.iter().map(Vec::as_slice))?;
            self.close(When::Loop(Span::Whole(parts)));
            for (part, loaded) in loaded.iter().enumerate() {
                for (reduction, loaded) in reductions[0].iter().zip(loaded) {
                    self.store_accumulator(reduction, part, loaded)?;
                }
            }
            span = Span::Rest(parts);
        }
        self.close(When::Once);
        self.copies(0, range, reductions.iter().map(Vec::as_slice))?;
        self.close(When::Loop(span));
        for (copy, reductions) in reductions.iter().enumerate() {
            for reduction in reductions {
                let result = self.end_reduction(reduction)?;
                self.values[copy][reduction.at] = Some(result);
            }
        }
        Ok(())
    }

    /// Returns the reductions of a stage.
    fn reduces(&self, range: Range<usize>) -> Vec<(usize, Reducer)> {
        let reduce = |at: usize| match self.kernel.insts[at] {
            Inst::Reduce(reducer, _) => Some((at, reducer)),
            _ => None,
        };
        range.filter_map(reduce).collect()
    }

    /// Selects copies of a stage's instructions, numbered from `first`, one for each item of `reductions`. Adjacent
    /// copies are interleaved to expose instruction-level parallelism, unless they share accumulators.
    fn copies<'r>(
        &mut self,
        first: usize,
        range: Range<usize>,
        reductions: impl Iterator<Item = &'r [Reduction]>,
    ) -> Result<(), Unsupported> {
        let reductions: Vec<&[Reduction]> = reductions.collect();
        let mut number = first;
        for reductions in reductions.chunks(alternating(self.target)) {
            let mut bounds = vec![self.program.insts.len()];
            for reductions in reductions {
                self.body(number, range.clone(), reductions)?;
                bounds.push(self.program.insts.len());
                number += 1;
            }
            let all = || reductions.iter().copied().flatten();
            let alone = |(i, it): (usize, &Reduction)| !all().skip(i + 1).any(|other| it.shares_accumulators(other));
            if all().enumerate().all(alone) {
                self.program.alternate(&bounds);
            }
        }
        Ok(())
    }

    /// Selects one copy of a stage's instructions, with its reductions in order.
    fn body(&mut self, copy: usize, range: Range<usize>, reductions: &[Reduction]) -> Result<(), Unsupported> {
        self.copy = copy;
        let count = self.kernel.insts.len();
        self.values.resize_with(self.values.len().max(copy + 1), || vec![None; count]);
        let mut reductions = reductions.iter();
        for at in range {
            if let Inst::Reduce(_, value) = self.kernel.insts[at] {
                let reduction =
                    reductions.next().ok_or_else(|| Unsupported::new("a reduction outside a loop stage"))?;
                let value = self.value(value);
                self.accumulate(reduction, value)?;
            } else {
                self.instruction(at)?;
            }
        }
        self.copy = 0;
        Ok(())
    }

    /// Returns whether a stage can process several vectors of lanes at once.
    fn takes_runs(&self, range: Range<usize>) -> bool {
        let runs = |inst: &Inst| match *inst {
            Inst::Load(param) | Inst::Store(param, _) => self.kernel.params[param.0 as usize].step != StrideClass::Any,
            Inst::Gather(param, position) => {
                self.positions.is_uniform(position) && self.kernel.params[param.0 as usize].step != StrideClass::Any
            }
            Inst::Index(axis) => axis != self.kernel.par,
            _ => true,
        };
        !self.program.one_lane && self.kernel.insts[range].iter().all(runs)
    }

    /// Returns the number of accumulator vectors of each reduction. `None` if there is only one, or if the lanes cannot
    /// be processed in runs of that many vectors.
    fn whole_rounds(&self, range: Range<usize>, reductions: &[Reduction]) -> Option<usize> {
        // If the order does not matter, several accumulation chains hide the latency of a single one.
        let takes_any = |it: &Reduction| it.is_in_register() && !it.ordered;
        let parts = match reductions.iter().find(|it| !takes_any(it)) {
            Some(it) => self.accumulator_vectors(it)?,
            None if reductions.is_empty() || self.kernel.lanes != LaneAxis::Reduced => return None,
            None => MAX_COPIES,
        };
        // With more reduced loops, the remainder of a row precedes the next row.
        let fits = parts > 1
            && self.kernel.seq == 0
            && reductions.iter().all(|it| takes_any(it) || self.accumulator_vectors(it) == Some(parts))
            && reductions.len() * parts <= reduction::register_accumulators(self.target)
            && self.takes_runs(range);
        fits.then_some(parts)
    }

    fn instruction(&mut self, at: usize) -> Result<(), Unsupported> {
        if self.positions.element(Val(at as u32)).is_some() || self.exponentials.is_unused(at) {
            return Ok(());
        }
        let ty = self.kernel.types[at];
        if let Some(unlimited) = self.exponentials.unlimited(at) {
            self.values[self.copy][at] = Some(self.value(unlimited));
            return Ok(());
        }
        if let Some(scaled) = self.exponentials.scaled(at) {
            let (factor, power) = (self.value(scaled.factor), self.value(scaled.power));
            self.values[self.copy][at] = Some(self.scale(ty, factor, power));
            return Ok(());
        }
        let result = match self.kernel.insts[at] {
            Inst::Load(param) => self.load(param),
            Inst::Gather(param, position) => self.gather(param, position),
            Inst::Store(param, value) => {
                let value = self.value(value);
                self.store(param, value);
                return Ok(());
            }
            Inst::Const(bits) => self.scalar(bits, ty),
            Inst::Index(axis) => {
                let dst = self.vector(8);
                self.push(Op::Index(axis), Some(dst), &[]);
                dst
            }
            Inst::Unary(op, a) => {
                let from = self.kernel.ty(a);
                let a = self.value(a);
                self.unary(op, from, a)?
            }
            Inst::Binary(op, a, b) => {
                let (a, b) = (self.value(a), self.value(b));
                self.binary(op, ty, a, b)?
            }
            Inst::Fma(a, b, c) => {
                let operands = [self.value(a), self.value(b), self.value(c)];
                self.fma(ty, operands)?
            }
            Inst::Math(math, ..) => return Err(Unsupported::new(format!("{math:?}"))),
            Inst::Compare(op, a, b) => {
                let from = self.kernel.ty(a);
                let (a, b) = (self.value(a), self.value(b));
                self.compare(op, from, a, b)
            }
            Inst::Select(condition, then, other) => {
                let (condition, then, other) = (self.value(condition), self.value(then), self.value(other));
                self.select(ty, condition, then, other)
            }
            Inst::Cast { value, to } => {
                let from = self.kernel.ty(value);
                let value = self.value(value);
                self.cast(from, to, value)?
            }
            Inst::While(condition) => {
                let condition = self.value(condition);
                self.push(Op::LeaveUnless, None, &[condition]);
                return Ok(());
            }
            Inst::Reduce(..) => unreachable!("reductions are taken out of the body"),
            Inst::Carry(_) | Inst::Next(..) => unreachable!("carries are taken out of the body"),
        };
        self.values[self.copy][at] = Some(result);
        Ok(())
    }

    fn value(&self, val: Val) -> VReg {
        let of = |copy: usize| self.values.get(copy).and_then(|it| it[val.0 as usize]);
        of(self.copy).or_else(|| of(0)).expect("operands stand before their users")
    }
}

/// Registers and constants.
impl Select<'_> {
    fn avx512(&self) -> bool {
        self.target == Target::Avx512
    }

    fn reg(&mut self, width: Width) -> VReg {
        self.program.regs.push(RegInfo { width, constant: None });
        VReg(self.program.regs.len() as u32 - 1)
    }

    /// Allocates a register for lanes of `size` bytes.
    fn vector(&mut self, size: usize) -> VReg {
        self.reg(Width::from_bytes(self.program.lanes * size))
    }

    /// Allocates an AVX-512 mask register.
    fn mask(&mut self) -> VReg {
        self.reg(Width::Mask)
    }

    /// Returns the lane size in bytes of a truth value on AVX2, whose lanes are all ones or all zeros.
    fn bool_size(&self) -> usize {
        self.target.vector_bytes() / self.program.lanes
    }

    /// Returns the lane size of a dtype in bytes. AVX-512 truth values have no byte lanes.
    fn size(&self, ty: DType) -> usize {
        if ty == DType::Bool { self.bool_size() } else { ty.size() }
    }

    /// Returns the register of a constant in every lane of `size` bytes.
    fn constant(&mut self, bits: u64, size: usize) -> VReg {
        let constant = Constant { bits: if size == 8 { bits } else { bits & 0xffff_ffff }, size: size as u8 };
        if let Some(&reg) = self.constants.get(&constant) {
            return reg;
        }
        let reg = self.vector(size);
        self.program.regs[reg.0 as usize].constant = Some(constant);
        self.constants.insert(constant, reg);
        reg
    }

    /// Returns the register of a constant of a dtype.
    fn scalar(&mut self, bits: u64, ty: DType) -> VReg {
        if ty != DType::Bool {
            return self.constant(bits, ty.size());
        }
        let set = bits & 1 == 1;
        if self.avx512() {
            let dst = self.mask();
            self.push(Op::MaskConst(set), Some(dst), &[]);
            dst
        } else {
            self.constant(if set { !0 } else { 0 }, self.bool_size())
        }
    }

    fn is_constant(&self, reg: VReg) -> bool {
        self.program.info(reg).constant.is_some()
    }
}

/// Instructions.
impl Select<'_> {
    fn push(&mut self, op: Op, dst: Option<VReg>, srcs: &[VReg]) {
        self.program.insts.push(VInst { op, dst, srcs: SmallVec::from_slice(srcs) });
    }

    /// Pushes a machine instruction with result `dst`.
    fn machine(&mut self, machine: Machine, dst: VReg, srcs: &[VReg]) -> VReg {
        self.push(Op::Machine(machine), Some(dst), srcs);
        dst
    }

    /// Pushes an instruction with one operand, whose result has lanes of `size` bytes.
    fn op1(&mut self, opcode: Opcode, size: usize, a: VReg) -> VReg {
        let dst = self.vector(size);
        self.machine(Machine::new(opcode), dst, &[a])
    }

    /// Pushes an instruction with one operand and an immediate, whose result has lanes of `size` bytes.
    fn op1_imm(&mut self, opcode: Opcode, size: usize, a: VReg, imm: u8) -> VReg {
        let dst = self.vector(size);
        self.machine(Machine::new(opcode).imm(imm), dst, &[a])
    }

    /// Pushes an instruction with two operands, whose result has the width of the first.
    fn op2(&mut self, opcode: Opcode, a: VReg, b: VReg) -> VReg {
        let dst = self.reg(self.program.info(a).width);
        self.machine(Machine::new(opcode).fold(), dst, &[a, b])
    }

    /// Pushes a commutative instruction. A constant becomes the last operand, which can be folded.
    fn op2_commutative(&mut self, opcode: Opcode, a: VReg, b: VReg) -> VReg {
        if self.is_constant(a) && !self.is_constant(b) { self.op2(opcode, b, a) } else { self.op2(opcode, a, b) }
    }

    /// Pushes an instruction on masks.
    fn mask_op(&mut self, opcode: Opcode, srcs: &[VReg]) -> VReg {
        let dst = self.mask();
        self.machine(Machine::new(opcode), dst, srcs)
    }

    /// Returns the opcode for lanes of `size` bytes.
    fn sized(size: usize, d: Opcode, q: Opcode) -> Opcode {
        if size == 8 { q } else { d }
    }
}

/// Returns whether a stage must process lanes one at a time. It must if it accesses narrow elements at any stride or at
/// positions of the lanes, or if all lanes write one element.
fn needs_one_lane(kernel: &Kernel, positions: &Positions, stage: usize, scope: Scope) -> bool {
    if kernel.lanes == LaneAxis::Reduced && scope == Scope::Point {
        return false;
    }
    kernel.insts[kernel.stage_range(stage)].iter().any(|inst| match *inst {
        Inst::Load(param) | Inst::Store(param, _) => {
            let param = kernel.params[param.0 as usize];
            match param.step {
                StrideClass::Unit => false,
                StrideClass::Zero => param.role.is_written(),
                StrideClass::Any => param.role.is_written() || param.dtype.size() < 4,
            }
        }
        Inst::Gather(param, position) => {
            let param = kernel.params[param.0 as usize];
            param.dtype.size() < 4 && (param.step == StrideClass::Any || !positions.is_uniform(position))
        }
        _ => false,
    })
}
