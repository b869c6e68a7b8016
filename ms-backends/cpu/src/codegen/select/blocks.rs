//! Selects instructions for blocked reductions ([`ReductionOrder::Blocks`]). The loops are partitioned into blocks, and
//! the block results are vectors on the stack.
//!
//! With reduced lanes, a block result is broadcast to every lane of its vector.

use super::super::Unsupported;
use super::super::target::Target;
use super::super::vinst::{AccArray, AccId, Blocked, Op, Partial, Slice, Span, VReg, When};
use super::Select;
use super::reduction::{Reduction, register_accumulators};
use ms_core::ir::{LaneAxis, ReductionOrder, StrideClass};
use std::ops::Range;

/// The largest number of instructions in one round of all accumulators. Larger bodies run as fast with accumulators on
/// the stack.
const MOST_IN_A_TURN: usize = 160;

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
struct Cut<'f> {
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
            && range.len() * first <= MOST_IN_A_TURN
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
        let mut cuts = Vec::new();
        for (copy, reduction) in ordered.filter(|it| it.1.ordered) {
            let partials = self.vectors(reduction, ReductionOrder::PARTIALS + ReductionOrder::LEVELS);
            let result = reduced.then(|| self.vectors(reduction, 1));
            cuts.push(Cut { copy, reduction, partials, result });
        }
        let mut held = Vec::new();
        match slices {
            Some(slices) => {
                for number in (0..slices.parts / slices.width).rev() {
                    held.push(self.slice(range.clone(), &reductions[0], &cuts, slices, number)?);
                }
            }
            None => {
                if let Some(parts) = self.turn(range.clone(), &reductions[0]) {
                    self.whole_turn(range.clone(), &reductions[0], parts)?;
                }
                self.copies(0, range, reductions.iter().map(Vec::as_slice))?;
                self.close(When::Loop(Span::All));
            }
        }
        self.results_of_blocks(&cuts, slices.is_some())?;
        self.program.blocked.push(Blocked { blocks: first..self.program.blocks.len(), slices: held });
        for (copy, reductions) in reductions.iter().enumerate() {
            for reduction in reductions.iter().filter(|it| !(it.ordered && reduced)) {
                let result = self.end_reduction(reduction)?;
                self.values[copy][reduction.at] = Some(result);
            }
        }
        for Cut { copy, reduction, result, .. } in cuts {
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

    fn partial(&mut self, cut: &Cut<'_>, which: Partial) -> VReg {
        let dst = self.vector(cut.reduction.size());
        self.push(Op::PartialLoad(cut.partials, which), Some(dst), &[]);
        dst
    }

    /// Selects the instructions at the end of each block and of all blocks. `in_slices` means that the block result is
    /// already stored.
    fn results_of_blocks(&mut self, cuts: &[Cut<'_>], in_slices: bool) -> Result<(), Unsupported> {
        for cut in cuts {
            self.push(Op::PartialStore(cut.partials, Partial::Current), None, &[cut.reduction.identity]);
        }
        self.close(When::StartPartial);
        for cut in cuts {
            let result = match cut.result {
                Some(result) if in_slices => self.read(cut.reduction, result),
                _ => self.end_reduction(cut.reduction)?,
            };
            let sum = self.partial(cut, Partial::Current);
            let sum = self.combine(cut.reduction, sum, result)?;
            self.push(Op::PartialStore(cut.partials, Partial::Current), None, &[sum]);
            if !in_slices {
                self.restart_reduction(cut.reduction);
            }
        }
        self.close(When::EndBlock);
        for cut in cuts {
            let (low, high) = (self.partial(cut, Partial::Current), self.partial(cut, Partial::Other));
            let sum = self.combine(cut.reduction, low, high)?;
            self.push(Op::PartialStore(cut.partials, Partial::Current), None, &[sum]);
        }
        self.close(When::ReducePartials);
        for cut in cuts.iter().filter(|_| !in_slices) {
            if let Some(result) = cut.result {
                let total = self.end_reduction(cut.reduction)?;
                self.push(Op::AccWrite(result, 0), None, &[total]);
            }
        }
        self.close(When::One);
        for cut in cuts {
            let total = self.read(cut.reduction, cut.partials);
            match cut.result {
                Some(result) => self.push(Op::AccWrite(result, 0), None, &[total]),
                None => self.set_reduction(cut.reduction, total),
            }
        }
        self.close(When::Several);
        Ok(())
    }

    /// Returns the number of vectors in a round of the accumulators, if the lanes can be processed in such runs.
    fn turn(&self, range: Range<usize>, reductions: &[Reduction]) -> Option<usize> {
        let ordered = reductions.iter().find(|it| it.ordered)?;
        let parts = self.accumulator_parts(ordered)?;
        let fits = self.kernel.lanes == LaneAxis::Reduced
            && range.len() * parts <= MOST_IN_A_TURN
            && reductions.iter().all(|it| !it.ordered || self.accumulator_parts(it) == Some(parts))
            && self.takes_runs(range);
        fits.then_some(parts)
    }

    /// Selects a loop over whole rounds of the accumulators. They are in registers if they fit.
    fn whole_turn(&mut self, range: Range<usize>, reductions: &[Reduction], parts: usize) -> Result<(), Unsupported> {
        let in_registers =
            reductions.iter().filter(|it| it.ordered).count() * parts <= register_accumulators(self.target);
        let mut held: Vec<Vec<Reduction>> = Vec::with_capacity(parts);
        for part in 0..parts {
            let hold = |reduction: &Reduction| {
                if reduction.ordered && in_registers {
                    self.hold_part(reduction, part)
                } else {
                    self.static_part(reduction, part)
                }
            };
            held.push(reductions.iter().map(hold).collect());
        }
        self.close(When::Before);
        self.copies(0, range, held.iter().map(Vec::as_slice))?;
        self.close(When::Loop(Span::Whole(parts)));
        for (part, held) in held.iter().enumerate() {
            for (reduction, held) in reductions.iter().zip(held) {
                self.put_back_part(reduction, part, held)?;
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
        cuts: &[Cut<'_>],
        Slices { parts, width }: Slices,
        number: usize,
    ) -> Result<Slice, Unsupported> {
        let mut held: Vec<Vec<Reduction>> = Vec::with_capacity(width);
        for at in 0..width {
            let hold =
                |it: &Reduction| if it.ordered { self.held(it) } else { self.static_part(it, number * width + at) };
            held.push(reductions.iter().map(hold).collect());
        }
        self.close(When::Before);
        let first = self.program.blocks.len();
        self.copies(number * width, range.clone(), held.iter().map(Vec::as_slice))?;
        self.close(When::Loop(Span::Whole(parts)));
        for (at, held) in held.iter().enumerate() {
            self.body(number * width + at, range.clone(), held)?;
            self.close(When::Rest(number * width + at));
        }
        let ordered = |at: usize| {
            let pairs = reductions.iter().zip(&held[at]).filter(|it| it.0.ordered);
            pairs.map(|(reduction, held)| (*reduction, *held)).collect::<Vec<_>>()
        };
        let lanes = |slice: usize| slice * width * self.program.lanes;
        let behind = |half: usize| (half, lanes(number + half));
        let mut halves: Vec<(usize, usize)> = Vec::new();
        let mut half = parts / width / 2;
        while half > number {
            halves.push(behind(half));
            half /= 2;
        }
        let skipped = lanes(number);
        for (half, lanes) in halves {
            for at in 0..width {
                for (reduction, held) in ordered(at) {
                    self.take_part(&reduction, &held, (number + half) * width + at)?;
                }
            }
            self.close(When::Behind(lanes));
        }
        let slice = Slice { held: first..self.program.blocks.len(), skipped };
        if number > 0 {
            for at in 0..width {
                for (reduction, held) in ordered(at) {
                    self.put_back_part(&reduction, number * width + at, &held)?;
                }
            }
        } else {
            for (i, cut) in cuts.iter().enumerate() {
                let parts: Vec<Reduction> = (0..width).map(|at| ordered(at)[i].1).collect();
                let total = self.end_slice(&parts)?;
                let result = cut.result.expect("lanes are reduced");
                self.push(Op::AccWrite(result, 0), None, &[total]);
            }
        }
        self.close(When::After);
        Ok(slice)
    }
}
