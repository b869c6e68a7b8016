//! Pools disjoint windows that are two elements wide: each element is loaded once, and results stay in registers.

use super::best::is_nan;
use super::blocks::{Blocks, in_blocks};
use super::plan::{Loops, Pool};
use crate::library::implementation::{Declined, require};
use ms_ir::data::Element;
use ms_ir::error::Result;
use ms_ops::ops::{WindowAxis, Windows};
use ms_x64::gemm::Shared;
use ms_x64::interp::Number;
use smallvec::SmallVec;
use std::hint::select_unpredictable;
use std::ops::Range;

/// The loops of [`max`](super::max()), or of its gradient, for disjoint windows that are two elements wide and have no
/// padding. The index of a largest element is the number of its tap.
pub struct Pairs<'a, T, const GRADIENT: bool> {
    pub windows: &'a Windows,
    /// The start of each row of a window, relative to the window's first element.
    pub rows: &'a [usize],
    pub x: &'a [T],
    pub g: &'a [T],
    pub out: &'a Shared<*mut T>,
}

/// Accepts windows of this form.
pub fn accepts(pool: &Pool) -> Result<(), Declined> {
    let windows = &pool.windows;
    let axes @ [.., c] = windows.axes();
    let is_apart = |it: &WindowAxis| {
        let is_dense = it.dilation == 1 && it.before == 0 && it.kernel <= it.stride;
        is_dense && it.output.saturating_sub(1) * it.stride + it.kernel <= it.input
    };
    let is_all = axes.iter().map(|it| it.output).product::<usize>() == windows.output_len();
    require((c.kernel, c.stride) == (2, 2), || format!("windows are {} wide, {} apart", c.kernel, c.stride))?;
    require(is_all && axes.iter().all(is_apart), || "windows overlap or have padding or gaps")
}

/// Returns the start of each row of a window, relative to the window's first element.
pub fn rows(pool: &Pool) -> SmallVec<[usize; 4]> {
    let [a, b, c] = pool.windows.axes();
    let row = |i: usize, j: usize| (i * b.input + j) * c.input;
    (0..a.kernel).flat_map(|i| (0..b.kernel).map(move |j| row(i, j))).collect()
}

/// The loop over a row of windows.
struct Row<'a, T, const GRADIENT: bool> {
    /// The start of each row of a window, relative to the window's first element.
    rows: &'a [usize],
    /// The elements from the first window on.
    from: &'a [T],
    /// The gradients of the windows.
    g: &'a [T],
    /// The destination: the results of the windows, or the gradients of the elements from the first window on.
    to: &'a mut [T],
}

impl<T: Number + Element, const GRADIENT: bool> Blocks for Row<'_, T, GRADIENT> {
    #[inline(always)]
    fn block<const COUNT: usize>(&mut self, at: usize) {
        let (mut maxima, mut indices) = ([T::LOWEST; COUNT], [0; COUNT]);
        for (number, row) in self.rows.iter().enumerate() {
            let pairs = &self.from[2 * at + row..][..2 * COUNT].as_chunks::<2>().0[..COUNT];
            for side in 0..2 {
                let tap = (2 * number + side) as u32;
                for (pair, (maximum, index)) in pairs.iter().zip(maxima.iter_mut().zip(&mut indices)) {
                    let value = pair[side];
                    // A larger number wins, or a NaN; for the gradient, only the first NaN.
                    let above = (value > *maximum) | (is_nan(value) & !(GRADIENT & is_nan(*maximum)));
                    *maximum = select_unpredictable(above, value, *maximum);
                    *index = select_unpredictable(above, tap, *index);
                }
            }
        }
        if !GRADIENT {
            self.to[at..][..COUNT].copy_from_slice(&maxima);
            return;
        }
        let mut sums = [T::ZERO; COUNT];
        sums.iter_mut().zip(&self.g[at..][..COUNT]).for_each(|(sum, &g)| *sum = sum.add(g));
        for (number, row) in self.rows.iter().enumerate() {
            let pairs = &mut self.to[2 * at + row..][..2 * COUNT].as_chunks_mut::<2>().0[..COUNT];
            for (pair, (&sum, &index)) in pairs.iter_mut().zip(sums.iter().zip(&indices)) {
                *pair = [0, 1].map(|side| if index == 2 * number as u32 + side { sum } else { T::ZERO });
            }
        }
    }
}

impl<T: Number + Element, const GRADIENT: bool> Loops for Pairs<'_, T, GRADIENT> {
    #[inline(always)]
    fn run<const SPECIALIZED: bool>(&self, planes: Range<usize>) -> Result<()> {
        let [a, b, c] = self.windows.axes();
        let [input, output] = [self.windows.input_len(), self.windows.output_len()];
        for plane in planes {
            let from = &self.x[plane * input..][..input];
            let g = if GRADIENT { &self.g[plane * output..][..output] } else { &[] };
            let len = if GRADIENT { input } else { output };
            // SAFETY: each plane has its own `len` elements of the result.
            let to = unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) };
            if GRADIENT {
                to.fill(T::ZERO);
            }
            for (i, j) in (0..a.output).flat_map(|i| (0..b.output).map(move |j| (i, j))) {
                let (window, element) =
                    ((i * b.output + j) * c.output, (i * a.stride * b.input + j * b.stride) * c.input);
                let (g, start) = if GRADIENT { (&g[window..], element) } else { (g, window) };
                let (from, to) = (&from[element..], &mut to[start..]);
                in_blocks::<SPECIALIZED>(c.output, &mut Row::<T, GRADIENT> { rows: self.rows, from, g, to });
            }
        }
        Ok(())
    }
}
