//! Max pooling and its gradient.

use super::elements;
use crate::interp::number::Number;
use crate::product::Shared;
use crate::threads;
use ms_core::error::Result;
use ms_core::ops::{MaxPoolAttrs, Run, Windows};
use ms_core::tensor::{Attrs, Element, HostArray, try_filled};
use std::ops::{AddAssign, Range};

/// Maximum number of chunks of a task.
const MAX_CHUNKS: usize = 16;

/// Minimum number of planes of a chunk.
const MIN_PLANES: usize = 8;

/// The largest elements of the windows of `x`.
pub fn max<T: Number + Element>(attrs: &Attrs, inputs: &[HostArray<'_>], out: &mut [T], shape: &[usize]) -> Result<()> {
    let x = elements::<T>(&inputs[0]);
    let at = MaxPoolAttrs::of(attrs);
    let kernel = at.kernel().sizes();
    let lead = shape.len() - kernel.len();
    let windows = Windows::new(&at.window(), &inputs[0].shape()[lead..], &kernel, &shape[lead..]);
    let (runs, step) = (windows.runs(), windows.step());
    let out = Shared::new(out.as_mut_ptr());
    for_each_plane(&windows, shape[..lead].iter().product(), |planes| {
        for plane in planes {
            let from = &x[plane * windows.input_len()..][..windows.input_len()];
            let len = windows.output_len();
            // SAFETY: the planes of the result are disjoint.
            let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(plane * len), len) };
            to.fill(T::LOWEST);
            for run in &runs {
                let to = to[run.window..][..run.len].iter_mut();
                with_elements(to, &from[run.element..], step, |to, _, value| {
                    *to = if (value > *to) | is_nan(value) { value } else { *to };
                });
            }
        }
        Ok(())
    })
}

/// The gradient of [`max()`] for its input `x`, from inputs `x` and `g`. Nan is larger than all other
/// elements, and the gradient is that of the first of equal ones.
pub fn max_grad<T: Number + Element + AddAssign>(
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let (x, g) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let at = MaxPoolAttrs::of(attrs);
    let kernel = at.kernel().sizes();
    let lead = shape.len() - kernel.len();
    let windows = Windows::new(&at.window(), &shape[lead..], &kernel, &inputs[1].shape()[lead..]);
    let out = Shared::new(out.as_mut_ptr());
    for_each_largest(&windows, shape[..lead].iter().product(), x, |plane, places| {
        let len = windows.input_len();
        // SAFETY: the planes of the result are disjoint.
        let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(plane * len), len) };
        to.fill(T::ZERO);
        let g = &g[plane * windows.output_len()..];
        for (&at, &g) in places.iter().zip(g) {
            to[at as usize] += g;
        }
    })
}

/// The elements of `h` at the positions of the largest elements of the windows of `x`, the inputs; see [`max_grad`].
pub fn max_take<T: Number + Element>(
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let (x, h) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let at = MaxPoolAttrs::of(attrs);
    let kernel = at.kernel().sizes();
    let lead = shape.len() - kernel.len();
    let windows = Windows::new(&at.window(), &inputs[0].shape()[lead..], &kernel, &shape[lead..]);
    let out = Shared::new(out.as_mut_ptr());
    for_each_largest(&windows, shape[..lead].iter().product(), x, |plane, places| {
        let h = &h[plane * windows.input_len()..];
        let len = windows.output_len();
        // SAFETY: the planes of the result are disjoint.
        let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(plane * len), len) };
        to.iter_mut().zip(places).for_each(|(to, &at)| *to = h[at as usize]);
    })
}

/// Calls `f` with each of some planes and the positions in it of the largest elements of its windows.
fn for_each_largest<T: Number + Element>(
    windows: &Windows,
    planes: usize,
    x: &[T],
    f: impl Fn(usize, &[u32]) + Sync,
) -> Result<()> {
    let (runs, step) = (windows.runs(), windows.step());
    let first = first_elements(windows, &runs)?;
    for_each_plane(windows, planes, |planes| {
        let mut largest = try_filled(T::LOWEST, windows.output_len())?;
        let mut places = try_filled(0u32, first.len())?;
        for plane in planes {
            let len = windows.input_len();
            let from = &x[plane * len..][..len];
            largest.fill(T::LOWEST);
            places.copy_from_slice(&first);
            for run in &runs {
                let here = run.window..run.window + run.len;
                let best = largest[here.clone()].iter_mut().zip(&mut places[here]);
                with_elements(best, &from[run.element..], step, |(top, place), i, value| {
                    // Branches on data would be mispredicted, so selections are faster.
                    let above = (value > *top) | (is_nan(value) & !is_nan(*top));
                    *top = if above { value } else { *top };
                    *place = if above { (run.element + i * step) as u32 } else { *place };
                });
            }
            f(plane, &places);
        }
        Ok(())
    })
}

/// Calls `f` with each of the windows of a run, its number, and the element that it has: those of `from`, `step` elements
/// apart. Constant steps are loops of vectors.
#[inline(always)]
fn with_elements<W, T: Copy>(
    windows: impl ExactSizeIterator<Item = W>,
    from: &[T],
    step: usize,
    f: impl Fn(W, usize, T),
) {
    let count = windows.len();
    match step {
        1 => windows.zip(from).enumerate().for_each(|(i, (to, &value))| f(to, i, value)),
        2 if from.len() >= 2 * count => {
            let pairs = &from.as_chunks::<2>().0[..count];
            windows.zip(pairs).enumerate().for_each(|(i, (to, pair))| f(to, i, pair[0]));
        }
        _ => windows.zip(from.iter().step_by(step)).enumerate().for_each(|(i, (to, &value))| f(to, i, value)),
    }
}

/// The first element of every window.
fn first_elements(windows: &Windows, runs: &[Run]) -> Result<Vec<u32>> {
    let mut first = try_filled(0, windows.output_len())?;
    for run in runs.iter().rev() {
        for (i, to) in first[run.window..][..run.len].iter_mut().enumerate() {
            *to = u32::try_from(run.element + i * windows.step()).expect("a plane has less than 2^32 elements");
        }
    }
    Ok(first)
}

fn for_each_plane(windows: &Windows, planes: usize, run: impl Fn(Range<usize>) -> Result<()> + Sync) -> Result<()> {
    let nanos = planes * windows.output_len() * windows.taps() / 2;
    let per_chunk = planes.div_ceil(MAX_CHUNKS).max(MIN_PLANES);
    threads::try_for_each(planes.div_ceil(per_chunk), nanos, |chunk| {
        run(chunk * per_chunk..((chunk + 1) * per_chunk).min(planes))
    })
}

fn is_nan<T: PartialOrd>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}
