//! Convolutions without matrices: of groups with one output channel, depthwise ones above all, and of small images. Sums
//! over taps are computed for many windows at once, in the order of [`super`].

use super::Conv;
use super::grid::Grid;
use super::vector::{Chains, Direct, Loops, OUTPUTS, SLACK};
use crate::isa::Isa;
use crate::library::epilogues::Epilogues;
use crate::product::{CHUNK, Shared};
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{try_filled, try_room};
use std::ops::Range;

/// Maximum number of ranges of groups, each of which is a task.
const MAX_CHUNKS: usize = 16;

/// The maximum ratio of the size of a phase of a grid to that of its windows.
const MOST_PADDING: usize = 4;

/// The maximum size in bytes of the grids of a group with several output channels, which read it again and again.
const MOST_BYTES: usize = 256 << 10;

/// The maximum number of weights of all groups with several output channels, which a gradient for the input does not read in
/// their order.
const MOST_WEIGHTS: usize = 16 << 10;

/// The minimum number of groups of all images, which are divided among threads, if a group has several output channels.
const MIN_GROUPS: usize = 8;

/// Where vectors of windows start: their elements in a grid, and their results in those of an output.
type Vectors = Vec<[usize; 2]>;

/// A convolution that needs no matrices.
pub struct DirectConv<'a> {
    pub(super) conv: &'a Conv,
    pub(super) isa: Isa,
    pub(super) grid: Grid,
}

impl<'a> DirectConv<'a> {
    /// The convolution; `None` if it has to be computed with matrices: for filters of more than so many terms, and windows
    /// that are far apart.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for lists of its lines.
    pub fn of(conv: &'a Conv, isa: Isa, most: usize) -> Result<Option<Self>> {
        let axes = conv.windows.axes();
        let phase_len = axes.iter().fold(1usize, |len, it| {
            let reach = (it.kernel.saturating_sub(1)).saturating_mul(it.dilation) / it.stride;
            len.saturating_mul(it.output.saturating_add(reach))
        });
        let fits = (1..=most).contains(&conv.filter_len())
            && conv.windows.input_len().min(conv.windows.output_len()) > 0
            && phase_len <= conv.windows.output_len().saturating_mul(MOST_PADDING);
        Ok(if fits { Some(Self { conv, isa, grid: Grid::new(&conv.windows)? }) } else { None })
    }

    /// Whether this is faster than products for groups with several output channels.
    pub fn is_small<T: Direct>(&self) -> bool {
        let (conv, bytes) = (self.conv, self.conv.channels * self.grid.len() * size_of::<T>());
        T::has_vectors(self.isa) && conv.batch * conv.groups >= MIN_GROUPS && bytes <= MOST_BYTES
    }

    /// [`is_small`](Self::is_small) for the gradient for the input of few channels, which share vectors of gradients; these
    /// are added to neighbouring elements.
    pub fn has_small_gradient<T: Direct>(&self) -> bool {
        let (conv, grid) = (self.conv, &self.grid);
        let is_shared = conv.channels > 1 && grid.phases.len() == 1;
        let fits = conv.outputs * grid.span() * size_of::<T>() <= MOST_BYTES && conv.outputs <= CHUNK;
        self.is_small::<T>() && is_shared && fits && conv.groups * conv.outputs * conv.filter_len() <= MOST_WEIGHTS
    }

    /// How many elements are computed for the windows of an image in vectors of so many lanes, which are in rows of
    /// windows if that is less, and otherwise in the whole grid. Vectors in a row may overlap if so it says.
    pub(super) fn padded(&self, lanes: usize, overlap: bool) -> (usize, bool) {
        let grid = &self.grid;
        let in_rows = grid.rows.len() * grid.columns.next_multiple_of(lanes);
        let whole = grid.span().next_multiple_of(lanes);
        let fits = if overlap { grid.columns >= lanes } else { grid.columns.is_multiple_of(lanes) };
        if fits && in_rows <= whole { (in_rows, true) } else { (whole, false) }
    }

