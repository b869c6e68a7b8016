//! Splits reductions of long rows over several threads.
//!
//! Two kernels replace a kernel with few results that each reduce one long row. The first one reduces blocks of rows,
//! in a parallel loop over the blocks. The second one computes the remaining stages from the results of whole rows.
//! Between them, the block results are reduced in the second level of [`ReductionOrder::Blocks`], so the bits are those
//! of the original kernel.

use crate::interp::{BlockReduction, reduce_blocks};
use crate::kernel::KernelCode;
use crate::threads;
use ms_ir::data::DType;
use ms_ir::{Inst, Kernel, LaneAxis, Param, ParamId, Reducer, ReductionOrder, Role, Scope, Stage, StrideClass, Val};
use smallvec::SmallVec;
use std::sync::Arc;

/// The number of elements of a block of an unordered reduction, large enough to amortise a call.
const UNORDERED_BLOCK: usize = 8 * ReductionOrder::ROW_BLOCK;

/// The minimum number of blocks of a row.
const BLOCKS: usize = 8;

/// The maximum number of results. With more results, the loops over them are partitioned instead.
const RESULTS: u64 = 4;

/// The distance in bytes between the results of adjacent blocks, for any dtype.
const SLOT: usize = 8;

/// The kernels that replace one with long rows.
pub struct SplitKernels {
    /// Reduces blocks. The loop over blocks is outside the lanes, and the block results are the last parameters.
    pub blocks: Kernel,
    /// The stages before and after the loop. The results of rows are the last parameters.
    pub rest: Kernel,
    /// The reducer and the dtype of each reduction.
    reductions: SmallVec<[(Reducer, DType); 2]>,
    /// The number of elements of a block.
    block: usize,
}

impl SplitKernels {
    /// Returns the stage whose reductions can be split, if the kernel has one.
    pub fn splittable_stage(kernel: &Kernel) -> Option<usize> {
        let mut loops = (0..kernel.stages.len()).filter(|&it| kernel.stages[it].scope == Scope::Loop);
        let (Some(stage), None) = (loops.next(), loops.next()) else { return None };
        if kernel.lanes != LaneAxis::Reduced || kernel.seq != 0 || kernel.reads_position() {
            return None;
        }
        let mut reductions = kernel.stage_range(stage).filter(|&at| matches!(kernel.insts[at], Inst::Reduce(..)));
        let is_free = |at: usize| kernel.order == ReductionOrder::Blocks || !kernel.is_ordered_reduction(at);
        (reductions.next().is_some_and(is_free) && reductions.all(is_free)).then_some(stage)
    }

    /// Splits a kernel, if possible.
    pub fn new(kernel: &Kernel) -> Option<Self> {
        let stage = Self::splittable_stage(kernel)?;
        let range = kernel.stage_range(stage);
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

/// A kernel under construction from instructions of another kernel.
struct Copy<'a> {
    from: &'a Kernel,
    kernel: Kernel,
    /// The new value of each value of the original kernel.
    values: Vec<Val>,
}

impl<'a> Copy<'a> {
    fn new(from: &'a Kernel, par: u8) -> Self {
        let kernel = Kernel { par, insts: Vec::new(), types: Vec::new(), stages: Vec::new(), ..from.clone() };
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

    /// Ends a stage. An empty stage is dropped.
    fn end_stage(&mut self, scope: Scope) {
        let end = self.kernel.insts.len() as u32;
        if self.kernel.stages.last().map_or(0, |it| it.end) < end {
            self.kernel.stages.push(Stage { scope, end });
        }
    }
}

/// The code of the [`SplitKernels`] of a kernel.
pub struct SplitReduction {
    blocks: Arc<dyn KernelCode>,
    rest: Arc<dyn KernelCode>,
    reductions: SmallVec<[(Reducer, DType); 2]>,
    block: usize,
    /// The number of parameters of the original kernel that have an address.
    params: usize,
    /// The number of its parallel loops.
    par: usize,
}

/// Returns whether a call with these extents has few results and long rows.
pub fn is_profitable(kernel: &Kernel, extents: &[u64]) -> bool {
    let par = kernel.par as usize;
    let (results, row) = (extents[..par].iter().product::<u64>(), extents[par]);
    kernel.lanes == LaneAxis::Reduced
        && results <= RESULTS
        && row >= (BLOCKS * ReductionOrder::ROW_BLOCK) as u64
        && threads::is_several()
}

impl SplitReduction {
    /// Splits `kernel`, and compiles the two kernels with `code`.
    pub fn new(kernel: &Kernel, code: impl Fn(Kernel) -> Arc<dyn KernelCode>) -> Option<Self> {
        let SplitKernels { blocks, rest, reductions, block } = SplitKernels::new(kernel)?;
        debug_assert!(blocks.check().and_then(|()| rest.check()).is_ok(), "{blocks}{rest}");
        let (params, par) = (kernel.addressed(), kernel.par as usize);
        Some(Self { blocks: code(blocks), rest: code(rest), reductions, block, params, par })
    }

