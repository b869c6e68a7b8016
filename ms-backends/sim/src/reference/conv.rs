//! Computes convolutions and their gradients in the order of strict precision, by im2col.

use super::product::{Accumulator, multiply, with_accumulator};
use ms_ir::data::{Array, DType, Element, Layout, try_filled};
use ms_ir::error::Result;
use ms_ir::op::{ConvGeometry, ConvResult};
use ms_ir::with_element;

/// The sizes of a convolution. Images are `[batch, groups, channels, spatial..]`, and weights
/// `[groups, outputs, channels, kernel..]`.
struct Sizes<'a> {
    geometry: &'a ConvGeometry,
    batch: usize,
    /// The number of input channels and of output channels of a group.
    channels: usize,
    outputs: usize,
    /// The spatial sizes of the input.
    input: &'a [usize],
    /// The number of elements of a channel of the input, of a channel of the output, and of a kernel.
    pixels: usize,
    positions: usize,
    taps: usize,
    /// For each tap and output position, the element of a channel of the input; `None` on padding.
    elements: Vec<Option<usize>>,
}

impl<'a> Sizes<'a> {
    fn new(geometry: &'a ConvGeometry, input: &'a [usize], output: &'a [usize], weights: &[usize]) -> Self {
        let taps = geometry.kernel.iter().product();
        let mut sizes = Self {
            geometry,
            batch: input[0],
            channels: weights[1],
            outputs: weights[0] / geometry.groups,
            input: &input[2..],
            pixels: input[2..].iter().product(),
            positions: output[2..].iter().product(),
            taps,
            elements: Vec::new(),
        };
        let positions = indices(&output[2..]);
        let element = |tap: &Vec<usize>| {
            let of_tap = |at: &Vec<usize>| sizes.element(tap, at);
            positions.iter().map(of_tap).collect::<Vec<_>>()
        };
        sizes.elements = indices(&geometry.kernel).iter().flat_map(element).collect();
        sizes
    }

    /// Returns the element of a channel of the input under a tap of the window at an output position.
    fn element(&self, tap: &[usize], position: &[usize]) -> Option<usize> {
        let window = &self.geometry.window;
        (0..tap.len()).try_fold(0, |element, axis| {
            let padded = position[axis] * window.stride[axis] + tap[axis] * window.dilation[axis];
            let at = padded.checked_sub(window.before[axis]).filter(|&it| it < self.input[axis])?;
            Some(element * self.input[axis] + at)
        })
    }

    /// Writes the im2col matrix `[channels * taps, positions]` of a group of channels. Padding is zero.
    fn im2col<T: Accumulator>(&self, group: &[T], to: &mut [T]) {
        for (row, channel) in to.chunks_mut((self.taps * self.positions).max(1)).zip(group.chunks(self.pixels.max(1))) {
            let element = |it: &Option<usize>| it.map_or(T::default(), |at| channel[at]);
            row.iter_mut().zip(&self.elements).for_each(|(to, it)| *to = element(it));
        }
    }

    /// Computes the output from input and weights.
    fn forward<T: Accumulator>(&self, input: &[T], weights: &[T], output: &mut [T]) -> Result<()> {
        let terms = self.channels * self.taps;
        let mut columns = try_filled(T::default(), terms * self.positions)?;
        for image in 0..self.batch * self.geometry.groups {
            let group = image % self.geometry.groups;
            self.im2col(part(input, image, self.channels * self.pixels), &mut columns);
            let weights = part(weights, group, self.outputs * terms);
            let output = part_mut(output, image, self.outputs * self.positions);
            multiply(weights, &columns, [self.outputs, terms, self.positions], output)?;
        }
        Ok(())
    }

    /// Computes the gradient of the input from that of the output and the weights: tap by tap, each a product over the
    /// output channels.
    fn backward_data<T: Accumulator>(&self, gradient: &[T], weights: &[T], input: &mut [T]) -> Result<()> {
        let Self { channels, outputs, taps, positions, pixels, .. } = *self;
        let mut of_tap = try_filled(T::default(), channels * outputs)?;
        let mut terms = try_filled(T::default(), channels * positions)?;
        for image in 0..self.batch * self.geometry.groups {
            let weights = part(weights, image % self.geometry.groups, outputs * channels * taps);
            let gradient = part(gradient, image, outputs * positions);
            let input = part_mut(input, image, channels * pixels);
            for tap in 0..taps {
                for (at, to) in of_tap.iter_mut().enumerate() {
                    let (channel, output) = (at / outputs, at % outputs);
                    *to = weights[(output * channels + channel) * taps + tap];
                }
                multiply(&of_tap, gradient, [channels, outputs, positions], &mut terms)?;
                let elements = part(&self.elements, tap, positions);
                for (at, &term) in terms.iter().enumerate() {
                    let (channel, position) = (at / positions, at % positions);
                    if let Some(element) = elements[position] {
                        let to = &mut input[channel * pixels + element];
                        *to = *to + term;
                    }
                }
            }
        }
        Ok(())
    }

