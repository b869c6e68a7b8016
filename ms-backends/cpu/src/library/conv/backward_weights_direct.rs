//! Backward-weights without GEMM, vectorised over groups or over the output channels of a group. [`super`] specifies
//! the order of sums.

use super::direct::DirectConv;
use super::problem::{Call, ConvCode, Problem};
use super::vector::{Direct, Loops, SLACK, TAPS, Windows};
use crate::library::implementation::{Declined, require};
use crate::library::scratch::{Scratch, bytes_of};
use ms_ir::error::Result;
use ms_ir::{CHUNK, PairwiseTree};
use ms_x64::gemm::{Matrix, Shared, pack};
use ms_x64::threads;
use std::ops::Range;

/// Maximum numbers of output channels of a group for this algorithm: for pointwise convolution, and for others.
const MAX_OUTPUTS: [usize; 2] = [32, 64];

/// Vectorised sums over output positions of products of gradients and of the elements under kernel taps.
struct WindowSums<'a, T> {
    run: Windows<T>,
    taps: &'a [usize],
    lanes: usize,
    /// Element strides between positions of a grid, and between output positions of a gradient.
    steps: [usize; 2],
}

/// Accepts problems with a compact grid and few weights of a filter.
fn accepts_filter(problem: &Problem) -> Result<(), Declined> {
    problem.prefers_vectors()?;
    problem.compact_grid()?;
    problem.has_one_chunk()
}

/// Backward-weights of groups with one output channel, one group per vector lane.
pub struct ByGroups {
    direct: DirectConv,
    taps: Vec<usize>,
}

impl ByGroups {
    /// Accepts enough groups to fill a vector.
    pub fn accepts<T: Direct>(problem: &Problem) -> Result<(), Declined> {
        let (conv, lanes) = (&problem.conv, T::loops(problem.arithmetic.isa).lanes);
        require(conv.outputs == 1, || format!("a group has {} output channels", conv.outputs))?;
        require(conv.groups >= lanes, || format!("{} groups do not fill a vector of {lanes}", conv.groups))?;
        accepts_filter(problem)
    }

    /// Prepares a problem that was accepted.
    pub fn new(problem: &Problem) -> Result<Self> {
        let direct = DirectConv::of_accepted(problem);
        Ok(Self { taps: direct.taps()?, direct })
    }
}

impl<T: Direct> ConvCode<T> for ByGroups {
    fn run(&self, Call { operands: [x, g], out, .. }: Call<'_, T>) -> Result<bool> {
        let Self { direct, taps } = self;
        let (x, g, conv, grid) = (x.all, g.all, &direct.conv, &direct.grid);
        let (loops, transpose) = (T::loops(direct.isa), T::tile(direct.isa).transpose);
        let (lanes, filter) = (loops.lanes, conv.filter_len());
        let (input_len, windows) = conv.image_lens();
        let plane_len = conv.windows.input_len();
        let out = Shared::new(out.as_mut_ptr());
        let blocks = conv.groups.div_ceil(lanes);
        let terms = conv.batch * windows;
        threads::try_for_each(blocks, blocks * terms * (filter + 4 * conv.channels), |block| {
            // The last block overlaps the one before it.
            let first = (block * lanes).min(conv.groups - lanes);
            let mut grids = Scratch::filled(T::default(), conv.channels * grid.len() * lanes)?;
            let mut gradients = Scratch::filled(T::default(), windows * lanes)?;
            let operands = |image: usize, _: Range<usize>| {
                let group = image * conv.groups + first;
                for channel in 0..conv.channels {
                    let plane = &x[group * input_len + channel * plane_len..];
                    for run in &grid.runs {
                        let from = Matrix {
                            first: plane[run.element..].as_ptr(),
                            steps: [input_len as isize, grid.step as isize],
                        };
                        let to = grids[(channel * grid.len() + run.at) * lanes..][..run.len * lanes].as_mut_ptr();
                        // SAFETY: `lanes` groups follow `first`, and the run lies in the plane of each.
                        unsafe { pack(transpose, from, lanes, run.len, to) };
                    }
                }
                let from = Matrix::dense(g[group * windows..].as_ptr(), windows);
                // SAFETY: `lanes` groups follow `first`, each with `windows` gradients.
                unsafe { pack(transpose, from, lanes, windows, gradients.as_mut_ptr()) };
                (grids.as_ptr(), gradients.as_ptr())
            };
            let mut sums = PairwiseSums::new(terms.div_ceil(CHUNK), filter * lanes)?;
            let end_chunk = |chunk: usize, chains: &[T]| sums.push(chunk, chains);
            let of = WindowSums { run: loops.windows, taps, lanes, steps: [lanes, lanes] };
            // SAFETY: the grids have `lanes` elements for every position, and the gradients for every output position.
            unsafe { direct.sum_windows(&of, 0..terms, operands, end_chunk)? };
            for group in block * lanes..((block + 1) * lanes).min(conv.groups) {
                // SAFETY: each group has its own `filter` weights.
                let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(group * filter), filter) };
                let sums = sums.total()[group - first..].iter().step_by(lanes);
                to.iter_mut().zip(sums).for_each(|(to, &sum)| *to = sum);
            }
            Ok(())
        })?;
        Ok(true)
    }
}

