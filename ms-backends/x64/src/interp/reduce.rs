//! Evaluates reductions in the order that [`ms_ir::Kernel`] specifies.

use super::blocks::Blocks;
use super::frame::Frame;
use super::number::{Number, with_compute};
use super::slots::{BLOCK, RESULTS};
use ms_ir::data::DType;
use ms_ir::{Inst, LaneAxis, Reducer, ReductionOrder, Val};
use std::ops::Range;

/// Sets the accumulators of a stage to the identities of their reducers.
///
/// # Safety
/// `range` is a stage that is about to run.
pub unsafe fn start(frame: &Frame<'_>, range: Range<usize>, blocks: &Blocks) {
    for (out, reducer) in reductions(frame, range) {
        let ty = frame.kernel.types[out];
        // SAFETY: accumulators are live from the start of their stage, and `T` is the type of their dtype.
        with_compute!(ty, T => unsafe {
            accumulators::<T>(frame, out).fill(identity::<T>(reducer));
            if blocks.several() {
                (0..RESULTS).for_each(|it| partial::<T>(frame, out, it).fill(identity::<T>(reducer)));
            }
        });
    }
}

/// Returns the reductions of a stage.
fn reductions(frame: &Frame<'_>, range: Range<usize>) -> impl Iterator<Item = (usize, Reducer)> {
    range.filter_map(|out| match frame.kernel.insts[out] {
        Inst::Reduce(reducer, _) => Some((out, reducer)),
        _ => None,
    })
}

/// Accumulates the current block of lanes.
///
/// # Safety
/// `value` is live, and [`start`] has run for the stage.
#[inline(always)]
pub unsafe fn accumulate(frame: &Frame<'_>, out: usize, reducer: Reducer, value: Val) {
    let ty = frame.kernel.types[out];
    // SAFETY: `value` is live and `start` has run, by this function's contract. `T` is the type of its dtype.
    with_compute!(ty, T => unsafe {
        let values = frame.value::<T>(value);
        match reducer {
            Reducer::Sum => accumulate_with::<T>(frame, out, values, T::add),
            Reducer::Prod => accumulate_with::<T>(frame, out, values, T::mul),
            Reducer::Max | Reducer::Any => accumulate_with::<T>(frame, out, values, <T as Number>::max),
            Reducer::Min | Reducer::All => accumulate_with::<T>(frame, out, values, <T as Number>::min),
        }
    });
}

/// Ends a block: combines its result with a second-level accumulator, and resets the accumulators.
///
/// # Safety
/// `range` is the running stage, and it has several blocks.
pub unsafe fn end_block(frame: &Frame<'_>, range: Range<usize>, block: usize) {
    for (out, reducer) in reductions(frame, range) {
        let ty = frame.kernel.types[out];
        // SAFETY: accumulators are live while their stage runs, and `T` is the type of their dtype.
        with_compute!(ty, T => unsafe {
            let accumulators = accumulators::<T>(frame, out);
            if frame.kernel.lanes == LaneAxis::Reduced {
                halve(accumulators, |a, b| combine(reducer, a, b));
            }
            let partial = partial::<T>(frame, out, block % ReductionOrder::PARTIALS);
            combine_lanes(partial, accumulators, |a, b| combine(reducer, a, b));
            accumulators.fill(identity::<T>(reducer));
            if (block + 1).is_multiple_of(ReductionOrder::GROUP) {
                end_group::<T>(frame, out, reducer, block / ReductionOrder::GROUP);
            }
        });
    }
}

/// Combines the result of a group with the results of earlier groups, like a binary counter. Each level holds at most
/// one result that waits for its pair. Level `i` is used if bit `i` of the number of groups is set.
///
/// # Safety
/// `out` is a reduction of the running stage, which has several blocks.
unsafe fn end_group<T: Number>(frame: &Frame<'_>, out: usize, reducer: Reducer, group: usize) {
    // SAFETY: accumulators are live while their stage runs, and each slice below is of a different accumulator.
    unsafe {
        halve_partials::<T>(frame, out, reducer);
        let level = (group.trailing_ones() as usize).min(ReductionOrder::LEVELS - 1);
        let total = partial::<T>(frame, out, 0);
        for at in (0..level).map(|it| ReductionOrder::PARTIALS + it) {
            combine_lanes(total, partial::<T>(frame, out, at), |a, b| combine(reducer, a, b));
            partial::<T>(frame, out, at).fill(identity::<T>(reducer));
        }
        let waiting = partial::<T>(frame, out, ReductionOrder::PARTIALS + level);
        combine_lanes(waiting, total, |a, b| combine(reducer, a, b));
        (0..ReductionOrder::PARTIALS).for_each(|it| partial::<T>(frame, out, it).fill(identity::<T>(reducer)));
    }
}

