//! Direct convolution without GEMM: for groups with one output channel, such as depthwise ones, and for small images.
//!
//! Accumulation chains over kernel taps are vectorised over output positions, in the order of [`super`].

use super::grid::Grid;
use super::problem::{Call, Conv, ConvCode, Problem, WINDOWS};
use super::vector::{Chains, Direct, Loops, OUTPUTS, SLACK};
use crate::library::implementation::{Declined, require};
use crate::library::scratch::Scratch;
use ms_ir::CHUNK;
use ms_ir::data::try_room;
use ms_ir::error::Result;
use ms_x64::Isa;
use ms_x64::gemm::{EarlierSums, Shared};
use ms_x64::threads;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of ranges of groups, each of which is a task.
const MAX_CHUNKS: usize = 16;

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
pub struct DirectConv {
    pub conv: Arc<Conv>,
    pub isa: Isa,
    pub grid: Arc<Grid>,
}

impl DirectConv {
    /// Returns the convolution of a problem.
    ///
    /// # Errors
    /// The reason for which it has no compact grid.
    pub fn new(problem: &Problem) -> Result<Self, Declined> {
        let Problem { conv, arithmetic, .. } = problem;
        Ok(Self { conv: conv.clone(), isa: arithmetic.isa, grid: problem.compact_grid()?.clone() })
    }

    /// Returns the convolution of a problem that an implementation has accepted.
    pub fn of_accepted(problem: &Problem) -> Self {
        Self::new(problem).unwrap_or_else(|it| unreachable!("the problem was accepted: {it}"))
    }

    /// Accepts groups with several output channels for which this is faster than GEMM.
    fn is_small<T: Direct>(&self) -> Result<(), Declined> {
        let (conv, bytes) = (&self.conv, self.conv.channels * self.grid.len() * size_of::<T>());
        require(T::has_vectors(self.isa), || "there are no vectors")?;
        let groups = conv.batch * conv.groups;
        require(groups >= MIN_GROUPS, || format!("{groups} groups of all images are less than {MIN_GROUPS}"))?;
        require(bytes <= MAX_BYTES, || format!("the grids of a group have {bytes} bytes, more than {MAX_BYTES}"))
    }

    /// Returns how many elements an image's output positions take in vectors of `lanes` elements, and whether the
    /// vectors run along rows. Otherwise they run over the whole grid. With `overlap`, vectors of a row may overlap.
    pub fn padded(&self, lanes: usize, overlap: bool) -> (usize, bool) {
        let grid = &self.grid;
        let in_rows = grid.rows.len() * grid.columns.next_multiple_of(lanes);
        let whole = grid.span().next_multiple_of(lanes);
        let fits = if overlap { grid.columns >= lanes } else { grid.columns.is_multiple_of(lanes) };
        if fits && in_rows <= whole { (in_rows, true) } else { (whole, false) }
    }

    /// Returns the loops, the vectors of an image, and whether the vectors run along rows of output positions. Their
    /// results are then contiguous; otherwise they span the whole grid.
    fn vectors<T: Direct>(&self, overlap: bool) -> Result<(Loops<T>, Vectors, bool)> {
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
    pub fn taps(&self) -> Result<Vec<usize>> {
        let mut taps = try_room(self.conv.filter_len())?;
        let len = self.grid.len();
        (0..self.conv.channels).for_each(|channel| taps.extend(self.grid.taps.iter().map(|it| channel * len + it)));
        Ok(taps)
    }

    /// Runs `f` on ranges of the groups of all images, which are numbered `image * groups + group`.
    fn for_each_group(&self, f: impl Fn(Range<usize>) -> Result<()> + Sync) -> Result<()> {
        let conv = &self.conv;
        let all = conv.batch * conv.groups;
        let per_chunk = all.div_ceil(MAX_CHUNKS).max(1);
        let of_each = conv.filter_len() * conv.outputs + 4 * (conv.channels + conv.outputs);
        let nanos = all * self.grid.phase_len * of_each / 16;
        threads::try_for_each(all.div_ceil(per_chunk), nanos, |chunk| {
            f(chunk * per_chunk..((chunk + 1) * per_chunk).min(all))
        })
    }
}

/// A direct convolution, with what its calls share.
pub struct Forward<T> {
    pub direct: DirectConv,
    /// See [`DirectConv::taps`].
    pub terms: Vec<usize>,
    pub loops: Loops<T>,
    pub vectors: Vectors,
    pub in_rows: bool,
}

impl<T: Direct> Forward<T> {
    /// Accepts groups with one output channel.
    pub fn accepts_one_output(problem: &Problem) -> Result<(), Declined> {
        let outputs = problem.conv.outputs;
        require(outputs == 1, || format!("a group has {outputs} output channels"))?;
        problem.compact_grid()?;
        problem.has_one_chunk()
    }

