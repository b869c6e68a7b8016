//! Direct convolution without GEMM: for groups with one output channel, such as depthwise ones, and for small images.
//!
//! Accumulation chains over kernel taps are vectorised over output positions, in the order of [`super`].

use super::Conv;
use super::grid::Grid;
use super::vector::{Chains, Direct, Loops, OUTPUTS, SLACK};
use crate::library::epilogues::Epilogues;
use ms_ir::CHUNK;
use ms_ir::data::{try_filled, try_room};
use ms_ir::error::Result;
use ms_x64::Isa;
use ms_x64::gemm::{EarlierSums, Shared};
use ms_x64::threads;
use std::ops::Range;

/// Maximum number of ranges of groups, each of which is a task.
const MAX_CHUNKS: usize = 16;

/// Maximum ratio of the size of a phase of the grid to the number of output positions.
const MAX_PADDING: usize = 4;

/// Maximum size in bytes of the grids of a group with several output channels, which reads them repeatedly.
const MAX_BYTES: usize = 256 << 10;

/// Maximum number of weights of all groups with several output channels for backward-data, which reads them with
/// strides.
const MAX_WEIGHTS: usize = 16 << 10;

/// Minimum number of groups of all images, which threads share, if a group has several output channels.
const MIN_GROUPS: usize = 8;

/// Vectors of output positions: the index of each in a grid, and the index of its result in an output plane.
type Vectors = Vec<[usize; 2]>;

/// A convolution that needs no GEMM.
pub struct DirectConv<'a> {
    pub(super) conv: &'a Conv,
    pub(super) isa: Isa,
    pub(super) grid: Grid,
}

impl<'a> DirectConv<'a> {
    /// Prepares direct convolution; `None` if filters have more than `most` weights, or if kernel taps lie too far
    /// apart for a compact grid.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of the grid.
    pub fn new(conv: &'a Conv, isa: Isa, most: usize) -> Result<Option<Self>> {
        let axes = conv.windows.axes();
        let phase_len = axes.iter().fold(1usize, |len, it| {
            let reach = (it.kernel.saturating_sub(1)).saturating_mul(it.dilation) / it.stride;
            len.saturating_mul(it.output.saturating_add(reach))
        });
        let fits = (1..=most).contains(&conv.filter_len())
            && conv.windows.input_len().min(conv.windows.output_len()) > 0
            && phase_len <= conv.windows.output_len().saturating_mul(MAX_PADDING);
        Ok(if fits { Some(Self { conv, isa, grid: Grid::new(&conv.windows)? }) } else { None })
    }

    /// Whether this is faster than GEMM for groups with several output channels.
    pub fn is_small<T: Direct>(&self) -> bool {
        let (conv, bytes) = (self.conv, self.conv.channels * self.grid.len() * size_of::<T>());
        T::has_vectors(self.isa) && conv.batch * conv.groups >= MIN_GROUPS && bytes <= MAX_BYTES
    }

    /// Whether this is faster than GEMM for backward-data of several channels, which share loaded gradients. The grid
    /// must have one phase, so that sums are added to neighbouring elements.
    pub fn is_small_backward_data<T: Direct>(&self) -> bool {
        let (conv, grid) = (self.conv, &self.grid);
        let is_shared = conv.channels > 1 && grid.phases.len() == 1;
        let fits = conv.outputs * grid.span() * size_of::<T>() <= MAX_BYTES && conv.outputs <= CHUNK;
        self.is_small::<T>() && is_shared && fits && conv.groups * conv.outputs * conv.filter_len() <= MAX_WEIGHTS
    }

    /// Returns how many elements an image's output positions take in vectors of `lanes` elements, and whether the
    /// vectors run along rows. Otherwise they run over the whole grid. With `overlap`, vectors of a row may overlap.
    pub(super) fn padded(&self, lanes: usize, overlap: bool) -> (usize, bool) {
        let grid = &self.grid;
        let in_rows = grid.rows.len() * grid.columns.next_multiple_of(lanes);
        let whole = grid.span().next_multiple_of(lanes);
        let fits = if overlap { grid.columns >= lanes } else { grid.columns.is_multiple_of(lanes) };
        if fits && in_rows <= whole { (in_rows, true) } else { (whole, false) }
    }

