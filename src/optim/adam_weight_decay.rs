//! Adam without bias correction and with decoupled weight decay.

use super::hyperparameter::{Hyperparameter, LearningRate, WeightDecay, weight_decay_methods};
use super::state::averaged;
use super::{State, UpdateRule};
use ms_core::ops::rules::Interval;
use ms_core::{Parameter, Tensor};
use ms_macros::{Tree, cell};

/// MindSpore's `AdamWeightDecay`: `m ← β₁ m + (1 - β₁) g`, `v ← β₂ v + (1 - β₂) g²`,
/// `p ← p - lr (m / (sqrt(v) + ε) + weight_decay p)`.
///
/// Unlike [`Adam`](super::Adam), it does not correct the bias of the averages, which start at zero. Weight decay is
/// added to the update and not to the gradient. For AdamW, use
/// [`Adam::decoupled_weight_decay`](super::Adam::decoupled_weight_decay).
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = AdamWeightDecay::new(0.1).betas(0.9, 0.99);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.9).abs() < 1e-4);
/// ```
#[cell]
pub struct AdamWeightDecay {
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
    first_moment: State,
    second_moment: State,
}

impl AdamWeightDecay {
    /// Creates the optimiser with `β = (0.9, 0.999)`, `ε = 1e-6` and no weight decay.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: LearningRate::new("AdamWeightDecay", rate),
            beta1: Hyperparameter::new("AdamWeightDecay", "first", 0.9, &Interval::DECAY),
            beta2: Hyperparameter::new("AdamWeightDecay", "second", 0.999, &Interval::DECAY),
            epsilon: Hyperparameter::new("AdamWeightDecay", "epsilon", 1e-6, &Interval::POSITIVE),
            weight_decay: WeightDecay::new("AdamWeightDecay", 0.0),
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
        let beta1 = Hyperparameter::new("AdamWeightDecay", "first", first, &Interval::DECAY);
        Self { beta1, beta2: Hyperparameter::new("AdamWeightDecay", "second", second, &Interval::DECAY), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `epsilon` is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon: Hyperparameter::new("AdamWeightDecay", "epsilon", epsilon, &Interval::POSITIVE), ..self }
    }

    weight_decay_methods! {
        /// Adds `weight_decay p` to each update before it is scaled by the learning rate.
    }
}

/// The shared values of a step of [`AdamWeightDecay`].
#[derive(Clone, Tree)]
pub struct AdamWeightDecayStep {
    rate: Tensor,
    /// `1 - β₁` and `1 - β₂`.
    shares: (Tensor, Tensor),
    epsilon: Tensor,
    decay: Option<Tensor>,
}

impl UpdateRule for AdamWeightDecay {
    type Step = AdamWeightDecayStep;

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> AdamWeightDecayStep {
        AdamWeightDecayStep {
            rate: self.rate.value(),
            shares: (1.0 - self.beta1.value(), 1.0 - self.beta2.value()),
            epsilon: self.epsilon.value(),
            decay: self.weight_decay.value(),
        }
    }

    fn apply(&self, step: &AdamWeightDecayStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let first = averaged(&self.first_moment.of(parameter), &step.shares.0, &gradient);
        let second = averaged(&self.second_moment.of(parameter), &step.shares.1, &gradient.square());
        let direction = first / (second.sqrt() + &step.epsilon);
        let direction = self.weight_decay.add(parameter, &value, direction, &step.decay);
        value - direction * &step.rate
    }
}
