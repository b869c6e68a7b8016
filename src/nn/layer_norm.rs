//! Layer and root-mean-square normalisation.

use super::compute::{operand, result};
use super::init::filled_parameter;
use crate::prelude::*;
use ms_core::tensor::IntoShape;
use ms_core::trace::ComputeDType;

/// Layer normalisation: `(x - mean) / sqrt(variance + eps) * gamma + beta` over the last axes, which have the shape
/// `normalized_shape` ([`ops::layer_norm`]).
///
/// ```
/// use ms::prelude::*;
/// let y = nn::LayerNorm::new(2).call(&tensor![[1.0, 3.0], [5.0, 5.0]]);
/// assert!(ops::abs(y - tensor![[-1.0, 1.0], [0.0, 0.0]]).max(()).item::<f32>() < 1e-4);
/// assert_eq!(nn::LayerNorm::new([3, 2]).call(&Tensor::ones([4, 3, 2])).shape(), [4, 3, 2]);
/// ```
#[cell]
#[derive(Debug)]
pub struct LayerNorm {
    /// The scale, `normalized_shape`, initially ones; `None` without an affine transform.
    pub gamma: Option<Parameter>,
    /// The shift, `normalized_shape`, initially zeros, or `None`.
    pub beta: Option<Parameter>,
    /// The term added to the variance; positive and finite.
    pub eps: f64,
    /// The sizes of the normalised axes.
    pub normalized_shape: Vec<usize>,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
}

impl LayerNorm {
    /// Creates a layer over the last axis of this size, or over several axes, with `eps = 1e-5`.
    #[track_caller]
    pub fn new(normalized_shape: impl IntoShape) -> Self {
        let normalized_shape = normalized_shape.into_shape().to_vec();
        Self {
            gamma: Some(filled_parameter(&normalized_shape, 1.0)),
            beta: Some(filled_parameter(&normalized_shape, 0.0)),
            eps: 1e-5,
            normalized_shape,
            compute: ComputeDType::default(),
        }
    }

    /// Removes `gamma` and `beta`.
    pub fn without_affine(self) -> Self {
        Self { gamma: None, beta: None, ..self }
    }

    /// Removes `beta`.
    pub fn without_bias(self) -> Self {
        Self { beta: None, ..self }
    }
}

#[cell]
impl LayerNorm {
    fn construct(&self, x: &Tensor) -> Tensor {
        let (gamma, beta) = (self.gamma.as_ref().map(Parameter::value), self.beta.as_ref().map(Parameter::value));
        let begin = -(self.normalized_shape.len() as isize);
        let y = ops::layer_norm(operand(&self.compute, x), gamma.as_ref(), beta.as_ref(), begin, self.eps);
        result(&self.compute, y, x)
    }
}

/// RMS normalisation: `x / sqrt(mean(x²) + eps) * gamma` over the last axes, which have the shape `normalized_shape`
/// ([`ops::rms_norm`]).
///
/// ```
/// use ms::prelude::*;
/// let y = nn::RMSNorm::new(2).call(&tensor![[3.0, -3.0]]);
/// assert!(ops::abs(y - tensor![[1.0, -1.0]]).max(()).item::<f32>() < 1e-4);
/// ```
#[cell]
#[derive(Debug)]
pub struct RMSNorm {
    /// The scale, `normalized_shape`, initially ones.
    pub gamma: Parameter,
    /// The term added to the mean square; positive and finite.
    pub eps: f64,
    /// The sizes of the normalised axes.
    pub normalized_shape: Vec<usize>,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
}

impl RMSNorm {
    /// Creates a layer over the last axis of this size, or over several axes, with `eps = 1e-6`.
    #[track_caller]
    pub fn new(normalized_shape: impl IntoShape) -> Self {
        let normalized_shape = normalized_shape.into_shape().to_vec();
        let gamma = filled_parameter(&normalized_shape, 1.0);
        Self { gamma, eps: 1e-6, normalized_shape, compute: ComputeDType::default() }
    }
}

#[cell]
impl RMSNorm {
    fn construct(&self, x: &Tensor) -> Tensor {
        let begin = -(self.normalized_shape.len() as isize);
        result(&self.compute, ops::rms_norm(operand(&self.compute, x), &self.gamma, begin, self.eps), x)
    }
}
