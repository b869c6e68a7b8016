//! Implements im2col, col2im, and the gather and scatter of rows of results.

use super::problem::{Conv, MAX_TASKS};
use ms_ir::data::try_room;
use ms_ir::error::Result;
use ms_ops::ops::Run;
use ms_x64::gemm::Shared;
use ms_x64::threads;
use std::ops::{AddAssign, Range};

/// Some output positions, and the list of input elements under their kernel taps, in order. Positions outside the list
/// are padding.
pub struct ColumnRange {
    /// The output positions, numbered over all images.
    pub terms: Range<usize>,
    pieces: Vec<Piece>,
}

/// Elements under one kernel tap of adjacent output positions of an image.
struct Piece {
    /// The index of the first element in the im2col rows of a channel.
    at: usize,
    image: usize,
    /// The index of the first element in its channel plane.
    element: usize,
    count: usize,
}

/// Returns the runs of output positions that overlap a range; the runs of each tap are in order.
pub fn within(runs: &[Run], windows: Range<usize>) -> impl Iterator<Item = &Run> {
    runs.chunk_by(|a, b| a.tap == b.tap).flat_map(move |of_tap| {
        let first = of_tap.partition_point(|it| it.window + it.len <= windows.start);
        let (windows, rest) = (windows.clone(), &of_tap[first..]);
        rest.iter().take_while(move |it| it.window < windows.end)
    })
}

impl Conv {
    /// Lists the input elements under some output positions, which are numbered over all images.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the list.
    pub fn column_range(&self, runs: &[Run], terms: Range<usize>) -> Result<ColumnRange> {
        let (windows, len, step) = (self.windows.output_len(), terms.len(), self.windows.step());
        let images = terms.start / windows..terms.end.div_ceil(windows);
        let mut pieces = try_room(images.len().saturating_mul(runs.len()))?;
        for image in images {
            // The output positions of this image that are in the range.
            let (first, end) = (terms.start.saturating_sub(image * windows), terms.end - image * windows);
            for run in within(runs, first..end) {
                let skipped = first.saturating_sub(run.window).min(run.len);
                let count = end.min(run.window + run.len).saturating_sub(run.window + skipped);
                if count > 0 {
                    let at = run.tap * len + image * windows + run.window + skipped - terms.start;
                    pieces.push(Piece { at, image, element: run.element + skipped * step, count });
                }
            }
        }
        pieces.sort_unstable_by_key(|it| it.at);
        Ok(ColumnRange { terms, pieces })
    }

    /// Fills the im2col buffer for a part of the output positions of a group; `image` shifts the part's images. Row
    /// `(channel, tap)` has the elements under the tap.
    pub fn im2col<T: Copy + Default + Send + Sync>(
        &self,
        part: &ColumnRange,
        (image, group): (usize, usize),
        x: &[T],
        columns: &mut [T],
    ) {
        let (plane, step) = (self.windows.input_len(), self.windows.step());
        let len = self.windows.taps() * part.terms.len();
        let to = Shared::new(columns.as_mut_ptr());
        let per_task = self.channels.div_ceil(MAX_TASKS).max(1);
        threads::for_each(self.channels.div_ceil(per_task), self.channels * len / 2, |task| {
            for channel in task * per_task..self.channels.min((task + 1) * per_task) {
                // SAFETY: each channel has its own `len` elements of `columns`.
                let rows = unsafe { std::slice::from_raw_parts_mut(to.get().add(channel * len), len) };
                let mut done = 0;
                for piece in &part.pieces {
                    if done < piece.at {
                        rows[done..piece.at].fill(T::default());
                    }
                    done = piece.at + piece.count;
                    let first = (((image + piece.image) * self.groups + group) * self.channels + channel) * plane
                        + piece.element;
                    let row = &mut rows[piece.at..done];
                    if step == 1 {
                        combine(row, &x[first..first + piece.count], |to, from| *to = from);
                    } else {
                        row.iter_mut().zip(x[first..].iter().step_by(step)).for_each(|(to, &from)| *to = from);
                    }
                }
                rows[done..].fill(T::default());
            }
        });
    }

