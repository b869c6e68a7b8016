//! Reductions of long rows on several threads.
//!
//! A kernel with few results, each of one long row, is replaced by two kernels. The first reduces blocks
//! of rows, over which it has a parallel loop; the second computes the rest from the results of whole rows.
//! Between them the results of blocks are combined in the second level of
//! [`ReductionOrder::Blocks`], so that the bits are those of the original kernel.

use crate::interp::{Second, second_level};
use crate::kernel::KernelCode;
use crate::threads;
use ms_core::ir::{
    Inst, Kernel, LaneAxis, Param, ParamId, Reducer, ReductionOrder, Role, Scope, Stage, StrideClass, Val,
};
use ms_core::tensor::DType;
use smallvec::SmallVec;
use std::sync::Arc;

/// Elements of a block of a reduction without an order, large enough to amortise a call.
const UNORDERED_BLOCK: usize = 8 * ReductionOrder::ROW_BLOCK;

/// The minimum number of blocks of a row.
const BLOCKS: usize = 8;

/// The maximum number of results: with more of them, the loops over results are cut.
const RESULTS: u64 = 4;

/// Bytes from the result of one block to the next, for any dtype.
const SLOT: usize = 8;

/// The kernels that replace one with long rows.
pub struct Parts {
    /// Reduces blocks: the loop over blocks is outside the lanes, and the results are the last params.
    pub blocks: Kernel,
    /// The stages before and after the loop, with the results of rows as the last params.
    pub rest: Kernel,
    /// The reducer and the dtype of each reduction.
    reductions: SmallVec<[(Reducer, DType); 2]>,
    /// Elements of a block.
    block: usize,
}

impl Parts {
    /// The stage whose rows can be cut, if the kernel has one.
    pub fn looped(kernel: &Kernel) -> Option<usize> {
        let mut loops = (0..kernel.stages.len()).filter(|&it| kernel.stages[it].scope == Scope::Loop);
        let (Some(looped), None) = (loops.next(), loops.next()) else { return None };
        if kernel.lanes != LaneAxis::Reduced || kernel.seq != 0 || kernel.reads_position() {
            return None;
        }
        let mut reductions = kernel.stage_range(looped).filter(|&at| matches!(kernel.insts[at], Inst::Reduce(..)));
        let is_free = |at: usize| kernel.order == ReductionOrder::Blocks || !kernel.is_ordered_reduction(at);
        (reductions.next().is_some_and(is_free) && reductions.all(is_free)).then_some(looped)
    }

    /// The parts of a kernel, if its rows can be cut.
    pub fn of(kernel: &Kernel) -> Option<Self> {
        let looped = Self::looped(kernel)?;
        let range = kernel.stage_range(looped);
        let is_reduction = |at: &usize| matches!(kernel.insts[*at], Inst::Reduce(..));
        let ats: SmallVec<[usize; 2]> = range.clone().filter(is_reduction).collect();
        let is_ordered = ats.iter().any(|&at| kernel.is_ordered_reduction(at));
        let reducer = |at: usize| match kernel.insts[at] {
            Inst::Reduce(reducer, _) => reducer,
            _ => unreachable!("only reductions were collected"),
        };
        let mut blocks = Copy::new(kernel, kernel.par + 1);
        (0..range.start).filter(|&at| !matches!(kernel.insts[at], Inst::Store(..))).for_each(|at| blocks.inst(at));
        blocks.end_stage(Scope::Point);
        range.clone().for_each(|at| blocks.inst(at));
        blocks.end_stage(Scope::Loop);
        let mut rest = Copy::new(kernel, kernel.par);
        rest.kernel.order = ReductionOrder::Lanes;
        (0..range.start).for_each(|at| rest.inst(at));
        for &at in &ats {
            let dtype = kernel.types[at];
            let (value, to) = (blocks.values[at], blocks.param(dtype, Role::Output));
            blocks.push(Inst::Store(to, value), dtype);
            let from = rest.param(dtype, Role::Input);
            rest.values[at] = rest.push(Inst::Load(from), dtype);
        }
        blocks.end_stage(Scope::Point);
        (range.end..kernel.insts.len()).for_each(|at| rest.inst(at));
        rest.end_stage(Scope::Point);
        Some(Self {
            blocks: blocks.kernel,
            rest: rest.kernel,
            reductions: ats.iter().map(|&at| (reducer(at), kernel.types[at])).collect(),
            block: if is_ordered { ReductionOrder::ROW_BLOCK } else { UNORDERED_BLOCK },
        })
    }
}

