//! Max pooling and its gradient.

use super::elements;
use crate::interp::number::Number;
use crate::product::Shared;
use crate::threads;
use ms_core::error::Result;
use ms_core::ops::{MaxPoolAttrs, Run, Windows};
use ms_core::tensor::{Attrs, Element, HostArray, try_filled};
use std::hint::select_unpredictable;
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
                with_elements(to, &from[run.element..], step, |to, value| {
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
    assert!(u32::try_from(windows.input_len()).is_ok(), "a plane has less than 2^32 elements");
    // Modulo 2^32, as are places until all runs are done: positions minus those of the windows, which are equal in a run.
    let origin = |window: usize| (window * step) as u32;
    let before = |run: &Run| (run.element as u32).wrapping_sub(origin(run.window));
    let mut first = try_filled(0, windows.output_len())?;
    runs.iter().rev().for_each(|run| first[run.window..][..run.len].fill(before(run)));
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
                let before = before(run);
                with_elements(best, &from[run.element..], step, |(top, place), value| {
                    // A number that is larger, or the first nan.
                    let above = (value > *top) | (is_nan(value) & !is_nan(*top));
                    *top = select_unpredictable(above, value, *top);
                    *place = select_unpredictable(above, before, *place);
                });
            }
            for (window, place) in places.iter_mut().enumerate() {
                *place = place.wrapping_add(origin(window));
            }
            f(plane, &places);
        }
        Ok(())
    })
}

/// Calls `f` with each of the windows of a run and the element that it has: those of `from`, `step` elements apart.
/// Constant steps are loops of vectors.
#[inline(always)]
fn with_elements<W, T: Copy>(windows: impl ExactSizeIterator<Item = W>, from: &[T], step: usize, f: impl Fn(W, T)) {
    let count = windows.len();
    match step {
        1 => windows.zip(from).for_each(|(to, &value)| f(to, value)),
        2 if from.len() >= 2 * count => {
            let pairs = &from.as_chunks::<2>().0[..count];
            windows.zip(pairs).for_each(|(to, pair)| f(to, pair[0]));
        }
        _ => windows.zip(from.iter().step_by(step)).for_each(|(to, &value)| f(to, value)),
    }
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
