//! Stores channel planes by stride phase, so that the elements under one kernel tap of adjacent output positions are
//! contiguous.

use ms_ir::data::try_room;
use ms_ir::error::Result;
use ms_ops::ops::{WindowAxis, Windows};
use std::ops::Range;

/// The layout of a padded channel plane.
///
/// Along an axis, positions are counted from the first one under the first output position, which may be padding.
/// Positions with the same remainder modulo the stride form a *phase*. From one output position to the next, a kernel
/// tap moves by one within its phase. Only phases that a tap reads are stored, one after another and each row-major.
/// The padding at the end of a row is also the padding before the next row.
pub struct Grid {
    /// The number of elements of a phase.
    pub phase_len: usize,
    /// For each phase, the kernel taps that read it, each with its position under the first output position, in order.
    pub phases: Vec<Vec<(usize, usize)>>,
    /// For each kernel tap, the index in the grid of the element under the first output position.
    pub taps: Vec<usize>,
    /// The index of each row of output positions in a phase, relative to the first output position.
    pub rows: Vec<usize>,
    /// The number of output positions of a row.
    pub columns: usize,
    /// The runs of the plane's elements in the grid; all other elements are padding.
    pub runs: Vec<GridRun>,
    /// The distance in the plane of elements that are adjacent in the grid.
    pub step: usize,
}

/// A run of a plane's elements that are contiguous in the grid.
pub struct GridRun {
    /// The index of the first element in the grid.
    pub at: usize,
    /// The index of the first element in the plane.
    pub element: usize,
    /// The number of elements.
    pub len: usize,
}

/// The phases along one axis.
struct Phases {
    axis: WindowAxis,
    /// The remainders of phases that kernel taps read, in ascending order.
    remainders: Vec<usize>,
    /// For each kernel tap, its phase and its position under the first output position.
    taps: Vec<(usize, usize)>,
    /// The number of positions of a phase.
    size: usize,
    /// The distance of successive rows along this axis, in positions.
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
        // Adjacent rows share their padding, as no two output positions start there.
        let padding = (0..phases.remainders.len()).map(|phase| {
            let inside = phases.inside(phase);
            inside.start.min(size - inside.end)
        });
        phases.pitch -= padding.min().unwrap_or(0).min(reach);
        phases
    }

    /// Returns the positions of a phase that are elements, not padding.
    fn inside(&self, phase: usize) -> Range<usize> {
        let WindowAxis { input, before, stride, .. } = self.axis;
        let remainder = self.remainders[phase];
        let first = before.saturating_sub(remainder).div_ceil(stride).min(self.size);
        let end = (input + before).saturating_sub(remainder).div_ceil(stride);
        first..end.min(self.size).max(first)
    }

    /// Returns the element at a position that is not padding.
    fn element(&self, phase: usize, position: usize) -> usize {
        position * self.axis.stride + self.remainders[phase] - self.axis.before
    }
}

impl Grid {
    /// Returns the grid of an input.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for its lists.
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
        let mut runs = try_room(phases.len().saturating_mul(a.size * b.size))?;
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
                            let run = a.element(phase0, i) * b.axis.input + b.element(phase1, j);
                            runs.push(GridRun {
                                at: first + position([i, j, columns.start]),
                                element: run * c.axis.input + c.element(phase2, columns.start),
                                len: columns.len(),
                            });
                        }
                    }
                }
            }
        }
        Ok(Self { phase_len, phases, taps, rows, columns: c.axis.output, runs, step: c.axis.stride })
    }

    /// Returns the number of elements of the grid.
    pub fn len(&self) -> usize {
        self.phases.len() * self.phase_len
    }

    /// Returns the number of positions of a phase from the first output position to the end of the last one.
    pub fn span(&self) -> usize {
        self.rows.last().map_or(0, |it| it + self.columns)
    }

    /// Returns the number of output positions before position `at` of a phase, which is relative to the first output
    /// position.
    pub fn windows_before(&self, at: usize) -> usize {
        let rows = self.rows.partition_point(|it| it + self.columns <= at);
        let rest = self.rows.get(rows).map_or(0, |it| at.saturating_sub(*it));
        rows * self.columns + rest
    }

    /// Copies the elements of a plane to a grid whose padding is zero.
    pub fn store<T: Copy>(&self, plane: &[T], grid: &mut [T]) {
        self.store_runs(plane, grid, self.runs.iter());
    }

    /// Copies only the elements that kernel taps read for some rows of output positions.
    pub fn store_rows<T: Copy>(&self, plane: &[T], grid: &mut [T], rows: Range<usize>) {
        let first = self.rows[rows.start];
        let reach = self.phases.iter().flatten().map(|it| it.1).max().unwrap_or(0);
        let end = self.rows[rows.end - 1] + self.columns + reach;
        let is_read = |run: &&GridRun| {
            let at = run.at % self.phase_len;
            first < at + run.len && at < end
        };
        self.store_runs(plane, grid, self.runs.iter().filter(is_read));
    }

    fn store_runs<'a, T: Copy>(&self, plane: &[T], grid: &mut [T], runs: impl Iterator<Item = &'a GridRun>) {
        for run in runs {
            let to = &mut grid[run.at..][..run.len];
            let from = &plane[run.element..];
            match self.step {
                1 => to.copy_from_slice(&from[..run.len]),
                // This loop is vectorised.
                2 if from.len() >= 2 * run.len => {
                    to.iter_mut().zip(from.as_chunks::<2>().0).for_each(|(to, pair)| *to = pair[0]);
                }
                _ => to.iter_mut().zip(from.iter().step_by(self.step)).for_each(|(to, &from)| *to = from),
            }
        }
    }

    /// Copies the elements of a grid to a plane; elements under no kernel tap keep their values.
    pub fn load<T: Copy>(&self, grid: &[T], plane: &mut [T]) {
        for run in &self.runs {
            let from = &grid[run.at..][..run.len];
            if self.step == 1 {
                plane[run.element..][..run.len].copy_from_slice(from);
            } else {
                let to = plane[run.element..].iter_mut().step_by(self.step);
                to.zip(from).for_each(|(to, &from)| *to = from);
            }
        }
    }
}