/// Backward-weights of groups with few output channels, one channel per vector lane.
///
/// A task sums some chunks of output positions for some of the taps, from its own copies of the operands.
pub struct ByOutputs<T> {
    direct: DirectConv,
    taps: Vec<usize>,
    loops: Loops<T>,
}

impl<T: Direct> ByOutputs<T> {
    /// Accepts few output channels that fill a part of a vector.
    pub fn accepts(problem: &Problem) -> Result<(), Declined> {
        let (conv, lanes) = (&problem.conv, T::loops(problem.arithmetic.isa).lanes);
        let [of_pointwise, most] = MAX_OUTPUTS;
        let most = if conv.is_pointwise() { of_pointwise } else { most };
        let (least, outputs) = (lanes / 4, conv.outputs);
        require(lanes > 1, || "there are no vectors")?;
        let is_between = (least..=most).contains(&outputs);
        require(is_between, || format!("a group has {outputs} output channels, not {least} to {most}"))?;
        accepts_filter(problem)
    }

    /// Prepares a problem that was accepted.
    pub fn new(problem: &Problem) -> Result<Self> {
        let direct = DirectConv::of_accepted(problem);
        let loops = T::fitting(direct.isa, |lanes| direct.conv.outputs.next_multiple_of(lanes));
        Ok(Self { taps: direct.taps()?, direct, loops })
    }

    /// Returns the number of sums of all chunks.
    fn sums(&self) -> usize {
        let (conv, lanes) = (&self.direct.conv, self.loops.lanes);
        let chunks = (conv.batch * conv.windows.output_len()).div_ceil(CHUNK);
        conv.groups * conv.outputs.div_ceil(lanes) * chunks * conv.filter_len() * lanes
    }
}

impl<T: Direct> ConvCode<T> for ByOutputs<T> {
    fn workspace(&self) -> usize {
        bytes_of::<T>(self.sums())
    }

    fn run(&self, Call { operands: [x, g], out, mut workspace, .. }: Call<'_, T>) -> Result<bool> {
        let Self { direct, taps, loops } = self;
        let (x, g, conv, grid) = (x.all, g.all, &direct.conv, &direct.grid);
        let transpose = T::tile(direct.isa).transpose;
        let (lanes, filter) = (loops.lanes, conv.filter_len());
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, windows) = (conv.windows.input_len(), conv.windows.output_len());
        let (terms, blocks) = (conv.batch * windows, conv.outputs.div_ceil(lanes));
        let (filters, chunks) = (conv.groups * blocks, terms.div_ceil(CHUNK));
        let tasks = conv.tasks().div_ceil(filters);
        let of_run = chunks.div_ceil(tasks);
        let runs = chunks.div_ceil(of_run);
        let of_part = filter.div_ceil(tasks.div_ceil(runs)).next_multiple_of(TAPS);
        let parts = filter.div_ceil(of_part);
        // Chunks are stored apart, so that they can be combined at the end.
        let sums = workspace.take::<T>(self.sums());
        let shared = Shared::new(sums.as_mut_ptr().cast::<T>());
        let nanos = filters * terms * (filter / 2 + conv.channels);
        threads::try_for_each(filters * runs * parts, nanos, |task| {
            let (run, part) = (task / parts % runs, task % parts * of_part);
            let (number, block) = (task / (parts * runs), task / (parts * runs) % blocks);
            let (group, first) = (number / blocks, block * lanes);
            let count = lanes.min(conv.outputs - first);
            let part = part..filter.min(part + of_part);
            let channels = part.start / grid.taps.len()..(part.end - 1) / grid.taps.len() + 1;
            let (grids_len, skipped) = (channels.len() * grid.len(), channels.start * grid.len());
            let mut grids = Scratch::filled(T::default(), grids_len)?;
            let mut gradients = Scratch::filled(T::default(), windows * count + SLACK)?;
            let operands = |image: usize, windows_read: Range<usize>| {
                let group = image * conv.groups + group;
                let rows = windows_read.start / grid.columns..(windows_read.end - 1) / grid.columns + 1;
                let planes = x[group * input_len..][..input_len].chunks_exact(plane_len);
                let planes = planes.skip(channels.start).zip(grids.chunks_exact_mut(grid.len()));
                planes.for_each(|(plane, to)| grid.store_rows(plane, to, rows.clone()));
                let from = g[group * output_len + first * windows + windows_read.start..].as_ptr();
                let to = gradients[windows_read.start * count..].as_mut_ptr();
                // SAFETY: `count` output channels follow `first`, each with these output positions.
                unsafe { pack(transpose, Matrix::dense(from, windows), count, windows_read.len(), to) };
                (grids.as_ptr().wrapping_sub(skipped), gradients.as_ptr())
            };
            let of = WindowSums { run: loops.splat_windows, taps: &taps[part.clone()], lanes, steps: [1, count] };
            let of_run = run * of_run * CHUNK..terms.min((run + 1) * of_run * CHUNK);
            let end_chunk = |chunk: usize, chains: &[T]| {
                let at = ((number * chunks + chunk) * filter + part.start) * lanes;
                // SAFETY: no two tasks have the same tap of the same chunk, whose sums begin at `at`.
                let to = unsafe { std::slice::from_raw_parts_mut(shared.get().add(at), chains.len()) };
                to.copy_from_slice(chains);
            };
            // SAFETY: the grids have every position that these taps read. The gradients have `count` elements for every
            // output position, which others or slack follow.
            unsafe { direct.sum_windows(&of, of_run, operands, end_chunk) }
        })?;
        // SAFETY: the tasks have written the sums of all taps of all chunks.
        let sums = unsafe { std::slice::from_raw_parts(sums.as_ptr().cast::<T>(), sums.len()) };
        for (number, all) in sums.chunks_exact(chunks * filter * lanes).enumerate() {
            let mut sums = PairwiseSums::new(chunks, filter * lanes)?;
            all.chunks_exact(filter * lanes).enumerate().for_each(|(chunk, chains)| sums.push(chunk, chains));
            let sums = sums.total();
            let (group, first) = (number / blocks, number % blocks * lanes);
            let weights = out[conv.weights(group)].chunks_exact_mut(filter).skip(first);
            for (output, to) in weights.take(lanes).enumerate() {
                to.iter_mut().zip(sums[output..].iter().step_by(lanes)).for_each(|(to, &sum)| *to = sum);
            }
        }
        Ok(true)
    }
}

