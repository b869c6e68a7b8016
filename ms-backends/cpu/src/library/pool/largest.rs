//! Finds the largest elements of windows, first down columns and then across.
//!
//! For each row of windows, the first pass takes the maximum over its lines in every column. Adjacent columns are
//! contiguous, whatever the stride is. The second pass takes the maximum over the columns of each window, along a
//! padded line. The comparison order is not row-major, so indices break ties between equal values and NaNs.

use super::best::{Best, is_nan};
use super::blocks::{Blocks, in_blocks};
use super::plan::{Loops, Pool};
use crate::library::scratch::Scratch;
use ms_ir::data::Element;
use ms_ir::error::Result;
use ms_x64::interp::Number;
use std::ops::Range;

/// Number of elements of padded lines that the first pass finds before the second one. Loads that overlap several
/// stores stall until these have reached the cache.
const BATCH: usize = 512;

/// Number of elements that are searched for NaN at once, so that they stay in the cache for the windows.
const BAND: usize = 4096;

/// The consumer of the largest elements.
pub trait Sink<T>: Sync {
    /// Returns the destination of a plane's largest elements, unless the consumer needs indices.
    fn maxima(&self, _plane: usize) -> &mut [T] {
        &mut []
    }

    /// Takes the indices of the largest elements of all windows of a plane, if the consumer needs them.
    fn indices(&self, _plane: usize, _indices: &[u32]) {}
}

/// The loops over planes. `TO_INDICES` tells whether the consumer needs indices. The first of several NaNs then counts,
/// otherwise the last one.
pub struct Largest<'a, T, const TO_INDICES: bool> {
    pub pool: &'a Pool,
    pub x: &'a [T],
    pub sink: &'a dyn Sink<T>,
}

/// The largest elements of the columns of some rows of windows, in padded lines.
struct Columns<T> {
    maxima: Scratch<T>,
    /// Their indices; padding has an index after all others.
    indices: Scratch<u32>,
}

impl<T: Number + Element, const TO_INDICES: bool> Loops for Largest<'_, T, TO_INDICES> {
    #[inline(always)]
    fn run<const SPECIALIZED: bool>(&self, planes: Range<usize>) -> Result<()> {
        let pool = self.pool;
        let batch = (BATCH / pool.pitch).max(1);
        let len = batch * pool.pitch;
        let mut columns =
            Columns { maxima: Scratch::filled(T::LOWEST, len)?, indices: Scratch::filled(u32::MAX, len)? };
        let mut indices = Scratch::filled(0, if TO_INDICES { pool.output_len } else { 0 })?;
        for plane in planes {
            let x = &self.x[plane * pool.input_len..][..pool.input_len];
            let maxima = self.sink.maxima(plane);
            // Indices cost time where only the elements are needed, and comparisons with NaN cost more.
            let (mut ready, mut needs_order) = (0, false);
            for first in (0..pool.rows()).step_by(batch) {
                let rows = first..pool.rows().min(first + batch);
                let end = pool.end(rows.end - 1);
                if ready < end {
                    let next = &x[ready..end.max(pool.input_len.min(ready + BAND))];
                    needs_order |= match TO_INDICES {
                        true => next.iter().fold(false, |some, &it| some | is_nan(it)),
                        false => T::has_nan_or_negative_zero(next),
                    };
                    ready += next.len();
                }
                let indices = &mut indices[..];
                match (needs_order, TO_INDICES) {
                    (true, _) => self.rows::<SPECIALIZED, true, true>(x, rows, &mut columns, maxima, indices),
                    (false, true) => self.rows::<SPECIALIZED, true, false>(x, rows, &mut columns, maxima, indices),
                    (false, false) => self.rows::<SPECIALIZED, false, false>(x, rows, &mut columns, maxima, indices),
                }
            }
            if TO_INDICES {
                self.sink.indices(plane, &indices);
            }
        }
        Ok(())
    }
}

