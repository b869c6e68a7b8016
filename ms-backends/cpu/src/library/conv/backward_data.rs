//! Backward-data without an im2col buffer.
//!
//! For each kernel tap, accumulation chains over output channels are computed in vectors and added at the tap's
//! position. [`super`] specifies the order of sums.

use super::lanes::Lanes;
use super::problem::{Call, ConvCode, Problem};
use super::vector::{Chains, Direct, OUTPUTS, SLACK};
use crate::library::implementation::{Declined, require};
use crate::library::scratch::{self, bytes_of};
use ms_ir::CHUNK;
use ms_ir::data::try_room;
use ms_ir::error::Result;
use ms_x64::gemm::{EarlierSums, PACK_WIDTH, Shared};
use ms_x64::threads;
use std::ops::Range;
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum size in bytes of the vectors of gradients that are stored at once.
const MAX_BYTES: usize = 16 << 20;

/// Size in bytes of the vectors that all taps read in turn, so that they stay in a core's cache.
const NEAR_BYTES: usize = 128 << 10;

/// Minimum number of input channels, which share loaded vectors, and of output channels, which are the reduction
/// dimension.
const MIN_CHANNELS: usize = 4;

/// Number of output channels whose vectors a task stores.
const STORED: usize = 16;

/// Backward-data of a convolution without an im2col buffer.
pub struct BackwardDataByTaps<T> {
    lanes: Lanes<T>,
    /// Kernel taps with the range of vectors that each reads, in the order of their additions.
    steps: Vec<(usize, Range<usize>)>,
    /// The index of each vector in the gradients of a set of images, and the index in a channel's sums that it is added
    /// to.
    vectors: Vec<[usize; 2]>,
    /// The first gradient of each output channel.
    terms: Vec<usize>,
}

impl<T: Direct> BackwardDataByTaps<T> {
    /// Accepts several channels whose vectors compute little padding.
    pub fn accepts(problem: &Problem) -> Result<(), Declined> {
        problem.needs_no_columns()?;
        let (conv, isa) = (&problem.conv, problem.arithmetic.isa);
        require(T::has_vectors(isa), || "there are no vectors")?;
        let (channels, outputs) = (conv.channels, conv.outputs);
        require(channels >= MIN_CHANNELS, || format!("a group has {channels} channels, less than {MIN_CHANNELS}"))?;
        require((MIN_CHANNELS..=CHUNK).contains(&outputs), || format!("a group has {outputs} output channels"))?;
        let positions = conv.batch * conv.windows.output_len() * conv.windows.taps();
        require(positions > 0, || "there are no gradients")?;
        let padded = Lanes::<T>::new(conv, isa).map_err(|_| "there is no memory for its lists")?.elements;
        require(4 * padded <= 5 * positions, || format!("vectors add {padded} gradients to a channel, not {positions}"))
    }

    /// Prepares a problem that was accepted.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of vectors.
    pub fn new(problem: &Problem) -> Result<Self> {
        let (conv, taps) = (&problem.conv, problem.conv.windows.taps());
        let lanes = Lanes::new(conv, problem.arithmetic.isa)?;
        let of_vector = conv.outputs * lanes.loops.lanes;
        let near = (NEAR_BYTES / (of_vector * size_of::<T>())).max(2).next_multiple_of(2);
        let (mut steps, mut vectors) = (try_room(taps * lanes.count.div_ceil(near))?, try_room(taps * lanes.count)?);
        // Where two taps add to one element, the earlier tap belongs to the later output position. The reverse order of
        // vectors therefore adds taps in order.
        for start in (0..lanes.count).step_by(near).rev() {
            for tap in 0..taps {
                let first = vectors.len();
                let some = start..lanes.count.min(start + near);
                lanes.for_each_place(tap, some, |vector, to| vectors.push([vector * of_vector, to]));
                steps.push((tap, first..vectors.len()));
            }
        }
        let terms = (0..conv.outputs).map(|output| output * lanes.loops.lanes).collect();
        Ok(Self { lanes, steps, vectors, terms })
    }

    /// Returns the number of gradients of a set of images, and the number of sets that are stored at once.
    fn stored_sets(&self) -> (usize, usize) {
        let (lanes, conv) = (&self.lanes, &self.lanes.conv);
        let len = lanes.count * conv.outputs * lanes.loops.lanes;
        (len, (MAX_BYTES / (len * size_of::<T>())).clamp(1, conv.groups * lanes.sets()))
    }
}

impl<T: Direct> ConvCode<T> for BackwardDataByTaps<T> {
    fn workspace(&self) -> usize {
        let (len, at_once) = self.stored_sets();
        bytes_of::<T>(at_once * len)
    }