/// A kernel made of instructions of another one.
struct Copy<'a> {
    from: &'a Kernel,
    kernel: Kernel,
    /// The value here of each value of the other one.
    values: Vec<Val>,
}

impl<'a> Copy<'a> {
    fn new(from: &'a Kernel, par: u8) -> Self {
        let kernel = Kernel { par, insts: Vec::new(), types: Vec::new(), stages: SmallVec::new(), ..from.clone() };
        Self { from, kernel, values: vec![Val(u32::MAX); from.insts.len()] }
    }

    fn inst(&mut self, at: usize) {
        let mut inst = self.from.insts[at];
        inst.operands_mut().into_iter().flatten().for_each(|it| *it = self.values[it.0 as usize]);
        self.values[at] = self.push(inst, self.from.types[at]);
    }

    fn push(&mut self, inst: Inst, dtype: DType) -> Val {
        self.kernel.insts.push(inst);
        self.kernel.types.push(dtype);
        Val(self.kernel.insts.len() as u32 - 1)
    }

    fn param(&mut self, dtype: DType, role: Role) -> ParamId {
        self.kernel.params.push(Param { dtype, role, step: StrideClass::Zero });
        ParamId(self.kernel.params.len() as u32 - 1)
    }

    /// Ends a stage; an empty one is dropped.
    fn end_stage(&mut self, scope: Scope) {
        let end = self.kernel.insts.len() as u32;
        if self.kernel.stages.last().map_or(0, |it| it.end) < end {
            self.kernel.stages.push(Stage { scope, end });
        }
    }
}

/// The code of [`Parts`].
pub struct Split {
    blocks: Arc<dyn KernelCode>,
    rest: Arc<dyn KernelCode>,
    reductions: SmallVec<[(Reducer, DType); 2]>,
    block: usize,
    /// Number of params of the original kernel with an address.
    params: usize,
    /// Number of its parallel loops.
    par: usize,
}

/// Returns whether a call of these extents has few results of long rows.
pub fn is_worth_it(kernel: &Kernel, extents: &[u64]) -> bool {
    let par = kernel.par as usize;
    let (results, row) = (extents[..par].iter().product::<u64>(), extents[par]);
    kernel.lanes == LaneAxis::Reduced
        && results <= RESULTS
        && row >= (BLOCKS * ReductionOrder::ROW_BLOCK) as u64
        && threads::is_several()
}

impl Split {
    /// The parts of `kernel`, compiled by `code`.
    pub fn new(kernel: &Kernel, code: impl Fn(Kernel) -> Arc<dyn KernelCode>) -> Option<Self> {
        let Parts { blocks, rest, reductions, block } = Parts::of(kernel)?;
        debug_assert!(blocks.check().and_then(|()| rest.check()).is_ok(), "{blocks}{rest}");
        let (params, par) = (kernel.addressed(), kernel.par as usize);
        Some(Self { blocks: code(blocks), rest: code(rest), reductions, block, params, par })
    }

