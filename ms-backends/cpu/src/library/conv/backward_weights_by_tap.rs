//! Backward-weights tap by tap, without an im2col buffer.
//!
//! Each kernel tap is a GEMM of gradients and of packed activations, whose channels are contiguous in blocks. [`super`]
//! specifies the order of sums.

use super::direct::DirectConv;
use super::problem::{Call, ConvCode, Problem};
use super::vector::Direct;
use crate::library::implementation::{Declined, require};
use crate::library::scratch::{self, bytes_of};
use ms_ir::error::Result;
use ms_ir::{CHUNK, PairwiseTree};
use ms_x64::gemm::{ALIASED, EarlierSums, Matrix, Ordered, Shared, pack};
use ms_x64::threads;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::slice::from_raw_parts_mut;

/// Maximum size in bytes of the copies of both operands of a group.
const MAX_BYTES: usize = 64 << 20;

/// Minimum number of output channels of a task, which amortise its packing.
const MIN_OUTPUTS: usize = 64;

/// Backward-weights by a GEMM for each kernel tap.
pub struct BackwardWeightsByTap(DirectConv);

impl BackwardWeightsByTap {
    /// Accepts groups whose channels fill the columns of tiles, if the copies of the operands are small enough.
    pub fn accepts<T: Direct>(problem: &Problem) -> Result<(), Declined> {
        problem.prefers_vectors()?;
        let direct = DirectConv::new(problem)?;
        require(T::has_vectors(direct.isa), || "there are no vectors")?;
        let (conv, columns) = (&direct.conv, T::tile(direct.isa).columns);
        let is_full = 8 * conv.channels >= 7 * conv.channels.next_multiple_of(columns);
        require(is_full, || format!("{} channels do not fill tiles of {columns}", conv.channels))?;
        let of_image = direct.grid.len() * conv.channels + conv.windows.output_len() * conv.outputs;
        let bytes = conv.batch.saturating_mul(of_image).saturating_mul(size_of::<T>());
        require(bytes <= MAX_BYTES, || format!("copies of a group have {bytes} bytes, more than {MAX_BYTES}"))
    }

    /// Prepares a problem that was accepted.
    pub fn new(problem: &Problem) -> Self {
        Self(DirectConv::of_accepted(problem))
    }

    /// Returns the distance between the gradients of output channels. Rows in the same cache set would be packed again
    /// for each product.
    fn step<T: Direct>(&self) -> usize {
        let DirectConv { conv, isa, .. } = &self.0;
        let terms = conv.batch * conv.windows.output_len();
        if (terms * size_of::<T>()).is_multiple_of(ALIASED) { terms + T::tile(*isa).columns } else { terms }
    }

    /// Returns the numbers of elements of the copies of both operands of a group.
    fn copies<T: Direct>(&self) -> [usize; 2] {
        let DirectConv { conv, grid, .. } = &self.0;
        [conv.batch * grid.len() * conv.channels, conv.outputs * self.step::<T>()]
    }
}

impl<T: Direct> ConvCode<T> for BackwardWeightsByTap {
    fn workspace(&self) -> usize {
        self.copies::<T>().into_iter().map(bytes_of::<T>).sum()
    }

