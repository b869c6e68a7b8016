//! Selects instructions for blocked reductions ([`ReductionOrder::Blocks`]). The loops are partitioned into blocks, and
//! the block results are vectors on the stack.
//!
//! With reduced lanes, a block result is broadcast to every lane of its vector.

use super::super::Unsupported;
use super::super::target::Target;
use super::super::vinst::{AccArray, AccId, Blocked, Op, Partial, Slice, Span, VReg, When};
use super::Select;
use super::reduction::{Reduction, register_accumulators};
use ms_ir::{LaneAxis, ReductionOrder, StrideClass};
use std::ops::Range;

/// The largest number of instructions in one round of all accumulators. Larger bodies run as fast with accumulators on
/// the stack.
const MAX_ROUND_INSTS: usize = 160;

/// Returns the number of registers for the accumulators of stages in slices.
const fn slice_accumulators(target: Target) -> usize {
    match target {
        Target::Avx2 => 9,
        Target::Avx512 => 19,
    }
}

/// The partition of a stage's accumulators into slices that fit the registers.
#[derive(Clone, Copy)]
pub struct Slices {
    /// The number of accumulator vectors of each reduction.
    parts: usize,
    /// The number of accumulator vectors of a slice.
    width: usize,
}

/// The state of a blocked reduction.
struct BlockedReduction<'f> {
    copy: usize,
    reduction: &'f Reduction,
    /// The array of block results, followed by the group results.
    partials: AccId,
    /// The result of one block, if the lanes are reduced.
    result: Option<AccId>,
}

