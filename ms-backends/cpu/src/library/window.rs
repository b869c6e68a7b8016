//! Windows along spatial axes, as attributes describe them.

use ms_core::tensor::Attrs;
use std::ops::Range;

/// Three spatial axes; shorter lists are filled up in front.
pub type Spatial = [usize; 3];

/// A list of spatial axes filled up in front to three.
pub fn spatial(list: &[usize], fill: usize) -> Spatial {
    let mut out = [fill; 3];
    out[3 - list.len()..].copy_from_slice(list);
    out
}

/// How windows lie over an input: `output` windows of `kernel` taps along each axis.
#[derive(Clone, Copy)]
pub struct Windows {
    /// Sizes of the input.
    pub input: Spatial,
    /// Taps of a window.
    pub kernel: Spatial,
    /// Numbers of windows.
    pub output: Spatial,
    stride: Spatial,
    dilation: Spatial,
    before: Spatial,
}

impl Windows {
    /// The windows whose stride, dilation and padding before are attributes `at..at + 3`.
    pub fn new(attrs: &Attrs, at: usize, input: &[usize], kernel: &[usize], output: &[usize]) -> Self {
        Self {
            input: spatial(input, 1),
            kernel: spatial(kernel, 1),
            output: spatial(output, 1),
            stride: spatial(&attrs.sizes(at), 1),
            dilation: spatial(&attrs.sizes(at + 1), 1),
            before: spatial(&attrs.sizes(at + 2), 0),
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

    /// The windows along an axis whose tap lies on an element, not on padding.
    pub fn inside(&self, axis: usize, tap: usize) -> Range<usize> {
        let (offset, stride) = (tap * self.dilation[axis], self.stride[axis]);
        let first = self.before[axis].saturating_sub(offset).div_ceil(stride).min(self.output[axis]);
        let end = (self.input[axis] + self.before[axis]).saturating_sub(offset).div_ceil(stride);
        first..end.min(self.output[axis]).max(first)
    }

    /// The element on which a tap of a window lies, which is inside.
    pub fn place(&self, axis: usize, tap: usize, window: usize) -> usize {
        window * self.stride[axis] + tap * self.dilation[axis] - self.before[axis]
    }

    /// The elements along an axis on which the taps of a window lie.
    pub fn elements(&self, axis: usize, window: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let (start, step, size) = (window * self.stride[axis], self.dilation[axis], self.input[axis]);
        let (before, taps) = (self.before[axis], self.kernel[axis]);
        let first = before.saturating_sub(start).div_ceil(step).min(taps);
        let end = (size + before).saturating_sub(start).div_ceil(step).min(taps);
        (first..end.max(first)).map(move |tap| start + tap * step - before)
    }

    /// Visits the lines of one plane: for each tap and each line of windows along the last axis,
    /// the number of the tap and of the line's first window, and the run of elements under it.
    pub fn lines(&self, mut visit: impl FnMut(usize, usize, Option<Run>)) {
        let mut tap = 0;
        for tap0 in 0..self.kernel[0] {
            for tap1 in 0..self.kernel[1] {
                let (inside0, inside1) = (self.inside(0, tap0), self.inside(1, tap1));
                for tap2 in 0..self.kernel[2] {
                    let windows = self.inside(2, tap2);
                    for at0 in 0..self.output[0] {
                        for at1 in 0..self.output[1] {
                            let on = inside0.contains(&at0) && inside1.contains(&at1) && !windows.is_empty();
                            let run = on.then(|| {
                                let line = self.place(0, tap0, at0) * self.input[1] + self.place(1, tap1, at1);
                                let column = self.place(2, tap2, windows.start);
                                Run {
                                    windows: windows.clone(),
                                    first: line * self.input[2] + column,
                                    step: self.stride[2],
                                }
                            });
                            visit(tap, (at0 * self.output[1] + at1) * self.output[2], run);
                        }
                    }
                    tap += 1;
                }
            }
        }
    }
}

/// Evenly spaced elements under one tap of neighbouring windows.
pub struct Run {
    /// The windows of the line whose tap lies on an element.
    pub windows: Range<usize>,
    /// The element under the first of them.
    pub first: usize,
    /// From one element to the next.
    pub step: usize,
}