/// Reduces the second-level accumulators pairwise into the first one.
///
/// # Safety
/// `out` is a reduction of the running stage, which has several blocks.
unsafe fn halve_partials<T: Number>(frame: &Frame<'_>, out: usize, reducer: Reducer) {
    let mut half = ReductionOrder::PARTIALS / 2;
    while half > 0 {
        for k in 0..half {
            // SAFETY: accumulators are live while their stage runs, and `k` and `k + half` differ.
            unsafe {
                let (low, high) = (partial::<T>(frame, out, k), partial::<T>(frame, out, k + half));
                combine_lanes(low, high, |a, b| combine(reducer, a, b));
            }
        }
        half /= 2;
    }
}

/// Reduces the accumulators. The result is in their lanes, or for a row in the first accumulator.
///
/// # Safety
/// `range` is a stage whose loops have ended.
pub unsafe fn finish(frame: &Frame<'_>, range: Range<usize>, blocks: &Blocks) {
    for (out, reducer) in reductions(frame, range) {
        let ty = frame.kernel.types[out];
        // SAFETY: accumulators are live until their last use, and the slices below are of different accumulators.
        with_compute!(ty, T => unsafe {
            let f = |a, b| combine::<T>(reducer, a, b);
            let accumulators = accumulators::<T>(frame, out);
            if blocks.several() {
                halve_partials::<T>(frame, out, reducer);
                let total = partial::<T>(frame, out, 0);
                (ReductionOrder::PARTIALS..RESULTS).for_each(|it| combine_lanes(total, partial(frame, out, it), f));
                accumulators[..total.len()].copy_from_slice(total);
            } else if frame.kernel.lanes == LaneAxis::Reduced {
                halve(accumulators, f);
            }
        });
    }
}

/// A reduction whose blocks were reduced elsewhere.
#[derive(Clone, Copy)]
pub struct BlockReduction {
    /// The reducer.
    pub reducer: Reducer,
    /// The dtype of its accumulators.
    pub dtype: DType,
}

/// Reduces block results by the levels above blocks of [`ReductionOrder::Blocks`]. Each block result, and the returned
/// result, is in the first bytes of its word.
pub fn reduce_blocks(reduction: BlockReduction, blocks: &[u64]) -> u64 {
    with_compute!(reduction.dtype, T => {
        let combine = |a, b| combine::<T>(reduction.reducer, a, b);
        let group = |blocks: &[u64]| {
            let mut partials = [identity::<T>(reduction.reducer); ReductionOrder::PARTIALS];
            for blocks in blocks.chunks(ReductionOrder::PARTIALS) {
                for (partial, word) in partials.iter_mut().zip(blocks) {
                    // SAFETY: a word is at least as large as `T`, and every bit pattern is a valid `T`.
                    *partial = combine(*partial, unsafe { (word as *const u64).cast::<T>().read() });
                }
            }
            halve(&mut partials, combine);
            partials[0]
        };
        let mut levels = [identity::<T>(reduction.reducer); ReductionOrder::LEVELS];
        let (groups, rest) = blocks.as_chunks::<{ ReductionOrder::GROUP }>();
        for (number, blocks) in groups.iter().enumerate() {
            let carried = (number.trailing_ones() as usize).min(ReductionOrder::LEVELS - 1);
            let total = levels[..carried].iter().fold(group(blocks), |all, &it| combine(all, it));
            levels[..carried].fill(identity::<T>(reduction.reducer));
            levels[carried] = combine(levels[carried], total);
        }
        let total = levels.into_iter().fold(group(rest), combine);
        let mut word = 0;
        // SAFETY: `word` is at least as large and as aligned as `T`.
        unsafe { (&raw mut word).cast::<T>().write(total) };
        word
    })
}