    /// Iterates over runs of adjacent output positions of a group, for each output channel and image. A run has its
    /// index in rows that are `step` apart, the index of its first element in the result, and its length.
    fn output_runs(
        &self,
        group: usize,
        terms: Range<usize>,
        step: usize,
    ) -> impl Iterator<Item = (usize, usize, usize)> {
        let windows = self.windows.output_len();
        let images = terms.start / windows..terms.end.div_ceil(windows);
        (0..self.outputs).flat_map(move |output| {
            let terms = terms.clone();
            images.clone().map(move |image| {
                let start = terms.start.max(image * windows);
                let first = ((image * self.groups + group) * self.outputs + output) * windows + start - image * windows;
                (output * step + start - terms.start, first, terms.end.min((image + 1) * windows) - start)
            })
        })
    }

    /// Gathers the elements of a result or its gradient at some output positions of a group. Each output channel has a
    /// row; rows are `step` elements apart.
    pub fn get_rows<T: Copy>(&self, group: usize, terms: Range<usize>, g: &[T], (rows, step): (&mut [T], usize)) {
        for (at, first, count) in self.output_runs(group, terms, step) {
            rows[at..][..count].copy_from_slice(&g[first..][..count]);
        }
    }

    /// Scatters rows that are `step` elements apart to the elements that [`get_rows`](Self::get_rows) would read.
    ///
    /// # Safety
    /// `out` is the first element of the result, and nothing else accesses these output positions of the group.
    pub unsafe fn put_rows<T: Copy>(
        &self,
        group: usize,
        terms: Range<usize>,
        (rows, step): (&[T], usize),
        out: *mut T,
    ) {
        for (at, first, count) in self.output_runs(group, terms, step) {
            // SAFETY: `first..first + count` are output positions of the group in `terms`, which nothing else accesses.
            unsafe { out.add(first).copy_from_nonoverlapping(rows[at..][..count].as_ptr(), count) };
        }
    }

    /// Runs col2im for some images: zeroes their channel planes, and adds each column's elements where im2col would
    /// read them.
    ///
    /// # Safety
    /// `out` is the first element of the input's gradient, and nothing else accesses these images of the group.
    pub unsafe fn col2im<T: Copy + Default + AddAssign + Sync>(
        &self,
        runs: &[Run],
        group: usize,
        images: Range<usize>,
        columns: &[T],
        out: *mut T,
    ) {
        let (input_len, output_len) = (self.windows.input_len(), self.windows.output_len());
        let (width, step) = (images.len() * output_len, self.windows.step());
        let out = Shared::new(out);
        threads::for_each(self.channels, columns.len() / 2, |channel| {
            let columns = &columns[channel * self.windows.taps() * width..];
            for (at, image) in images.clone().enumerate() {
                let first = ((image * self.groups + group) * self.channels + channel) * input_len;
                // SAFETY: each channel has its own plane of an image, which nothing else accesses by this function's
                // contract.
                let plane = unsafe {
                    let first = out.get().add(first);
                    std::slice::from_raw_parts_mut(first, input_len)
                };
                plane.fill(T::default());
                for run in runs {
                    let row = &columns[run.tap * width + at * output_len + run.window..][..run.len];
                    if step == 1 {
                        combine(&mut plane[run.element..][..run.len], row, |to, from| *to += from);
                    } else {
                        let to = plane[run.element..].iter_mut().step_by(step);
                        to.zip(row).for_each(|(to, &from)| *to += from);
                    }
                }
            }
        });
    }
}

/// Combines two runs of the same length. Chunks of constant size suit runs, which are short.
#[inline(always)]
fn combine<T: Copy>(to: &mut [T], from: &[T], f: impl Fn(&mut T, T)) {
    let (wide_to, to) = to.as_chunks_mut::<8>();
    let (wide_from, from) = from.as_chunks::<8>();
    for (to, from) in wide_to.iter_mut().zip(wide_from) {
        to.iter_mut().zip(from).for_each(|(to, &from)| f(to, from));
    }
    let (half_to, to) = to.as_chunks_mut::<4>();
    let (half_from, from) = from.as_chunks::<4>();
    for (to, from) in half_to.iter_mut().zip(half_from) {
        to.iter_mut().zip(from).for_each(|(to, &from)| f(to, from));
    }
    to.iter_mut().zip(from).for_each(|(to, &from)| f(to, from));
}