    /// Computes the gradient of the weights from the input and the gradient of the output: a product over the images
    /// and output positions.
    fn backward_weights<T: Accumulator>(&self, input: &[T], gradient: &[T], weights: &mut [T]) -> Result<()> {
        let Self { channels, outputs, taps, positions, pixels, batch, .. } = *self;
        let (columns, groups) = (channels * taps, self.geometry.groups);
        let mut of_image = try_filled(T::default(), columns * positions)?;
        let mut left = try_filled(T::default(), outputs * batch * positions)?;
        let mut right = try_filled(T::default(), batch * positions * columns)?;
        for group in 0..groups {
            for image in 0..batch {
                self.im2col(part(input, image * groups + group, channels * pixels), &mut of_image);
                for (at, &it) in of_image.iter().enumerate() {
                    let (column, position) = (at / positions, at % positions);
                    right[(image * positions + position) * columns + column] = it;
                }
                let from = part(gradient, image * groups + group, outputs * positions);
                for (at, &it) in from.iter().enumerate() {
                    let (output, position) = (at / positions, at % positions);
                    left[(output * batch + image) * positions + position] = it;
                }
            }
            let to = part_mut(weights, group, outputs * columns);
            multiply(&left, &right, [outputs, batch * positions, columns], to)?;
        }
        Ok(())
    }
}

/// Returns the indices of the elements of a shape, in row-major order.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![Vec::new()], |outer, &size| {
        let with = |first: &Vec<usize>, at| first.iter().copied().chain([at]).collect();
        outer.iter().flat_map(|first| (0..size).map(move |at| with(first, at))).collect()
    })
}

/// Returns the part with a number, of parts with `len` elements.
fn part<T>(of: &[T], number: usize, len: usize) -> &[T] {
    &of[number * len..][..len]
}

fn part_mut<T>(of: &mut [T], number: usize, len: usize) -> &mut [T] {
    &mut of[number * len..][..len]
}

/// Computes a convolution or a gradient of one on operands of floats, in host memory. The result has this shape.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if memory runs out.
pub fn convolve(geometry: &ConvGeometry, operands: [&Array; 2], shape: &[usize]) -> Result<Array> {
    with_accumulator!(operands[0].dtype(), T => convolve_in::<T>(geometry, operands, shape))
}

fn convolve_in<T: Accumulator>(geometry: &ConvGeometry, [a, b]: [&Array; 2], shape: &[usize]) -> Result<Array> {
    let mut out = try_filled(T::default(), shape.iter().product())?;
    let (left, right) = (elements::<T>(a)?, elements::<T>(b)?);
    match geometry.result {
        ConvResult::Output => Sizes::new(geometry, a.shape(), shape, b.shape()).forward(&left, &right, &mut out)?,
        ConvResult::BackwardData => {
            Sizes::new(geometry, shape, a.shape(), b.shape()).backward_data(&left, &right, &mut out)?;
        }
        ConvResult::BackwardWeights => {
            Sizes::new(geometry, a.shape(), b.shape(), shape).backward_weights(&left, &right, &mut out)?;
        }
    }
    rounded(&out, shape, a.dtype())
}

/// Returns the elements of an array, in row-major order.
fn elements<T: Accumulator>(array: &Array) -> Result<Vec<T>> {
    Ok(array.on_host()?.scalars().into_iter().map(T::of).collect())
}

/// Returns a row-major array of sums, rounded to a dtype.
fn rounded<T: Accumulator>(sums: &[T], shape: &[usize], dtype: DType) -> Result<Array> {
    let mut array = Array::try_zeros(shape, dtype)?;
    debug_assert_eq!(array.layout(), &Layout::contiguous(shape));
    with_element!(dtype, E => {
        let to = array.as_mut_slice::<E>().iter_mut().zip(sums);
        to.for_each(|(to, &it)| *to = E::from_scalar(it.to_scalar()));
    });
    Ok(array)
}
