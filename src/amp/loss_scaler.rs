//! Loss scaling: fixed and dynamic factors.

use crate::ops;
use crate::optim::Hyperparameter;
use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_interval, check_positive};
use ms_core::trace::Arg;
use ms_core::{DType, Parameter, Tensor};
use ms_macros::cell;

/// A factor that multiplies a loss before differentiation, so that small gradients do not underflow in f16.
///
/// ```
/// use ms::{amp::LossScaler, prelude::*};
/// #[cell]
/// struct Thousand;
/// impl LossScaler for Thousand {
///     fn scale(&self) -> Tensor {
///         Tensor::scalar(1000f32)
///     }
///     fn adjust(&self, _: &Tensor) {}
/// }
/// let (net, opt) = (nn::Dense::new(3, 1), SGD::new(0.1).loss_scale(Thousand));
/// let (x, y) = (Tensor::ones([4, 3]), Tensor::ones([4, 1]));
/// let losses = [0, 1].map(|_| opt.step(&net, &(&x, &y), |net, (x, y)| ops::mse_loss(&net.call(x), *y)).item::<f32>());
/// assert!(losses[1] <= losses[0]);
/// ```
pub trait LossScaler: Arg {
    /// Returns the current factor, an `f32[]`.
    #[track_caller]
    fn scale(&self) -> Tensor;

    /// Adjusts the factor for the next step. `finite` is a `bool[]`: whether all gradients of this step were finite.
    #[track_caller]
    fn adjust(&self, finite: &Tensor);
}

/// A loss scaler with a fixed factor.
///
/// ```
/// use ms::amp::{LossScaler, StaticLossScaler};
/// assert_eq!(StaticLossScaler::new(1024.0).scale().item::<f32>(), 1024.0);
/// ```
#[cell]
pub struct StaticLossScaler {
    /// The factor.
    pub scale_value: Hyperparameter,
}

impl StaticLossScaler {
    /// Creates a scaler with a fixed factor. A power of two scales without rounding.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the factor is positive and finite.
    #[track_caller]
    pub fn new(scale_value: f64) -> Self {
        Self { scale_value: Hyperparameter::new("StaticLossScaler", "scale_value", scale_value, &Interval::POSITIVE) }
    }
}

impl LossScaler for StaticLossScaler {
    fn scale(&self) -> Tensor {
        self.scale_value.value().cast(DType::F32)
    }

    fn adjust(&self, _: &Tensor) {}
}

/// A loss scaler that adapts its factor, like MindSpore's `DynamicLossScaler`. After `scale_window` steps with finite
/// gradients, the factor is multiplied by `scale_factor`. After a step with gradients that are not finite, it is
/// divided by `scale_factor`, but never below one.
///
/// ```
/// use ms::amp::{DynamicLossScaler, LossScaler};
/// use ms::prelude::*;
/// let scaler = DynamicLossScaler::new(4.0).scale_window(2);
/// let after = |finite: bool| {
///     scaler.adjust(&Tensor::scalar(finite));
///     scaler.scale().item::<f32>()
/// };
/// assert_eq!([true, true, false, true, false, false].map(after), [4.0, 8.0, 4.0, 4.0, 2.0, 1.0]);
/// ```
#[cell]
pub struct DynamicLossScaler {
    /// The factor, an `f32[]`.
    scale_value: Parameter,
    /// The number of steps with finite gradients since the factor changed.
    steps: Parameter,
    scale_factor: f64,
    scale_window: usize,
}

impl DynamicLossScaler {
    /// Creates a scaler with an initial factor, `scale_factor = 2` and `scale_window = 2000`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `scale_value` is positive and finite.
    #[track_caller]
    pub fn new(scale_value: f64) -> Self {
        check_interval("DynamicLossScaler", "scale_value", scale_value, &Interval::POSITIVE).or_raise();
        Self {
            scale_value: Parameter::buffer([0usize; 0], DType::F32, || Tensor::scalar(scale_value as f32)),
            steps: Parameter::buffer([0usize; 0], DType::I64, || Tensor::from(0i64)),
            scale_factor: 2.0,
            scale_window: 2000,
        }
    }

    /// Sets the growth and backoff factor.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `scale_factor` is positive and finite.
    #[track_caller]
    pub fn scale_factor(self, scale_factor: f64) -> Self {
        check_interval("DynamicLossScaler", "scale_factor", scale_factor, &Interval::POSITIVE).or_raise();
        Self { scale_factor, ..self }
    }

    /// Sets the number of consecutive steps with finite gradients after which the factor grows.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero.
    #[track_caller]
    pub fn scale_window(self, scale_window: usize) -> Self {
        check_positive("DynamicLossScaler", "scale_window", scale_window).or_raise();
        Self { scale_window, ..self }
    }
}

impl LossScaler for DynamicLossScaler {
    fn scale(&self) -> Tensor {
        self.scale_value.value()
    }

    fn adjust(&self, finite: &Tensor) {
        let scale = self.scale_value.value();
        let steps = self.steps.value() + 1;
        let grows = steps.ge(self.scale_window as i64);
        let larger = &scale * self.scale_factor;
        // A factor that overflowed to infinity would never shrink again.
        let larger = ops::select(larger.isfinite(), &larger, &scale);
        let smaller = ops::clamp_min(&scale / self.scale_factor, 1.0);
        self.scale_value.set(&ops::select(finite, ops::select(&grows, larger, &scale), smaller));
        let begins = ops::logical_or(&grows, ops::logical_not(finite));
        self.steps.set(&ops::select(begins, 0, &steps));
    }
}
