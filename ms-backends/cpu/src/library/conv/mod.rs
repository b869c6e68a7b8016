//! Convolution and its gradients: windows stored as columns of a matrix, and products in order; if a group
//! has one output channel, without a matrix ([`direct`]).
//!
//! The order of every sum is part of the semantics of the ops (see [`Ordered`] for chains):
//! - An element of the result is a chain over input channels and taps, taps in row-major order.
//! - An element of the gradient for the input is the sum over its taps, in order, each of which is a chain
//!   over output channels.
//! - An element of the gradient for the weights is a chain over images and windows, in order.
//!
//! Padding is zeros that are multiplied like elements, except in the gradient for the input, to which only
//! existing windows are added.

mod direct;
mod grid;
#[cfg(test)]
mod tests;
mod vector;

use super::elements;
use crate::isa::Isa;
use crate::product::{CHUNK, Matrix, Ordered, Shared};
use crate::threads;
use direct::{DirectConv, WeightLanes};
use ms_core::error::Result;
use ms_core::ops::{ConvAttrs, Run, WindowAxis, Windows};
use ms_core::tensor::{Attrs, HostArray, try_filled, try_room};
use std::ops::{AddAssign, Range};
pub use vector::Direct;

/// Maximum number of chunks of images of a task.
const MAX_CHUNKS: usize = 16;

/// The sizes of one convolution. A group is a small convolution of its own on some channels.
struct Conv {
    batch: usize,
    groups: usize,
    /// Input channels of a group.
    channels: usize,
    /// Output channels of a group.
    outputs: usize,
    windows: Windows,
}

/// Some terms of a gradient for weights, and the elements under their taps, in order; other positions are
/// padding.
struct Part {
    terms: Range<usize>,
    pieces: Vec<Piece>,
}

/// Elements under one tap of adjacent windows of an image.
struct Piece {
    /// The position of the first one in a row of terms by tap.
    at: usize,
    image: usize,
    /// The position of the first one in its plane.
    element: usize,
    count: usize,
}

impl Conv {
    /// From the shapes of input, weights and result.
    fn new(attrs: &Attrs, input: &[usize], weight: &[usize], output: &[usize]) -> Self {
        let at = ConvAttrs::of(attrs);
        let groups = at.groups();
        Self {
            batch: input[0],
            groups,
            channels: weight[1],
            outputs: weight[0] / groups,
            windows: Windows::new(&at.window(), &input[2..], &weight[2..], &output[2..]),
        }
    }

    /// Rows of the matrix of columns: the length of one filter.
    fn filter_len(&self) -> usize {
        self.channels * self.windows.taps()
    }

    /// Elements of one group of one image, of the input and of the result.
    fn image_lens(&self) -> (usize, usize) {
        (self.channels * self.windows.input_len(), self.outputs * self.windows.output_len())
    }

    /// The weights of the group that an image belongs to.
    fn weights(&self, image: usize) -> Range<usize> {
        let len = self.outputs * self.filter_len();
        let first = image % self.groups * len;
        first..first + len
    }

    /// Returns whether every window is one element, and every element has a window: then the input is the
    /// matrix of columns.
    fn is_pointwise(&self) -> bool {
        let is_whole = |it: &WindowAxis| (it.kernel, it.stride, it.before) == (1, 1, 0) && it.output == it.input;
        self.windows.axes().iter().all(is_whole)
    }

    /// Images of one chunk.
    fn per_chunk(&self) -> usize {
        self.batch.div_ceil(MAX_CHUNKS).max(1)
    }

