//! Convolutions as GEMM: pointwise ones without a copy, others over an im2col buffer.

use super::im2col::ColumnRange;
use super::problem::{Call, Conv, ConvCode, MAX_TASKS, Problem, SMALL_N, WINDOWS};
use super::vector::{Direct, SLACK};
use crate::library::implementation::{Declined, require};
use crate::library::scratch::{self, Scratch, bytes_of};
use ms_ir::error::Result;
use ms_ir::{CHUNK, PairwiseTree};
use ms_ops::ops::Run;
use ms_x64::Isa;
use ms_x64::gemm::{EarlierSums, Elements, Left, Matrix, Shared};
use ms_x64::threads;
use std::ops::AddAssign;
use std::slice::from_raw_parts;
use std::sync::Arc;

/// Sums without summands, and results without elements.
pub struct Zeros;

impl Zeros {
    /// Accepts sums over these numbers of summands, one of which is zero, and empty results.
    pub fn accepts(sizes: &[usize]) -> Result<(), Declined> {
        require(sizes.contains(&0), || "there are summands")
    }
}

impl<T: Direct> ConvCode<T> for Zeros {
    fn run(&self, Call { out, epilogues, .. }: Call<'_, T>) -> Result<bool> {
        out.fill(T::default());
        if !out.is_empty() {
            // SAFETY: all elements are computed, and nothing reads them after the epilogues.
            unsafe { epilogues.run_on_all() };
        }
        Ok(true)
    }
}

/// A pointwise convolution or its backward-data.
pub struct Pointwise {
    conv: Arc<Conv>,
    is_gradient: bool,
}

impl Pointwise {
    /// Accepts 1x1 kernels with stride 1 and without padding.
    pub fn accepts(problem: &Problem) -> Result<(), Declined> {
        require(problem.conv.is_pointwise(), || "the kernel is not 1x1, with stride 1 and without padding")
    }

    /// Prepares a convolution, or its backward-data.
    pub fn new(problem: &Problem, is_gradient: bool) -> Self {
        Self { conv: problem.conv.clone(), is_gradient }
    }

    /// Runs a GEMM for each group and image. The lengths beside the operands are their elements per image.
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
        let (points, images) = (self.conv.windows.output_len(), 0..self.conv.batch * self.conv.groups);
        let starts = |image: usize| [image * from_len, image * to_len].map(|it| it as isize);
        let (from, to) = (Matrix::dense(from.as_ptr(), points), Matrix::dense(to.as_mut_ptr(), points));
        // SAFETY: the operands match the sizes and their elements were scanned by this function's contract; each image
        // has its own part of the result.
        unsafe { filters.multiply(images, starts, from, to, points, EarlierSums::NONE) }
    }
}

impl<T: Direct> ConvCode<T> for Pointwise {
    fn run(&self, Call { multiplier, operands: [from, weights], out, epilogues, .. }: Call<'_, T>) -> Result<bool> {
        let (conv, from) = (&self.conv, from.all);
        let (input_len, output_len) = conv.image_lens();
        let (outputs, channels) = (conv.outputs, conv.channels);
        if self.is_gradient {
            let filters = multiplier.left(weights, conv.groups, [channels, outputs], true)?;
            // SAFETY: the operands match the sizes, and the multiplier has scanned `from`.
            unsafe { self.multiply(&filters, (from, output_len), (out, input_len))? };
            // Sums of taps start at +0, so that none is -0.
            out.iter_mut().for_each(|it| *it = *it + T::default());
            return Ok(true);
        }
        let filters = multiplier.left(weights, conv.groups, [outputs, channels], false)?;
        // SAFETY: the operands match the sizes, the multiplier has scanned `from`, and all elements are computed before
        // the epilogues run.
        unsafe {
            self.multiply(&filters, (from, input_len), (out, output_len))?;
            epilogues.run_on_all();
        }
        Ok(true)
    }
}

