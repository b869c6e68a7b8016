//! Normalisation over features.

use crate::prelude::*;

/// `(x - mean) / sqrt(variance + eps) * gamma + beta` over the last axis, where `x` is
/// `[.., features]` ([`ops::layer_norm`]).
///
/// ```
/// use ms::prelude::*;
/// let y = nn::LayerNorm::new(2).call(&tensor![[1.0, 3.0], [5.0, 5.0]]);
/// assert!(ops::abs(y - tensor![[-1.0, 1.0], [0.0, 0.0]]).max((), false).item::<f32>() < 1e-4);
/// ```
#[cell]
pub struct LayerNorm {
    /// `[features]`, ones at first.
    pub gamma: Parameter,
    /// `[features]`, zeros at first.
    pub beta: Parameter,
    /// Added to the variance; positive and finite.
    pub eps: f64,
}

#[cell]
impl LayerNorm {
    /// A layer for inputs of this many features, with `eps = 1e-5`.
    pub fn new(features: usize) -> Self {
        Self {
            gamma: Parameter::init("", [features], DType::F32, || Tensor::ones([features])),
            beta: Parameter::init("", [features], DType::F32, || Tensor::zeros([features])),
            eps: 1e-5,
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        ops::layer_norm(x, Some(&self.gamma.value()), Some(&self.beta.value()), -1, self.eps)
    }
}