    /// Multiplies the weights of each group with each of its images, where every window is one element. Images
    /// have the lengths that are given with them.
    ///
    /// # Safety
    /// The operands match the sizes of the product.
    unsafe fn multiply<T: Direct>(
        &self,
        product: Ordered,
        weights: Matrix<*const T>,
        (from, from_len): (&[T], usize),
        (to, to_len): (&mut [T], usize),
    ) -> Result<()> {
        let points = self.windows.output_len();
        let starts = |image: usize| [self.weights(image).start, image * from_len, image * to_len].map(|it| it as isize);
        let (from, to) = (Matrix::dense(from.as_ptr(), points), Matrix::dense(to.as_mut_ptr(), points));
        // SAFETY: by the caller's contract; each image has its own part of the result.
        unsafe { product.run(self.batch * self.groups, starts, weights, from, to) }
    }

    fn chunks(&self) -> usize {
        self.batch.div_ceil(self.per_chunk())
    }

    /// Runs `f` on every group of every image, numbered one after the other, with room for a matrix of
    /// columns.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for such a matrix; those of
    /// `f`.
    fn for_each_image<T: Copy + Default>(&self, f: impl Fn(usize, &mut [T]) -> Result<()> + Sync) -> Result<()> {
        let per_chunk = self.per_chunk();
        threads::try_for_each(self.chunks(), self.nanos(), |chunk| {
            let len = self.filter_len().saturating_mul(self.windows.output_len());
            let mut columns = try_filled(T::default(), len)?;
            let images = chunk * per_chunk..((chunk + 1) * per_chunk).min(self.batch);
            (images.start * self.groups..images.end * self.groups).try_for_each(|image| f(image, &mut columns))
        })
    }

    /// Estimated nanoseconds of the whole convolution.
    fn nanos(&self) -> usize {
        let columns = self.batch * self.groups * self.filter_len() * self.windows.output_len();
        columns / 2 + columns * self.outputs / 64
    }

    /// Stores the windows of one image as columns: row `(channel, tap)` has the elements under the tap.
    /// Positions under padding are left unchanged.
    fn columns<T: Copy>(&self, runs: &[Run], image: &[T], columns: &mut [T]) {
        let (input_len, output_len) = (self.windows.input_len(), self.windows.output_len());
        let (rows, step) = (self.windows.taps() * output_len, self.windows.step());
        for (plane, columns) in image.chunks_exact(input_len).zip(columns.chunks_exact_mut(rows)) {
            for run in runs {
                let line = &mut columns[run.tap * output_len + run.window..][..run.len];
                if step == 1 {
                    combine(line, &plane[run.element..][..run.len], |to, from| *to = from);
                } else {
                    let from = plane[run.element..].iter().step_by(step);
                    line.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
                }
            }
        }
    }

    /// The elements under the windows of some terms, which are the windows of all images one after the other.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for the list.
    fn part(&self, runs: &[Run], terms: Range<usize>) -> Result<Part> {
        let (windows, len, step) = (self.windows.output_len(), terms.len(), self.windows.step());
        let images = terms.start / windows..terms.end.div_ceil(windows);
        let mut pieces = try_room(images.len().saturating_mul(runs.len()))?;
        for image in images {
            // The windows of this image that are among the terms.
            let (first, end) = (terms.start.saturating_sub(image * windows), terms.end - image * windows);
            for run in runs {
                let skipped = first.saturating_sub(run.window).min(run.len);
                let count = end.min(run.window + run.len).saturating_sub(run.window + skipped);
                if count > 0 {
                    let at = run.tap * len + image * windows + run.window + skipped - terms.start;
                    pieces.push(Piece { at, image, element: run.element + skipped * step, count });
                }
            }
        }
        pieces.sort_unstable_by_key(|it| it.at);
        Ok(Part { terms, pieces })
    }

