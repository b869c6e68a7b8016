//! Initial values of parameters.

use ms_core::tensor::IntoShape;
use ms_core::{Parameter, Tensor, random};

/// Uniform in `[-1/sqrt(fan_in), 1/sqrt(fan_in))`: the He initialisation with slope `sqrt(5)`
/// that PyTorch and MindSpore use for dense and convolution layers (He et al. 2015, "Delving Deep
/// into Rectifiers", §2.2).
pub fn he_uniform(shape: impl IntoShape, fan_in: usize) -> Tensor {
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    random::uniform(shape, -bound, bound)
}

/// A trainable f32 parameter with [`he_uniform`] values.
#[track_caller]
pub fn he_uniform_parameter(shape: &[usize], fan_in: usize) -> Parameter {
    Parameter::init("", shape, ms_core::DType::F32, || he_uniform(shape, fan_in))
}
