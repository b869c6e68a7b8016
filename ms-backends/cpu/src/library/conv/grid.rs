//! Planes of an input, stored so that the elements under one tap of successive windows are successive.

use ms_core::error::Result;
use ms_core::ops::{WindowAxis, Windows};
use ms_core::tensor::try_room;
use std::ops::Range;

/// How a plane is stored in a grid.
///
/// Positions along an axis, counted from the first one under the first window, which may be padding, are
/// divided by the stride: those of one remainder are a *phase*, and in a phase the position under a tap
/// moves by one from one window to the next. Only phases that a tap reads are stored, one after the
/// other, each row-major, where the padding at the end of a row is also that before the next one.
pub struct Grid {
    /// Elements of one phase.
    pub phase_len: usize,
    /// By phase, the taps that read it, with the position under their first window, in order.
    pub phases: Vec<Vec<(usize, usize)>>,
    /// By tap, the element under its first window, in the whole grid.
    pub taps: Vec<usize>,
    /// Where each row of windows starts in a phase, relative to the first window.
    pub rows: Vec<usize>,
    /// Windows of a row.
    pub columns: usize,
    /// Where the plane's elements are in the grid; all others are padding.
    pub lines: Vec<Line>,
    /// Distance of neighbouring elements of a line in the plane.
    pub step: usize,
}

/// Elements of a plane that are neighbours in the grid.
pub struct Line {
    /// Position of the first one in the grid.
    pub at: usize,
    /// Position of the first one in the plane.
    pub element: usize,
    /// Number of elements.
    pub len: usize,
}

/// The phases along one axis.
struct Phases {
    axis: WindowAxis,
    /// The remainders of phases that taps read, ascending.
    remainders: Vec<usize>,
    /// By tap, its phase and the position under the first window.
    taps: Vec<(usize, usize)>,
    /// Positions of a phase.
    size: usize,
    /// Distance of successive rows along this axis, in positions.
    pitch: usize,
}

impl Phases {
    fn new(axis: WindowAxis) -> Self {
        let offsets = || (0..axis.kernel).map(|tap| tap * axis.dilation);
        let mut remainders: Vec<usize> = offsets().map(|it| it % axis.stride).collect();
        remainders.sort_unstable();
        remainders.dedup();
        let tap = |offset: usize| {
            let phase = remainders.binary_search(&(offset % axis.stride)).expect("the list has all remainders");
            (phase, offset / axis.stride)
        };
        let taps: Vec<(usize, usize)> = offsets().map(tap).collect();
        let reach = taps.iter().map(|it| it.1).max().unwrap_or(0);
        let size = axis.output + reach;
        let mut phases = Self { axis, remainders, taps, size, pitch: size };
        // Padding of two rows is in the same place, and no two windows start there.
        let padding = (0..phases.remainders.len()).map(|phase| {
            let inside = phases.inside(phase);
            inside.start.min(size - inside.end)
        });
        phases.pitch -= padding.min().unwrap_or(0).min(reach);
        phases
    }

    /// The positions of a phase that are elements, not padding.
    fn inside(&self, phase: usize) -> Range<usize> {
        let WindowAxis { input, before, stride, .. } = self.axis;
        let remainder = self.remainders[phase];
        let first = before.saturating_sub(remainder).div_ceil(stride).min(self.size);
        let end = (input + before).saturating_sub(remainder).div_ceil(stride);
        first..end.min(self.size).max(first)
    }

    /// The element at a position that is not padding.
    fn element(&self, phase: usize, position: usize) -> usize {
        position * self.axis.stride + self.remainders[phase] - self.axis.before
    }
}