    /// Returns the loops, the vectors of an image, and whether the vectors run along rows of output positions. Their
    /// results are then contiguous; otherwise they span the whole grid.
    pub(super) fn vectors<T: Direct>(&self, overlap: bool) -> Result<(Loops<T>, Vectors, bool)> {
        let grid = &self.grid;
        let loops = match self.conv.outputs {
            // The loops load as many vectors as they multiply, and half-width vectors cross cache lines less often.
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

    /// Returns the first elements under the taps of a filter, in the grids of all channels of a group.
    pub(super) fn taps(&self) -> Result<Vec<usize>> {
        let mut taps = try_room(self.conv.filter_len())?;
        let len = self.grid.len();
        (0..self.conv.channels).for_each(|channel| taps.extend(self.grid.taps.iter().map(|it| channel * len + it)));
        Ok(taps)
    }

    /// Runs `f` on ranges of the groups of all images, which are numbered `image * groups + group`.
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

    /// Computes the convolution of `x` and `w`, with epilogues.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for grids.
    pub fn forward<T: Direct>(&self, x: &[T], w: &[T], out: &mut [T], epilogues: Epilogues<'_>) -> Result<()> {
        let (conv, grid) = (self.conv, &self.grid);
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, terms, filter) = (conv.windows.input_len(), self.taps()?, conv.filter_len());
        let (loops, vectors, in_rows) = self.vectors::<T>(true)?;
        // The distance between outputs whose results span the whole grid.
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
                    // SAFETY: each group of an image has its own part of the result, with `windows` elements for each
                    // output channel.
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
                        earlier: EarlierSums::NONE,
                    };
                    // SAFETY: all taps of all output positions are in the grids, which slack follows, and the
                    // destination has room for the results of all vectors.
                    unsafe { chains.compute(&loops)? };
                    for output in (0..outputs).filter(|_| !in_rows) {
                        let (results, to) = (&results[output * step..], &mut to[output * windows..][..windows]);
                        for (&row, to) in grid.rows.iter().zip(to.chunks_exact_mut(grid.columns)) {
                            to.copy_from_slice(&results[row..][..to.len()]);
                        }
                    }
                }
                // SAFETY: the elements of the group are computed, and nothing reads them after the epilogues.
                unsafe { epilogues.run(conv.image_part(group, 0..conv.outputs, 0..windows)) };
            }
            Ok(())
        })
    }

    /// Computes backward-data of groups with several output channels, of `g` and `w`.
    ///
    /// Zeros fill the gaps between rows of output positions. They change no sum, as `w` must be finite.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for grids.
    pub fn backward_data_of_several<T: Direct>(&self, g: &[T], w: &[T], out: &mut [T]) -> Result<()> {
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
                        earlier: EarlierSums { count: 1, distance: 0 },
                    };
                    // SAFETY: the gradients and the sums have slack after the last output position, so whole vectors
                    // are in both.
                    unsafe { chains.compute(&loops)? };
                }
                // SAFETY: each group of an image has its own `input_len` elements of the result.
                let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(group * input_len), input_len) };
                to.fill(T::default());
                let planes = to.chunks_exact_mut(plane_len);
                planes.zip(sums.chunks_exact(grid.len())).for_each(|(plane, sums)| grid.load(sums, plane));
            }
            Ok(())
        })
    }

    /// Computes backward-data of groups with one output channel, of `g` and `w`.
    ///
    /// Output positions outside the image count as zeros. They change no sum, as `w` must be finite.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for grids.
    pub fn backward_data<T: Direct>(&self, g: &[T], w: &[T], out: &mut [T]) -> Result<()> {
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
                // SAFETY: each group of an image has its own `input_len` elements of the result.
                let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(group * input_len), input_len) };
                to.fill(T::default());
                let filters = w[conv.weights(group)].chunks_exact(taps);
                for (filter, plane) in filters.zip(to.chunks_exact_mut(plane_len)) {
                    for (number, (phase, starts)) in grid.phases.iter().zip(&phases).enumerate() {
                        weights.clear();
                        weights.extend(phase.iter().map(|it| filter[it.0]));
                        let to = sums[number * grid.phase_len..].as_mut_ptr();
                        // SAFETY: a phase starts `margin` elements after the first gradient that its taps read, and
                        // slack follows gradients and sums. Vectors that reach into the next phase's sums are
                        // overwritten later.
                        unsafe { (loops.sums)(grid.phase_len, gradients.as_ptr(), starts, &weights, to) };
                    }
                    grid.load(&sums, plane);
                }
            }
            Ok(())
        })
    }
}
