//! Backward-data without an im2col buffer.
//!
//! For each kernel tap, accumulation chains over output channels are computed in vectors and added at the tap's
//! position. [`super`] specifies the order of sums.

use super::Conv;
use super::lanes::Lanes;
use super::vector::{Chains, Direct, OUTPUTS, SLACK};
use ms_ir::CHUNK;
use ms_ir::data::{Array, try_room};
use ms_ir::error::Result;
use ms_x64::Isa;
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
pub struct BackwardData<'a, T> {
    lanes: Lanes<'a, T>,
    /// Kernel taps with the range of vectors that each reads, in the order of their additions.
    steps: Vec<(usize, Range<usize>)>,
    /// The index of each vector in the gradients of a set of images, and the index in a channel's sums that it is added
    /// to.
    vectors: Vec<[usize; 2]>,
}

impl<'a, T: Direct> BackwardData<'a, T> {
    /// Prepares backward-data; `None` if a GEMM is faster: for few channels, and where vectors compute too much
    /// padding.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of vectors.
    pub fn new(conv: &'a Conv, isa: Isa) -> Result<Option<Self>> {
        let (windows, taps) = (conv.batch * conv.windows.output_len(), conv.windows.taps());
        let has_channels = conv.channels >= MIN_CHANNELS && (MIN_CHANNELS..=CHUNK).contains(&conv.outputs);
        if !T::has_vectors(isa) || !has_channels || windows * taps == 0 {
            return Ok(None);
        }
        let lanes = Lanes::new(conv, isa)?;
        if 4 * lanes.elements > 5 * windows * taps {
            return Ok(None);
        }
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
        Ok(Some(Self { lanes, steps, vectors }))
    }

    /// Computes backward-data of `g` and `w`. Returns whether the result is valid: lanes of padding multiply zeros by
    /// weights, which changes no sum if weights are finite.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the vectors.
    pub fn compute(&self, g: &[T], w: &[T], out: &mut [T]) -> Result<bool> {
        let (lanes, conv) = (&self.lanes, self.lanes.conv);
        let (outputs, taps, weights_step) = (conv.outputs, conv.windows.taps(), self.weights_step());
        let (sets, len) = (lanes.sets(), lanes.count * outputs * lanes.loops.lanes);
        let all = conv.groups * sets;
        let at_once = (MAX_BYTES / (len * size_of::<T>())).clamp(1, all);
        // A task has one or two times the channels that micro-kernels keep in registers.
        let [most, least] = [OUTPUTS / 2, OUTPUTS].map(|it| conv.channels.div_ceil(it));
        let parts = conv.tasks().div_ceil(at_once).clamp(least, most);
        let part = |at: usize, of: usize, all: usize| at * all / of..(at + 1) * all / of;
        let terms: Vec<usize> = (0..outputs).map(|output| output * lanes.loops.lanes).collect();
        // SAFETY: `lanes.store` writes all vectors before they are read.
        let room = unsafe { Array::uninit(&[at_once * len], T::DTYPE)? };
        let gradients = Shared::new(room.device_ptr().cast::<T>());
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
                // SAFETY: weights are packed and sums are zeroed below before anything reads them.
                let [weights, sums] = [channels.len() * taps * weights_step, sums_len]
                    .map(|len| unsafe { Array::uninit(&[len], T::DTYPE) });
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
                                terms: &terms,
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
        let (conv, step) = (self.lanes.conv, self.weights_step());
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