impl Grid {
    /// The grid of an input.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for its lists.
    pub fn new(windows: &Windows) -> Result<Self> {
        let axes = windows.axes().map(Phases::new);
        let [a, b, c] = &axes;
        let counts = axes.each_ref().map(|it| it.remainders.len());
        let number = |phase: [usize; 3]| (phase[0] * counts[1] + phase[1]) * counts[2] + phase[2];
        let position = |at: [usize; 3]| (at[0] * b.pitch + at[1]) * c.pitch + at[2];
        let phase_len = position([a.size - 1, b.size - 1, c.size]);
        let mut phases = vec![Vec::new(); counts.iter().product()];
        let mut taps = try_room(windows.taps())?;
        for &(phase0, at0) in &a.taps {
            for &(phase1, at1) in &b.taps {
                for &(phase2, at2) in &c.taps {
                    let (phase, at) = (number([phase0, phase1, phase2]), position([at0, at1, at2]));
                    phases[phase].push((taps.len(), at));
                    taps.push(phase * phase_len + at);
                }
            }
        }
        let mut rows = try_room(a.axis.output * b.axis.output)?;
        (0..a.axis.output).for_each(|i| rows.extend((0..b.axis.output).map(|j| position([i, j, 0]))));
        let mut lines = try_room(phases.len().saturating_mul(a.size * b.size))?;
        for phase0 in 0..counts[0] {
            for phase1 in 0..counts[1] {
                for phase2 in 0..counts[2] {
                    let columns = c.inside(phase2);
                    if columns.is_empty() {
                        continue;
                    }
                    let first = number([phase0, phase1, phase2]) * phase_len;
                    for i in a.inside(phase0) {
                        for j in b.inside(phase1) {
                            let line = a.element(phase0, i) * b.axis.input + b.element(phase1, j);
                            lines.push(Line {
                                at: first + position([i, j, columns.start]),
                                element: line * c.axis.input + c.element(phase2, columns.start),
                                len: columns.len(),
                            });
                        }
                    }
                }
            }
        }
        Ok(Self { phase_len, phases, taps, rows, columns: c.axis.output, lines, step: c.axis.stride })
    }

    /// Elements of the whole grid.
    pub fn len(&self) -> usize {
        self.phases.len() * self.phase_len
    }

    /// Positions of a phase from the first window to the end of the last one.
    pub fn span(&self) -> usize {
        self.rows.last().map_or(0, |it| it + self.columns)
    }

    /// The number of windows that start before a place of a phase, relative to the first window.
    pub fn windows_before(&self, at: usize) -> usize {
        let rows = self.rows.partition_point(|it| it + self.columns <= at);
        let rest = self.rows.get(rows).map_or(0, |it| at.saturating_sub(*it));
        rows * self.columns + rest
    }

    /// Copies the elements of a plane to a grid whose padding is zero.
    pub fn store<T: Copy>(&self, plane: &[T], grid: &mut [T]) {
        self.store_lines(plane, grid, self.lines.iter());
    }

    /// [`store`](Self::store) for what taps read in some rows of windows.
    pub fn store_rows<T: Copy>(&self, plane: &[T], grid: &mut [T], rows: Range<usize>) {
        let first = self.rows[rows.start];
        let reach = self.phases.iter().flatten().map(|it| it.1).max().unwrap_or(0);
        let end = self.rows[rows.end - 1] + self.columns + reach;
        let is_read = |line: &&Line| {
            let at = line.at % self.phase_len;
            first < at + line.len && at < end
        };
        self.store_lines(plane, grid, self.lines.iter().filter(is_read));
    }

    fn store_lines<'a, T: Copy>(&self, plane: &[T], grid: &mut [T], lines: impl Iterator<Item = &'a Line>) {
        for line in lines {
            let to = &mut grid[line.at..][..line.len];
            let from = &plane[line.element..];
            match self.step {
                1 => to.copy_from_slice(&from[..line.len]),
                // A loop of vectors.
                2 if from.len() >= 2 * line.len => {
                    to.iter_mut().zip(from.as_chunks::<2>().0).for_each(|(to, pair)| *to = pair[0]);
                }
                _ => to.iter_mut().zip(from.iter().step_by(self.step)).for_each(|(to, &from)| *to = from),
            }
        }
    }

    /// Copies the elements of a grid to a plane; elements that are under no tap are left as they are.
    pub fn load<T: Copy>(&self, grid: &[T], plane: &mut [T]) {
        for line in &self.lines {
            let from = &grid[line.at..][..line.len];
            if self.step == 1 {
                plane[line.element..][..line.len].copy_from_slice(from);
            } else {
                let to = plane[line.element..].iter_mut().step_by(self.step);
                to.zip(from).for_each(|(to, &from)| *to = from);
            }
        }
    }
}
