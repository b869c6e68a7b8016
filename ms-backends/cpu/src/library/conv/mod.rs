//! Convolution, backward-data and backward-weights.
//!
//! The algorithms are:
//! - im2col and GEMM, the general case ([`im2col`]); [`small_n`] avoids packing for few output positions;
//! - direct convolution for depthwise groups, small groups ([`direct`]) and large images ([`direct_large`]);
//! - backward-data in vectors over output positions or over images ([`backward_data`]);
//! - backward-weights without an im2col buffer ([`backward_weights_direct`], [`backward_weights_by_tap`]);
//! - batch-reduce GEMM over channel blocks on AMX ([`brgemm`]);
//! - Winograd F(2x2, 3x3) ([`winograd`]).
//!
//! The order of every sum is part of the semantics of the ops; [`gemm::ordered`](ms_x64::gemm) defines
//! accumulation chains, whose chunks are combined [pairwise](PairwiseTree):
//! - An element of the result is a chain over input channels and kernel taps, taps in row-major order.
//! - An element of backward-data is the sum over its taps in order. The summand of a tap is a chain over output
//!   channels.
//! - An element of backward-weights is a chain over images and output positions, in order.
//!
//! In relaxed precisions, a [matrix engine](ms_x64::gemm) multiplies large matrices of f32 and bf16. Split components
//! are summed by K blocks or pairs, in order. On AMX, channels that fill blocks of [`BLOCK`](ms_x64::gemm::BLOCK)
//! have another order of sums. There, each block is summed over its taps in row-major order, and each tap over the
//! channels of the block, a K block. Zeros pad the last block. The sizes and elements of whole operands decide the
//! algorithm before the partition into tasks, so that no bit depends on the partition.
//!
//! In relaxed precisions, Winograd changes the order of sums too; sizes and elements of whole operands decide that as
//! well.
//!
//! Padding is multiplied as zeros, except in backward-data, which only adds existing output positions.

mod backward_data;
mod backward_weights_by_tap;
mod backward_weights_direct;
mod brgemm;
mod direct;
mod direct_large;
mod grid;
mod im2col;
mod lanes;
mod small_n;
#[cfg(test)]
mod tests;
mod vector;
mod winograd;

use super::elements;
use super::epilogues::{Epilogues, ImagePart};
use backward_data::BackwardData;
use backward_weights_direct::VectorAxis;
use direct::DirectConv;
use ms_ir::data::{Array, Attrs, HostArray, try_filled};
use ms_ir::error::Result;
use ms_ir::{CHUNK, PairwiseTree};
use ms_ops::ops::{ConvAttrs, WindowAxis, Windows};
use ms_x64::gemm::{Arithmetic, EarlierSums, Elements, Left, Matrix, Shared};
use ms_x64::threads;
use std::ops::{AddAssign, Range};
pub use vector::Direct;
use vector::SLACK;
use winograd::Winograd;

/// Minimum number of output positions that a task multiplies by the weights at once, if there are several tasks. With
/// fewer, reading the weights takes as long as multiplying.
const WINDOWS: usize = 64;

/// Maximum number of output positions for which rows of weights are read [in place](small_n).
const SMALL_N: usize = 32;

/// Maximum number of tasks for the images of [`forward`], each of which reuses one im2col buffer.
const MAX_TASKS: usize = 16;

/// Size in bytes of a task's im2col buffer if output positions are partitioned: about half of a core's cache.
const COLUMNS: usize = 256 << 10;

/// The sizes of a convolution. A group is an independent convolution of some channels.
struct Conv {
    batch: usize,
    groups: usize,
    /// Input channels of a group.
    channels: usize,
    /// Output channels of a group.
    outputs: usize,
    windows: Windows,
}

impl Conv {
    /// Returns the sizes for the shapes of input, weights and result.
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

    /// Returns the number of rows of the im2col buffer: the length of one filter.
    fn filter_len(&self) -> usize {
        self.channels * self.windows.taps()
    }

