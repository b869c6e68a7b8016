//! Convolution layers.

use super::init::he_uniform_parameter;
use crate::prelude::*;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;

/// Cross-correlation of `x: [n, in, h, w]` with `weight: [out, in, kh, kw]`, plus a bias.
#[cell]
pub struct Conv2d {
    /// `[out, in, kh, kw]`.
    pub weight: Parameter,
    /// `[out]`, or `None`.
    pub bias: Option<Parameter>,
    stride: usize,
    padding: usize,
}

#[cell]
impl Conv2d {
    /// A layer with a square kernel, stride one, no padding, and a bias; weight and bias are
    /// uniform in `±1/sqrt(in kh kw)`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a kernel of size zero.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, kernel: usize) -> Self {
        check_positive("Conv2d", "kernel", kernel).or_raise();
        let fan_in = inputs * kernel * kernel;
        Self {
            weight: he_uniform_parameter(&[outputs, inputs, kernel, kernel], fan_in),
            bias: Some(he_uniform_parameter(&[outputs], fan_in)),
            stride: 1,
            padding: 0,
        }
    }

    /// Sets the stride.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a stride of zero.
    #[track_caller]
    pub fn stride(self, stride: usize) -> Self {
        check_positive("Conv2d", "stride", stride).or_raise();
        Self { stride, ..self }
    }

    /// Sets the number of zeros on every side.
    pub fn padding(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Self {
        Self { bias: None, ..self }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let options = ops::ConvOptions::new(2).stride(self.stride).padding(self.padding);
        let bias = self.bias.as_ref().map(Parameter::value);
        ops::conv2d(x, &self.weight, bias.as_ref(), &options)
    }
}