impl DirectConv {
    /// Sums over a range of output positions, which starts at a chunk.
    ///
    /// `operands` returns the grids and gradients of an image, of which a range of output positions is read.
    /// `end_chunk` receives the index of a chunk, and its sums by tap and lane.
    ///
    /// # Safety
    /// The operands have the elements that the loop reads for these taps and output positions.
    unsafe fn sum_windows<T: Direct>(
        &self,
        of: &WindowSums<'_, T>,
        terms: Range<usize>,
        mut operands: impl FnMut(usize, Range<usize>) -> (*const T, *const T),
        mut end_chunk: impl FnMut(usize, &[T]),
    ) -> Result<()> {
        let (grid, windows) = (&self.grid, self.conv.windows.output_len());
        let mut chains = Scratch::filled(T::default(), of.taps.len() * of.lanes)?;
        let mut at = terms.start;
        while at < terms.end {
            let image = at / windows;
            let end = terms.end.min((image + 1) * windows);
            let (grids, gradients) = operands(image, at - image * windows..end - image * windows);
            while at < end {
                let (row, column) = (at % windows / grid.columns, at % grid.columns);
                let left = end.min((at / CHUNK + 1) * CHUNK) - at;
                // Whole rows, or a part of one.
                let (rows, count) = match left / grid.columns {
                    whole if whole > 0 && column == 0 => (whole, grid.columns),
                    _ => (1, left.min(grid.columns - column)),
                };
                let x = grids.wrapping_add(column * of.steps[0]);
                let g = gradients.wrapping_add(at % windows * of.steps[1]);
                for (taps, chains) in of.taps.chunks(TAPS).zip(chains.chunks_mut(TAPS * of.lanes)) {
                    let rows = &grid.rows[row..row + rows];
                    // SAFETY: `rows` and `count` stay within the output positions of this image, which the operands
                    // cover by this function's contract.
                    unsafe { (of.run)((rows, count), x, taps, (g, of.steps[1]), chains.as_mut_ptr()) };
                }
                at += rows * count;
                if at.is_multiple_of(CHUNK) || at == terms.end {
                    end_chunk((at - 1) / CHUNK, &chains);
                    chains.fill(T::default());
                }
            }
        }
        Ok(())
    }
}

/// The slots of a [`PairwiseTree`] of vectors of sums.
struct PairwiseSums<T> {
    tree: PairwiseTree,
    /// The number of sums of a chunk.
    len: usize,
    slots: Scratch<T>,
}

impl<T: Direct> PairwiseSums<T> {
    /// Prepares slots for chunks of `len` sums.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the slots.
    fn new(chunks: usize, len: usize) -> Result<Self> {
        let tree = PairwiseTree::new(chunks);
        Ok(Self { tree, len, slots: Scratch::filled(T::default(), tree.slots().saturating_mul(len))? })
    }

    /// Combines the sums of the next chunk with the slots.
    fn push(&mut self, chunk: usize, sums: &[T]) {
        let combined = self.tree.combined(chunk);
        let (to, others) = self.slots[combined.start * self.len..].split_at_mut(self.len);
        let Some(last) = combined.len().checked_sub(1) else { return to.copy_from_slice(sums) };
        for (at, (to, &sum)) in to.iter_mut().zip(sums).enumerate() {
            let slots = (0..last).rev().map(|slot| others[slot * self.len + at]);
            *to = *to + slots.fold(sum, |sum, slot| slot + sum);
        }
    }

    /// Returns the sums of all chunks.
    fn total(&self) -> &[T] {
        &self.slots[..self.len]
    }
}
