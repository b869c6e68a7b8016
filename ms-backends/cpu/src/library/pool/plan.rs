//! Plans pooling: splits windows over planes into windows along lines, and the lines of each row of windows.

use ms_ir::data::Attrs;
use ms_ir::error::Result;
use ms_ops::ops::{MaxPoolAttrs, Windows};
use std::ops::Range;

/// The windows of a pooling over planes.
pub struct Pool {
    /// Number of channel planes.
    pub planes: usize,
    /// The windows over one plane.
    pub windows: Windows,
    /// Number of elements of a plane.
    pub input_len: usize,
    /// Number of windows over a plane.
    pub output_len: usize,
    /// Number of elements of a line.
    pub input: usize,
    /// Number of windows along a line.
    pub output: usize,
    /// Distance between windows along a line.
    pub stride: usize,
    /// Number of taps of a window along a line.
    pub kernel: usize,
    /// Distance between taps along a line.
    pub dilation: usize,
    /// Padding before the first element of a line.
    pub before: usize,
    /// Number of elements before the padding, so that the element under a tap of each window ends a whole stride.
    pub slack: usize,
    /// Number of elements of a line with slack and padding.
    pub pitch: usize,
    /// For each row of windows, the range of its lines in `row_lines`, in order.
    rows: Vec<Range<usize>>,
    /// The start of each line in a plane.
    row_lines: Vec<usize>,
    /// For each row of windows, the end of the last line of this and of all earlier rows.
    ends: Vec<usize>,
}

impl Pool {
    /// Plans pooling for the shapes of the input and of the result.
    pub fn new(attrs: &Attrs, input: &[usize], output: &[usize]) -> Self {
        let at = MaxPoolAttrs::of(attrs);
        let (mut kernel, mut window) = (at.kernel().sizes(), at.window());
        let lead = output.len() - kernel.len();
        let planes = output[..lead].iter().product();
        let (mut input, mut output) = (input[lead..].to_vec(), output[lead..].to_vec());
        let windows = Windows::new(&window, &input, &kernel, &output);
        assert!(u32::try_from(windows.input_len()).is_ok(), "a plane has less than 2^32 elements");
        let [.., last] = *windows.axes();
        // The windows over whole lines.
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
        let row_lines: Vec<usize> = runs.iter().map(|it| it.element * last.input).collect();
        let end = |end: &mut usize, row: &Range<usize>| {
            *end = row_lines[row.clone()].last().map_or(*end, |it| (*end).max(it + last.input));
            Some(*end)
        };
        let ends = rows.iter().scan(0, end).collect();
        Self {
            planes,
            windows,
            input_len: windows.input_len(),
            output_len: windows.output_len(),
            input: last.input,
            output: last.output,
            stride: last.stride,
            kernel: last.kernel,
            dilation: last.dilation,
            before: last.before,
            slack: last.stride - 1,
            pitch: last.stride - 1
                + (last.before + last.input)
                    .max((last.output.max(1) - 1) * last.stride + (last.kernel - 1) * last.dilation + 1),
            rows,
            row_lines,
            ends,
        }
    }

    /// Returns the number of rows of windows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the start of each line of a row of windows, in order.
    pub fn lines(&self, row: usize) -> &[usize] {
        &self.row_lines[self.rows[row].clone()]
    }

    /// Returns the end of the last line of this and of all earlier rows of windows.
    pub fn end(&self, row: usize) -> usize {
        self.ends[row]
    }

    /// Estimates the nanoseconds of all planes on one thread.
    pub fn nanos(&self) -> usize {
        self.planes * (self.input_len + self.output_len * self.windows.taps().isqrt()) / 3
    }
}

/// Loops over planes, inlined so that they are compiled for each instruction set.
pub trait Loops: Sync {
    /// Runs the loops on these planes. `SPECIALIZED` compiles copies of them for common windows and strides.
    fn run<const SPECIALIZED: bool>(&self, planes: Range<usize>) -> Result<()>;
}