    /// Returns the numbers of elements of one group of one image, in the input and in the result.
    fn image_lens(&self) -> (usize, usize) {
        (self.channels * self.windows.input_len(), self.outputs * self.windows.output_len())
    }

    /// Returns the weights of the group of an image, which is numbered `image * groups + group`.
    fn weights(&self, image: usize) -> Range<usize> {
        let len = self.outputs * self.filter_len();
        let first = image % self.groups * len;
        first..first + len
    }

    /// Returns the part of the result with some output channels of a group of an image, at some output positions.
    fn image_part(&self, image: usize, outputs: Range<usize>, windows: Range<usize>) -> ImagePart {
        let (whole, first) = (image / self.groups, image % self.groups * self.outputs);
        [whole..whole + 1, first + outputs.start..first + outputs.end, windows]
    }

    /// Whether the kernel is 1x1 with stride 1 and no padding, so that the input is the im2col buffer.
    fn is_pointwise(&self) -> bool {
        let is_whole = |it: &WindowAxis| (it.kernel, it.stride, it.before) == (1, 1, 0) && it.output == it.input;
        self.windows.axes().iter().all(is_whole)
    }

    /// Runs a pointwise convolution as one GEMM per group and image. The lengths beside the operands are their elements
    /// per image.
    ///
    /// # Safety
    /// The operands match the sizes of the products, and the multiplier of `filters` has scanned the elements of
    /// `from`.
    unsafe fn multiply<T: Direct>(
        &self,
        filters: &Left<'_, T>,
        (from, from_len): (&[T], usize),
        (to, to_len): (&mut [T], usize),
    ) -> Result<()> {
        let (points, images) = (self.windows.output_len(), 0..self.batch * self.groups);
        let starts = |image: usize| [image * from_len, image * to_len].map(|it| it as isize);
        let (from, to) = (Matrix::dense(from.as_ptr(), points), Matrix::dense(to.as_mut_ptr(), points));
        // SAFETY: the operands match the sizes and their elements were scanned by this function's contract; each image
        // has its own part of the result.
        unsafe { filters.multiply(images, starts, from, to, points, EarlierSums::NONE) }
    }

    /// Returns the number of output positions that a task of [`forward`] multiplies at once. They belong to one image,
    /// unless an image has few.
    fn windows_at_once(&self, size: usize) -> usize {
        let (points, tasks) = (self.windows.output_len(), self.tasks());
        let windows = self.batch * points * self.groups;
        if points < WINDOWS {
            let of_all = self.batch * points;
            return if windows < tasks * WINDOWS { of_all } else { WINDOWS };
        }
        let most = (COLUMNS / (self.filter_len() * size)).max(WINDOWS);
        let pieces = tasks.div_ceil(self.batch * self.groups);
        points.div_ceil(pieces).max(WINDOWS).min(most).next_multiple_of(WINDOWS / 2)
    }

    /// Returns the number of images that a task of [`backward_data`] multiplies at once.
    fn images_at_once(&self) -> usize {
        let (points, tasks) = (self.windows.output_len(), self.tasks());
        match self.batch * points * self.groups < tasks * WINDOWS {
            true => self.batch,
            false => WINDOWS.div_ceil(points).min(self.batch),
        }
    }

    /// Returns the number of tasks that keep all threads busy.
    fn tasks(&self) -> usize {
        const PER_THREAD: usize = 3;
        threads::count() * PER_THREAD
    }

    /// Estimates the nanoseconds of the whole convolution.
    fn nanos(&self) -> usize {
        let columns = self.batch * self.groups * self.filter_len() * self.windows.output_len();
        columns / 2 + columns * self.outputs / 64
    }
}