impl<T: Number + Element, const TO_INDICES: bool> Largest<'_, T, TO_INDICES> {
    /// Finds the largest elements of some rows of windows.
    #[inline(always)]
    fn rows<const SPECIALIZED: bool, const INDICES: bool, const NANS: bool>(
        &self,
        x: &[T],
        rows: Range<usize>,
        columns: &mut Columns<T>,
        maxima: &mut [T],
        indices: &mut [u32],
    ) {
        let pool = self.pool;
        for (number, row) in rows.clone().enumerate() {
            let at = number * pool.pitch + pool.slack + pool.before;
            let to = (&mut columns.maxima[at..], &mut columns.indices[at..]);
            match *pool.lines(row) {
                [a] if SPECIALIZED => {
                    down::<SPECIALIZED, TO_INDICES, _, _, INDICES, NANS>(x, [a], pool.input, to);
                }
                [a, b] if SPECIALIZED => {
                    down::<SPECIALIZED, TO_INDICES, _, _, INDICES, NANS>(x, [a, b], pool.input, to);
                }
                [a, b, c] if SPECIALIZED => {
                    down::<SPECIALIZED, TO_INDICES, _, _, INDICES, NANS>(x, [a, b, c], pool.input, to);
                }
                ref lines => down::<SPECIALIZED, TO_INDICES, _, _, INDICES, NANS>(x, lines, pool.input, to),
            }
        }
        for (number, row) in rows.enumerate() {
            let at = number * pool.pitch;
            let from = (&columns.maxima[at..], &columns.indices[at..]);
            let (at, maxima, indices) = (row * pool.output, &mut *maxima, &mut *indices);
            let to = if TO_INDICES { (maxima, &mut indices[at..]) } else { (&mut maxima[at..], indices) };
            match pool.stride {
                1 if SPECIALIZED => across::<SPECIALIZED, TO_INDICES, _, 1, INDICES, NANS>(pool, from, to),
                2 if SPECIALIZED => across::<SPECIALIZED, TO_INDICES, _, 2, INDICES, NANS>(pool, from, to),
                3 if SPECIALIZED => across::<SPECIALIZED, TO_INDICES, _, 3, INDICES, NANS>(pool, from, to),
                _ => across::<SPECIALIZED, TO_INDICES, _, 0, INDICES, NANS>(pool, from, to),
            }
        }
    }
}

/// Finds the largest elements of the columns of a row of windows, which covers these lines.
#[inline(always)]
fn down<
    const SPECIALIZED: bool,
    const TO_INDICES: bool,
    T: Number,
    L: AsRef<[usize]>,
    const INDICES: bool,
    const NANS: bool,
>(
    x: &[T],
    lines: L,
    count: usize,
    to: (&mut [T], &mut [u32]),
) {
    assert!(lines.as_ref().iter().all(|&it| it <= x.len() && count <= x.len() - it));
    assert!(count <= to.0.len() && count <= to.1.len());
    in_blocks::<SPECIALIZED>(count, &mut Down::<TO_INDICES, T, L, INDICES, NANS> { x, lines, to });
}

/// The loop over the columns of a row of windows.
struct Down<'a, const TO_INDICES: bool, T, L, const INDICES: bool, const NANS: bool> {
    x: &'a [T],
    /// The start of each line of the windows.
    lines: L,
    to: (&'a mut [T], &'a mut [u32]),
}

impl<const TO_INDICES: bool, T: Number, L: AsRef<[usize]>, const INDICES: bool, const NANS: bool> Blocks
    for Down<'_, TO_INDICES, T, L, INDICES, NANS>
{
    #[inline(always)]
    fn block<const COUNT: usize>(&mut self, at: usize) {
        let mut best = Best::<T, COUNT, INDICES, NANS> { maxima: [T::LOWEST; COUNT], indices: [u32::MAX; COUNT] };
        for (number, &line) in self.lines.as_ref().iter().enumerate() {
            // SAFETY: `down` asserts that every line has an element for each column, and blocks stay below the number
            // of columns.
            let maxima = unsafe { block(self.x, line + at) };
            let indices = [line as u32; COUNT];
            if number == 0 {
                best = Best { maxima: *maxima, indices };
            } else {
                best.or_later(maxima, &indices, !TO_INDICES);
            }
        }
        // SAFETY: `down` asserts that `to` has room for each column, and blocks stay below the number of columns.
        unsafe { *block_mut(self.to.0, at) = best.maxima };
        if INDICES {
            for (number, index) in best.indices.iter_mut().enumerate() {
                *index = index.wrapping_add((at + number) as u32);
            }
            // SAFETY: `down` asserts that `to` has room for each column, and blocks stay below the number of columns.
            unsafe { *block_mut(self.to.1, at) = best.indices };
        }
    }
}

/// Finds the maxima of a row of windows from the maxima of its columns.
#[inline(always)]
fn across<
    const SPECIALIZED: bool,
    const TO_INDICES: bool,
    T: Number,
    const STRIDE: usize,
    const INDICES: bool,
    const NANS: bool,
