//! Reductions, in the order that [`ms_core::ir::Kernel`] fixes.

use super::evaluate::with_compute;
use super::frame::Frame;
use super::number::Number;
use ms_core::ir::{Inst, LaneAxis, Reducer, Val, virtual_lanes};
use std::ops::Range;

/// Sets the accumulators of a stage to the identities of their reducers.
///
/// # Safety
/// The range is a stage that is about to run.
pub unsafe fn start(frame: &Frame<'_>, range: Range<usize>) {
    for out in range {
        if let Inst::Reduce(reducer, _) = frame.kernel.insts[out] {
            let ty = frame.kernel.types[out];
            // SAFETY: accumulators are live from the start of their stage.
            with_compute!(ty, T => unsafe { accumulators::<T>(frame, out) }.fill(identity::<T>(reducer)));
        }
    }
}

/// Folds the current block of lanes into the accumulators of a reduction.
///
/// # Safety
/// The value is live and [`start`] has run for the stage.
#[inline(always)]
pub unsafe fn fold(frame: &Frame<'_>, out: usize, reducer: Reducer, value: Val) {
    let ty = frame.kernel.types[out];
    // SAFETY: as the caller's.
    with_compute!(ty, T => unsafe {
        let values = frame.value::<T>(value);
        match reducer {
            Reducer::Sum => fold_with::<T>(frame, out, values, T::add),
            Reducer::Prod => fold_with::<T>(frame, out, values, T::mul),
            Reducer::Max | Reducer::Any => fold_with::<T>(frame, out, values, <T as Number>::max),
            Reducer::Min | Reducer::All => fold_with::<T>(frame, out, values, <T as Number>::min),
        }
    });
}

/// Combines the accumulators of a row, so that the result stands in its first lane.
///
/// # Safety
/// The range is a stage that has run, of a kernel with reduced lanes.
pub unsafe fn finish(frame: &Frame<'_>, range: Range<usize>) {
    for out in range {
        if let Inst::Reduce(reducer, _) = frame.kernel.insts[out] {
            let ty = frame.kernel.types[out];
            // SAFETY: accumulators are live until their last use.
            with_compute!(ty, T => unsafe { halve::<T>(accumulators(frame, out), |a, b| combine(reducer, a, b)) });
        }
    }
}

/// One accumulator per lane, or the virtual lanes of a row.
#[inline(always)]
unsafe fn accumulators<'a, T>(frame: &Frame<'a>, out: usize) -> &'a mut [T] {
    let count = match frame.kernel.lanes {
        LaneAxis::Parallel => frame.len,
        LaneAxis::Reduced => virtual_lanes(frame.kernel.types[out]),
    };
    // SAFETY: a slot has room for a block, which is more than the virtual lanes.
    unsafe { std::slice::from_raw_parts_mut(frame.slot(out), count) }
}

#[inline(always)]
unsafe fn fold_with<T: Number>(frame: &Frame<'_>, out: usize, values: &[T], f: impl Fn(T, T) -> T) {
    // SAFETY: as the caller's.
    let accumulators = unsafe { accumulators::<T>(frame, out) };
    match (frame.kernel.lanes, accumulators.len()) {
        (LaneAxis::Parallel, _) => fold_lanes(accumulators, values, f),
        (LaneAxis::Reduced, 8) => fold_groups::<T, 8>(accumulators, values, f),
        (LaneAxis::Reduced, _) => fold_groups::<T, 16>(accumulators, values, f),
    }
}

#[inline(always)]
fn fold_lanes<T: Copy>(accumulators: &mut [T], values: &[T], f: impl Fn(T, T) -> T) {
    for (accumulator, &value) in accumulators.iter_mut().zip(values) {
        *accumulator = f(*accumulator, value);
    }
}

/// Folds element `i` into accumulator `i mod N`; blocks start at a multiple of `N`.
#[inline(always)]
fn fold_groups<T: Copy, const N: usize>(accumulators: &mut [T], values: &[T], f: impl Fn(T, T) -> T) {
    let mut sums: [T; N] = std::array::from_fn(|i| accumulators[i]);
    let (groups, rest) = values.as_chunks::<N>();
    for group in groups {
        for (sum, &value) in sums.iter_mut().zip(group) {
            *sum = f(*sum, value);
        }
    }
    fold_lanes(&mut sums, rest, f);
    accumulators.copy_from_slice(&sums);
}

fn halve<T: Copy>(accumulators: &mut [T], f: impl Fn(T, T) -> T) {
    let mut half = accumulators.len() / 2;
    while half > 0 {
        let (low, high) = accumulators.split_at_mut(half);
        fold_lanes(low, &high[..half], &f);
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