    /// The loops, and the vectors of an image; whether these are in rows of windows, of which results are dense, or else
    /// of the whole grid.
    pub(super) fn vectors<T: Direct>(&self, overlap: bool) -> Result<(Loops<T>, Vectors, bool)> {
        let grid = &self.grid;
        let loops = match self.conv.outputs {
            // As many vectors are read as multiplied: half ones are in two lines of the cache less often.
            1 => T::half(self.isa),
            _ => T::fitting(self.isa, |lanes| self.padded(lanes, overlap).0),
        };
        let (padded, in_rows) = self.padded(loops.lanes, overlap);
        let mut vectors = try_room(padded / loops.lanes)?;
        match in_rows {
            false => vectors.extend((0..padded).step_by(loops.lanes).map(|at| [at; 2])),
            true => {
                for (number, row) in grid.rows.iter().enumerate() {
                    let starts = (0..grid.columns).step_by(loops.lanes).map(|at| at.min(grid.columns - loops.lanes));
                    vectors.extend(starts.map(|at| [row + at, number * grid.columns + at]));
                }
            }
        }
        Ok((loops, vectors, in_rows))
    }

    /// The first elements under the taps of a filter, in the grids of all channels of a group.
    pub(super) fn taps(&self) -> Result<Vec<usize>> {
        let mut taps = try_room(self.conv.filter_len())?;
        let len = self.grid.len();
        (0..self.conv.channels).for_each(|channel| taps.extend(self.grid.taps.iter().map(|it| channel * len + it)));
        Ok(taps)
    }

    /// Runs `f` on ranges of the groups of all images, which are numbered one after the other.
    fn for_each_group(&self, f: impl Fn(Range<usize>) -> Result<()> + Sync) -> Result<()> {
        let conv = self.conv;
        let all = conv.batch * conv.groups;
        let per_chunk = all.div_ceil(MAX_CHUNKS).max(1);
        let of_each = conv.filter_len() * conv.outputs + 4 * (conv.channels + conv.outputs);
        let nanos = all * self.grid.phase_len * of_each / 16;
        threads::try_for_each(all.div_ceil(per_chunk), nanos, |chunk| {
            f(chunk * per_chunk..((chunk + 1) * per_chunk).min(all))
        })
    }

