//! Reductions in blocks ([`ReductionOrder::Blocks`]): loops that are cut, and the results of
//! blocks, which are vectors on the stack.
//!
//! A result of a block stands in every lane of its vector where lanes are reduced.

use super::super::Unsupported;
use super::super::vinst::{AccArray, AccId, Op, Partial, Span, VReg, When};
use super::Select;
use super::fold::{Fold, register_accumulators};
use ms_core::ir::{LaneAxis, ReductionOrder};
use std::ops::Range;

/// Instructions of the kernel that stand in one turn of all accumulators, at most: larger bodies
/// are not slower where they find their accumulators step by step.
const MOST_IN_A_TURN: usize = 160;

/// A fold that is cut into blocks, and where the results of these go.
struct Cut<'f> {
    copy: usize,
    fold: &'f Fold,
    partials: AccId,
}

impl Select<'_> {
    /// A stage whose reductions are cut into blocks; `folds` of each copy of the body.
    pub fn blocked_stage(&mut self, range: Range<usize>, folds: &[Vec<Fold>]) -> Result<(), Unsupported> {
        self.close(When::Once);
        let first = self.program.blocks.len();
        if let Some(parts) = self.turn(range.clone(), &folds[0]) {
            self.whole_turn(range.clone(), &folds[0], parts)?;
        }
        for (copy, folds) in folds.iter().enumerate() {
            self.body(copy, range.clone(), folds)?;
        }
        self.close(When::Loop(Span::All));
        let ordered = folds.iter().enumerate().flat_map(|(copy, folds)| folds.iter().map(move |it| (copy, it)));
        let cuts: Vec<Cut<'_>> = (ordered.filter(|it| it.1.ordered))
            .map(|(copy, fold)| Cut { copy, fold, partials: self.partials(fold) })
            .collect();
        self.results_of_blocks(&cuts)?;
        self.program.blocked.push(first..self.program.blocks.len());
        for (copy, folds) in folds.iter().enumerate() {
            for fold in folds {
                let result = self.end_fold(fold)?;
                self.values[copy][fold.at] = Some(result);
            }
        }
        self.close(When::Once);
        for Cut { copy, fold, partials } in cuts {
            let result = self.values[copy][fold.at];
            self.push(Op::AccRead(partials, 0), result, &[]);
        }
        self.close(When::Several);
        Ok(())
    }

    /// Room for the results of a fold's blocks.
    fn partials(&mut self, fold: &Fold) -> AccId {
        let count = ReductionOrder::PARTIALS * self.program.lanes;
        self.program.arrays.push(AccArray { count, size: fold.size() });
        AccId(self.program.arrays.len() as u32 - 1)
    }

    /// What happens at the ends of blocks and of all of them.
    fn results_of_blocks(&mut self, cuts: &[Cut<'_>]) -> Result<(), Unsupported> {
        for cut in cuts {
            self.push(Op::PartialStore(cut.partials, Partial::Current), None, &[cut.fold.identity]);
        }
        self.close(When::StartPartial);
        for cut in cuts {
            let result = self.end_fold(cut.fold)?;
            let sum = self.partial(cut, Partial::Current);
            let sum = self.combine(cut.fold, sum, result)?;
            self.push(Op::PartialStore(cut.partials, Partial::Current), None, &[sum]);
            self.restart_fold(cut.fold);
        }
        self.close(When::EndBlock);
        for cut in cuts {
            let (low, high) = (self.partial(cut, Partial::Current), self.partial(cut, Partial::Other));
            let sum = self.combine(cut.fold, low, high)?;
            self.push(Op::PartialStore(cut.partials, Partial::Current), None, &[sum]);
        }
        self.close(When::FoldPartials);
        Ok(())
    }

    fn partial(&mut self, cut: &Cut<'_>, which: Partial) -> VReg {
        let dst = self.vector(cut.fold.size());
        self.push(Op::PartialLoad(cut.partials, which), Some(dst), &[]);
        dst
    }

    /// The vectors in one turn of the accumulators, if the lanes can be taken in such runs.
    fn turn(&self, range: Range<usize>, folds: &[Fold]) -> Option<usize> {
        let ordered = folds.iter().find(|it| it.ordered)?;
        let parts = self.fold_parts(ordered)?;
        let fits = self.kernel.lanes == LaneAxis::Reduced
            && range.len() * parts <= MOST_IN_A_TURN
            && folds.iter().all(|it| !it.ordered || self.fold_parts(it) == Some(parts))
            && self.takes_runs(range);
        fits.then_some(parts)
    }

    /// A loop over whole turns of the accumulators, which are in registers if they have room there.
    fn whole_turn(&mut self, range: Range<usize>, folds: &[Fold], parts: usize) -> Result<(), Unsupported> {
        let in_registers = folds.iter().filter(|it| it.ordered).count() * parts <= register_accumulators(self.target);
        let held: Vec<Vec<Fold>> = (0..parts)
            .map(|part| {
                let hold = |fold: &Fold| {
                    if fold.ordered && in_registers { self.hold_part(fold, part) } else { self.static_part(fold, part) }
                };
                folds.iter().map(hold).collect()
            })
            .collect();
        self.close(When::Before);
        for (copy, held) in held.iter().enumerate() {
            self.body(copy, range.clone(), held)?;
        }
        self.close(When::Loop(Span::Whole(parts)));
        for (part, held) in held.iter().enumerate() {
            for (fold, held) in folds.iter().zip(held) {
                self.put_back_part(fold, part, held);
            }
        }
        self.close(When::After);
        Ok(())
    }
}
