//! The sizes of a convolution, and the walk over its products that its three ops share.

use super::rules::may_equal;
use super::window::{Spatial, Window, spatial};
use crate::error::{Code, Error, Result};
use crate::tensor::{Attrs, Dim, Dims, IntoDims, Shape, Type};

/// The sizes of one convolution, with three spatial axes.
pub(super) struct Geometry {
    pub input_shape: Shape,
    pub weight_shape: Shape,
    pub output_shape: Shape,
    groups: usize,
    input: Spatial,
    kernel: Spatial,
    output: Spatial,
    stride: Spatial,
    dilation: Spatial,
    before: Spatial,
}

/// A run of outputs to which one weight carries evenly spaced inputs.
pub(super) struct Row {
    pub output: usize,
    pub input: usize,
    pub weight: usize,
    pub count: usize,
    pub step: usize,
}

/// The dimensions of a convolution's result, for those of its input, of type `x`, and weights.
///
/// # Errors
/// [`Code::Shape`] when they do not fit each other.
pub(super) fn output_dims(attrs: &Attrs, x: &Type, input: &[Dim], weight: &[Dim]) -> Result<Dims> {
    let (window, groups) = (Window::of(attrs, 0), attrs.int(4) as usize);
    if input.len() < 3 || weight.len() != input.len() {
        let message = format!("{x} with weights {weight:?}: both need a batch or output, a channel and spatial axes");
        return Err(Error::new(Code::Shape, message));
    }
    let divides = |dim: Dim| dim.as_const().is_none_or(|it| it.is_multiple_of(groups));
    if groups == 0 || !input[1].may_equal(weight[1] * groups) || !divides(weight[0]) {
        let message = format!(
            "{} channels do not fit weights {weight:?} in {groups} group{}",
            input[1],
            if groups == 1 { "" } else { "s" }
        );
        return Err(Error::new(Code::Shape, message));
    }
    let kernel: Option<Shape> = weight[2..].iter().map(|it| it.as_const()).collect();
    let kernel = kernel.ok_or_else(|| Error::new(Code::Shape, "the kernel of a convolution has constant sizes"))?;
    let counts = window.counts(&input[2..], &kernel)?;
    Ok([input[0], weight[0]].into_iter().chain(counts).collect())
}

/// [`output_dims`] that must be those of a gradient.
///
/// # Errors
/// As for [`output_dims`], and [`Code::Shape`] when they are not.
pub(super) fn check_gradient(attrs: &Attrs, x: &Type, input: &[Dim], weight: &[Dim], output: &[Dim]) -> Result<()> {
    let given = output_dims(attrs, x, input, weight)?;
    if !may_equal(&given, output) {
        let message = format!("the gradient has shape {output:?}, the convolution gives {given:?}");
        return Err(Error::new(Code::Shape, message));
    }
    Ok(())
}

impl Geometry {
    pub fn new(attrs: &Attrs, x: &Type, input: &[usize], weight: &[usize]) -> Result<Self> {
        let (window, groups) = (Window::of(attrs, 0), attrs.int(4) as usize);
        let output = output_dims(attrs, x, &input.into_dims(), &weight.into_dims())?;
        let output_shape: Shape = output.iter().map(|it| it.as_const().expect("the operands are constant")).collect();
        let counts = &output_shape[2..];
        Ok(Self {
            input_shape: input.into(),
            weight_shape: weight.into(),
            groups,
            input: spatial(&input[2..], 1),
            kernel: spatial(&weight[2..], 1),
            output: spatial(counts, 1),
            stride: spatial(&window.stride, 1),
            dilation: spatial(&window.dilation, 1),
            before: spatial(&window.before, 0),
            output_shape,
        })
    }

    /// From the shapes of the result and of the weights, and the input's spatial sizes.
    pub fn of_input(attrs: &Attrs, g: &Type, output: &[usize], weight: &[usize]) -> Result<Self> {
        let channels = weight.get(1).copied().unwrap_or(0) * attrs.int(4) as usize;
        let batch = output.first().copied().unwrap_or(0);
        let input: Shape = [batch, channels].into_iter().chain(attrs.sizes(5)).collect();
        Self::new(attrs, g, &input, weight)
    }

    /// From the shapes of the input and of the result, and the kernel's sizes.
    pub fn of_weight(attrs: &Attrs, x: &Type, input: &[usize], output: &[usize]) -> Result<Self> {
        let channels = input.get(1).copied().unwrap_or(0) / (attrs.int(4) as usize).max(1);
        let weight: Shape = [output.get(1).copied().unwrap_or(0), channels].into_iter().chain(attrs.sizes(5)).collect();
        Self::new(attrs, x, input, &weight)
    }

    /// Visits every pair of an output row and a weight that reaches it.
    pub fn rows(&self, mut visit: impl FnMut(Row)) {
        let (channels, per_group) = (self.weight_shape[1], self.weight_shape[0] / self.groups);
        let size = |it: &Spatial| it.iter().product::<usize>();
        let (plane, taps, out_plane) = (size(&self.input), size(&self.kernel), size(&self.output));
        for batch in 0..self.input_shape[0] {
            for out_channel in 0..self.weight_shape[0] {
                let output = (batch * self.weight_shape[0] + out_channel) * out_plane;
                for channel in 0..channels {
                    let in_channel = out_channel / per_group * channels + channel;
                    let input = (batch * self.input_shape[1] + in_channel) * plane;
                    let weight = (out_channel * channels + channel) * taps;
                    self.plane_rows(Row { output, input, weight, count: 0, step: self.stride[2] }, &mut visit);
                }
            }
        }
    }

    /// Visits the rows of one plane, whose places are relative to `base`.
    fn plane_rows(&self, base: Row, visit: &mut impl FnMut(Row)) {
        for tap0 in 0..self.kernel[0] {
            for tap1 in 0..self.kernel[1] {
                for tap2 in 0..self.kernel[2] {
                    let weight = base.weight + (tap0 * self.kernel[1] + tap1) * self.kernel[2] + tap2;
                    let inside = self.inside(2, tap2);
                    if inside.is_empty() {
                        continue;
                    }
                    let column = self.place(2, tap2, inside.start);
                    for at0 in self.inside(0, tap0) {
                        for at1 in self.inside(1, tap1) {
                            let line = self.place(0, tap0, at0) * self.input[1] + self.place(1, tap1, at1);
                            let out_line = at0 * self.output[1] + at1;
                            visit(Row {
                                output: base.output + out_line * self.output[2] + inside.start,
                                input: base.input + line * self.input[2] + column,
                                weight,
                                count: inside.len(),
                                step: base.step,
                            });
                        }
                    }
                }
            }
        }
    }

    /// The windows along an axis whose tap lies on an element, not on padding.
    fn inside(&self, axis: usize, tap: usize) -> std::ops::Range<usize> {
        let (offset, stride) = (tap * self.dilation[axis], self.stride[axis]);
        let first = self.before[axis].saturating_sub(offset).div_ceil(stride);
        let end = (self.input[axis] + self.before[axis]).saturating_sub(offset).div_ceil(stride);
        first..end.min(self.output[axis]).max(first)
    }

    /// The element on which the tap of a window lies.
    fn place(&self, axis: usize, tap: usize, window: usize) -> usize {
        window * self.stride[axis] + tap * self.dilation[axis] - self.before[axis]
    }
}