    /// The convolution of `x` and `w`, with epilogues.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for grids.
    pub fn forward<T: Direct>(&self, x: &[T], w: &[T], out: &mut [T], epilogues: Epilogues<'_>) -> Result<()> {
        let (conv, grid) = (self.conv, &self.grid);
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, terms, filter) = (conv.windows.input_len(), self.taps()?, conv.filter_len());
        let (loops, vectors, in_rows) = self.vectors::<T>(true)?;
        // Between outputs, of results in the whole grid.
        let step = vectors.len() * loops.lanes;
        let windows = conv.windows.output_len();
        let out = Shared::new(out.as_mut_ptr());
        self.for_each_group(|groups| {
            let mut grids = try_filled(T::default(), conv.channels * grid.len() + SLACK)?;
            let mut results = try_filled(T::default(), if in_rows { 0 } else { conv.outputs.min(OUTPUTS) * step })?;
            for group in groups {
                let planes = x[group * input_len..][..input_len].chunks_exact(plane_len);
                planes.zip(grids.chunks_exact_mut(grid.len())).for_each(|(plane, to)| grid.store(plane, to));
                for first in (0..conv.outputs).step_by(OUTPUTS) {
                    let outputs = OUTPUTS.min(conv.outputs - first);
                    // SAFETY: each group of an image has its own part of the result.
                    let to = unsafe {
                        let to = out.get().add(group * output_len + first * windows);
                        std::slice::from_raw_parts_mut(to, outputs * windows)
                    };
                    let chains = Chains {
                        vectors: &vectors,
                        x: grids.as_ptr(),
                        terms: &terms,
                        weights: (w[conv.weights(group)][first * filter..].as_ptr(), [filter, 1]),
                        outputs,
                        to: if in_rows { (to.as_mut_ptr(), windows) } else { (results.as_mut_ptr(), step) },
                        adds: false,
                    };
                    // SAFETY: the taps of all windows are in the grids, which have slack; there is room for the results
                    // of all vectors.
                    unsafe { chains.compute(&loops) };
                    for output in (0..outputs).filter(|_| !in_rows) {
                        let (results, to) = (&results[output * step..], &mut to[output * windows..][..windows]);
                        for (&row, to) in grid.rows.iter().zip(to.chunks_exact_mut(grid.columns)) {
                            to.copy_from_slice(&results[row..][..to.len()]);
                        }
                    }
                }
                // SAFETY: the elements of the group are computed, and read no more.
                unsafe { epilogues.run(conv.image_part(group, 0..conv.outputs, 0..windows)) };
            }
            Ok(())
        })
    }

    /// The gradient for the input of groups with several output channels, of `g` and `w`, whose elements are finite.
    ///
    /// Between rows of windows are zeros, which do not change sums if weights are finite.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for grids.
    pub fn input_grad_of_several<T: Direct>(&self, g: &[T], w: &[T], out: &mut [T]) -> Result<()> {
        let (conv, grid) = (self.conv, &self.grid);
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, taps, filter) = (conv.windows.input_len(), conv.windows.taps(), conv.filter_len());
        let (loops, mut vectors, in_rows) = self.vectors::<T>(false)?;
        if in_rows {
            vectors.iter_mut().for_each(|[from, to]| *to = *from);
        }
        let step = grid.span() + SLACK;
        let terms: Vec<usize> = (0..conv.outputs).map(|output| output * step).collect();
        let out = Shared::new(out.as_mut_ptr());
        self.for_each_group(|groups| {
            let mut gradients = try_filled(T::default(), conv.outputs * step)?;
            let mut sums = try_filled(T::default(), conv.channels * grid.len() + SLACK)?;
            for group in groups {
                let planes = g[group * output_len..][..output_len].chunks_exact(conv.windows.output_len());
                for (plane, to) in planes.zip(gradients.chunks_exact_mut(step)) {
                    let rows = plane.chunks_exact(grid.columns);
                    rows.zip(&grid.rows).for_each(|(from, &row)| to[row..][..from.len()].copy_from_slice(from));
                }
                sums.fill(T::default());
                let weights = &w[conv.weights(group)];
                for (tap, at) in grid.taps.iter().enumerate() {
                    let chains = Chains {
                        vectors: &vectors,
                        x: gradients.as_ptr(),
                        terms: &terms,
                        weights: (weights[tap..].as_ptr(), [taps, filter]),
                        outputs: conv.channels,
                        to: (sums[*at..].as_mut_ptr(), grid.len()),
                        adds: true,
                    };
                    // SAFETY: both grids have slack after the windows.
                    unsafe { chains.compute(&loops) };
                }
                // SAFETY: each group of an image has its own part of the result.
                let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(group * input_len), input_len) };
                to.fill(T::default());
                let planes = to.chunks_exact_mut(plane_len);
                planes.zip(sums.chunks_exact(grid.len())).for_each(|(plane, sums)| grid.load(sums, plane));
            }
            Ok(())
        })
    }

    /// The gradient for the input of groups with one output channel, of `g` and `w`, whose elements are finite.
    ///
    /// Windows that do not exist are zeros here, which do not change sums if weights are finite.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for grids.
    pub fn input_grad<T: Direct>(&self, g: &[T], w: &[T], out: &mut [T]) -> Result<()> {
        let (conv, grid) = (self.conv, &self.grid);
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, taps) = (conv.windows.input_len(), conv.windows.taps());
        let loops = T::loops(self.isa);
        let margin = grid.phases.iter().flatten().map(|it| it.1).max().unwrap_or(0);
        let phases = grid.phases.iter().map(|phase| phase.iter().map(|it| margin - it.1).collect());
        let phases: Vec<Vec<usize>> = phases.collect();
        let out = Shared::new(out.as_mut_ptr());
        self.for_each_group(|groups| {
            let mut gradients = try_filled(T::default(), margin + grid.phase_len + SLACK)?;
            let mut sums = try_filled(T::default(), grid.len() + SLACK)?;
            let mut weights: Vec<T> = try_room(taps)?;
            for group in groups {
                let rows = g[group * output_len..][..output_len].chunks_exact(grid.columns);
                for (&row, from) in grid.rows.iter().zip(rows) {
                    gradients[margin + row..][..from.len()].copy_from_slice(from);
                }
                // SAFETY: each group of an image has its own part of the result.
                let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(group * input_len), input_len) };
                to.fill(T::default());
                let filters = w[conv.weights(group)].chunks_exact(taps);
                for (filter, plane) in filters.zip(to.chunks_exact_mut(plane_len)) {
                    for (number, (phase, starts)) in grid.phases.iter().zip(&phases).enumerate() {
                        weights.clear();
                        weights.extend(phase.iter().map(|it| filter[it.0]));
                        let to = sums[number * grid.phase_len..].as_mut_ptr();
                        // SAFETY: a phase starts `margin` elements after the first gradient that its taps
                        // read; both have slack. The sums of the next phase are computed after these.
                        unsafe { (loops.sums)(grid.phase_len, gradients.as_ptr(), starts, &weights, to) };
                    }
                    grid.load(&sums, plane);
                }
            }
            Ok(())
        })
    }
}