/// Returns the accumulators: one per lane, or the accumulators of a row.
#[inline(always)]
unsafe fn accumulators<'a, T>(frame: &Frame<'a>, out: usize) -> &'a mut [T] {
    let count = match frame.kernel.lanes {
        LaneAxis::Parallel => frame.len,
        LaneAxis::Reduced => frame.kernel.order.accumulators(frame.kernel.types[out]),
    };
    // SAFETY: a slot has room for a block, which exceeds the number of accumulators of a row.
    unsafe { std::slice::from_raw_parts_mut(frame.slot(out), count) }
}

/// Returns second-level accumulator `number`, or beyond these the result of a level of groups. It has one element per
/// lane, or one element for a row.
unsafe fn partial<'a, T>(frame: &Frame<'a>, out: usize, number: usize) -> &'a mut [T] {
    let count = match frame.kernel.lanes {
        LaneAxis::Parallel => frame.len,
        LaneAxis::Reduced => 1,
    };
    // SAFETY: the results of each reduction have room for `RESULTS` blocks, and `number < RESULTS`.
    unsafe { std::slice::from_raw_parts_mut(frame.partials::<T>(out).add(number * BLOCK), count) }
}

#[inline(always)]
unsafe fn accumulate_with<T: Number>(frame: &Frame<'_>, out: usize, values: &[T], f: impl Fn(T, T) -> T) {
    // SAFETY: `accumulate` requires that `start` has run, so the accumulators are live and of type `T`.
    let accumulators = unsafe { accumulators::<T>(frame, out) };
    match (frame.kernel.lanes, accumulators.len()) {
        (LaneAxis::Parallel, _) => combine_lanes(accumulators, values, f),
        (LaneAxis::Reduced, 8) => accumulate_groups::<T, 8>(accumulators, frame.in_row, values, f),
        (LaneAxis::Reduced, 16) => accumulate_groups::<T, 16>(accumulators, frame.in_row, values, f),
        (LaneAxis::Reduced, 64) => accumulate_groups::<T, 64>(accumulators, frame.in_row, values, f),
        (LaneAxis::Reduced, _) => accumulate_groups::<T, 128>(accumulators, frame.in_row, values, f),
    }
}

#[inline(always)]
fn combine_lanes<T: Copy>(accumulators: &mut [T], values: &[T], f: impl Fn(T, T) -> T) {
    for (accumulator, &value) in accumulators.iter_mut().zip(values) {
        *accumulator = f(*accumulator, value);
    }
}

/// Combines element `i` of a row with accumulator `i mod N`. `values` begin at element `first`.
#[inline(always)]
fn accumulate_groups<T: Copy, const N: usize>(
    accumulators: &mut [T],
    first: usize,
    values: &[T],
    f: impl Fn(T, T) -> T,
) {
    // The head reaches up to the next multiple of `N`.
    let offset = first % N;
    let (head, values) = values.split_at(values.len().min((N - offset) % N));
    combine_lanes(&mut accumulators[offset..], head, &f);
    let mut sums: [T; N] = std::array::from_fn(|i| accumulators[i]);
    let (groups, rest) = values.as_chunks::<N>();
    for group in groups {
        for (sum, &value) in sums.iter_mut().zip(group) {
            *sum = f(*sum, value);
        }
    }
    combine_lanes(&mut sums, rest, f);
    accumulators.copy_from_slice(&sums);
}

fn halve<T: Copy>(accumulators: &mut [T], f: impl Fn(T, T) -> T) {
    let mut half = accumulators.len() / 2;
    while half > 0 {
        let (low, high) = accumulators.split_at_mut(half);
        combine_lanes(low, &high[..half], &f);
        half /= 2;
    }
}

fn identity<T: Number>(reducer: Reducer) -> T {
    match reducer {
        Reducer::Sum => T::ZERO,
        Reducer::Prod => T::ONE,
        Reducer::Max | Reducer::Any => T::LOWEST,
        Reducer::Min | Reducer::All => T::HIGHEST,
    }
}

fn combine<T: Number>(reducer: Reducer, a: T, b: T) -> T {
    match reducer {
        Reducer::Sum => a.add(b),
        Reducer::Prod => a.mul(b),
        Reducer::Max | Reducer::Any => a.max(b),
        Reducer::Min | Reducer::All => a.min(b),
    }
}
