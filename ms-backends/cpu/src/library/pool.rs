//! Pooling by the largest element of a window, and its gradient.

use super::elements;
use super::window::Windows;
use crate::product::Shared;
use crate::threads;
use ms_core::tensor::{Array, Attrs, Element};
use std::ops::AddAssign;

/// Planes per chunk of a region at least.
const MIN_PLANES: usize = 8;

/// The largest elements of the windows of `x`.
pub fn max<T: Element + PartialOrd>(attrs: &Attrs, inputs: &[Array], out: &mut [T], shape: &[usize]) {
    let x = elements::<T>(&inputs[0]);
    let windows = Windows::new(attrs, 1, &inputs[0].shape()[2..], &attrs.sizes(0), &shape[2..]);
    let out = Shared::new(out.as_mut_ptr());
    for_each_plane(&windows, shape[0] * shape[1], |plane| {
        let from = &x[plane * windows.input_len()..][..windows.input_len()];
        let len = windows.output_len();
        // SAFETY: each plane has its own part of the result.
        let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(plane * len), len) };
        largest(&windows, from, |window, at| to[window] = from[at]);
    });
}

/// The gradient of [`max()`] for its input `x`, of inputs `x` and `g`.
pub fn max_grad<T: Element + PartialOrd + Default + AddAssign>(
    attrs: &Attrs,
    inputs: &[Array],
    out: &mut [T],
    shape: &[usize],
) {
    let (x, g) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let windows = Windows::new(attrs, 1, &shape[2..], &attrs.sizes(0), &inputs[1].shape()[2..]);
    let out = Shared::new(out.as_mut_ptr());
    for_each_plane(&windows, shape[0] * shape[1], |plane| {
        let len = windows.input_len();
        let from = &x[plane * len..][..len];
        let g = &g[plane * windows.output_len()..][..windows.output_len()];
        // SAFETY: each plane has its own part of the result.
        let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(plane * len), len) };
        to.fill(T::default());
        largest(&windows, from, |window, at| to[at] += g[window]);
    });
}

fn for_each_plane(windows: &Windows, planes: usize, run: impl Fn(usize) + Sync) {
    let nanos = planes * windows.output_len() * windows.taps();
    let per_chunk = planes.div_ceil(16).max(MIN_PLANES);
    threads::for_each(planes.div_ceil(per_chunk), nanos, |chunk| {
        (chunk * per_chunk..((chunk + 1) * per_chunk).min(planes)).for_each(&run);
    });
}

/// Visits each window of a plane with the place of its largest element: nan counts as the
/// largest of all, and of equal ones the first is taken.
fn largest<T: Copy + PartialOrd>(windows: &Windows, plane: &[T], mut visit: impl FnMut(usize, usize)) {
    let mut window = 0;
    for at0 in 0..windows.output[0] {
        for at1 in 0..windows.output[1] {
            for at2 in 0..windows.output[2] {
                let mut best = None;
                for i0 in windows.elements(0, at0) {
                    for i1 in windows.elements(1, at1) {
                        let line = (i0 * windows.input[1] + i1) * windows.input[2];
                        for at in windows.elements(2, at2).map(|i2| line + i2) {
                            let value = plane[at];
                            let is_nan = value.partial_cmp(&value).is_none();
                            best = match best {
                                Some((_, top)) if !(value > top || (is_nan && top.partial_cmp(&top).is_some())) => best,
                                _ => Some((at, value)),
                            };
                        }
                    }
                }
                let (at, _) = best.expect("padding is at most half of a window, so that each has an element");
                visit(window, at);
                window += 1;
            }
        }
    }
}
