//! Direct convolution of large images: threads share the grids of an image, and partition its output positions or its
//! output channels.

use super::direct::DirectConv;
use super::vector::{Chains, Direct, OUTPUTS, SLACK};
use crate::library::epilogues::Epilogues;
use ms_ir::data::Array;
use ms_ir::error::Result;
use ms_x64::gemm::{EarlierSums, Shared};
use ms_x64::threads;
use std::slice::from_raw_parts_mut;

/// Minimum number of vectors of output positions per part. Below this, parts partition output channels instead.
const MIN_VECTORS: usize = 16;

/// Minimum number of output channels, which share loaded vectors.
const MIN_OUTPUTS: usize = 4;

impl DirectConv<'_> {
    /// Whether vectors of each image's output positions pad little more than vectors over all images.
    pub fn is_dense<T: Direct>(&self) -> bool {
        let (conv, lanes) = (self.conv, T::loops(self.isa).lanes);
        let (padded, _) = self.padded(lanes, false);
        let windows = conv.batch * conv.windows.output_len();
        T::has_vectors(self.isa)
            && conv.outputs >= MIN_OUTPUTS
            && 4 * conv.batch * padded <= 5 * windows.next_multiple_of(2 * lanes)
    }

    /// Computes the convolution of `x` and `w`, with epilogues.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for grids.
    pub fn forward_large<T: Direct>(&self, x: &[T], w: &[T], out: &mut [T], epilogues: Epilogues<'_>) -> Result<()> {
        let (conv, grid) = (self.conv, &self.grid);
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, windows, filter) = (conv.windows.input_len(), conv.windows.output_len(), conv.filter_len());
        let terms = self.taps()?;
        let (loops, vectors, in_rows) = self.vectors::<T>(false)?;
        // A part is a multiple of what micro-kernels keep in registers.
        let [of_outputs, of_vectors] = [conv.outputs.div_ceil(OUTPUTS / 2), vectors.len().div_ceil(2)];
        let most = conv.tasks();
        let parts = if vectors.len() >= most * MIN_VECTORS { [1, most] } else { [most.min(of_outputs), 1] };
        let images = conv.batch * conv.groups;
        let len = conv.channels * grid.len() + SLACK;
        // SAFETY: every grid is zeroed and filled below before anything reads it.
        let room = unsafe { Array::uninit(&[len], T::DTYPE)? };
        let (grids, out) = (Shared::new(room.device_ptr().cast::<T>()), Shared::new(out.as_mut_ptr()));
        for image in 0..images {
            threads::for_each(conv.channels, len / 8, |channel| {
                let slack = if channel + 1 == conv.channels { SLACK } else { 0 };
                // SAFETY: `room` has a grid for each channel, and slack after the last one. Zero bytes are zeros of
                // every float type.
                let to = unsafe {
                    let to = grids.get().add(channel * grid.len());
                    to.write_bytes(0, grid.len() + slack);
                    from_raw_parts_mut(to, grid.len())
                };
                grid.store(&x[image * input_len + channel * plane_len..][..plane_len], to);
            });
            let weights = &w[conv.weights(image)];
            threads::try_for_each(parts[0] * parts[1], conv.nanos() / images, |task| {
                let part = |at: usize, of: usize, all: usize| at * all / of..(at + 1) * all / of;
                let outputs = part(task / parts[1], parts[0], of_outputs);
                let outputs = OUTPUTS / 2 * outputs.start..conv.outputs.min(OUTPUTS / 2 * outputs.end);
                let pairs = part(task % parts[1], parts[1], of_vectors);
                let places = 2 * pairs.start * loops.lanes..vectors.len().min(2 * pairs.end) * loops.lanes;
                let mut vectors = vectors[2 * pairs.start..vectors.len().min(2 * pairs.end)].to_vec();
                let start = vectors.first().map_or(0, |it| it[1]);
                let windows_of = |at: usize| if in_rows { at.min(windows) } else { grid.windows_before(at) };
                if !in_rows {
                    vectors.iter_mut().for_each(|it| it[1] -= start);
                }
                let step = vectors.len() * loops.lanes;
                // SAFETY: `chains.compute` writes the results before they are copied.
                let room = unsafe { Array::uninit(&[if in_rows { 0 } else { OUTPUTS * step }], T::DTYPE)? };
                let results = room.device_ptr().cast::<T>();
                for first in outputs.clone().step_by(OUTPUTS) {
                    let count = OUTPUTS.min(outputs.end - first);
                    // SAFETY: all taps of all output positions are in the grids, which slack follows. Each task has its
                    // own output positions or output channels of the result, and `results` has room for its vectors.
                    unsafe {
                        let out = out.get().add(image * output_len + first * windows);
                        let chains = Chains {
                            vectors: &vectors,
                            x: grids.get(),
                            terms: &terms,
                            weights: (weights[first * filter..].as_ptr(), [filter, 1]),
                            outputs: count,
                            to: if in_rows { (out, windows) } else { (results, step) },
                            earlier: EarlierSums::NONE,
                        };
                        chains.compute(&loops)?;
                        for (number, &row) in grid.rows.iter().enumerate().filter(|_| !in_rows) {
                            let [from, end] = [row, row + grid.columns].map(|it| it.clamp(start, start + step));
                            for output in 0..count {
                                let to = out.add(output * windows + number * grid.columns + (from - row.min(from)));
                                to.copy_from_nonoverlapping(results.add(output * step + from - start), end - from);
                            }
                        }
                    }
                }
                let windows = windows_of(places.start)..windows_of(places.end);
                // SAFETY: this task has computed these elements, and nothing reads them after the epilogues.
                unsafe { epilogues.run(conv.image_part(image, outputs, windows)) };
                Ok(())
            })?;
        }
        Ok(())
    }
}
