//! The Lion optimiser.

use super::hyperparameter::{Hyperparameter, LearningRate, WeightDecay, weight_decay_methods};
use super::state::averaged;
use super::{State, UpdateRule};
use ms_core::ops::rules::Interval;
use ms_core::{Parameter, Tensor, ops};
use ms_macros::{Tree, cell};

/// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2):
/// `p ← p - lr (sign(β₁ m + (1 - β₁) g) + weight_decay p)`, `m ← β₂ m + (1 - β₂) g`.
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = Lion::new(0.1);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.9).abs() < 1e-4);
/// ```
#[cell]
pub struct Lion {
    /// The learning rate.
    pub rate: LearningRate,
    /// The weight of the momentum in the update direction.
    pub beta1: Hyperparameter,
    /// The decay rate of the momentum.
    pub beta2: Hyperparameter,
    /// The weight decay.
    pub weight_decay: WeightDecay,
    momentum: State,
}

impl Lion {
    /// Creates the optimiser with `β = (0.9, 0.99)` and no weight decay.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: LearningRate::new("Lion", rate),
            beta1: Hyperparameter::new("Lion", "first", 0.9, &Interval::DECAY),
            beta2: Hyperparameter::new("Lion", "second", 0.99, &Interval::DECAY),
            weight_decay: WeightDecay::new("Lion", 0.0),
            momentum: State::zeros(),
        }
    }

    /// Sets `β₁` and `β₂`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless both are at least zero and less than one.
    #[track_caller]
    pub fn betas(self, first: f64, second: f64) -> Self {
        let beta1 = Hyperparameter::new("Lion", "first", first, &Interval::DECAY);
        Self { beta1, beta2: Hyperparameter::new("Lion", "second", second, &Interval::DECAY), ..self }
    }

    weight_decay_methods! {
        /// Adds `weight_decay p` to each update before it is scaled by the learning rate.
    }
}

/// The shared values of a step of [`Lion`].
#[derive(Clone, Tree)]
pub struct LionStep {
    rate: Tensor,
    /// `1 - β₁` and `1 - β₂`.
    shares: (Tensor, Tensor),
    decay: Option<Tensor>,
}

impl UpdateRule for Lion {
    type Step = LionStep;

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> LionStep {
        LionStep {
            rate: self.rate.value(),
            shares: (1.0 - self.beta1.value(), 1.0 - self.beta2.value()),
            decay: self.weight_decay.value(),
        }
    }

    fn apply(&self, step: &LionStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let momentum = self.momentum.of(parameter);
        let last = momentum.value();
        let direction = ops::sign(&last + (&gradient - &last) * &step.shares.0);
        averaged(&momentum, &step.shares.1, &gradient);
        value.clone() - self.weight_decay.add(parameter, &value, direction, &step.decay) * &step.rate
    }
}
