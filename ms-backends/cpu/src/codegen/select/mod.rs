//! Instruction selection: a kernel's body as virtual instructions.

mod arith;
mod blocks;
mod convert;
mod memory;
mod position;
mod reduction;
mod repeat;
mod scale;

use super::rows::Row;
use super::target::{Target, Width};
use super::vinst::{Block, Constant, Machine, Op, Program, RegInfo, Span, VInst, VReg, When};
use super::{Calls, Unsupported};
use ms_core::ir::{Inst, Kernel, LaneAxis, Reducer, ReductionOrder, Role, Scope, StrideClass, Val};
use ms_core::tensor::DType;
use position::Positions;
use reduction::Reduction;
use rustc_hash::FxHashMap;
use scale::Exponentials;
use smallvec::SmallVec;
use std::ops::Range;

/// Selects instructions of `target` for `kernel`, whose reductions have the order `order`.
pub fn select(kernel: &Kernel, target: Target, order: ReductionOrder) -> Result<Program, Unsupported> {
    // A partial vector needs masks.
    let in_slices = target == Target::Avx512;
    run(Select { in_slices, ..Select::new(kernel, target, order, 1) })
}

/// The same for lanes in whole vectors; `None` if the code would be the same.
pub fn select_whole(kernel: &Kernel, target: Target) -> Option<Program> {
    if target == Target::Avx512 {
        return None;
    }
    let select = Select { in_slices: true, ..Select::new(kernel, target, kernel.order, 1) };
    if select.has_slices() { run(select).ok() } else { None }
}