/// A convolution whose tasks have output positions of several images.
pub struct OverImages {
    conv: Arc<Conv>,
    isa: Isa,
    /// The output positions of each task of a group.
    parts: Vec<ColumnRange>,
    /// Whether rows of weights are read in place.
    is_small_n: bool,
}

impl OverImages {
    /// Accepts images with few output positions, so few at once that rows of weights are read in place.
    pub fn accepts_small_n<T: Direct>(problem: &Problem) -> Result<(), Declined> {
        Self::accepts(problem)?;
        require(!problem.multiplier.has_engine(), || "a matrix engine multiplies")?;
        require(T::has_vectors(problem.arithmetic.isa), || "there are no vectors")?;
        let len = problem.conv.windows_at_once(size_of::<T>());
        require(len <= SMALL_N, || format!("a task has {len} output positions, more than {SMALL_N}"))
    }

    /// Accepts images with few output positions.
    pub fn accepts(problem: &Problem) -> Result<(), Declined> {
        let points = problem.conv.windows.output_len();
        require(points < WINDOWS, || format!("an image has {points} output positions, not less than {WINDOWS}"))
    }

    /// Prepares a problem that was accepted.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of output positions.
    pub fn new<T: Direct>(problem: &Problem, is_small_n: bool) -> Result<Self> {
        let conv = problem.conv.clone();
        let (runs, windows) = (conv.windows.runs(), conv.batch * conv.windows.output_len());
        let len = conv.windows_at_once(size_of::<T>());
        let ranges = (0..windows).step_by(len).map(|start| start..windows.min(start + len));
        let parts = ranges.map(|it| conv.column_range(&runs, it)).collect::<Result<_>>()?;
        Ok(Self { isa: problem.arithmetic.isa, parts, is_small_n, conv })
    }
}

impl<T: Direct> ConvCode<T> for OverImages {
    fn run(&self, Call { multiplier, operands: [x, w], out, epilogues, .. }: Call<'_, T>) -> Result<bool> {
        let (conv, filter) = (&self.conv, self.conv.filter_len());
        let filters = multiplier.left(w, conv.groups, [conv.outputs, filter], false)?;
        let (out, ranges) = (Shared::new(out.as_mut_ptr()), self.parts.len());
        threads::try_for_each(conv.groups * ranges, conv.nanos(), |task| {
            let (group, part) = (task / ranges, &self.parts[task % ranges]);
            let width = part.terms.len();
            let mut columns = Scratch::filled(T::default(), filter.saturating_mul(width).saturating_add(SLACK))?;
            conv.im2col(part, (0, group), x.all, &mut columns);
            if self.is_small_n {
                let weights = &w.all[conv.weights(group)];
                let (rows, step) = conv.multiply_small_n(self.isa, weights, &columns, width)?;
                // SAFETY: each task has its own output positions of a group, and `rows` has a row for each output
                // channel.
                unsafe { conv.put_rows(group, part.terms.clone(), (&rows, step), out.get()) };
                return Ok(());
            }
            let columns = Matrix::dense(columns.as_ptr(), width);
            let mut rows = Scratch::filled(T::default(), conv.outputs * width)?;
            // SAFETY: each task has its own output positions of a group. `columns` has `filter` rows of `width` scanned
            // elements or zeros, and `rows` has room for all output channels.
            unsafe {
                let to = Matrix::dense(rows.as_mut_ptr(), width);
                filters.multiply(group..group + 1, |_| [0; 2], columns, to, width, EarlierSums::NONE)?;
                conv.put_rows(group, part.terms.clone(), (&rows, width), out.get());
            }
            Ok(())
        })?;
        // SAFETY: all elements are computed, and nothing reads them after the epilogues.
        unsafe { epilogues.run_on_all() };
        Ok(true)
    }
}

/// A convolution whose tasks have output positions of one image at a time.
pub struct ByImage {
    conv: Arc<Conv>,
    /// The output positions of each task.
    parts: Vec<ColumnRange>,
}

