//! What lies under the windows of a convolution or of pooling.

use super::{Spatial, Window, spatial};
use crate::tensor::{Attrs, push};
use std::ops::Range;

/// How windows lie over an input: `output` windows of `kernel` taps along each of three axes, of
/// which those that a tensor does not have are of size one.
#[derive(Clone, Copy)]
pub struct Windows {
    /// Sizes of the input.
    input: Spatial,
    /// Taps of a window.
    kernel: Spatial,
    /// Numbers of windows.
    output: Spatial,
    stride: Spatial,
    dilation: Spatial,
    before: Spatial,
}

impl Windows {
    /// The windows that attributes `at..at + 4` describe, see [`Window`], at sizes that fit each other.
    pub fn new(attrs: &Attrs, at: usize, input: &[usize], kernel: &[usize], output: &[usize]) -> Self {
        let window = Window::of(attrs, at);
        Self {
            input: spatial(input, 1),
            kernel: spatial(kernel, 1),
            output: spatial(output, 1),
            stride: spatial(&window.stride, 1),
            dilation: spatial(&window.dilation, 1),
            before: spatial(&window.before, 0),
        }
    }

    /// Elements of one plane of the input.
    pub fn input_len(&self) -> usize {
        self.input.iter().product()
    }

    /// Windows over one plane.
    pub fn output_len(&self) -> usize {
        self.output.iter().product()
    }

    /// Taps of one window.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// From one element of a run to the next.
    pub fn step(&self) -> usize {
        self.stride[2]
    }

    /// What lies under the windows of one plane, tap by tap, taps and windows in row-major order.
    /// Padding lies under the places that no run names.
    ///
    /// # Panics
    /// Raises [`Code::Memory`](crate::Code::Memory) when the system has no memory for them.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for tap0 in 0..self.kernel[0] {
            for tap1 in 0..self.kernel[1] {
                for tap2 in 0..self.kernel[2] {
                    let tap = (tap0 * self.kernel[1] + tap1) * self.kernel[2] + tap2;
                    let columns = self.inside(2, tap2);
                    if columns.is_empty() {
                        continue;
                    }
                    let column = self.place(2, tap2, columns.start);
                    for at0 in self.inside(0, tap0) {
                        for at1 in self.inside(1, tap1) {
                            let line = self.place(0, tap0, at0) * self.input[1] + self.place(1, tap1, at1);
                            let run = Run {
                                tap,
                                window: (at0 * self.output[1] + at1) * self.output[2] + columns.start,
                                element: line * self.input[2] + column,
                                len: columns.len(),
                            };
                            push(&mut runs, run);
                        }
                    }
                }
            }
        }
        runs
    }

    /// The windows along an axis whose tap lies on an element, not on padding.
    fn inside(&self, axis: usize, tap: usize) -> Range<usize> {
        let (offset, stride) = (tap * self.dilation[axis], self.stride[axis]);
        let first = self.before[axis].saturating_sub(offset).div_ceil(stride).min(self.output[axis]);
        let end = (self.input[axis] + self.before[axis]).saturating_sub(offset).div_ceil(stride);
        first..end.min(self.output[axis]).max(first)
    }

    /// The element on which a tap of a window lies, which is inside.
    fn place(&self, axis: usize, tap: usize, window: usize) -> usize {
        window * self.stride[axis] + tap * self.dilation[axis] - self.before[axis]
    }
}

/// Elements under one tap of neighbouring windows, evenly spaced by [`Windows::step`].
pub struct Run {
    /// The tap.
    pub tap: usize,
    /// The first window.
    pub window: usize,
    /// The element under it.
    pub element: usize,
    /// Number of windows.
    pub len: usize,
}
