//! Runs ops along one axis: argmax and argmin, cumulative sums and products, and mean pooling.

use super::elements;
use super::output::written;
use ms_ir::data::{Array, Attrs, Element, Kind, Op, Scalar, try_filled};
use ms_ir::error::Result;
use ms_ir::with_element;
use ms_ops::ops::host::{Axis, RunTotals, dense};
use ms_ops::ops::{self, AxisAttrs, CumulativeAttrs, OpDef};
use ms_x64::gemm::Shared;
use ms_x64::threads;

/// Number of columns of a block: contiguous elements, each in a different row along the axis.
const COLUMNS: usize = 64;

/// Runs an op along an axis and writes its row-major output; `None` for other ops.
///
/// # Safety
/// The conditions of [`run`](super::run) hold.
pub unsafe fn run(op: Op, attrs: &Attrs, inputs: &[&Array], out: &Array) -> Option<Result<()>> {
    let is = |def: &'static OpDef| def.op() == op;
    Some(match op {
        _ if is(&ops::ARGMAX) => extreme::<true>(attrs, inputs[0], out),
        _ if is(&ops::ARGMIN) => extreme::<false>(attrs, inputs[0], out),
        _ if is(&ops::CUMSUM) => cumulative(attrs, inputs[0], out, 0, |a, b| a + b, i64::wrapping_add),
        _ if is(&ops::CUMPROD) => cumulative(attrs, inputs[0], out, 1, |a, b| a * b, i64::wrapping_mul),
        _ => return None,
    })
}

/// Runs `f` on blocks of columns along an axis: on the offset of each block's first element, and its number of columns.
fn for_each_block(axis: Axis, nanos: usize, f: impl Fn(usize, usize) -> Result<()> + Sync) -> Result<()> {
    let blocks = axis.inner.div_ceil(COLUMNS);
    threads::try_for_each(axis.outer * blocks, nanos, |chunk| {
        let (outer, first) = (chunk / blocks, chunk % blocks * COLUMNS);
        f(outer * axis.size * axis.inner + first, COLUMNS.min(axis.inner - first))
    })
}

/// Finds the index of the largest or the smallest element: the first of equal ones, or of NaNs.
fn extreme<const LARGEST: bool>(attrs: &Attrs, x: &Array, out: &Array) -> Result<()> {
    let x = dense(x)?;
    let axis = Axis::of(x.shape(), AxisAttrs::of(attrs).axis());
    with_element!(x.dtype(), T => {
        let from = elements::<T>(&x);
        // SAFETY: `out` is a row-major array of `i64` that nothing else accesses, by the contract of `run`.
        let to = Shared::new(unsafe { written::<i64>(out) }.as_mut_ptr());
        for_each_block(axis, from.len() / 4, |first, columns| {
            // SAFETY: the offset is the block's first column in the output, which has one row for each outer index.
            let to = unsafe { to.get().add(first / (axis.size * axis.inner) * axis.inner + first % axis.inner) };
            if axis.inner == 1 {
                // SAFETY: the block is one column, whose element of the output no other block has.
                unsafe { *to = extreme_of_row::<T, LARGEST>(&from[first..first + axis.size]) as i64 };
                return Ok(());
            }
            // SAFETY: the block's `columns` elements of the output are contiguous, and no other block has them.
            let to = unsafe { std::slice::from_raw_parts_mut(to, columns) };
            let mut best = [from[first]; COLUMNS];
            best[..columns].copy_from_slice(&from[first..first + columns]);
            to.fill(0);
            for at in 1..axis.size {
                let values = &from[first + at * axis.inner..][..columns];
                for ((best, to), &value) in best.iter_mut().zip(&mut *to).zip(values) {
                    let above = beats::<T, LARGEST>(value, *best) | (is_nan(value) & !is_nan(*best));
                    *best = if above { value } else { *best };
                    *to = if above { at as i64 } else { *to };
                }
            }
            Ok(())
        })?;
    });
    Ok(())
}

#[inline(always)]
fn beats<T: PartialOrd, const LARGEST: bool>(value: T, other: T) -> bool {
    if LARGEST { value > other } else { value < other }
}

#[inline(always)]
#[allow(clippy::eq_op, reason = "nan alone differs from itself")]
fn is_nan<T: Copy + PartialEq>(value: T) -> bool {
    value != value
}

/// Finds the [`extreme`] of contiguous elements: first its value, then its index, as both loops are vectorised.
fn extreme_of_row<T: Copy + PartialOrd, const LARGEST: bool>(row: &[T]) -> usize {
    const LANES: usize = 16;
    let mut best = [row[0]; LANES];
    let mut nan = false;
    let lanes = row.chunks_exact(LANES);
    let rest = lanes.remainder();
    for values in lanes.chain(std::iter::once(rest)) {
        for (best, &value) in best.iter_mut().zip(values) {
            nan |= is_nan(value);
            *best = if beats::<T, LARGEST>(value, *best) { value } else { *best };
        }
    }
    let all = best.into_iter().reduce(|a, b| if beats::<T, LARGEST>(b, a) { b } else { a }).expect("there are lanes");
    let found = row.iter().position(|&it| if nan { is_nan(it) } else { it == all });
    found.expect("one of the elements is extreme")
}