    /// Lanes of padding multiply zeros by weights, which changes no sum if weights are finite.
    fn run(&self, call: Call<'_, T>) -> Result<bool> {
        let (lanes, conv) = (&self.lanes, &self.lanes.conv);
        let Call { operands: [g, w], out, mut workspace, .. } = call;
        let (g, w) = (g.all, w.all);
        let (outputs, taps, weights_step) = (conv.outputs, conv.windows.taps(), self.weights_step());
        let sets = lanes.sets();
        let all = conv.groups * sets;
        let (len, at_once) = self.stored_sets();
        // A task has one or two times the channels that micro-kernels keep in registers.
        let [most, least] = [OUTPUTS / 2, OUTPUTS].map(|it| conv.channels.div_ceil(it));
        let parts = conv.tasks().div_ceil(at_once).clamp(least, most);
        let part = |at: usize, of: usize, all: usize| at * all / of..(at + 1) * all / of;
        let gradients = Shared::new(workspace.take::<T>(at_once * len).as_mut_ptr().cast::<T>());
        let (out, is_exact) = (Shared::new(out.as_mut_ptr()), AtomicBool::new(true));
        for start in (0..all).step_by(at_once) {
            let count = at_once.min(all - start);
            let stored = outputs.div_ceil(STORED);
            threads::try_for_each(count * stored, count * len / 8, |task| {
                let (number, first) = (task / stored, task % stored * STORED);
                let to = gradients.get().wrapping_add(number * len);
                // SAFETY: `gradients` has room for each set, and each task has its own output channels of a set.
                unsafe { lanes.store(start + number, first..outputs.min(first + STORED), g, to) }
            })?;
            let ranges = conv.tasks().div_ceil(parts).min(count);
            threads::try_for_each(parts * ranges, conv.nanos() / all * count, |task| {
                let channels = part(task / ranges, parts, conv.channels);
                let sums_len = channels.len() * lanes.sums + SLACK;
                let [weights, sums] = [channels.len() * taps * weights_step, sums_len].map(scratch::uninit::<T>);
                let (weights, sums) = (weights?, sums?);
                let [weights, sums] = [&weights, &sums].map(|it| it.device_ptr().cast::<T>());
                let mut packed = None;
                for number in part(task % ranges, ranges, count) {
                    let group = (start + number) / sets;
                    if packed.replace(group) != Some(group) {
                        // SAFETY: `weights` has `taps * weights_step` elements for each of these channels.
                        unsafe { self.pack(&w[conv.weights(group)], channels.clone(), weights) };
                    }
                    // SAFETY: zero bytes are zeros of every float type. All vectors lie in the gradients and in the
                    // sums, which end with slack.
                    unsafe {
                        sums.write_bytes(0, sums_len);
                        for (tap, vectors) in &self.steps {
                            let chains = Chains {
                                vectors: &self.vectors[vectors.clone()],
                                x: gradients.get().add(number * len),
                                terms: &self.terms,
                                weights: (weights.add(tap * weights_step), [taps * weights_step, 1]),
                                outputs: channels.len(),
                                to: (sums, lanes.sums),
                                earlier: EarlierSums { count: 1, distance: 0 },
                            };
                            chains.compute(&lanes.loops)?;
                        }
                    }
                    for (at, channel) in channels.clone().enumerate() {
                        // SAFETY: all sums are written, and no two tasks have the same channel of the same image.
                        let exact = unsafe {
                            let sums = from_raw_parts(sums.add(at * lanes.sums), lanes.sums);
                            lanes.load(start + number, channel, sums, out.get())
                        };
                        if !exact {
                            is_exact.store(false, Ordering::Relaxed);
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(is_exact.into_inner() || w.iter().all(|it| it.is_finite()))
    }
}

impl<T: Direct> BackwardDataByTaps<T> {
    /// Returns the distance between the packed weights of two taps: an odd number of cache lines, so that taps fall
    /// into different cache sets.
    fn weights_step(&self) -> usize {
        const LINE: usize = 16;
        (self.lanes.conv.outputs.div_ceil(LINE) | 1) * LINE
    }

    /// Packs the weights of some input channels of a group: for each channel and tap, the weights of all output
    /// channels are contiguous.
    ///
    /// # Safety
    /// `to` has room for `weights_step` elements for each channel and tap.
    unsafe fn pack(&self, weights: &[T], channels: Range<usize>, to: *mut T) {
        let (conv, step) = (&self.lanes.conv, self.weights_step());
        let (filter, taps, outputs) = (conv.filter_len(), conv.windows.taps(), conv.outputs);
        let len = channels.len() * taps;
        for first in (0..outputs).step_by(PACK_WIDTH) {
            // The last group of filters overlaps the one before it.
            let first = first.min(outputs.saturating_sub(PACK_WIDTH));
            let from = &weights[first * filter + channels.start * taps..];
            // SAFETY: `PACK_WIDTH` filters follow `first` unless there are fewer in all. Each has `len` elements from
            // here on. `to` has `len` rows with room for all filters.
            unsafe {
                if outputs < PACK_WIDTH {
                    for (output, at) in (0..outputs).flat_map(|output| (0..len).map(move |at| (output, at))) {
                        *to.add(at * step + output) = from[output * filter + at];
                    }
                } else {
                    (self.lanes.transpose)(len, from.as_ptr(), filter as isize, to.add(first), step);
                }
            }
        }
    }
}