/// Computes the convolution of the inputs `x` and `w`. Epilogues run once on each element, and own the memory of `out`
/// when it is computed.
pub fn forward<T: Direct>(
    arithmetic: Arithmetic,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
    epilogues: Epilogues<'_>,
) -> Result<()> {
    let conv = Conv::new(attrs, inputs[0].shape(), inputs[1].shape(), shape);
    let (x, w) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let (input_len, output_len) = conv.image_lens();
    let (filter, points) = (conv.filter_len(), conv.windows.output_len());
    if out.is_empty() {
        return Ok(());
    }
    if filter == 0 {
        out.fill(T::default());
        // SAFETY: all elements are computed, and nothing reads them after the epilogues.
        unsafe { epilogues.run_on_all() };
        return Ok(());
    }
    if conv.outputs == 1
        && let Some(direct) = DirectConv::new(&conv, arithmetic.isa, CHUNK)?
    {
        return direct.forward(x, w, out, epilogues);
    }
    let windows = conv.batch * points;
    let weights = Elements::from_array(&inputs[1]);
    let multiplier = arithmetic.multiplier([conv.outputs, filter, windows], [weights, x.into()]);
    if !conv.is_pointwise()
        && let Some(direct) = DirectConv::new(&conv, arithmetic.isa, usize::MAX)?
    {
        if let Some(filters) = direct.filters(multiplier, weights)? {
            return direct.forward_brgemm(&filters, x, out, epilogues);
        }
        if !multiplier.pays_for_im2col() {
            if Winograd::run(&conv, arithmetic, false, [x.into(), weights], out, epilogues)? {
                return Ok(());
            }
            if points >= WINDOWS && filter <= CHUNK && direct.is_small::<T>() {
                return direct.forward(x, w, out, epilogues);
            }
            if direct.is_dense::<T>() {
                return direct.forward_large(x, w, out, epilogues);
            }
        }
    }
    let filters = multiplier.left(weights, conv.groups, [conv.outputs, filter], false)?;
    if conv.is_pointwise() {
        // SAFETY: the operands match the sizes, the multiplier has scanned `x`, and all elements are computed before
        // the epilogues run.
        return unsafe {
            conv.multiply(&filters, (x, input_len), (out, output_len))?;
            epilogues.run_on_all();
            Ok(())
        };
    }
    let (out, runs) = (Shared::new(out.as_mut_ptr()), conv.windows.runs());
    let len = conv.windows_at_once(size_of::<T>());
    if points < WINDOWS {
        // Tasks span the output positions of several images.
        let ranges = windows.div_ceil(len);
        let is_small_n = !multiplier.has_engine() && len <= SMALL_N && T::has_vectors(arithmetic.isa);
        threads::try_for_each(conv.groups * ranges, conv.nanos(), |task| {
            let (group, start) = (task / ranges, task % ranges * len);
            let part = conv.column_range(&runs, start..windows.min(start + len))?;
            let width = part.terms.len();
            let mut columns = try_filled(T::default(), filter.saturating_mul(width).saturating_add(SLACK))?;
            conv.im2col(&part, (0, group), x, &mut columns);
            if is_small_n {
                let (rows, step) = conv.multiply_small_n(arithmetic.isa, &w[conv.weights(group)], &columns, width)?;
                // SAFETY: each task has its own output positions of a group, and `rows` has a row for each output
                // channel.
                unsafe { conv.put_rows(group, part.terms, (&rows, step), out.get()) };
                return Ok(());
            }
            let columns = Matrix::dense(columns.as_ptr(), width);
            let mut rows = try_filled(T::default(), conv.outputs * width)?;
            // SAFETY: each task has its own output positions of a group. `columns` has `filter` rows of `width` scanned
            // elements or zeros, and `rows` has room for all output channels.
            unsafe {
                let to = Matrix::dense(rows.as_mut_ptr(), width);
                filters.multiply(group..group + 1, |_| [0; 2], columns, to, width, EarlierSums::NONE)?;
                conv.put_rows(group, part.terms, (&rows, width), out.get());
            }
            Ok(())
        })?;
        // SAFETY: all elements are computed, and nothing reads them after the epilogues.
        unsafe { epilogues.run_on_all() };
        return Ok(());
    }
    let ranges = points.div_ceil(len);
    let per_task = (conv.batch * ranges).div_ceil(MAX_TASKS).max(1);
    let chunks = conv.batch.div_ceil(per_task);
    threads::try_for_each(ranges * chunks, conv.nanos(), |task| {
        let (start, chunk) = (task / chunks * len, task % chunks);
        let part = conv.column_range(&runs, start..points.min(start + len))?;
        let width = part.terms.len();
        let mut columns = try_filled(T::default(), filter.saturating_mul(width))?;
        let images = chunk * per_task..conv.batch.min((chunk + 1) * per_task);
        (images.start * conv.groups..images.end * conv.groups).try_for_each(|image| {
            conv.im2col(&part, (image / conv.groups, image % conv.groups), x, &mut columns);
            let columns = Matrix::dense(columns.as_ptr(), width);
            let to = Matrix::dense(out.get().wrapping_add(image * output_len + start), points);
            // SAFETY: each task has its own output positions of its images. `columns` has `filter` rows of `width`
            // scanned elements or zeros, and the epilogues' part is computed.
            unsafe {
                filters.multiply(image..image + 1, |_| [0; 2], columns, to, width, EarlierSums::NONE)?;
                epilogues.run(conv.image_part(image, 0..conv.outputs, start..start + width));
            }
            Ok(())
        })
    })
}