/// Computes cumulative sums or products: floats in f64 in the order of [`RunTotals`], integers wrapping.
fn cumulative(
    attrs: &Attrs,
    x: &Array,
    out: &Array,
    start: i64,
    float: impl Fn(f64, f64) -> f64 + Sync + Copy,
    int: impl Fn(i64, i64) -> i64 + Sync + Copy,
) -> Result<()> {
    let at = CumulativeAttrs::of(attrs);
    let x = dense(x)?;
    let (axis, exclusive, reverse) = (Axis::of(x.shape(), at.axis()), at.exclusive(), at.reverse());
    with_element!(x.dtype(), T => {
        let from = elements::<T>(&x);
        // SAFETY: `out` is a row-major array of `T` that nothing else accesses, by the contract of `run`.
        let to = Shared::new(unsafe { written::<T>(out) }.as_mut_ptr());
        for_each_block(axis, from.len(), |first, columns| {
            let line = |step: usize| first + if reverse { axis.size - 1 - step } else { step } * axis.inner;
            // SAFETY: the `columns` elements lie in the output, and no other block has these columns.
            let to = |step: usize| unsafe { std::slice::from_raw_parts_mut(to.get().add(line(step)), columns) };
            let from = |step: usize| &from[line(step)..][..columns];
            if T::DTYPE.kind() == Kind::Float {
                let mut totals = [RunTotals::new(start as f64); COLUMNS];
                let mut before = [start as f64; COLUMNS];
                for first in (0..axis.size).step_by(RunTotals::RUN) {
                    let mut runs = [start as f64; COLUMNS];
                    for step in first..axis.size.min(first + RunTotals::RUN) {
                        let operands = from(step).iter().zip(&before).zip(&mut runs);
                        for (to, ((&value, &before), run)) in to(step).iter_mut().zip(operands) {
                            let next = float(*run, value.to_scalar().as_f64());
                            *to = T::from_scalar(Scalar::Float(float(before, if exclusive { *run } else { next })));
                            *run = next;
                        }
                    }
                    for ((before, run), totals) in before.iter_mut().zip(runs).zip(&mut totals[..columns]) {
                        *before = totals.push(run, float);
                    }
                }
            } else {
                let mut sums = [T::from_scalar(Scalar::Int(start)); COLUMNS];
                for step in 0..axis.size {
                    for ((to, &value), sum) in to(step).iter_mut().zip(from(step)).zip(&mut sums) {
                        let next = int(sum.to_scalar().as_i64(), value.to_scalar().as_i64());
                        let next = T::from_scalar(Scalar::Int(next));
                        *to = if exclusive { *sum } else { next };
                        *sum = next;
                    }
                }
            }
            Ok(())
        })?;
    });
    Ok(())
}

/// Runs mean pooling of floats or its gradient in f64, plane by plane; `None` for other ops.
///
/// # Safety
/// The conditions of [`run`] hold.
///
/// # Errors
/// The errors of the op; [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for a plane.
pub unsafe fn means(op: Op, attrs: &Attrs, inputs: &[&Array], out: &Array) -> Option<Result<()>> {
    let planes = ops::channel_means(op, attrs, inputs.first()?.shape())?;
    Some(planes.and_then(|planes| {
        let x = dense(inputs[0])?;
        let [taken, given] = planes.sizes();
        if out.numel() == 0 {
            return Ok(());
        }
        let count = out.numel() / given;
        with_element!(x.dtype(), T => {
            let from = elements::<T>(&x);
            // SAFETY: `out` is a row-major array of `T` that nothing else accesses, by the contract of `run`.
            let to = Shared::new(unsafe { written::<T>(out) }.as_mut_ptr());
            let chunks = count.min(4 * threads::count());
            threads::try_for_each(chunks, 2 * from.len().max(out.numel()), |chunk| {
                let (mut wide, mut sums) = (try_filled(0.0, taken)?, try_filled(0.0, given)?);
                for plane in chunk * count / chunks..(chunk + 1) * count / chunks {
                    let from = &from[plane * taken..][..taken];
                    wide.iter_mut().zip(from).for_each(|(to, it)| *to = it.to_scalar().as_f64());
                    planes.run(&wide, &mut sums);
                    // SAFETY: `plane < count`, so its `given` elements lie in the output, and no other iteration has
                    // them.
                    let to = unsafe { std::slice::from_raw_parts_mut(to.get().add(plane * given), given) };
                    to.iter_mut().zip(&sums).for_each(|(to, it)| *to = T::from_scalar(Scalar::Float(*it)));
                }
                Ok(())
            })?;
        });
        Ok(())
    }))
}
