//! Fully connected and bilinear layers.

use super::compute::{operand, result};
use super::init::{parameter, uniform_parameter};
use crate::prelude::*;
use ms_core::trace::ComputeDType;

/// A fully connected layer: `y = x Wᵀ + b`, where `x` is `[.., in]` and `y` is `[.., out]`.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::Dense::new(3, 2);
/// assert_eq!(layer.call(&Tensor::ones([4, 3])).shape(), [4, 2]);
/// ```
#[cell]
#[derive(Debug)]
pub struct Dense {
    /// The weight, `[out, in]`.
    pub weight: Parameter,
    /// The bias, `[out]`, or `None`.
    pub bias: Option<Parameter>,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
}

impl Dense {
    /// Creates a layer with a bias. Weight and bias are uniform in `±1/sqrt(inputs)`.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            weight: uniform_parameter(&[outputs, inputs], inputs),
            bias: Some(uniform_parameter(&[outputs], inputs)),
            compute: ComputeDType::default(),
        }
    }

    /// Removes the bias.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::Dense::new(3, 2).without_bias().parameters().len(), 1);
    /// ```
    pub fn without_bias(self) -> Self {
        Self { bias: None, ..self }
    }

    /// Sets the initial weight, a function of its shape; see [`init`](crate::nn::init).
    #[track_caller]
    pub fn weight_init(self, init: impl FnOnce(&[usize]) -> Tensor) -> Self {
        let shape = self.weight.load().shape().to_vec();
        Self { weight: parameter(&shape, || init(&shape)), ..self }
    }

    /// Sets the initial bias, a function of its shape.
    #[track_caller]
    pub fn bias_init(self, init: impl FnOnce(&[usize]) -> Tensor) -> Self {
        let shape = [self.weight.load().shape()[0]];
        Self { bias: Some(parameter(&shape, || init(&shape))), ..self }
    }
}

#[cell]
impl Dense {
    fn construct(&self, x: &Tensor) -> Tensor {
        let bias = self.bias.as_ref().map(|it| operand(&self.compute, &it.value()));
        let y = ops::dense(operand(&self.compute, x), operand(&self.compute, &self.weight.value()), bias.as_ref());
        result(&self.compute, y, x)
    }
}

/// A bilinear layer: `y = x1ᵀ W x2 + b` for each output, where `x1` is `[.., in1]`, `x2` is `[.., in2]` and `y` is
/// `[.., out]`.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::BiDense::new(3, 4, 2);
/// assert_eq!(layer.call(&Tensor::ones([5, 3]), &Tensor::ones([5, 4])).shape(), [5, 2]);
/// ```
#[cell]
#[derive(Debug)]
pub struct BiDense {
    /// The weight, `[out, in1, in2]`.
    pub weight: Parameter,
    /// The bias, `[out]`, or `None`.
    pub bias: Option<Parameter>,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
}

impl BiDense {
    /// Creates a layer with a bias. Weight and bias are uniform in `±1/sqrt(inputs1)`.
    #[track_caller]
    pub fn new(inputs1: usize, inputs2: usize, outputs: usize) -> Self {
        Self {
            weight: uniform_parameter(&[outputs, inputs1, inputs2], inputs1),
            bias: Some(uniform_parameter(&[outputs], inputs1)),
            compute: ComputeDType::default(),
        }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Self {
        Self { bias: None, ..self }
    }
}

#[cell]
impl BiDense {
    fn construct(&self, x1: &Tensor, x2: &Tensor) -> Tensor {
        let own = |it: &Tensor| operand(&self.compute, it);
        let y = ops::einsum("...i,oij,...j->...o", &[own(x1), own(&self.weight.value()), own(x2)]);
        let y = match &self.bias {
            Some(bias) => y + own(&bias.value()),
            None => y,
        };
        result(&self.compute, y, x1)
    }
}
