//! The RMSProp optimiser.

use super::hyperparameter::{Hyperparameter, LearningRate, Term, WeightDecay, weight_decay_methods};
use super::state::averaged;
use super::{State, UpdateRule};
use ms_core::ops::maximum;
use ms_core::ops::rules::Interval;
use ms_core::trace::PerParameter;
use ms_core::{Parameter, Tensor};
use ms_macros::{Tree, cell};

/// RMSProp (Tieleman and Hinton 2012, "Lecture 6.5: RMSProp"): `s ← α s + (1 - α) g²`, `p ← p - lr g / (sqrt(s) + ε)`.
/// The centred form uses `s - a²` instead of `s`, with `a ← α a + (1 - α) g` (Graves 2013, "Generating Sequences With
/// Recurrent Neural Networks"). With momentum, `b ← momentum b + g / (sqrt(s) + ε)` and `p ← p - lr b`.
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = RMSProp::new(0.1).decay(0.75);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.8).abs() < 1e-4);
/// ```
#[cell]
pub struct RMSProp {
    /// The learning rate.
    pub rate: LearningRate,
    /// The decay rate `α` of the averages.
    pub decay: Hyperparameter,
    /// The term `ε` in the divisor.
    pub epsilon: Hyperparameter,
    /// The momentum.
    pub momentum: Term,
    centered: bool,
    /// The weight decay.
    pub weight_decay: WeightDecay,
    squares: State,
    means: State,
    velocity: State,
}

impl RMSProp {
    /// Creates the optimiser with `α = 0.9` and `ε = 1e-10`, MindSpore's defaults.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: LearningRate::new("RMSProp", rate),
            decay: Hyperparameter::new("RMSProp", "decay", 0.9, &Interval::DECAY),
            epsilon: Hyperparameter::new("RMSProp", "epsilon", 1e-10, &Interval::POSITIVE),
            momentum: Term::new("RMSProp", "momentum", 0.0, &Interval::DECAY),
            centered: false,
            weight_decay: WeightDecay::new("RMSProp", 0.0),
            squares: State::zeros(),
            means: State::zeros(),
            velocity: State::zeros(),
        }
    }

    /// Sets `α`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `decay` is at least zero and less than one.
    #[track_caller]
    pub fn decay(self, decay: f64) -> Self {
        Self { decay: Hyperparameter::new("RMSProp", "decay", decay, &Interval::DECAY), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `epsilon` is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon: Hyperparameter::new("RMSProp", "epsilon", epsilon, &Interval::POSITIVE), ..self }
    }

    /// Sets the momentum.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `momentum` is at least zero and less than one.
    #[track_caller]
    pub fn momentum(self, momentum: f64) -> Self {
        Self { momentum: Term::new("RMSProp", "momentum", momentum, &Interval::DECAY), ..self }
    }

    /// Sets whether the variance of the gradients replaces their mean square.
    pub fn centered(self, centered: bool) -> Self {
        Self { centered, ..self }
    }

    weight_decay_methods! {
        /// Adds `weight_decay p` to each gradient.
    }
}

/// The shared values of a step of [`RMSProp`].
#[derive(Clone, Tree)]
pub struct RMSPropStep {
    rate: Tensor,
    /// `1 - α`.
    share: Tensor,
    epsilon: Tensor,
    momentum: Option<Tensor>,
    decay: Option<Tensor>,
}

impl UpdateRule for RMSProp {
    type Step = RMSPropStep;

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> RMSPropStep {
        RMSPropStep {
            rate: self.rate.value(),
            share: 1.0 - self.decay.value(),
            epsilon: self.epsilon.value(),
            momentum: self.momentum.value(),
            decay: self.weight_decay.value(),
        }
    }

    fn apply(&self, step: &RMSPropStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let gradient = self.weight_decay.add(parameter, &value, gradient, &step.decay);
        let mut scale = averaged(&self.squares.of(parameter), &step.share, &gradient.square());
        if self.centered {
            let mean = averaged(&self.means.of(parameter), &step.share, &gradient);
            // Rounding may make the variance negative.
            scale = maximum(scale - mean.square(), 0.0);
        }
        let mut direction = gradient / (scale.sqrt() + &step.epsilon);
        if let Some(momentum) = &step.momentum {
            let velocity = self.velocity.of(parameter);
            direction = &velocity * momentum + direction;
            velocity.set(&direction);
        }
        value - direction * &step.rate
    }

    fn prepare_state(&self, parameters: &[Parameter]) {
        self.squares.prepare(parameters);
        if self.centered {
            self.means.prepare(parameters);
        }
        if self.momentum.is_present() {
            self.velocity.prepare(parameters);
        }
    }
}
