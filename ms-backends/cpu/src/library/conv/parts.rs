//! Convolutions of large images without matrices: threads share the grids of an image, and compute parts of its windows or
//! of its output channels.

use super::direct::DirectConv;
use super::vector::{Chains, Direct, OUTPUTS, SLACK};
use crate::library::epilogues::Epilogues;
use crate::product::Shared;
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::Array;
use std::slice::from_raw_parts_mut;

/// Minimum number of vectors of windows of each part. Of fewer, parts have all, and some of the output channels.
const MIN_VECTORS: usize = 16;

/// Minimum number of output channels, which share vectors.
const MIN_OUTPUTS: usize = 4;

impl DirectConv<'_> {
    /// Whether vectors of the windows of each image have little padding, beside those of the windows of all images.
    pub fn is_dense<T: Direct>(&self) -> bool {
        let (conv, lanes) = (self.conv, T::loops(self.isa).lanes);
        let (padded, _) = self.padded(lanes, false);
        let windows = conv.batch * conv.windows.output_len();
        T::has_vectors(self.isa)
            && conv.outputs >= MIN_OUTPUTS
            && 4 * conv.batch * padded <= 5 * windows.next_multiple_of(2 * lanes)
    }

    /// The convolution of `x` and `w`, with epilogues.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for grids.
    pub fn forward_in_parts<T: Direct>(&self, x: &[T], w: &[T], out: &mut [T], epilogues: Epilogues<'_>) -> Result<()> {
        let (conv, grid) = (self.conv, &self.grid);
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, windows, filter) = (conv.windows.input_len(), conv.windows.output_len(), conv.filter_len());
        let terms = self.taps()?;
        let (loops, vectors, in_rows) = self.vectors::<T>(false)?;
        // What chains have in registers is not divided.
        let [of_outputs, of_vectors] = [conv.outputs.div_ceil(OUTPUTS / 2), vectors.len().div_ceil(2)];
        let most = conv.tasks();
        let parts = if vectors.len() >= most * MIN_VECTORS { [1, most] } else { [most.min(of_outputs), 1] };
        let images = conv.batch * conv.groups;
        let len = conv.channels * grid.len() + SLACK;
        // SAFETY: what is read below was written before.
        let room = unsafe { Array::uninit(&[len], T::DTYPE)? };
        let (grids, out) = (Shared::new(room.device_ptr().cast::<T>()), Shared::new(out.as_mut_ptr()));
        for image in 0..images {
            threads::for_each(conv.channels, len / 8, |channel| {
                let slack = if channel + 1 == conv.channels { SLACK } else { 0 };
                // SAFETY: there is room for the grid of each channel, and for slack after the last one; zeros of every type
                // are zero bytes.
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
                // SAFETY: what is read below was written before.
                let room = unsafe { Array::uninit(&[if in_rows { 0 } else { OUTPUTS * step }], T::DTYPE)? };
                let results = room.device_ptr().cast::<T>();
                for first in outputs.clone().step_by(OUTPUTS) {
                    let count = OUTPUTS.min(outputs.end - first);
                    // SAFETY: the taps of all windows are in the grids, which have slack; each task has its own windows or
                    // output channels of the result, and room for the results of its vectors.
                    unsafe {
                        let out = out.get().add(image * output_len + first * windows);
                        let chains = Chains {
                            vectors: &vectors,
                            x: grids.get(),
                            terms: &terms,
                            weights: (weights[first * filter..].as_ptr(), [filter, 1]),
                            outputs: count,
                            to: if in_rows { (out, windows) } else { (results, step) },
                            adds: false,
                        };
                        chains.compute(&loops);
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
                // SAFETY: these elements are computed, and read no more.
                unsafe { epilogues.run(conv.image_part(image, outputs, windows)) };
                Ok(())
            })?;
        }
        Ok(())
    }
}