/// The same for several vectors of lanes at once, if that is profitable for such calls and all accumulators have
/// registers: a reduction down columns then reads whole runs of each row, and long chains of operations overlap.
pub fn select_strip(kernel: &Kernel, target: Target, calls: Calls) -> Option<Program> {
    /// Larger bodies with reductions have enough instruction-level parallelism.
    const MOST_REDUCING: usize = 48;
    /// Without reductions, the processor sees several steps of shorter bodies at once anyway.
    const LEAST: usize = 40;
    /// Larger bodies are rare, and cost time to compile.
    const MOST: usize = 1024;
    let count = kernel.insts.len();
    let reductions = kernel.insts.iter().filter(|it| matches!(it, Inst::Reduce(..))).count();
    let copies = match reductions {
        0 if calls != Calls::Any && (LEAST..=MOST).contains(&count) => alternating(target),
        1.. if kernel.seq > 0
            && reductions <= reduction::register_accumulators(target) / MOST_COPIES
            && count <= MOST_REDUCING =>
        {
            MOST_COPIES
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

fn run(mut select: Select<'_>) -> Result<Program, Unsupported> {
    for i in 0..select.kernel.stages.len() {
        select.stage(i)?;
    }
    select.close(When::Once);
    Ok(select.program)
}

/// Maximum number of adjacent vectors of lanes.
const MOST_COPIES: usize = 4;

/// Number of copies of the body whose instructions alternate: their values have room in the registers.
const fn alternating(target: Target) -> usize {
    match target {
        Target::Avx2 => 2,
        Target::Avx512 => 4,
    }
}

struct Select<'k> {
    kernel: &'k Kernel,
    target: Target,
    /// The order of its reductions.
    order: ReductionOrder,
    /// Whether stages may be divided into [slices](blocks::Slices).
    in_slices: bool,
    program: Program,
    positions: Positions,
    exponentials: Exponentials,
    /// For each copy of the body, the register of each selected value; a value without one has that of the
    /// first copy.
    values: Vec<Vec<Option<VReg>>>,
    /// The copy that is being selected.
    copy: usize,
    constants: FxHashMap<Constant, VReg>,
}

impl<'k> Select<'k> {
    fn new(kernel: &'k Kernel, target: Target, order: ReductionOrder, copies: usize) -> Self {
        let positions = Positions::of(kernel);
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
            program,
            positions,
            exponentials: if target == Target::Avx512 { Exponentials::of(kernel) } else { Exponentials::default() },
            values: vec![vec![None; kernel.insts.len()]; copies],
            copy: 0,
            constants: FxHashMap::default(),
        }
    }

    /// Ends a block; empty blocks are dropped.
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
        if let Some(parts) = self.whole_turns(range.clone(), &reductions[0]) {
            // Whole turns of the accumulators, in registers; then the rest of the lanes.
            let held: Vec<Vec<Reduction>> =
                (0..parts).map(|part| reductions[0].iter().map(|it| self.hold_part(it, part)).collect()).collect();
            self.close(When::Once);
            self.copies(0, range.clone(), held.iter().map(Vec::as_slice))?;
            self.close(When::Loop(Span::Whole(parts)));
            for (part, held) in held.iter().enumerate() {
                for (reduction, held) in reductions[0].iter().zip(held) {
                    self.put_back_part(reduction, part, held)?;
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

    /// The reductions of a stage.
    fn reduces(&self, range: Range<usize>) -> Vec<(usize, Reducer)> {
        let reduce = |at: usize| match self.kernel.insts[at] {
            Inst::Reduce(reducer, _) => Some((at, reducer)),
            _ => None,
        };
        range.filter_map(reduce).collect()
    }

    /// Copies of a stage's instructions from number `first`, one with each of these reductions. The instructions
    /// of adjacent copies alternate, so that the processor finds independent ones among the next, unless they have
    /// accumulators in common.
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

    /// One copy of a stage's instructions, with its reductions in order.
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

    /// The number of vectors of accumulators of each reduction, if there may be several and the lanes can be
    /// processed in runs of as many vectors.
    fn whole_turns(&self, range: Range<usize>, reductions: &[Reduction]) -> Option<usize> {
        // Where any order will do, steps that wait for one another take longer than those that do not.
        let takes_any = |it: &Reduction| it.is_in_register() && !it.ordered;
        let parts = match reductions.iter().find(|it| !takes_any(it)) {
            Some(it) => self.accumulator_parts(it)?,
            None if reductions.is_empty() || self.kernel.lanes != LaneAxis::Reduced => return None,
            None => MOST_COPIES,
        };
        // With more reduced loops, the rest of one row comes before the next row.
        let fits = parts > 1
            && self.kernel.seq == 0
            && reductions.iter().all(|it| takes_any(it) || self.accumulator_parts(it) == Some(parts))
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

    /// A register for lanes of `size` bytes.
    fn vector(&mut self, size: usize) -> VReg {
        self.reg(Width::of_bytes(self.program.lanes * size))
    }

    /// A mask register, of AVX-512.
    fn mask(&mut self) -> VReg {
        self.reg(Width::Mask)
    }

    /// Bytes of a lane of a truth value on AVX2, which is all ones or all zeros.
    fn bool_size(&self) -> usize {
        self.target.vector_bytes() / self.program.lanes
    }

    /// Bytes of a lane of a dtype; on AVX-512 truth values have no byte lanes.
    fn size(&self, ty: DType) -> usize {
        if ty == DType::Bool { self.bool_size() } else { ty.size() }
    }

    /// A constant in every lane of `size` bytes.
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

    /// A constant of a dtype.
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

    /// A machine instruction into `dst`.
    fn machine(&mut self, machine: Machine, dst: VReg, srcs: &[VReg]) -> VReg {
        self.push(Op::Machine(machine), Some(dst), srcs);
        dst
    }

    /// An instruction of one operand whose result has lanes of `size` bytes.
    fn op1(&mut self, row: Row, size: usize, a: VReg) -> VReg {
        let dst = self.vector(size);
        self.machine(Machine::new(row), dst, &[a])
    }

    /// An instruction of one operand and an immediate, whose result has lanes of `size` bytes.
    fn op1_imm(&mut self, row: Row, size: usize, a: VReg, imm: u8) -> VReg {
        let dst = self.vector(size);
        self.machine(Machine::new(row).imm(imm), dst, &[a])
    }

    /// An instruction of two operands of the same kind as its result.
    fn op2(&mut self, row: Row, a: VReg, b: VReg) -> VReg {
        let dst = self.reg(self.program.info(a).width);
        self.machine(Machine::new(row).fold(), dst, &[a, b])
    }

    /// The same for commutative instructions: a constant is the last operand.
    fn op2_commutative(&mut self, row: Row, a: VReg, b: VReg) -> VReg {
        if self.is_constant(a) && !self.is_constant(b) { self.op2(row, b, a) } else { self.op2(row, a, b) }
    }

    /// An instruction on masks.
    fn mask_op(&mut self, row: Row, srcs: &[VReg]) -> VReg {
        let dst = self.mask();
        self.machine(Machine::new(row), dst, srcs)
    }

    /// The row for lanes of `size` bytes.
    fn sized(size: usize, d: Row, q: Row) -> Row {
        if size == 8 { q } else { d }
    }
}

/// Returns whether a stage cannot process several lanes at once: it has narrow elements at any stride or at
/// positions of the lanes, or one element that all lanes write.
fn needs_one_lane(kernel: &Kernel, positions: &Positions, stage: usize, scope: Scope) -> bool {
    if kernel.lanes == LaneAxis::Reduced && scope == Scope::Point {
        return false;
    }
    kernel.insts[kernel.stage_range(stage)].iter().any(|inst| match *inst {
        Inst::Load(param) | Inst::Store(param, _) => {
            let param = kernel.params[param.0 as usize];
            match param.step {
                StrideClass::Unit => false,
                StrideClass::Zero => param.role == Role::Output,
                StrideClass::Any => param.role == Role::Output || param.dtype.size() < 4,
            }
        }
        Inst::Gather(param, position) => {
            let param = kernel.params[param.0 as usize];
            param.dtype.size() < 4 && (param.step == StrideClass::Any || !positions.is_uniform(position))
        }
        _ => false,
    })
}
