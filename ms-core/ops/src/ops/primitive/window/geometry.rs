//! The geometry of a convolution, and the traversal of its products, shared by its three ops.

use super::runs::Windows;
use crate::ops::core::rules::may_equal;
use crate::ops::{ConvAttrs, ConvGradAttrs};
use crate::tensor::{Attrs, Dim, Dims, IntoDims, Shape, Type};
use ms_ir::error::{Code, Error, Result};

/// The geometry of one convolution.
pub(in crate::ops) struct Geometry {
    pub input_shape: Shape,
    pub weight_shape: Shape,
    pub output_shape: Shape,
    groups: usize,
    windows: Windows,
}

/// A run of outputs to which one weight contributes with evenly spaced inputs.
pub(in crate::ops) struct Row {
    pub output: usize,
    pub input: usize,
    pub weight: usize,
    pub count: usize,
    pub step: usize,
}

/// Returns the dimensions of a convolution's result from the dimensions of its input, of type `x`, and of its weights.
///
/// # Errors
/// [`Code::Shape`] if the dimensions are incompatible.
pub(in crate::ops) fn output_dims(attrs: &Attrs, x: &Type, input: &[Dim], weight: &[Dim]) -> Result<Dims> {
    let it = ConvAttrs::of(attrs);
    let (window, groups) = (it.window(), it.groups());
    if !(3..=5).contains(&input.len()) || weight.len() != input.len() {
        let needed = "both need a batch or output, a channel and one to three spatial axes";
        let message = format!("{x} with weights {weight:?}: {needed}");
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

/// Checks that the dimensions of a gradient are [`output_dims`].
///
/// # Errors
/// The errors of [`output_dims`], and [`Code::Shape`] if the dimensions differ.
pub(in crate::ops) fn check_gradient(
    attrs: &Attrs,
    x: &Type,
    input: &[Dim],
    weight: &[Dim],
    output: &[Dim],
) -> Result<()> {
    let given = output_dims(attrs, x, input, weight)?;
    if !may_equal(&given, output) {
        let message = format!("the gradient has shape {output:?}, the convolution gives {given:?}");
        return Err(Error::new(Code::Shape, message));
    }
    Ok(())
}

impl Geometry {
    pub fn new(attrs: &Attrs, x: &Type, input: &[usize], weight: &[usize]) -> Result<Self> {
        let output = output_dims(attrs, x, &input.into_dims(), &weight.into_dims())?;
        let output_shape: Shape = output.iter().map(|it| it.as_const().expect("the operands are constant")).collect();
        Ok(Self {
            input_shape: input.into(),
            weight_shape: weight.into(),
            groups: ConvAttrs::of(attrs).groups(),
            windows: Windows::new(&ConvAttrs::of(attrs).window(), &input[2..], &weight[2..], &output_shape[2..]),
            output_shape,
        })
    }

    /// Creates the geometry of backward-data from the shapes of the result and of the weights.
    pub fn of_input(attrs: &Attrs, g: &Type, output: &[usize], weight: &[usize]) -> Result<Self> {
        let channels = weight.get(1).copied().unwrap_or(0) * ConvAttrs::of(attrs).groups();
        let batch = output.first().copied().unwrap_or(0);
        let input: Shape = [batch, channels].into_iter().chain(ConvGradAttrs::of(attrs).sizes().sizes()).collect();
        Self::new(attrs, g, &input, weight)
    }

    /// Creates the geometry of backward-weights from the shapes of the input and of the result.
    pub fn of_weight(attrs: &Attrs, x: &Type, input: &[usize], output: &[usize]) -> Result<Self> {
        let channels = input.get(1).copied().unwrap_or(0) / ConvAttrs::of(attrs).groups().max(1);
        let weight: Shape = [output.get(1).copied().unwrap_or(0), channels]
            .into_iter()
            .chain(ConvGradAttrs::of(attrs).sizes().sizes())
            .collect();
        Self::new(attrs, x, input, &weight)
    }

    /// Visits every pair of an output row and a weight that contributes to it.
    pub fn rows(&self, mut visit: impl FnMut(Row)) {
        let (channels, per_group) = (self.weight_shape[1], self.weight_shape[0] / self.groups);
        let (plane, taps, out_plane) = (self.windows.input_len(), self.windows.taps(), self.windows.output_len());
        let runs = self.windows.runs();
        for batch in 0..self.input_shape[0] {
            for out_channel in 0..self.weight_shape[0] {
                let output = (batch * self.weight_shape[0] + out_channel) * out_plane;
                for channel in 0..channels {
                    let in_channel = out_channel / per_group * channels + channel;
                    let input = (batch * self.input_shape[1] + in_channel) * plane;
                    let weight = (out_channel * channels + channel) * taps;
                    runs.iter().for_each(|run| {
                        visit(Row {
                            output: output + run.window,
                            input: input + run.element,
                            weight: weight + run.tap,
                            count: run.len,
                            step: self.windows.step(),
                        });
                    });
                }
            }
        }
    }
}