>(
    pool: &Pool,
    from: (&[T], &[u32]),
    to: (&mut [T], &mut [u32]),
) {
    let Pool { stride, kernel, dilation, output, .. } = *pool;
    let len = output * stride + (kernel - 1) * dilation;
    assert!(STRIDE == 0 || STRIDE == stride);
    assert!(len <= from.0.len() && len <= from.1.len());
    assert!(output <= if TO_INDICES { to.1.len() } else { to.0.len() });
    let mut loops = Across::<TO_INDICES, T, STRIDE, INDICES, NANS> { stride, kernel, dilation, from, to };
    in_blocks::<SPECIALIZED>(output, &mut loops);
}

/// The loop over a row of windows with a constant stride, or with any stride if `STRIDE` is zero.
struct Across<'a, const TO_INDICES: bool, T, const STRIDE: usize, const INDICES: bool, const NANS: bool> {
    stride: usize,
    kernel: usize,
    dilation: usize,
    from: (&'a [T], &'a [u32]),
    to: (&'a mut [T], &'a mut [u32]),
}

impl<const TO_INDICES: bool, T: Number, const STRIDE: usize, const INDICES: bool, const NANS: bool> Blocks
    for Across<'_, TO_INDICES, T, STRIDE, INDICES, NANS>
{
    #[inline(always)]
    fn block<const COUNT: usize>(&mut self, at: usize) {
        let stride = if STRIDE == 0 { self.stride } else { STRIDE };
        let of = |from: usize| {
            // SAFETY: `across` asserts that `from` has the elements under all taps of each window, and blocks stay
            // below the number of windows.
            let maxima = unsafe { strided::<T, COUNT, STRIDE>(self.from.0, from, stride) };
            let mut indices = [0; COUNT];
            if INDICES {
                // SAFETY: `across` asserts that `from` has the indices under all taps of each window, and blocks stay
                // below the number of windows.
                indices = unsafe { strided::<u32, COUNT, STRIDE>(self.from.1, from, stride) };
            }
            Best::<T, COUNT, INDICES, NANS> { maxima, indices }
        };
        let mut from = at * stride;
        let mut best = of(from);
        for _ in 1..self.kernel {
            from += self.dilation;
            let Best { maxima, indices } = of(from);
            best.or(&maxima, &indices, !TO_INDICES);
        }
        // SAFETY: `across` asserts that `to` has room for each window, and blocks stay below the number of windows.
        unsafe {
            match TO_INDICES {
                true => *block_mut(self.to.1, at) = best.indices,
                false => *block_mut(self.to.0, at) = best.maxima,
            }
        }
    }
}

/// Returns the last element of each of `COUNT` strides from `at` on. The stride is constant unless `STRIDE` is zero.
/// Compilers select the second elements of pairs by one instruction, but not the first ones.
///
/// # Safety
/// `of` has `COUNT * stride` elements from `at` on.
#[inline(always)]
unsafe fn strided<T: Copy, const COUNT: usize, const STRIDE: usize>(of: &[T], at: usize, stride: usize) -> [T; COUNT] {
    debug_assert!(at + COUNT * stride <= of.len());
    if STRIDE == 0 {
        // SAFETY: `it < COUNT`, so the index is below `at + COUNT * stride`, where `of` has elements by this function's
        // contract.
        return std::array::from_fn(|it| unsafe { *of.get_unchecked(at + (it + 1) * stride - 1) });
    }
    // SAFETY: `of` has `COUNT * STRIDE` elements from `at` on by this function's contract.
    let all = unsafe { &*of.as_ptr().add(at).cast::<[[T; STRIDE]; COUNT]>() };
    all.map(|it| it[STRIDE - 1])
}

/// Returns `COUNT` elements from `at` on.
///
/// # Safety
/// `of` has `COUNT` elements from `at` on.
#[inline(always)]
unsafe fn block<T, const COUNT: usize>(of: &[T], at: usize) -> &[T; COUNT] {
    debug_assert!(at + COUNT <= of.len());
    // SAFETY: `of` has `COUNT` elements from `at` on by this function's contract.
    unsafe { &*of.as_ptr().add(at).cast() }
}

/// Returns `COUNT` elements from `at` on, for writes.
///
/// # Safety
/// `of` has `COUNT` elements from `at` on.
#[inline(always)]
unsafe fn block_mut<T, const COUNT: usize>(of: &mut [T], at: usize) -> &mut [T; COUNT] {
    debug_assert!(at + COUNT <= of.len());
    // SAFETY: `of` has `COUNT` elements from `at` on by this function's contract.
    unsafe { &mut *of.as_mut_ptr().add(at).cast() }
}
