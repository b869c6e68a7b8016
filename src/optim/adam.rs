//! Adam and its variants.

use super::hyperparameter::{Hyperparameter, LearningRate, WeightDecay, weight_decay_methods};
use super::state::{bias_correction, count};
use super::{State, UpdateRule};
use ms_core::ops::rules::Interval;
use ms_core::ops::{AdamUpdate, Decay};
use ms_core::trace::PerParameter;
use ms_core::{DType, Parameter, Tensor};
use ms_macros::{Tree, cell};

/// Adam (Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1): `m ← β₁ m + (1 - β₁) g`,
/// `v ← β₂ v + (1 - β₂) g²`, `p ← p - lr m̂ / (sqrt(v̂) + ε)`, where `m̂ = m / (1 - β₁ᵗ)` and `v̂ = v / (1 - β₂ᵗ)`.
///
/// ```
/// use ms::prelude::*;
/// use ms::Gradients;
/// let parameter = Parameter::new(tensor![1.0, -2.0], "p");
/// let gradients = Gradients::new(vec![parameter.clone()], vec![tensor![0.5, 3.0]]);
/// Adam::new(0.1).update(&gradients);
/// // The first step has the length of the learning rate, whatever the gradient's.
/// assert!(parameter.value().to_vec::<f32>().iter().zip([0.9, -2.1]).all(|(p, want)| (p - want).abs() < 1e-6));
/// ```
#[cell]
pub struct Adam {
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
    decoupled: bool,
    amsgrad: bool,
    /// The number of steps.
    steps: Parameter,
    first_moment: State,
    second_moment: State,
    /// The largest second moment so far, for AMSGrad.
    largest: State,
}

impl Adam {
    /// Creates the optimiser with `β = (0.9, 0.999)` and `ε = 1e-8`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: LearningRate::new("Adam", rate),
            beta1: Hyperparameter::new("Adam", "first", 0.9, &Interval::DECAY),
            beta2: Hyperparameter::new("Adam", "second", 0.999, &Interval::DECAY),
            epsilon: Hyperparameter::new("Adam", "epsilon", 1e-8, &Interval::POSITIVE),
            weight_decay: WeightDecay::new("Adam", 0.0),
            decoupled: false,
            amsgrad: false,
            steps: count(),
            first_moment: State::zeros(),
            second_moment: State::zeros(),
            largest: State::zeros(),
        }
    }

    /// Sets the decay rates of the moments.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless both are at least zero and less than one.
    #[track_caller]
    pub fn betas(self, first: f64, second: f64) -> Self {
        let beta1 = Hyperparameter::new("Adam", "first", first, &Interval::DECAY);
        Self { beta1, beta2: Hyperparameter::new("Adam", "second", second, &Interval::DECAY), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `epsilon` is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon: Hyperparameter::new("Adam", "epsilon", epsilon, &Interval::POSITIVE), ..self }
    }

    weight_decay_methods! {
        /// Adds `weight_decay p` to each gradient.
    }

    /// Sets the decoupled weight decay of AdamW (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization"):
    /// `p ← p - lr weight_decay p` before the update.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `weight_decay` is at least zero and finite.
    #[track_caller]
    pub fn decoupled_weight_decay(self, weight_decay: f64) -> Self {
        Self { decoupled: true, ..self.weight_decay(weight_decay) }
    }

    /// Sets whether AMSGrad is used: the largest `v` so far replaces `v` (Reddi et al. 2018, "On the Convergence of
    /// Adam and Beyond").
    pub fn amsgrad(self, amsgrad: bool) -> Self {
        Self { amsgrad, ..self }
    }
}

/// The shared values of a step of [`Adam`].
#[derive(Clone, Tree)]
pub struct AdamStep {
    /// `lr / (1 - β₁ᵗ)`.
    rate: Tensor,
    /// `sqrt(1 - β₂ᵗ)`.
    root: Tensor,
    /// `1 - β₁` and `1 - β₂`.
    shares: (Tensor, Tensor),
    epsilon: Tensor,
    /// The weight decay, multiplied by `-lr` if it is decoupled.
    decay: Option<Tensor>,
}

impl UpdateRule for Adam {
    type Step = AdamStep;

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> AdamStep {
        let steps = self.steps.value() + 1;
        self.steps.set(&steps);
        let steps = steps.cast(DType::F64);
        let (rate, beta1, beta2) = (self.rate.value(), self.beta1.value(), self.beta2.value());
        let decay = self.weight_decay.value();
        AdamStep {
            decay: if self.decoupled { decay.map(|it| -(it * &rate)) } else { decay },
            rate: rate / bias_correction(&beta1, &steps),
            root: bias_correction(&beta2, &steps).sqrt(),
            shares: (1.0 - beta1, 1.0 - beta2),
            epsilon: self.epsilon.value(),
        }
    }

    fn apply(&self, step: &AdamStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let [first, second] = [&self.first_moment, &self.second_moment].map(|it| it.of(parameter));
        let largest = self.amsgrad.then(|| self.largest.of(parameter));
        let reached = largest.as_ref().map(Parameter::value);
        let to = if self.decoupled { Decay::Value } else { Decay::Gradient };
        let update = AdamUpdate {
            value: &value,
            gradient: &gradient,
            moments: [&first.value(), &second.value()],
            largest: reached.as_ref(),
            rate: &step.rate,
            root: &step.root,
            shares: [&step.shares.0, &step.shares.1],
            epsilon: &step.epsilon,
            decay: self.weight_decay.of(parameter, &step.decay).map(|it| (it, to)),
        };
        let next = update.apply();
        first.set(&next[1]);
        second.set(&next[2]);
        if let Some(largest) = largest {
            largest.set(&next[3]);
        }
        next[0].clone()
    }

    fn prepare_state(&self, parameters: &[Parameter]) {
        self.first_moment.prepare(parameters);
        self.second_moment.prepare(parameters);
        if self.amsgrad {
            self.largest.prepare(parameters);
        }
    }
}