impl Select<'_> {
    /// Returns whether a stage has blocked reductions.
    pub fn is_blocked(&self, range: Range<usize>) -> bool {
        self.order == ReductionOrder::Blocks && range.into_iter().any(|it| self.kernel.is_ordered_reduction(it))
    }

    /// Returns the slices of a stage, if its lanes are contiguous and the only reduced loop.
    pub fn slices(&self, range: Range<usize>) -> Option<Slices> {
        let reduces = self.reduces(range.clone());
        let ordered: Vec<usize> =
            reduces.iter().map(|it| it.0).filter(|&it| self.kernel.is_ordered_reduction(it)).collect();
        let parts = |at: usize| self.order.accumulators(self.kernel.types[at]) / self.program.lanes;
        let first = parts(*ordered.first()?);
        let room = slice_accumulators(self.target).checked_sub(reduces.len() - ordered.len())?;
        let mut width = first;
        while width > 0 && ordered.len() * width > room {
            width /= 2;
        }
        let fits = self.in_slices
            && self.order == ReductionOrder::Blocks
            && (self.kernel.lanes, self.kernel.seq) == (LaneAxis::Reduced, 0)
            && width > 0
            && range.len() * first <= MAX_ROUND_INSTS
            && ordered.iter().all(|&it| parts(it) == first)
            && self.kernel.params.iter().all(|it| it.step != StrideClass::Any)
            && self.takes_runs(range);
        fits.then_some(Slices { parts: first, width })
    }

    /// Returns whether any stage is partitioned into slices.
    pub fn has_slices(&self) -> bool {
        (0..self.kernel.stages.len()).any(|i| self.slices(self.kernel.stage_range(i)).is_some())
    }

    /// Selects the instructions of a stage with blocked reductions, given the `reductions` of each copy of the body.
    pub fn blocked_stage(
        &mut self,
        range: Range<usize>,
        reductions: &[Vec<Reduction>],
        slices: Option<Slices>,
    ) -> Result<(), Unsupported> {
        self.close(When::Once);
        let first = self.program.blocks.len();
        let reduced = self.kernel.lanes == LaneAxis::Reduced;
        let ordered =
            reductions.iter().enumerate().flat_map(|(copy, reductions)| reductions.iter().map(move |it| (copy, it)));
        let mut blocked_reductions = Vec::new();
        for (copy, reduction) in ordered.filter(|it| it.1.ordered) {
            let partials = self.vectors(reduction, ReductionOrder::PARTIALS + ReductionOrder::LEVELS);
            let result = reduced.then(|| self.vectors(reduction, 1));
            blocked_reductions.push(BlockedReduction { copy, reduction, partials, result });
        }
        let mut selected = Vec::new();
        match slices {
            Some(slices) => {
                for number in (0..slices.parts / slices.width).rev() {
                    selected.push(self.slice(range.clone(), &reductions[0], &blocked_reductions, slices, number)?);
                }
            }
            None => {
                if let Some(parts) = self.round_len(range.clone(), &reductions[0]) {
                    self.whole_round(range.clone(), &reductions[0], parts)?;
                }
                self.copies(0, range, reductions.iter().map(Vec::as_slice))?;
                self.close(When::Loop(Span::All));
            }
        }
        self.results_of_blocks(&blocked_reductions, slices.is_some())?;
        self.program.blocked.push(Blocked { blocks: first..self.program.blocks.len(), slices: selected });
        for (copy, reductions) in reductions.iter().enumerate() {
            for reduction in reductions.iter().filter(|it| !(it.ordered && reduced)) {
                let result = self.end_reduction(reduction)?;
                self.values[copy][reduction.at] = Some(result);
            }
        }
        for BlockedReduction { copy, reduction, result, .. } in blocked_reductions {
            if let Some(result) = result {
                let total = self.read(reduction, result);
                self.values[copy][reduction.at] = Some(total);
            }
        }
        Ok(())
    }

    /// Allocates an array of `count` vectors for a reduction on the stack.
    fn vectors(&mut self, reduction: &Reduction, count: usize) -> AccId {
        self.program.arrays.push(AccArray { count: count * self.program.lanes, size: reduction.size() });
        AccId(self.program.arrays.len() as u32 - 1)
    }

    fn read(&mut self, reduction: &Reduction, from: AccId) -> VReg {
        let dst = self.vector(reduction.size());
        self.push(Op::AccRead(from, 0), Some(dst), &[]);
        dst
    }

    fn partial(&mut self, blocked: &BlockedReduction<'_>, which: Partial) -> VReg {
        let dst = self.vector(blocked.reduction.size());
        self.push(Op::PartialLoad(blocked.partials, which), Some(dst), &[]);
        dst
    }

    /// Selects the instructions at the end of each block and of all blocks. `in_slices` means that the block result is
    /// already stored.
    fn results_of_blocks(
        &mut self,
        blocked_reductions: &[BlockedReduction<'_>],
        in_slices: bool,
    ) -> Result<(), Unsupported> {
        for blocked in blocked_reductions {
            self.push(Op::PartialStore(blocked.partials, Partial::Current), None, &[blocked.reduction.identity]);
        }
        self.close(When::StartPartial);
        for blocked in blocked_reductions {
            let result = match blocked.result {
                Some(result) if in_slices => self.read(blocked.reduction, result),
                _ => self.end_reduction(blocked.reduction)?,
            };
            let sum = self.partial(blocked, Partial::Current);
            let sum = self.combine(blocked.reduction, sum, result)?;
            self.push(Op::PartialStore(blocked.partials, Partial::Current), None, &[sum]);
            if !in_slices {
                self.restart_reduction(blocked.reduction);
            }
        }
        self.close(When::EndBlock);
        for blocked in blocked_reductions {
            let (low, high) = (self.partial(blocked, Partial::Current), self.partial(blocked, Partial::Other));
            let sum = self.combine(blocked.reduction, low, high)?;
            self.push(Op::PartialStore(blocked.partials, Partial::Current), None, &[sum]);
        }
        self.close(When::ReducePartials);
        for blocked in blocked_reductions.iter().filter(|_| !in_slices) {
            if let Some(result) = blocked.result {
                let total = self.end_reduction(blocked.reduction)?;
                self.push(Op::AccWrite(result, 0), None, &[total]);
            }
        }
        self.close(When::SingleBlock);
        for blocked in blocked_reductions {
            let total = self.read(blocked.reduction, blocked.partials);
            match blocked.result {
                Some(result) => self.push(Op::AccWrite(result, 0), None, &[total]),
                None => self.set_reduction(blocked.reduction, total),
            }
        }
        self.close(When::SeveralBlocks);
        Ok(())
    }

    /// Returns the number of vectors in a round of the accumulators, if the lanes can be processed in such runs.
    fn round_len(&self, range: Range<usize>, reductions: &[Reduction]) -> Option<usize> {
        let ordered = reductions.iter().find(|it| it.ordered)?;
        let parts = self.accumulator_vectors(ordered)?;
        let fits = self.kernel.lanes == LaneAxis::Reduced
            && range.len() * parts <= MAX_ROUND_INSTS
            && reductions.iter().all(|it| !it.ordered || self.accumulator_vectors(it) == Some(parts))
            && self.takes_runs(range);
        fits.then_some(parts)
    }

    /// Selects a loop over whole rounds of the accumulators. They are in registers if they fit.
    fn whole_round(&mut self, range: Range<usize>, reductions: &[Reduction], parts: usize) -> Result<(), Unsupported> {
        let in_registers =
            reductions.iter().filter(|it| it.ordered).count() * parts <= register_accumulators(self.target);
        let mut loaded: Vec<Vec<Reduction>> = Vec::with_capacity(parts);
        for part in 0..parts {
            let hold = |reduction: &Reduction| {
                if reduction.ordered && in_registers {
                    self.load_accumulator(reduction, part)
                } else {
                    self.static_accumulator(reduction, part)
                }
            };
            loaded.push(reductions.iter().map(hold).collect());
        }
        self.close(When::Before);
        self.copies(0, range, loaded.iter().map(Vec::as_slice))?;
        self.close(When::Loop(Span::Whole(parts)));
        for (part, loaded) in loaded.iter().enumerate() {
            for (reduction, loaded) in reductions.iter().zip(loaded) {
                self.store_accumulator(reduction, part, loaded)?;
            }
        }
        self.close(When::After);
        Ok(())
    }

    /// Selects slice `number` of the accumulators over a block. It combines its accumulators pairwise with those of the
    /// slices before it in program order. Slice 0 comes last and computes the block result.
    fn slice(
        &mut self,
        range: Range<usize>,
        reductions: &[Reduction],
        blocked_reductions: &[BlockedReduction<'_>],
        Slices { parts, width }: Slices,
        number: usize,
    ) -> Result<Slice, Unsupported> {
        let mut loaded: Vec<Vec<Reduction>> = Vec::with_capacity(width);
        for at in 0..width {
            let hold = |it: &Reduction| {
                if it.ordered { self.fresh_accumulator(it) } else { self.static_accumulator(it, number * width + at) }
            };
            loaded.push(reductions.iter().map(hold).collect());
        }
        self.close(When::Before);
        let first = self.program.blocks.len();
        self.copies(number * width, range.clone(), loaded.iter().map(Vec::as_slice))?;
        self.close(When::Loop(Span::Whole(parts)));
        for (at, loaded) in loaded.iter().enumerate() {
            self.body(number * width + at, range.clone(), loaded)?;
            self.close(When::Rest(number * width + at));
        }
        let ordered = |at: usize| {
            let pairs = reductions.iter().zip(&loaded[at]).filter(|it| it.0.ordered);
            pairs.map(|(reduction, loaded)| (*reduction, *loaded)).collect::<Vec<_>>()
        };
        let lanes = |slice: usize| slice * width * self.program.lanes;
        let after = |half: usize| (half, lanes(number + half));
        let mut halves: Vec<(usize, usize)> = Vec::new();
        let mut half = parts / width / 2;
        while half > number {
            halves.push(after(half));
            half /= 2;
        }
        let skipped = lanes(number);
        for (half, lanes) in halves {
            for at in 0..width {
                for (reduction, loaded) in ordered(at) {
                    self.combine_stored(&reduction, &loaded, (number + half) * width + at)?;
                }
            }
            self.close(When::IfMoreThan(lanes));
        }
        let slice = Slice { in_registers: first..self.program.blocks.len(), skipped };
        if number > 0 {
            for at in 0..width {
                for (reduction, loaded) in ordered(at) {
                    self.store_accumulator(&reduction, number * width + at, &loaded)?;
                }
            }
        } else {
            for (i, blocked) in blocked_reductions.iter().enumerate() {
                let parts: Vec<Reduction> = (0..width).map(|at| ordered(at)[i].1).collect();
                let total = self.end_slice(&parts)?;
                let result = blocked.result.expect("lanes are reduced");
                self.push(Op::AccWrite(result, 0), None, &[total]);
            }
        }
        self.close(When::After);
        Ok(slice)
    }
}