    /// Runs a call of the kernel, of an estimated duration of `nanos`, in at most `chunks` chunks. Does
    /// nothing and returns false if there is no memory for the results of blocks.
    ///
    /// # Safety
    /// The contract of [`KernelCode::call`] of the kernel.
    pub unsafe fn call(&self, block: &[u64], nanos: usize, chunks: usize) -> bool {
        let extents = &block[..self.par + 1];
        let row = extents[self.par] as usize;
        let points: usize = extents[..self.par].iter().map(|&it| it as usize).product();
        let (whole, tail) = (row / self.block, row % self.block);
        let count = whole + usize::from(tail > 0);
        let words = self.reductions.len() * points * count;
        let mut results: Vec<u64> = Vec::new();
        if results.try_reserve_exact(words).is_err() {
            return false;
        }
        results.resize(words, 0);
        let memory = results.as_mut_ptr() as u64;
        let per_chunk = count.div_ceil(chunks.min(count)).max(1);
        threads::for_each(count.div_ceil(per_chunk), nanos, |chunk| {
            let first = chunk * per_chunk;
            let last = count.min(first + per_chunk);
            for (from, to, lanes) in [(first, last.min(whole), self.block), (first.max(whole), last, tail)] {
                if from < to {
                    let part = self.part(block, from, to - from, lanes, memory, [points, count]);
                    // SAFETY: a part of the loops of the caller's contract, with its own results of blocks.
                    unsafe { self.blocks.call(&part) };
                }
            }
        });
        let mut rows: SmallVec<[u64; 8]> = SmallVec::new();
        for (reduction, &(reducer, dtype)) in self.reductions.iter().enumerate() {
            for point in 0..points {
                let blocks = &results[(reduction * points + point) * count..][..count];
                rows.push(second_level(Second { reducer, dtype }, blocks));
            }
        }
        let mut rest: SmallVec<[u64; 64]> = SmallVec::from_slice(&extents[..self.par]);
        rest.push(1);
        let (params, others) = block[self.par + 1..].split_at(self.params * (self.par + 2));
        rest.extend_from_slice(params);
        for reduction in 0..self.reductions.len() {
            rest.push(rows[reduction * points..].as_ptr() as u64);
            self.push_strides(&mut rest, extents, SLOT);
            rest.push(0);
        }
        rest.extend_from_slice(others);
        // SAFETY: by the caller's contract; the results of rows have an element for each step of the loops.
        unsafe { self.rest.call(&rest) };
        true
    }

    /// The block of the call that reduces `count` blocks of `lanes` elements, starting with block `first`.
    fn part(
        &self,
        block: &[u64],
        first: usize,
        count: usize,
        lanes: usize,
        results: u64,
        [points, all]: [usize; 2],
    ) -> SmallVec<[u64; 64]> {
        let par = self.par;
        let mut part: SmallVec<[u64; 64]> = SmallVec::from_slice(&block[..par]);
        part.extend([count as u64, lanes as u64]);
        for param in 0..self.params {
            let words = &block[par + 1 + param * (par + 2)..][..par + 2];
            let step = words[1 + par].wrapping_mul(self.block as u64);
            part.push(words[0].wrapping_add(step.wrapping_mul(first as u64)));
            part.extend_from_slice(&words[1..1 + par]);
            part.extend([step, words[1 + par]]);
        }
        for reduction in 0..self.reductions.len() {
            part.push(results + (SLOT * (reduction * points * all + first)) as u64);
            self.push_strides(&mut part, &block[..par + 1], SLOT * all);
            part.extend([SLOT as u64, 0]);
        }
        // The axes of indexed params, and the immediates.
        part.extend_from_slice(&block[par + 1 + self.params * (par + 2)..]);
        part
    }

    /// Pushes the strides over the parallel loops of a row-major result with elements of `bytes` bytes.
    fn push_strides(&self, words: &mut SmallVec<[u64; 64]>, extents: &[u64], bytes: usize) {
        let stride = |axis: usize| extents[axis + 1..self.par].iter().product::<u64>() * bytes as u64;
        words.extend((0..self.par).map(stride));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::part;
    use crate::interp::Interpreted;
    use crate::isa::Isa;
    use crate::testing::Call;
    use ms_core::ir::testing::Random;

    /// The parts of a kernel have bitwise equal results, interpreted and as machine code.
    #[track_caller]
    fn check(text: &str, extents: &[usize]) {
        let kernel = Kernel::parse(text).expect(text);
        kernel.check().expect(text);
        let mut whole = Call::random(&kernel, extents, &mut Random::Seed(extents[0] as u64), 0);
        let untouched = whole.clone();
        // SAFETY: the call is of this kernel.
        unsafe { whole.run(&Interpreted::new(kernel.clone())) };
        for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
            for chunks in [1, 3] {
                let split = Split::new(&kernel, |it| part(it, isa)).expect("its rows can be cut");
                let mut call = untouched.clone();
                // SAFETY: as above.
                unsafe { call.run(&Whole { split, chunks }) };
                assert_eq!(call.difference(&whole), None, "{isa}, {chunks} chunks, {text}");
            }
        }
    }

