//! The elements under the windows of a convolution or of pooling.

use super::{Window, spatial};
use crate::tensor::push;
use std::ops::Range;

/// Windows along one axis.
#[derive(Clone, Copy)]
pub struct WindowAxis {
    /// The number of elements of the input.
    pub input: usize,
    /// The number of taps of a window.
    pub kernel: usize,
    /// The number of windows.
    pub output: usize,
    /// The distance between successive windows.
    pub stride: usize,
    /// The distance between successive taps of a window.
    pub dilation: usize,
    /// The padding before the first element.
    pub before: usize,
}

impl WindowAxis {
    /// Returns the windows in which `tap` is on an element, not on padding.
    fn inside(&self, tap: usize) -> Range<usize> {
        let offset = tap * self.dilation;
        let first = self.before.saturating_sub(offset).div_ceil(self.stride).min(self.output);
        let end = (self.input + self.before).saturating_sub(offset).div_ceil(self.stride);
        first..end.min(self.output).max(first)
    }

    /// Returns the element under a tap of a window, which must not be on padding.
    fn element(&self, tap: usize, window: usize) -> usize {
        window * self.stride + tap * self.dilation - self.before
    }
}

/// Windows over an input, along four axes. The last axis may be the channels. Axes that a tensor does not have come
/// first and have size 1.
#[derive(Clone, Copy)]
pub struct Windows {
    axes: [WindowAxis; 4],
}

impl Windows {
    /// Creates windows with these parameters, for matching sizes.
    pub fn new(window: &Window, input: &[usize], kernel: &[usize], output: &[usize]) -> Self {
        let (input, kernel, output) = (spatial(input, 1), spatial(kernel, 1), spatial(output, 1));
        let (stride, dilation) = (spatial(&window.stride, 1), spatial(&window.dilation, 1));
        let before = spatial(&window.before, 0);
        let axis = |it: usize| WindowAxis {
            input: input[it],
            kernel: kernel[it],
            output: output[it],
            stride: stride[it],
            dilation: dilation[it],
            before: before[it],
        };
        Self { axes: std::array::from_fn(axis) }
    }

    /// Returns the windows along each of the last three axes, the axes of a convolution.
    pub fn axes(&self) -> &[WindowAxis; 3] {
        self.axes.last_chunk().expect("there are four axes")
    }

    /// Returns the number of elements of one channel plane of the input.
    pub fn input_len(&self) -> usize {
        self.axes.iter().map(|it| it.input).product()
    }

    /// Returns the number of windows over one channel plane.
    pub fn output_len(&self) -> usize {
        self.axes.iter().map(|it| it.output).product()
    }

    /// Returns the number of taps of one window.
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|it| it.kernel).product()
    }

    /// Returns the distance between successive elements of a run.
    pub fn step(&self) -> usize {
        self.axes[3].stride
    }

    /// Returns the elements under the windows of one channel plane, tap by tap, with taps and windows in row-major
    /// order. Positions that are in no run are padding.
    ///
    /// # Panics
    /// Raises [`Code::Memory`](crate::Code::Memory) when the allocation fails.
    pub fn runs(&self) -> Vec<Run> {
        let [a, b, c, d] = self.axes;
        let mut runs = Vec::new();
        for tap in 0..self.taps() {
            let [tap2, tap3] = [tap / d.kernel, tap % d.kernel];
            let [tap1, tap2] = [tap2 / c.kernel, tap2 % c.kernel];
            let [tap0, tap1] = [tap1 / b.kernel, tap1 % b.kernel];
            let columns = d.inside(tap3);
            if columns.is_empty() {
                continue;
            }
            for at0 in a.inside(tap0) {
                for at1 in b.inside(tap1) {
                    for at2 in c.inside(tap2) {
                        let plane = a.element(tap0, at0) * b.input + b.element(tap1, at1);
                        let line = plane * c.input + c.element(tap2, at2);
                        let run = Run {
                            tap,
                            window: ((at0 * b.output + at1) * c.output + at2) * d.output + columns.start,
                            element: line * d.input + d.element(tap3, columns.start),
                            len: columns.len(),
                        };
                        push(&mut runs, run);
                    }
                }
            }
        }
        runs
    }
}

/// A run of elements under one tap of adjacent windows, evenly spaced by [`Windows::step`].
pub struct Run {
    /// The index of the tap.
    pub tap: usize,
    /// The index of the first window.
    pub window: usize,
    /// The index of the element under the first window.
    pub element: usize,
    /// The number of windows.
    pub len: usize,
}
