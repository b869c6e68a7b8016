//! The windows over planes, as those along lines and the lines of each.

use super::lines::Lines;
use ms_core::ops::{MaxPoolAttrs, Windows};
use ms_core::tensor::Attrs;
use std::ops::Range;

/// The windows over planes.
pub struct Pool {
    /// Number of planes.
    pub planes: usize,
    /// The windows over one of them.
    pub windows: Windows,
    /// Elements of a plane.
    pub input_len: usize,
    /// Windows over a plane.
    pub output_len: usize,
    /// Elements of a line.
    pub input: usize,
    /// Windows along a line.
    pub output: usize,
    /// Distance of the windows along a line.
    pub stride: usize,
    /// The windows along lines.
    pub lines: Lines,
    /// For each row of windows, which of `row_lines` are its lines, in order.
    rows: Vec<Range<usize>>,
    /// Numbers of lines in a plane.
    row_lines: Vec<usize>,
}

impl Pool {
    /// From the shapes of the planes and of their windows.
    pub fn new(attrs: &Attrs, input: &[usize], output: &[usize]) -> Self {
        let at = MaxPoolAttrs::of(attrs);
        let (mut kernel, mut window) = (at.kernel().sizes(), at.window());
        let lead = output.len() - kernel.len();
        let planes = output[..lead].iter().product();
        let (mut input, mut output) = (input[lead..].to_vec(), output[lead..].to_vec());
        let windows = Windows::new(&window, &input, &kernel, &output);
        assert!(u32::try_from(windows.input_len()).is_ok(), "a plane has less than 2^32 elements");
        let [.., last] = *windows.axes();
        // Those over whole lines.
        let end = kernel.len() - 1;
        for list in [&mut kernel[..], &mut window.stride, &mut window.dilation, &mut input, &mut output] {
            list[end] = 1;
        }
        window.before[end] = 0;
        let of_lines = Windows::new(&window, &input, &kernel, &output);
        let mut runs = of_lines.runs();
        runs.sort_by_key(|it| (it.window, it.tap));
        let mut rows = vec![0..0; of_lines.output_len()];
        for (at, run) in runs.iter().enumerate() {
            let row = &mut rows[run.window];
            let start = if row.end == 0 { at } else { row.start };
            *row = start..at + 1;
        }
        Self {
            planes,
            windows,
            input_len: windows.input_len(),
            output_len: windows.output_len(),
            input: last.input,
            output: last.output,
            stride: last.stride,
            lines: Lines::new(last),
            rows,
            row_lines: runs.iter().map(|it| it.element).collect(),
        }
    }

    /// The lines of each row of windows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        self.rows.iter().map(|it| &self.row_lines[it.clone()])
    }

    /// Lines of a plane.
    pub fn height(&self) -> usize {
        self.input_len / self.input
    }

    /// The estimated time of all planes on one thread.
    pub fn nanos(&self) -> usize {
        self.planes * (self.input_len + self.output_len * self.windows.taps().isqrt()) / 3
    }
}