    /// Runs a call of the kernel in at most `chunks` chunks. `nanos` is its estimated duration. Does nothing and
    /// returns `false` if there is no memory for the block results.
    ///
    /// # Safety
    /// The conditions of [`KernelCode::call`] hold for the original kernel and `block`.
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
                    let arguments = self.block_arguments(block, from, to - from, lanes, memory, [points, count]);
                    // SAFETY: `arguments` covers a subset of the loops of `block`, which is valid by this function's
                    // contract. Its block results are in a separate range of `results`.
                    unsafe { self.blocks.call(&arguments) };
                }
            }
        });
        let mut rows: SmallVec<[u64; 8]> = SmallVec::new();
        for (reduction, &(reducer, dtype)) in self.reductions.iter().enumerate() {
            for point in 0..points {
                let blocks = &results[(reduction * points + point) * count..][..count];
                rows.push(reduce_blocks(BlockReduction { reducer, dtype }, blocks));
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
        // SAFETY: the operands of `block` are valid by this function's contract. `rows` has an element for each step of
        // the parallel loops.
        unsafe { self.rest.call(&rest) };
        true
    }

    /// Returns the argument block of the call that reduces `count` blocks of `lanes` elements, starting with block
    /// `first`.
    fn block_arguments(
        &self,
        block: &[u64],
        first: usize,
        count: usize,
        lanes: usize,
        results: u64,
        [points, all]: [usize; 2],
    ) -> SmallVec<[u64; 64]> {
        let par = self.par;
        let mut arguments: SmallVec<[u64; 64]> = SmallVec::from_slice(&block[..par]);
        arguments.extend([count as u64, lanes as u64]);
        for param in 0..self.params {
            let words = &block[par + 1 + param * (par + 2)..][..par + 2];
            let step = words[1 + par].wrapping_mul(self.block as u64);
            arguments.push(words[0].wrapping_add(step.wrapping_mul(first as u64)));
            arguments.extend_from_slice(&words[1..1 + par]);
            arguments.extend([step, words[1 + par]]);
        }
        for reduction in 0..self.reductions.len() {
            arguments.push(results + (SLOT * (reduction * points * all + first)) as u64);
            self.push_strides(&mut arguments, &block[..par + 1], SLOT * all);
            arguments.extend([SLOT as u64, 0]);
        }
        // The axes of indexed parameters and the immediates follow the addresses and strides.
        arguments.extend_from_slice(&block[par + 1 + self.params * (par + 2)..]);
        arguments
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
    use crate::code::compile::compile_or_interpret;
    use crate::interp::Interpreted;
    use crate::isa::Isa;
    use crate::testing::Call;
    use ms_ir::testing::Random;

    /// The split kernels give the bits of the original kernel, both interpreted and as machine code.
    #[track_caller]
    fn check(text: &str, extents: &[usize]) {
        let kernel = Kernel::parse(text).expect(text);
        kernel.check().expect(text);
        let mut whole = Call::random(&kernel, extents, &mut Random::Seed(extents[0] as u64), 0);
        let untouched = whole.clone();
        // SAFETY: `whole` was created for this kernel, so its buffers cover every access.
        unsafe { whole.run(&Interpreted::new(kernel.clone())) };
        for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
            for chunks in [1, 3] {
                let split =
                    SplitReduction::new(&kernel, |it| compile_or_interpret(it, isa)).expect("its rows can be cut");
                let mut call = untouched.clone();
                // SAFETY: `call` is a copy of a call of this kernel, so its buffers cover every access.
                unsafe { call.run(&AlwaysSplit { split, chunks }) };
                assert_eq!(call.difference(&whole), None, "{isa}, {chunks} chunks, {text}");
            }
        }
    }

    /// A kernel whose reductions are always split.
    struct AlwaysSplit {
        split: SplitReduction,
        chunks: usize,
    }

    // SAFETY: the two kernels of a split implement the original one.
    unsafe impl KernelCode for AlwaysSplit {
        unsafe fn call(&self, block: &[u64]) {
            // SAFETY: `block` satisfies the conditions of `KernelCode::call` by this function's contract.
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
    fn kernels_that_are_not_split() {
        for text in [
            // The sum has a required order without blocks.
            "kernel par=0 lanes=reduced seq=0 in %x: f32 unit out %y: f32 zero
             loop: x = load %x y = reduce sum x point: store %y, y",
            // There are two loop stages.
            "kernel par=0 lanes=reduced seq=0 in %x: i32 unit out %y: i32 unit
             loop: x = load %x m = reduce max x loop: z = load %x d = sub z, m store %y, d",
            // A reduced loop surrounds the lanes.
            "kernel par=0 lanes=reduced seq=1 in %x: i32 unit out %y: i32 zero
             loop: x = load %x y = reduce sum x point: store %y, y",
            // The kernel reads positions along loops.
            "kernel par=0 lanes=reduced seq=0 out %y: i64 zero loop: x = index 0 y = reduce sum x point: store %y, y",
        ] {
            let kernel = Kernel::parse(text).expect(text);
            kernel.check().expect(text);
            assert!(SplitKernels::new(&kernel).is_none(), "{text}");
        }
    }
}
