//! Direct convolution of large images: threads share the grids of an image, and partition its output positions or its
//! output channels.

use super::direct::{DirectConv, Forward};
use super::problem::{Call, ConvCode, Problem};
use super::vector::{Chains, Direct, OUTPUTS, SLACK};
use crate::library::implementation::{Declined, require};
use crate::library::scratch::{self, Scratch, bytes_of};
use ms_ir::error::Result;
use ms_x64::gemm::{EarlierSums, Shared};
use ms_x64::threads;
use std::slice::from_raw_parts_mut;

/// Minimum number of vectors of output positions per part. Below this, parts partition output channels instead.
const MIN_VECTORS: usize = 16;

/// Minimum number of output channels, which share loaded vectors.
const MIN_OUTPUTS: usize = 4;

/// A direct convolution whose tasks share an image.
pub struct ForwardInParts<T>(Forward<T>);

impl<T: Direct> ForwardInParts<T> {
    /// Accepts images of which vectors of output positions pad little more than vectors over all images.
    pub fn accepts(problem: &Problem) -> Result<(), Declined> {
        problem.needs_no_columns()?;
        let direct = DirectConv::new(problem)?;
        require(T::has_vectors(direct.isa), || "there are no vectors")?;
        let (conv, lanes) = (&direct.conv, T::loops(direct.isa).lanes);
        require(conv.outputs >= MIN_OUTPUTS, || format!("a group has {} output channels", conv.outputs))?;
        let (padded, _) = direct.padded(lanes, false);
        let windows = (conv.batch * conv.windows.output_len()).next_multiple_of(2 * lanes);
        let padded = conv.batch * padded;
        require(4 * padded <= 5 * windows, || format!("vectors compute {padded} output positions, not {windows}"))
    }

    /// Prepares a problem that was accepted.
    pub fn new(problem: &Problem) -> Result<Self> {
        Forward::new(problem, false).map(Self)
    }

    /// Returns the number of elements of the grids of a group, with slack.
    fn grids_len(&self) -> usize {
        let direct = &self.0.direct;
        direct.conv.channels * direct.grid.len() + SLACK
    }
}

impl<T: Direct> ConvCode<T> for ForwardInParts<T> {
    fn workspace(&self) -> usize {
        bytes_of::<T>(self.grids_len())
    }

    fn run(&self, call: Call<'_, T>) -> Result<bool> {
        let Forward { direct, terms, loops, vectors, in_rows } = &self.0;
        let (conv, grid, in_rows) = (&direct.conv, &direct.grid, *in_rows);
        let Call { operands: [x, w], out, epilogues, mut workspace, .. } = call;
        let (x, w) = (x.all, w.all);
        let (input_len, output_len) = conv.image_lens();
        let (plane_len, windows, filter) = (conv.windows.input_len(), conv.windows.output_len(), conv.filter_len());
        // A part is a multiple of what micro-kernels keep in registers.
        let [of_outputs, of_vectors] = [conv.outputs.div_ceil(OUTPUTS / 2), vectors.len().div_ceil(2)];
        let most = conv.tasks();
        let parts = if vectors.len() >= most * MIN_VECTORS { [1, most] } else { [most.min(of_outputs), 1] };
        let images = conv.batch * conv.groups;
        let len = self.grids_len();
        let room = workspace.take::<T>(len);
        let (grids, out) = (Shared::new(room.as_mut_ptr().cast::<T>()), Shared::new(out.as_mut_ptr()));
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
                let own = &vectors[2 * pairs.start..vectors.len().min(2 * pairs.end)];
                let start = own.first().map_or(0, |it| it[1]);
                let mut vectors = Scratch::filled([0; 2], own.len())?;
                vectors.copy_from_slice(own);
                let windows_of = |at: usize| if in_rows { at.min(windows) } else { grid.windows_before(at) };
                if !in_rows {
                    vectors.iter_mut().for_each(|it| it[1] -= start);
                }
                let step = vectors.len() * loops.lanes;
                // The chains write the results before they are copied.
                let room = scratch::uninit::<T>(if in_rows { 0 } else { OUTPUTS * step })?;
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
                            terms,
                            weights: (weights[first * filter..].as_ptr(), [filter, 1]),
                            outputs: count,
                            to: if in_rows { (out, windows) } else { (results, step) },
                            earlier: EarlierSums::NONE,
                        };
                        chains.compute(loops)?;
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
        Ok(true)
    }
}