    /// Stores the elements under the windows of a part in a group: row `(channel, tap)` has the elements
    /// under the tap.
    fn columns_of<T: Copy + Default + Send + Sync>(&self, part: &Part, group: usize, x: &[T], columns: &mut [T]) {
        let (plane, step) = (self.windows.input_len(), self.windows.step());
        let len = self.windows.taps() * part.terms.len();
        let to = Shared::new(columns.as_mut_ptr());
        threads::for_each(self.channels, self.channels * len / 2, |channel| {
            // SAFETY: each channel has its own rows.
            let rows = unsafe { std::slice::from_raw_parts_mut(to.get().add(channel * len), len) };
            let mut done = 0;
            for piece in &part.pieces {
                rows[done..piece.at].fill(T::default());
                done = piece.at + piece.count;
                let first = ((piece.image * self.groups + group) * self.channels + channel) * plane + piece.element;
                let line = &mut rows[piece.at..done];
                if step == 1 {
                    combine(line, &x[first..first + piece.count], |to, from| *to = from);
                } else {
                    line.iter_mut().zip(x[first..].iter().step_by(step)).for_each(|(to, &from)| *to = from);
                }
            }
            rows[done..].fill(T::default());
        });
    }

    /// Stores the gradients of the windows of some `terms` of a group, like [`columns_of`](Self::columns_of),
    /// in a row for each output channel.
    fn gradients_of<T: Copy>(&self, group: usize, terms: Range<usize>, g: &[T], rows: &mut [T]) {
        let (windows, len) = (self.windows.output_len(), terms.len());
        for (output, row) in rows[..self.outputs * len].chunks_exact_mut(len).enumerate() {
            let mut at = terms.start;
            while at < terms.end {
                let (image, window) = (at / windows, at % windows);
                let count = (windows - window).min(terms.end - at);
                let from = ((image * self.groups + group) * self.outputs + output) * windows + window;
                row[at - terms.start..][..count].copy_from_slice(&g[from..from + count]);
                at += count;
            }
        }
    }

    /// Adds columns back to the elements that they were taken from.
    fn add_columns<T: Copy + AddAssign>(&self, runs: &[Run], columns: &[T], image: &mut [T]) {
        let (input_len, output_len) = (self.windows.input_len(), self.windows.output_len());
        let (rows, step) = (self.windows.taps() * output_len, self.windows.step());
        for (plane, columns) in image.chunks_exact_mut(input_len).zip(columns.chunks_exact(rows)) {
            for run in runs {
                let line = &columns[run.tap * output_len + run.window..][..run.len];
                if step == 1 {
                    combine(&mut plane[run.element..][..run.len], line, |to, from| *to += from);
                } else {
                    let to = plane[run.element..].iter_mut().step_by(step);
                    to.zip(line).for_each(|(to, &from)| *to += from);
                }
            }
        }
    }
}

/// Combines two runs of the same length, in pieces of constant size, because runs are short.
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

/// The convolution of inputs `x` and `w`.
pub fn forward<T: Direct>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let conv = Conv::new(attrs, inputs[0].shape(), inputs[1].shape(), shape);
    let (x, w) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let (input_len, output_len) = conv.image_lens();
    let (filter, points) = (conv.filter_len(), conv.windows.output_len());
    if out.is_empty() {
        return Ok(());
    }
    if conv.outputs == 1
        && let Some(direct) = DirectConv::of(&conv, isa)?
    {
        return direct.forward(x, w, out);
    }
    let product = Ordered { isa, sizes: [conv.outputs, filter, points], accumulate: false };
    if conv.is_pointwise() {
        // SAFETY: the operands match the sizes.
        return unsafe { conv.multiply(product, Matrix::dense(w.as_ptr(), filter), (x, input_len), (out, output_len)) };
    }
    let out = Shared::new(out.as_mut_ptr());
    let runs = conv.windows.runs();
    conv.for_each_image(|image, columns| {
        conv.columns(&runs, &x[image * input_len..][..input_len], columns);
        let filters = Matrix::dense(w[conv.weights(image)].as_ptr(), filter);
        let columns = Matrix::dense(columns.as_ptr(), points);
        let to = Matrix::dense(out.get().wrapping_add(image * output_len), points);
        // SAFETY: each image has its own part of the result; the operands match the sizes.
        unsafe { product.run(1, |_| [0; 3], filters, columns, to) }
    })
}