/// Computes backward-data of the inputs `g` and `w`.
pub fn backward_data<T: Direct + AddAssign>(
    arithmetic: Arithmetic,
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
    if conv.outputs == 0 {
        out.fill(T::default());
        return Ok(());
    }
    if conv.outputs == 1
        && w.iter().all(|it| it.is_finite())
        && let Some(direct) = DirectConv::new(&conv, arithmetic.isa, CHUNK)?
    {
        return direct.backward_data(g, w, out);
    }
    let weights = Elements::from_array(&inputs[1]);
    let multiplier = arithmetic.multiplier([filter, conv.outputs, conv.batch * points], [weights, g.into()]);
    if !multiplier.pays_for_im2col() && !conv.is_pointwise() {
        let epilogues = Epilogues::new(&[], shape);
        if Winograd::run(&conv, arithmetic, true, [g.into(), weights], out, epilogues)? {
            return Ok(());
        }
        if let Some(direct) = DirectConv::new(&conv, arithmetic.isa, CHUNK)?
            && direct.is_small_backward_data::<T>()
            && w.iter().all(|it| it.is_finite())
        {
            return direct.backward_data_of_several(g, w, out);
        }
        if let Some(it) = BackwardData::new(&conv, arithmetic.isa)?
            && it.compute(g, w, out)?
        {
            return Ok(());
        }
    }
    let filters = multiplier.left(weights, conv.groups, [filter, conv.outputs], true)?;
    if conv.is_pointwise() {
        // SAFETY: the operands match the sizes, and the multiplier has scanned `g`.
        unsafe { conv.multiply(&filters, (g, output_len), (out, input_len))? };
        // Sums of taps start at +0, so that none is -0.
        out.iter_mut().for_each(|it| *it += T::default());
        return Ok(());
    }
    let (out, runs) = (Shared::new(out.as_mut_ptr()), conv.windows.runs());
    let images = conv.images_at_once();
    let ranges = conv.batch.div_ceil(images);
    threads::try_for_each(conv.groups * ranges, conv.nanos(), |task| {
        let (group, start) = (task / ranges, task % ranges * images);
        let images = start..conv.batch.min(start + images);
        let terms = images.start * points..images.end * points;
        let width = terms.len();
        let mut rows = Vec::new();
        if images.len() > 1 {
            rows = try_filled(T::default(), conv.outputs * width)?;
            conv.get_rows(group, terms, g, (&mut rows, width));
        }
        let from = if images.len() > 1 { &rows } else { &g[(start * conv.groups + group) * output_len..] };
        // SAFETY: the product writes all elements of `columns`; `from` has a row of `width` elements for each output
        // channel.
        let columns = unsafe {
            let columns = Array::uninit(&[filter, width], T::DTYPE)?;
            let to = Matrix::dense(columns.device_ptr().cast(), width);
            let from = Matrix::dense(from.as_ptr(), width);
            filters.multiply(group..group + 1, |_| [0; 2], from, to, width, EarlierSums::NONE)?;
            columns
        };
        // SAFETY: the product has written `filter * width` columns, and each task has its own images of a group.
        unsafe {
            let columns = std::slice::from_raw_parts(columns.device_ptr().cast::<T>(), filter * width);
            conv.col2im(&runs, group, images, columns, out.get());
        }
        Ok(())
    })
}