    /// Accepts groups with few elements.
    pub fn accepts(problem: &Problem) -> Result<(), Declined> {
        problem.needs_no_columns()?;
        let windows = problem.conv.windows.output_len();
        require(windows >= WINDOWS, || format!("{windows} output positions are less than {WINDOWS}"))?;
        problem.has_one_chunk()?;
        DirectConv::new(problem)?.is_small::<T>()
    }

    /// Prepares a convolution that was accepted. With `overlap`, vectors of a row may overlap.
    pub fn new(problem: &Problem, overlap: bool) -> Result<Self> {
        let direct = DirectConv::of_accepted(problem);
        let (loops, vectors, in_rows) = direct.vectors(overlap)?;
        Ok(Self { terms: direct.taps()?, direct, loops, vectors, in_rows })
    }
}

impl<T: Direct> ConvCode<T> for Forward<T> {
    fn run(&self, call: Call<'_, T>) -> Result<bool> {
        let Self { direct, terms, loops, vectors, in_rows } = self;
        let (conv, grid, in_rows) = (&direct.conv, &direct.grid, *in_rows);
        let Call { operands: [x, w], out, epilogues, .. } = call;
        let (x, w) = (x.all, w.all);
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, filter) = (conv.windows.input_len(), conv.filter_len());
        // The distance between outputs whose results span the whole grid.
        let step = vectors.len() * loops.lanes;
        let windows = conv.windows.output_len();
        let out = Shared::new(out.as_mut_ptr());
        direct.for_each_group(|groups| {
            let mut grids = Scratch::filled(T::default(), conv.channels * grid.len() + SLACK)?;
            let mut results =
                Scratch::filled(T::default(), if in_rows { 0 } else { conv.outputs.min(OUTPUTS) * step })?;
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
                        vectors,
                        x: grids.as_ptr(),
                        terms,
                        weights: (w[conv.weights(group)][first * filter..].as_ptr(), [filter, 1]),
                        outputs,
                        to: if in_rows { (to.as_mut_ptr(), windows) } else { (results.as_mut_ptr(), step) },
                        earlier: EarlierSums::NONE,
                    };
                    // SAFETY: all taps of all output positions are in the grids, which slack follows, and the
                    // destination has room for the results of all vectors.
                    unsafe { chains.compute(loops)? };
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
        })?;
        Ok(true)
    }
}

/// Backward-data of groups with several output channels.
///
/// Zeros fill the gaps between rows of output positions. They change no sum, as weights must be finite.
pub struct BackwardData<T> {
    direct: DirectConv,
    loops: Loops<T>,
    vectors: Vectors,
    /// The first gradient of each output channel.
    terms: Vec<usize>,
}

impl<T: Direct> BackwardData<T> {
    /// Accepts several channels, which share loaded gradients, if this is faster than GEMM. The grid must have one
    /// phase, so that sums are added to neighbouring elements.
    pub fn accepts(problem: &Problem) -> Result<(), Declined> {
        problem.needs_no_columns()?;
        let direct = DirectConv::new(problem)?;
        problem.has_one_chunk()?;
        direct.is_small::<T>()?;
        let (conv, grid) = (&direct.conv, &direct.grid);
        require(conv.channels > 1, || "a group has one channel")?;
        require(grid.phases.len() == 1, || format!("the grid has {} phases", grid.phases.len()))?;
        let bytes = conv.outputs * grid.span() * size_of::<T>();
        require(bytes <= MAX_BYTES, || format!("the gradients of a group have {bytes} bytes, more than {MAX_BYTES}"))?;
        let weights = conv.groups * conv.outputs * conv.filter_len();
        require(weights <= MAX_WEIGHTS, || format!("{weights} weights are more than {MAX_WEIGHTS}"))?;
        require(conv.outputs <= CHUNK, || format!("{} output channels are more than a chunk", conv.outputs))
    }

    /// Prepares a problem that was accepted.
    pub fn new(problem: &Problem) -> Result<Self> {
        let direct = DirectConv::of_accepted(problem);
        let (loops, mut vectors, in_rows) = direct.vectors::<T>(false)?;
        if in_rows {
            vectors.iter_mut().for_each(|[from, to]| *to = *from);
        }
        let step = direct.grid.span() + SLACK;
        let terms = (0..direct.conv.outputs).map(|output| output * step).collect();
        Ok(Self { direct, loops, vectors, terms })
    }
}