impl ByImage {
    /// Prepares a problem with any sizes.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of output positions.
    pub fn new<T: Direct>(problem: &Problem) -> Result<Self> {
        let conv = problem.conv.clone();
        let (runs, points, len) =
            (conv.windows.runs(), conv.windows.output_len(), conv.windows_at_once(size_of::<T>()));
        let ranges = (0..points).step_by(len).map(|start| start..points.min(start + len));
        let parts = ranges.map(|it| conv.column_range(&runs, it)).collect::<Result<_>>()?;
        Ok(Self { parts, conv })
    }
}

impl<T: Direct> ConvCode<T> for ByImage {
    fn run(&self, Call { multiplier, operands: [x, w], out, epilogues, .. }: Call<'_, T>) -> Result<bool> {
        let (conv, filter, points) = (&self.conv, self.conv.filter_len(), self.conv.windows.output_len());
        let filters = multiplier.left(w, conv.groups, [conv.outputs, filter], false)?;
        let (out, ranges, output_len) = (Shared::new(out.as_mut_ptr()), self.parts.len(), conv.image_lens().1);
        let per_task = (conv.batch * ranges).div_ceil(MAX_TASKS).max(1);
        let chunks = conv.batch.div_ceil(per_task);
        threads::try_for_each(ranges * chunks, conv.nanos(), |task| {
            let (part, chunk) = (&self.parts[task / chunks], task % chunks);
            let (start, width) = (part.terms.start, part.terms.len());
            let mut columns = Scratch::filled(T::default(), filter.saturating_mul(width))?;
            let images = chunk * per_task..conv.batch.min((chunk + 1) * per_task);
            (images.start * conv.groups..images.end * conv.groups).try_for_each(|image| {
                conv.im2col(part, (image / conv.groups, image % conv.groups), x.all, &mut columns);
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
        })?;
        Ok(true)
    }
}

/// Backward-data by col2im.
pub struct BackwardData {
    conv: Arc<Conv>,
    runs: Vec<Run>,
}

impl BackwardData {
    /// Prepares a problem with any sizes.
    pub fn new(problem: &Problem) -> Self {
        Self { conv: problem.conv.clone(), runs: problem.conv.windows.runs() }
    }
}

impl<T: Direct + AddAssign> ConvCode<T> for BackwardData {
    fn run(&self, Call { multiplier, operands: [g, w], out, .. }: Call<'_, T>) -> Result<bool> {
        let (conv, g) = (&self.conv, g.all);
        let (filter, points, output_len) = (conv.filter_len(), conv.windows.output_len(), conv.image_lens().1);
        let filters = multiplier.left(w, conv.groups, [filter, conv.outputs], true)?;
        let (out, images) = (Shared::new(out.as_mut_ptr()), conv.images_at_once());
        let ranges = conv.batch.div_ceil(images);
        threads::try_for_each(conv.groups * ranges, conv.nanos(), |task| {
            let (group, start) = (task / ranges, task % ranges * images);
            let images = start..conv.batch.min(start + images);
            let terms = images.start * points..images.end * points;
            let width = terms.len();
            let mut rows = Scratch::filled(T::default(), if images.len() > 1 { conv.outputs * width } else { 0 })?;
            if images.len() > 1 {
                conv.get_rows(group, terms, g, (&mut rows, width));
            }
            let from = if images.len() > 1 { &rows } else { &g[(start * conv.groups + group) * output_len..] };
            let columns = scratch::uninit::<T>(filter * width)?;
            // SAFETY: the product writes all `filter * width` columns; `from` has a row of `width` elements for each
            // output channel. Each task has its own images of a group.
            unsafe {
                let to = Matrix::dense(columns.device_ptr().cast(), width);
                let from = Matrix::dense(from.as_ptr(), width);
                filters.multiply(group..group + 1, |_| [0; 2], from, to, width, EarlierSums::NONE)?;
                let columns = from_raw_parts(columns.device_ptr().cast::<T>(), filter * width);
                conv.col2im(&self.runs, group, images, columns, out.get());
            }
            Ok(())
        })?;
        Ok(true)
    }
}

/// Backward-weights by an im2col buffer for each chunk of output positions.
pub struct BackwardWeights {
    conv: Arc<Conv>,
    /// The chunks.
    parts: Vec<ColumnRange>,
    /// The number of slots of sums; a matrix engine continues one sum.
    slots: usize,
}

impl BackwardWeights {
    /// Prepares a problem with any sizes.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of output positions.
    pub fn new(problem: &Problem) -> Result<Self> {
        let conv = problem.conv.clone();
        let (runs, terms) = (conv.windows.runs(), conv.batch * conv.windows.output_len());
        let parts = (0..terms).step_by(CHUNK).map(|start| conv.column_range(&runs, start..terms.min(start + CHUNK)));
        let parts = parts.collect::<Result<_>>()?;
        let slots = if problem.multiplier.has_engine() { 1 } else { PairwiseTree::of_terms(terms).slots() };
        Ok(Self { conv, parts, slots })
    }

    /// Returns the number of sums in slots of a group, if there are several slots.
    fn slots_len(&self) -> usize {
        if self.slots > 1 { self.slots * self.conv.outputs * self.conv.filter_len() } else { 0 }
    }
}

impl<T: Direct> ConvCode<T> for BackwardWeights {
    fn workspace(&self) -> usize {
        bytes_of::<T>(self.conv.groups * self.slots_len())
    }

    fn run(&self, call: Call<'_, T>) -> Result<bool> {
        let Self { conv, parts, slots } = self;
        let Call { multiplier, operands: [x, g], out, mut workspace, .. } = call;
        let (filter, terms) = (conv.filter_len(), conv.batch * conv.windows.output_len());
        let (len, tree) = (conv.outputs * filter, PairwiseTree::of_terms(terms));
        let room = workspace.take::<T>(conv.groups * self.slots_len());
        let shared = Shared::new((out.as_mut_ptr(), room.as_mut_ptr().cast::<T>()));
        // Groups are independent; the GEMM of a group is partitioned over threads.
        threads::try_for_each(conv.groups, conv.nanos(), |group| {
            let mut columns = Scratch::filled(T::default(), filter.saturating_mul(terms.min(CHUNK)))?;
            let mut gradients = Scratch::filled(T::default(), conv.outputs.saturating_mul(terms.min(CHUNK)))?;
            let (out, room) = shared.get();
            let weights = out.wrapping_add(conv.weights(group).start);
            let first = if *slots > 1 { room.wrapping_add(group * self.slots_len()) } else { weights };
            for (chunk, part) in parts.iter().enumerate() {
                let depth = part.terms.len();
                conv.im2col(part, (0, group), x.all, &mut columns);
                conv.get_rows(group, part.terms.clone(), g.all, (&mut gradients, depth));
                let gradients = multiplier.left(Elements::from(&*gradients), 1, [conv.outputs, depth], false)?;
                let columns = Matrix::dense(columns.as_ptr(), depth).transposed();
                let combined = if multiplier.has_engine() { 0..chunk.min(1) } else { tree.combined(chunk) };
                let earlier = EarlierSums { count: combined.len(), distance: len };
                let to = Matrix::dense(first.wrapping_add(combined.start * len), filter);
                // SAFETY: each group has its own weights and slots, and a product writes a slot before later ones read
                // it. `columns` has `filter` rows of `depth` scanned elements or zeros.
                unsafe { gradients.multiply(0..1, |_| [0; 2], columns, to, filter, earlier)? };
            }
            if *slots > 1 {
                // SAFETY: the first slot has the sums of the group's weights.
                unsafe { weights.copy_from_nonoverlapping(first, len) };
            }
            Ok(())
        })?;
        Ok(true)
    }
}