/// Computes backward-weights of the inputs `x` and `g`.
pub fn backward_weights<T: Direct + AddAssign>(
    arithmetic: Arithmetic,
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
    let filter = conv.filter_len();
    let multiplier = arithmetic.multiplier([conv.outputs, terms, filter], [g.into(), x.into()]);
    if !multiplier.pays_for_im2col() {
        if Winograd::run_backward_weights(&conv, arithmetic, [x.into(), g.into()], out)? {
            return Ok(());
        }
        if let Some(lanes) = conv.backward_weights_axis(T::loops(arithmetic.isa).lanes)
            && let Some(direct) = DirectConv::new(&conv, arithmetic.isa, CHUNK)?
        {
            return match lanes {
                VectorAxis::Groups => direct.backward_weights_by_groups(x, g, out),
                VectorAxis::Outputs => direct.backward_weights_by_outputs(x, g, out),
            };
        }
        if let Some(direct) = DirectConv::new(&conv, arithmetic.isa, usize::MAX)?
            && direct.has_full_tiles::<T>()
        {
            return direct.backward_weights_by_taps(x, g, out);
        }
    }
    let runs = conv.windows.runs();
    let parts = (0..terms).step_by(CHUNK).map(|start| conv.column_range(&runs, start..terms.min(start + CHUNK)));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let (shared, len) = (Shared::new(out.as_mut_ptr()), conv.outputs * filter);
    // A matrix engine continues one sum.
    let tree = PairwiseTree::of_terms(terms);
    let slots = if multiplier.has_engine() { 1 } else { tree.slots() };
    // Groups are independent; the GEMM of a group is partitioned over threads.
    threads::try_for_each(conv.groups, conv.nanos(), |group| {
        let mut columns = try_filled(T::default(), filter.saturating_mul(terms.min(CHUNK)))?;
        let mut gradients = try_filled(T::default(), conv.outputs.saturating_mul(terms.min(CHUNK)))?;
        let weights = shared.get().wrapping_add(conv.weights(group).start);
        // SAFETY: a product writes a slot before later products or the copy read it.
        let room = (slots > 1).then(|| unsafe { Array::uninit(&[slots * len], T::DTYPE) }).transpose()?;
        let first = room.as_ref().map_or(weights, |it| it.device_ptr().cast());
        for (chunk, part) in parts.iter().enumerate() {
            let depth = part.terms.len();
            conv.im2col(part, (0, group), x, &mut columns);
            conv.get_rows(group, part.terms.clone(), g, (&mut gradients, depth));
            let gradients = multiplier.left(Elements::from(&*gradients), 1, [conv.outputs, depth], false)?;
            let columns = Matrix::dense(columns.as_ptr(), depth).transposed();
            let combined = if multiplier.has_engine() { 0..chunk.min(1) } else { tree.combined(chunk) };
            let earlier = EarlierSums { count: combined.len(), distance: len };
            let to = Matrix::dense(first.wrapping_add(combined.start * len), filter);
            // SAFETY: each group has its own weights and slots, and `columns` has `filter` rows of `depth` scanned
            // elements or zeros.
            unsafe { gradients.multiply(0..1, |_| [0; 2], columns, to, filter, earlier)? };
        }
        if room.is_some() {
            // SAFETY: the first slot has the sums of the group's weights.
            unsafe { weights.copy_from_nonoverlapping(first, len) };
        }
        Ok(())
    })
}