impl<T: Direct> ConvCode<T> for BackwardData<T> {
    fn run(&self, call: Call<'_, T>) -> Result<bool> {
        let Self { direct, loops, vectors, terms } = self;
        let (conv, grid) = (&direct.conv, &direct.grid);
        let Call { operands: [g, w], out, .. } = call;
        let (g, w) = (g.all, w.all);
        if !are_finite(w) {
            return Ok(false);
        }
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, taps, filter) = (conv.windows.input_len(), conv.windows.taps(), conv.filter_len());
        let step = grid.span() + SLACK;
        let out = Shared::new(out.as_mut_ptr());
        direct.for_each_group(|groups| {
            let mut gradients = Scratch::filled(T::default(), conv.outputs * step)?;
            let mut sums = Scratch::filled(T::default(), conv.channels * grid.len() + SLACK)?;
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
                        vectors,
                        x: gradients.as_ptr(),
                        terms,
                        weights: (weights[tap..].as_ptr(), [taps, filter]),
                        outputs: conv.channels,
                        to: (sums[*at..].as_mut_ptr(), grid.len()),
                        earlier: EarlierSums { count: 1, distance: 0 },
                    };
                    // SAFETY: the gradients and the sums have slack after the last output position, so whole vectors
                    // are in both.
                    unsafe { chains.compute(loops)? };
                }
                // SAFETY: each group of an image has its own `input_len` elements of the result.
                let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(group * input_len), input_len) };
                to.fill(T::default());
                let planes = to.chunks_exact_mut(plane_len);
                planes.zip(sums.chunks_exact(grid.len())).for_each(|(plane, sums)| grid.load(sums, plane));
            }
            Ok(())
        })?;
        Ok(true)
    }
}

/// Backward-data of groups with one output channel.
///
/// Output positions outside the image count as zeros. They change no sum, as weights must be finite.
pub struct OneOutputBackwardData {
    direct: DirectConv,
    /// The distance of the first gradient from the start of the gradients.
    margin: usize,
    /// For each phase, the start of the gradients that each of its taps reads.
    phases: Vec<Vec<usize>>,
}

impl OneOutputBackwardData {
    /// Prepares a problem that [`Forward::accepts_one_output`] has accepted.
    pub fn new(problem: &Problem) -> Result<Self> {
        let direct = DirectConv::of_accepted(problem);
        let phases = &direct.grid.phases;
        let margin = phases.iter().flatten().map(|it| it.1).max().unwrap_or(0);
        let phases = phases.iter().map(|phase| phase.iter().map(|it| margin - it.1).collect()).collect();
        Ok(Self { direct, margin, phases })
    }
}

impl<T: Direct> ConvCode<T> for OneOutputBackwardData {
    fn run(&self, call: Call<'_, T>) -> Result<bool> {
        let Self { direct, margin, phases } = self;
        let (conv, grid, margin) = (&direct.conv, &direct.grid, *margin);
        let Call { operands: [g, w], out, .. } = call;
        let (g, w) = (g.all, w.all);
        if !are_finite(w) {
            return Ok(false);
        }
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, taps) = (conv.windows.input_len(), conv.windows.taps());
        let loops = T::loops(direct.isa);
        let out = Shared::new(out.as_mut_ptr());
        direct.for_each_group(|groups| {
            let mut gradients = Scratch::filled(T::default(), margin + grid.phase_len + SLACK)?;
            let mut sums = Scratch::filled(T::default(), grid.len() + SLACK)?;
            let mut weights = Scratch::filled(T::default(), taps)?;
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
                    for (number, (phase, starts)) in grid.phases.iter().zip(phases).enumerate() {
                        let weights = &mut weights[..phase.len()];
                        weights.iter_mut().zip(phase).for_each(|(to, it)| *to = filter[it.0]);
                        let to = sums[number * grid.phase_len..].as_mut_ptr();
                        // SAFETY: a phase starts `margin` elements after the first gradient that its taps read, and
                        // slack follows gradients and sums. Vectors that reach into the next phase's sums are
                        // overwritten later.
                        unsafe { (loops.sums)(grid.phase_len, gradients.as_ptr(), starts, weights, to) };
                    }
                    grid.load(&sums, plane);
                }
            }
            Ok(())
        })?;
        Ok(true)
    }
}

/// Returns whether no weight is infinite or NaN.
fn are_finite<T: Direct>(w: &[T]) -> bool {
    w.iter().all(|it| it.is_finite())
}
