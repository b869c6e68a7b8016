//! The Adagrad optimiser.

use super::hyperparameter::{Hyperparameter, LearningRate, Term, WeightDecay, weight_decay_methods};
use super::state::count;
use super::{State, UpdateRule};
use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::{DType, Parameter, Tensor};
use ms_macros::cell;

/// Adagrad (Duchi et al. 2011, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization"):
/// `s ← s + g²`, `p ← p - lr g / (sqrt(s) + ε)`. The learning rate of step `t` is `lr / (1 + (t - 1) rate_decay)`.
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = Adagrad::new(0.1).accumulator(0.0);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.9).abs() < 1e-4);
/// ```
#[cell]
pub struct Adagrad {
    /// The learning rate.
    pub rate: LearningRate,
    /// The decay of the learning rate.
    pub rate_decay: Term,
    /// The term `ε` in the divisor.
    pub epsilon: Hyperparameter,
    /// The weight decay.
    pub weight_decay: WeightDecay,
    /// The number of steps.
    steps: Parameter,
    squares: State,
}

impl Adagrad {
    /// Creates the optimiser with `ε = 1e-10` and sums of squares that start at 0.1, MindSpore's default.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: LearningRate::new("Adagrad", rate),
            rate_decay: Term::new("Adagrad", "rate_decay", 0.0, &Interval::RATE),
            epsilon: Hyperparameter::new("Adagrad", "epsilon", 1e-10, &Interval::POSITIVE),
            weight_decay: WeightDecay::new("Adagrad", 0.0),
            steps: count(),
            squares: State::filled(0.1),
        }
    }

    /// Sets the initial value of the sums of squares.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `first` is at least zero and finite.
    #[track_caller]
    pub fn accumulator(self, first: f64) -> Self {
        check_interval("Adagrad", "first", first, &Interval::RATE).or_raise();
        Self { squares: State::filled(first), ..self }
    }

    /// Sets the decay of the learning rate.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate_decay` is at least zero and finite.
    #[track_caller]
    pub fn rate_decay(self, rate_decay: f64) -> Self {
        Self { rate_decay: Term::new("Adagrad", "rate_decay", rate_decay, &Interval::RATE), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `epsilon` is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon: Hyperparameter::new("Adagrad", "epsilon", epsilon, &Interval::POSITIVE), ..self }
    }

    weight_decay_methods! {
        /// Adds `weight_decay p` to each gradient.
    }
}

impl UpdateRule for Adagrad {
    /// The learning rate, `ε`, and the weight decay.
    type Step = (Tensor, Tensor, Option<Tensor>);

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> Self::Step {
        let mut rate = self.rate.value();
        let steps = self.steps.value();
        self.steps.set(&(&steps + 1));
        if let Some(decay) = self.rate_decay.value() {
            rate /= 1.0 + steps.cast(DType::F64) * decay;
        }
        (rate, self.epsilon.value(), self.weight_decay.value())
    }

    fn apply(&self, step: &Self::Step, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let (rate, epsilon, decay) = step;
        let gradient = self.weight_decay.add(parameter, &value, gradient, decay);
        let squares = self.squares.of(parameter);
        let sum = &squares + gradient.square();
        squares.set(&sum);
        value - gradient * rate / (sum.sqrt() + epsilon)
    }
}