/// The gradient for the input, of inputs `g` and `w`.
pub fn input_grad<T: Direct + AddAssign>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let conv = Conv::new(attrs, shape, inputs[1].shape(), inputs[0].shape());
    let (g, w) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let (input_len, output_len) = conv.image_lens();
    let (filter, points) = (conv.filter_len(), conv.windows.output_len());
    if out.is_empty() {
        return Ok(());
    }
    if conv.outputs == 1
        && w.iter().all(|it| it.is_finite())
        && let Some(direct) = DirectConv::of(&conv, isa)?
    {
        return direct.input_grad(g, w, out);
    }
    if conv.is_pointwise() {
        // Sums start from +0.
        out.fill(T::default());
        let product = Ordered { isa, sizes: [filter, conv.outputs, points], accumulate: true };
        let filters = Matrix::dense(w.as_ptr(), filter).transposed();
        // SAFETY: the operands match the sizes.
        return unsafe { conv.multiply(product, filters, (g, output_len), (out, input_len)) };
    }
    let out = Shared::new(out.as_mut_ptr());
    let runs = conv.windows.runs();
    let product = Ordered { isa, sizes: [filter, conv.outputs, points], accumulate: false };
    conv.for_each_image(|image, columns| {
        let filters = Matrix::dense(w[conv.weights(image)].as_ptr(), filter).transposed();
        let g = Matrix::dense(g[image * output_len..][..output_len].as_ptr(), points);
        // SAFETY: each image has its own part of the result; the operands match the sizes.
        let to = unsafe {
            product.run(1, |_| [0; 3], filters, g, Matrix::dense(columns.as_mut_ptr(), points))?;
            std::slice::from_raw_parts_mut(out.get().add(image * input_len), input_len)
        };
        to.fill(T::default());
        conv.add_columns(&runs, columns, to);
        Ok(())
    })
}

/// The gradient for the weights, of inputs `x` and `g`.
pub fn weight_grad<T: Direct + AddAssign>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let conv = Conv::new(attrs, inputs[0].shape(), shape, inputs[1].shape());
    let (x, g) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    out.fill(T::default());
    let terms = conv.batch * conv.windows.output_len();
    if out.is_empty() || terms == 0 {
        return Ok(());
    }
    if let Some(lanes) = conv.weight_lanes(T::loops(isa).lanes)
        && let Some(direct) = DirectConv::of(&conv, isa)?
    {
        return match lanes {
            WeightLanes::Groups => direct.weight_grad_by_groups(x, g, out),
            WeightLanes::Outputs => direct.weight_grad_by_outputs(x, g, out),
        };
    }
    let filter = conv.filter_len();
    let runs = conv.windows.runs();
    let parts = (0..terms).step_by(CHUNK).map(|start| conv.part(&runs, start..terms.min(start + CHUNK)));
    let parts = parts.collect::<Result<Vec<Part>>>()?;
    let shared = Shared::new(out.as_mut_ptr());
    // Groups are independent; the products of one group are divided among threads.
    threads::try_for_each(conv.groups, conv.nanos(), |group| {
        let mut columns = try_filled(T::default(), filter.saturating_mul(terms.min(CHUNK)))?;
        let mut gradients = try_filled(T::default(), conv.outputs.saturating_mul(terms.min(CHUNK)))?;
        let to = Matrix::dense(shared.get().wrapping_add(conv.weights(group).start), filter);
        for part in &parts {
            let len = part.terms.len();
            conv.columns_of(part, group, x, &mut columns);
            conv.gradients_of(group, part.terms.clone(), g, &mut gradients);
            let product = Ordered { isa, sizes: [conv.outputs, len, filter], accumulate: part.terms.start > 0 };
            let gradients = Matrix::dense(gradients.as_ptr(), len);
            let columns = Matrix::dense(columns.as_ptr(), len).transposed();
            // SAFETY: each group has its own weights; the operands match the sizes.
            unsafe { product.run(1, |_| [0; 3], gradients, columns, to)? };
        }
        Ok(())
    })
}
