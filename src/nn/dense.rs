//! The fully connected layer.

use super::init::he_uniform_parameter;
use crate::prelude::*;

/// `y = x Wᵀ + b`, where `x` is `[.., in]` and `y` is `[.., out]`.
///
/// ```
/// use ms::prelude::*;
/// let layer = nn::Dense::new(3, 2);
/// assert_eq!(layer.call(&Tensor::ones([4, 3])).shape(), [4, 2]);
/// ```
#[cell]
pub struct Dense {
    /// `[out, in]`.
    pub weight: Parameter,
    /// `[out]`, or `None`.
    pub bias: Option<Parameter>,
}

#[cell]
impl Dense {
    /// A layer with a bias; weight and bias are uniform in `±1/sqrt(inputs)`.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            weight: he_uniform_parameter(&[outputs, inputs], inputs),
            bias: Some(he_uniform_parameter(&[outputs], inputs)),
        }
    }

    /// A layer without a bias.
    pub fn without_bias(inputs: usize, outputs: usize) -> Self {
        Self { weight: he_uniform_parameter(&[outputs, inputs], inputs), bias: None }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let bias = self.bias.as_ref().map(Parameter::value);
        ops::dense(x, &self.weight, bias.as_ref())
    }
}