    /// A kernel whose rows are always cut.
    struct Whole {
        split: Split,
        chunks: usize,
    }

    // SAFETY: the parts are a kernel.
    unsafe impl KernelCode for Whole {
        unsafe fn call(&self, block: &[u64]) {
            // SAFETY: the caller's contract is the same.
            assert!(unsafe { self.split.call(block, usize::MAX, self.chunks) });
        }
    }

    const ROWS: [usize; 3] = [16_384, 20_001, 53_249];

    #[test]
    fn parts_have_the_bits_of_the_kernel() {
        let sum = "kernel par=1 lanes=reduced seq=0 order=blocks in %x: f32 unit in %y: f32 zero out %z: f32 zero
            loop: x = load %x s = reduce sum x point: y = load %y m = mul s, y store %z, m";
        let squares = "kernel par=0 lanes=reduced seq=0 order=blocks in %x: f32 unit in %y: f32 any out %z: f64 zero
            out %d: f32 unit loop: x = load %x y = load %y d = sub x, y store %d, d w = cast d to f64 s = mul w, w
            a = reduce sum s point: store %z, a";
        let staged = "kernel par=2 lanes=reduced seq=0 order=blocks in %x: f32 unit in %c: f32 zero out %m: f32 zero
            out %s: f32 zero out %e: f32 zero point: c = load %c two = add c, c store %e, two
            loop: x = load %x d = sub x, two m = reduce max x s = reduce sum d
            point: store %m, m t = add s, two store %s, t";
        for row in ROWS {
            check(sum, &[3, row]);
            check(squares, &[row]);
            check(staged, &[2, 2, row]);
        }
    }

    #[test]
    fn reductions_without_an_order() {
        for (dtype, reducer) in [
            ("f32", "max"),
            ("f64", "min"),
            ("i32", "sum"),
            ("i64", "prod"),
            ("u32", "min"),
            ("u64", "max"),
            ("bool", "all"),
            ("bool", "any"),
        ] {
            let text = format!(
                "kernel par=0 lanes=reduced seq=0 in %x: {dtype} unit out %y: {dtype} zero
                 loop: x = load %x y = reduce {reducer} x point: store %y, y"
            );
            ROWS.into_iter().for_each(|row| check(&text, &[row]));
        }
        let gathered = "kernel par=1 lanes=reduced seq=0 in %i: i32 unit indexed %x: f32 zero out %y: f32 zero
            loop: i = load %i p = cast i to i64 x = gather %x, p y = reduce max x point: store %y, y";
        ROWS.into_iter().for_each(|row| check(gathered, &[2, row]));
        let positions = "kernel par=1 lanes=reduced seq=0 pos %p: i64 unit out %y: i64 zero
            loop: p = load %p q = mul p, p y = reduce sum q point: store %y, y";
        ROWS.into_iter().for_each(|row| check(positions, &[2, row]));
    }

    #[test]
    fn what_is_not_cut() {
        for text in [
            // The order of one level.
            "kernel par=0 lanes=reduced seq=0 in %x: f32 unit out %y: f32 zero
             loop: x = load %x y = reduce sum x point: store %y, y",
            // Two loops.
            "kernel par=0 lanes=reduced seq=0 in %x: i32 unit out %y: i32 unit
             loop: x = load %x m = reduce max x loop: z = load %x d = sub z, m store %y, d",
            // Reduced loops around the lanes.
            "kernel par=0 lanes=reduced seq=1 in %x: i32 unit out %y: i32 zero
             loop: x = load %x y = reduce sum x point: store %y, y",
            // Positions along loops.
            "kernel par=0 lanes=reduced seq=0 out %y: i64 zero loop: x = index 0 y = reduce sum x point: store %y, y",
        ] {
            let kernel = Kernel::parse(text).expect(text);
            kernel.check().expect(text);
            assert!(Parts::of(&kernel).is_none(), "{text}");
        }
    }
}
