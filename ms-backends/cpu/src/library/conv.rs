//! Convolution and its gradients: windows laid out as columns of a matrix, and products.

use super::elements;
use crate::packing::{prepare_thread, reserve};
use crate::product::{Gemm, Matrix, Shared};
use crate::threads;
use ms_core::error::Result;
use ms_core::ops::{Run, Windows};
use ms_core::tensor::{Array, Attrs, Element, try_filled};
use std::ops::{AddAssign, Range};

/// Images per chunk of a region at most, so that partial sums of gradients stay few. Chunks
/// depend on the shape alone.
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

impl Conv {
    /// From the shapes of input, weights and result.
    fn new(attrs: &Attrs, input: &[usize], weight: &[usize], output: &[usize]) -> Self {
        let groups = attrs.int(4) as usize;
        Self {
            batch: input[0],
            groups,
            channels: weight[1],
            outputs: weight[0] / groups,
            windows: Windows::new(attrs, 0, &input[2..], &weight[2..], &output[2..]),
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

    /// The weights of the group that an image is of.
    fn weights(&self, image: usize) -> Range<usize> {
        let len = self.outputs * self.filter_len();
        let first = image % self.groups * len;
        first..first + len
    }

    /// Images of one chunk.
    fn per_chunk(&self) -> usize {
        self.batch.div_ceil(MAX_CHUNKS).max(1)
    }

    fn chunks(&self) -> usize {
        self.batch.div_ceil(self.per_chunk())
    }

    /// Runs `f`, which takes a `product` of these sizes, on every group of every image, numbered one
    /// after the other, with its chunk and room for a matrix of columns.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for such a matrix.
    fn for_each_image<T: Gemm>(&self, product: [usize; 3], f: impl Fn(usize, usize, &mut [T]) + Sync) -> Result<()> {
        let per_chunk = self.per_chunk();
        reserve::<T>(product, self.chunks())?;
        threads::try_for_each(self.chunks(), self.nanos(), |chunk| {
            let len = self.filter_len().saturating_mul(self.windows.output_len());
            let mut columns = try_filled(T::default(), len)?;
            prepare_thread()?;
            let images = chunk * per_chunk..((chunk + 1) * per_chunk).min(self.batch);
            for image in images.start * self.groups..images.end * self.groups {
                f(chunk, image, &mut columns);
            }
            Ok(())
        })
    }

    /// Estimated nanoseconds of the whole convolution.
    fn nanos(&self) -> usize {
        let columns = self.batch * self.groups * self.filter_len() * self.windows.output_len();
        columns / 2 + columns * self.outputs / 64
    }

    /// Lays the windows of one image out: row `(channel, tap)` holds what lies under the tap.
    /// Places under padding are left as they are.
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

/// Combines two runs of one length: in pieces of constant size, because runs are short.
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
pub fn forward<T: Gemm + Element>(attrs: &Attrs, inputs: &[Array], out: &mut [T], shape: &[usize]) -> Result<()> {
    let conv = Conv::new(attrs, inputs[0].shape(), inputs[1].shape(), shape);
    let (x, w) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let (input_len, output_len) = conv.image_lens();
    let (filter, points) = (conv.filter_len(), conv.windows.output_len());
    if out.is_empty() {
        return Ok(());
    }
    let out = Shared::new(out.as_mut_ptr());
    let runs = conv.windows.runs();
    let product = [conv.outputs, filter, points];
    conv.for_each_image(product, |_, image, columns| {
        conv.columns(&runs, &x[image * input_len..][..input_len], columns);
        // SAFETY: each image has its own part of the result; the operands are as large as the
        // sizes say.
        unsafe {
            T::gemm(
                product,
                Matrix::dense(out.get().add(image * output_len), points),
                false,
                Matrix::dense(w[conv.weights(image)].as_ptr(), filter),
                Matrix::dense(columns.as_ptr(), points),
            );
        }
    })
}

/// The gradient for the input, of inputs `g` and `w`.
pub fn input_grad<T: Gemm + Element + AddAssign>(
    attrs: &Attrs,
    inputs: &[Array],
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
    let out = Shared::new(out.as_mut_ptr());
    let runs = conv.windows.runs();
    let product = [filter, conv.outputs, points];
    conv.for_each_image(product, |_, image, columns| {
        let g = &g[image * output_len..][..output_len];
        // SAFETY: each image has its own part of the result; the operands are as large as the
        // sizes say.
        let to = unsafe {
            T::gemm(
                product,
                Matrix::dense(columns.as_mut_ptr(), points),
                false,
                Matrix::dense(w[conv.weights(image)].as_ptr(), filter).transposed(),
                Matrix::dense(g.as_ptr(), points),
            );
            std::slice::from_raw_parts_mut(out.get().add(image * input_len), input_len)
        };
        to.fill(T::default());
        conv.add_columns(&runs, columns, to);
    })
}

/// The gradient for the weights, of inputs `x` and `g`.
pub fn weight_grad<T: Gemm + Element + AddAssign>(
    attrs: &Attrs,
    inputs: &[Array],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let conv = Conv::new(attrs, inputs[0].shape(), shape, inputs[1].shape());
    let (x, g) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let (input_len, output_len) = conv.image_lens();
    let (filter, points) = (conv.filter_len(), conv.windows.output_len());
    out.fill(T::default());
    if out.is_empty() {
        return Ok(());
    }
    let runs = conv.windows.runs();
    // A sum per chunk, added up in order: the result does not depend on who ran which.
    let mut sums = try_filled(T::default(), conv.chunks().saturating_mul(out.len()))?;
    let shared = Shared::new(sums.as_mut_ptr());
    let len = out.len();
    let product = [conv.outputs, points, filter];
    conv.for_each_image(product, |chunk, image, columns| {
        conv.columns(&runs, &x[image * input_len..][..input_len], columns);
        let at = chunk * len + conv.weights(image).start;
        // SAFETY: each chunk has its own sum; the operands are as large as the sizes say.
        unsafe {
            T::gemm(
                product,
                Matrix::dense(shared.get().add(at), filter),
                true,
                Matrix::dense(g[image * output_len..].as_ptr(), points),
                Matrix::dense(columns.as_ptr(), points).transposed(),
            );
        }
    })?;
    for sum in sums.chunks_exact(len) {
        out.iter_mut().zip(sum).for_each(|(to, &from)| *to += from);
    }
    Ok(())
}
