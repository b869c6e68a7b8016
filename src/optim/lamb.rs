//! The LAMB optimiser.

use super::hyperparameter::{Hyperparameter, LearningRate, WeightDecay, weight_decay_methods};
use super::state::{averaged, bias_correction, count};
use super::{State, UpdateRule};
use ms_core::ops::rules::Interval;
use ms_core::{DType, Parameter, Tensor, ops};
use ms_macros::{Tree, cell};

/// LAMB: Adam with a trust ratio for each parameter (You et al. 2020, "Large Batch Optimization for Deep Learning:
/// Training BERT in 76 minutes", algorithm 2). With Adam's `m̂` and `v̂`, `r = m̂ / (sqrt(v̂) + ε) + weight_decay p`
/// and `p ← p - lr trust r`. The trust ratio is `norm(p) / norm(r)`, or one if either norm is zero.
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = Lamb::new(0.1);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.9).abs() < 1e-4);
/// ```
#[cell]
pub struct Lamb {
    /// The learning rate.
    pub rate: LearningRate,
    /// The decay rate of the first moment.
    pub beta1: Hyperparameter,
    /// The decay rate of the second moment.
    pub beta2: Hyperparameter,
    /// The term `ε` in the divisor.
    pub epsilon: Hyperparameter,
    /// The weight decay.
    pub weight_decay: WeightDecay,
    /// The number of steps.
    steps: Parameter,
    first_moment: State,
    second_moment: State,
}

impl Lamb {
    /// Creates the optimiser with `β = (0.9, 0.999)`, `ε = 1e-6` and no weight decay.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: LearningRate::new("Lamb", rate),
            beta1: Hyperparameter::new("Lamb", "first", 0.9, &Interval::DECAY),
            beta2: Hyperparameter::new("Lamb", "second", 0.999, &Interval::DECAY),
            epsilon: Hyperparameter::new("Lamb", "epsilon", 1e-6, &Interval::POSITIVE),
            weight_decay: WeightDecay::new("Lamb", 0.0),
            steps: count(),
            first_moment: State::zeros(),
            second_moment: State::zeros(),
        }
    }

    /// Sets the decay rates of the moments.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless both are at least zero and less than one.
    #[track_caller]
    pub fn betas(self, first: f64, second: f64) -> Self {
        let beta1 = Hyperparameter::new("Lamb", "first", first, &Interval::DECAY);
        Self { beta1, beta2: Hyperparameter::new("Lamb", "second", second, &Interval::DECAY), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `epsilon` is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon: Hyperparameter::new("Lamb", "epsilon", epsilon, &Interval::POSITIVE), ..self }
    }

    weight_decay_methods! {
        /// Adds `weight_decay p` to each update before it is scaled.
    }
}

/// The shared values of a step of [`Lamb`].
#[derive(Clone, Tree)]
pub struct LambStep {
    rate: Tensor,
    /// `1 - β₁ᵗ`, and `sqrt(1 - β₂ᵗ)`.
    corrections: (Tensor, Tensor),
    /// `1 - β₁` and `1 - β₂`.
    shares: (Tensor, Tensor),
    epsilon: Tensor,
    decay: Option<Tensor>,
}

impl UpdateRule for Lamb {
    type Step = LambStep;

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> LambStep {
        let steps = self.steps.value() + 1;
        self.steps.set(&steps);
        let steps = steps.cast(DType::F64);
        let (beta1, beta2) = (self.beta1.value(), self.beta2.value());
        LambStep {
            rate: self.rate.value(),
            corrections: (bias_correction(&beta1, &steps), bias_correction(&beta2, &steps).sqrt()),
            shares: (1.0 - beta1, 1.0 - beta2),
            epsilon: self.epsilon.value(),
            decay: self.weight_decay.value(),
        }
    }

    fn apply(&self, step: &LambStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let first = averaged(&self.first_moment.of(parameter), &step.shares.0, &gradient);
        let second = averaged(&self.second_moment.of(parameter), &step.shares.1, &gradient.square());
        let (c1, c2) = &step.corrections;
        let direction = first / c1 / (second.sqrt() / c2 + &step.epsilon);
        let direction = self.weight_decay.add(parameter, &value, direction, &step.decay);
        let norm = |it: &Tensor| ops::sum(it.square(), ()).sqrt();
        let (weights, steps) = (norm(&value), norm(&direction));
        let is_scaled = ops::minimum(&weights, &steps).gt(0.0);
        let trust = ops::select(is_scaled, weights / steps, 1.0);
        value - direction * (trust * &step.rate)
    }
}
