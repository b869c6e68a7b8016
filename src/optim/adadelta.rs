//! The Adadelta optimiser.

use super::hyperparameter::{Hyperparameter, LearningRate, WeightDecay, weight_decay_methods};
use super::state::averaged;
use super::{State, UpdateRule};
use ms_core::ops::rules::Interval;
use ms_core::{Parameter, Tensor};
use ms_macros::{Tree, cell};

/// Adadelta (Zeiler 2012, "ADADELTA: An Adaptive Learning Rate Method"): `s ← ρ s + (1 - ρ) g²`,
/// `Δ = sqrt(d + ε) / sqrt(s + ε) g`, `d ← ρ d + (1 - ρ) Δ²`, `p ← p - lr Δ`.
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = Adadelta::new(1.0).rho(0.75).epsilon(1e-6);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.998).abs() < 1e-4);
/// ```
#[cell]
pub struct Adadelta {
    /// The learning rate.
    pub rate: LearningRate,
    /// The decay rate `ρ` of the averages.
    pub rho: Hyperparameter,
    /// The term `ε` in the square roots.
    pub epsilon: Hyperparameter,
    /// The weight decay.
    pub weight_decay: WeightDecay,
    /// Moving averages of squared gradients, and of squared steps.
    squares: State,
    steps: State,
}

impl Adadelta {
    /// Creates the optimiser with `ρ = 0.9` and `ε = 1e-6`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: LearningRate::new("Adadelta", rate),
            rho: Hyperparameter::new("Adadelta", "rho", 0.9, &Interval::SHARE),
            epsilon: Hyperparameter::new("Adadelta", "epsilon", 1e-6, &Interval::POSITIVE),
            weight_decay: WeightDecay::new("Adadelta", 0.0),
            squares: State::zeros(),
            steps: State::zeros(),
        }
    }

    /// Sets `ρ`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rho` is from zero to one.
    #[track_caller]
    pub fn rho(self, rho: f64) -> Self {
        Self { rho: Hyperparameter::new("Adadelta", "rho", rho, &Interval::SHARE), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `epsilon` is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon: Hyperparameter::new("Adadelta", "epsilon", epsilon, &Interval::POSITIVE), ..self }
    }

    weight_decay_methods! {
        /// Adds `weight_decay p` to each gradient.
    }
}

/// The shared values of a step of [`Adadelta`].
#[derive(Clone, Tree)]
pub struct AdadeltaStep {
    rate: Tensor,
    /// `1 - ρ`.
    share: Tensor,
    epsilon: Tensor,
    decay: Option<Tensor>,
}

impl UpdateRule for Adadelta {
    type Step = AdadeltaStep;

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> AdadeltaStep {
        AdadeltaStep {
            rate: self.rate.value(),
            share: 1.0 - self.rho.value(),
            epsilon: self.epsilon.value(),
            decay: self.weight_decay.value(),
        }
    }

    fn apply(&self, step: &AdadeltaStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let gradient = self.weight_decay.add(parameter, &value, gradient, &step.decay);
        let (squares, steps) = (self.squares.of(parameter), self.steps.of(parameter));
        let square = averaged(&squares, &step.share, &gradient.square());
        let delta = (&steps + &step.epsilon).sqrt() / (square + &step.epsilon).sqrt() * gradient;
        averaged(&steps, &step.share, &delta.square());
        value - delta * &step.rate
    }
}