    fn run(&self, call: Call<'_, T>) -> Result<bool> {
        let DirectConv { conv, grid, isa } = &self.0;
        let Call { operands: [x, g], out, mut workspace, .. } = call;
        let (x, g, tile) = (x.all, g.all, T::tile(*isa));
        let (channels, outputs, taps) = (conv.channels, conv.outputs, conv.windows.taps());
        let (input_len, windows) = (conv.image_lens().0, conv.windows.output_len());
        let (plane_len, terms) = (conv.windows.input_len(), conv.batch * windows);
        let (places, step) = (conv.batch * grid.len(), self.step::<T>());
        let zero = MaybeUninit::new(T::default());
        let [images, gradients] = self.copies::<T>().map(|len| {
            let part = workspace.take::<T>(len);
            part.fill(zero);
            // SAFETY: all elements are initialised.
            unsafe { from_raw_parts_mut(part.as_mut_ptr().cast::<T>(), len) }
        });
        let blocks = channels.div_ceil(tile.columns);
        // If there are enough tasks, each takes all taps and writes whole filters.
        let most = outputs.div_ceil(MIN_OUTPUTS);
        let at_once = if blocks * most >= conv.tasks() { taps } else { 1 };
        let ranges = taps / at_once;
        let parts = conv.tasks().div_ceil(blocks * ranges).min(most);
        for group in 0..conv.groups {
            let to = Shared::new(images.as_mut_ptr());
            threads::for_each(blocks * conv.batch, places * channels, |task| {
                let (first, image) = (task / conv.batch * tile.columns, task % conv.batch);
                let width = tile.columns.min(channels - first);
                let planes = &x[(image * conv.groups + group) * input_len + first * plane_len..];
                for run in &grid.runs {
                    let steps = [plane_len, grid.step].map(|it| it as isize);
                    let from = Matrix { first: planes[run.element..].as_ptr(), steps };
                    let at = first * places + (image * grid.len() + run.at) * width;
                    // SAFETY: the run lies in the plane of each of the block's `width` channels, and the block has its
                    // own elements of `images`.
                    unsafe { pack(tile.transpose, from, width, run.len, to.get().add(at)) };
                }
            });
            conv.get_rows(group, 0..terms, g, (&mut *gradients, step));
            let (images, gradients) = (&*images, &*gradients);
            let out = Shared::new(out[conv.weights(group)].as_mut_ptr());
            // The taps of a channel block read the same elements, which stay in the cache.
            threads::try_for_each(blocks * ranges * parts, conv.nanos() / conv.groups, |task| {
                let (block, part) = (task / parts, task % parts);
                let (first, tap) = (block / ranges * tile.columns, block % ranges * at_once);
                let width = tile.columns.min(channels - first);
                let [start, end] = [part, part + 1].map(|it| it * outputs / parts);
                let of_tap = (end - start) * width;
                let (tree, distance) = (PairwiseTree::of_terms(terms), at_once * of_tap);
                let [packed, sums] = [CHUNK.min(terms) * width, tree.slots() * distance].map(scratch::uninit::<T>);
                let (packed, sums) = (packed?, sums?);
                let [packed, sums] = [&packed, &sums].map(|it| it.device_ptr().cast::<T>());
                for (chunk, at) in (0..terms).step_by(CHUNK).flat_map(|it| (0..at_once).map(move |at| (it, at))) {
                    let depth = CHUNK.min(terms - chunk);
                    self.0.for_each_run(chunk..chunk + depth, tap + at, |term, place, count| {
                        let from = &images[first * places + place * width..][..count * width];
                        // SAFETY: `term + count <= depth`, so `packed` has room for these `count * width` elements.
                        unsafe { packed.add(term * width).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
                    });
                    let sizes = [end - start, depth, width];
                    let combined = tree.combined(chunk / CHUNK);
                    let earlier = EarlierSums { count: combined.len(), distance };
                    let product = Ordered { isa: *isa, sizes, earlier, vectorised_sums: false };
                    let left = Matrix::dense(gradients[start * step + chunk..].as_ptr(), step);
                    let right = Matrix::dense(packed.cast_const(), width);
                    let to = Matrix::dense(sums.wrapping_add(combined.start * distance + at * of_tap), width);
                    // SAFETY: both operands have `depth` rows or columns, and earlier chunks wrote the slots that the
                    // chunk is combined with.
                    unsafe { product.run(1, |_| [0; 3], left, right, to)? };
                }
                for output in start..end {
                    let sums = sums.wrapping_add((output - start) * width).cast_const();
                    let to = out.get().wrapping_add((output * channels + first) * taps + tap);
                    // SAFETY: the products have written all sums, and each task has its own weights of an output
                    // channel.
                    unsafe {
                        if at_once == taps {
                            pack(tile.transpose, Matrix { first: sums, steps: [of_tap as isize, 1] }, taps, width, to);
                        } else {
                            (0..width).for_each(|channel| *to.add(channel * taps) = *sums.add(channel));
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(true)
    }
}

impl DirectConv {
    /// Calls `f` for each run of adjacent output positions in a range that is numbered over all images. Its arguments
    /// are the first position relative to the range, its index under `tap` in the grids, and the length of the run.
    fn for_each_run(&self, windows: Range<usize>, tap: usize, mut f: impl FnMut(usize, usize, usize)) {
        let (grid, of_image) = (&self.grid, self.conv.windows.output_len());
        let mut at = windows.start;
        while at < windows.end {
            let (image, window) = (at / of_image, at % of_image);
            let (row, column) = (window / grid.columns, window % grid.columns);
            let count = (windows.end - at).min(grid.columns - column);
            f(at - windows.start, image * grid.len() + grid.taps[tap] + grid.rows[row] + column, count);
            at += count;
        }
    }
}
