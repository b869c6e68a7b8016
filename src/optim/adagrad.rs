//! Adagrad.

use super::Optimizer;
use super::state::{State, checked, count, decayed, learning_rate, set_rate, update_each, visit_field};
use ms_core::ops::rules::Interval;
use ms_core::session::Gradients;
use ms_core::trace::{Arg, PerParameter, Sink};
use ms_core::{DType, Parameter};

/// `s ← s + g²`, `p ← p - lr g / (sqrt(s) + ε)` (Duchi et al. 2011, "Adaptive Subgradient Methods
/// for Online Learning and Stochastic Optimization"); the rate of step `t` is
/// `lr / (1 + (t - 1) rate_decay)`.
pub struct Adagrad {
    rate: Parameter,
    rate_decay: f64,
    epsilon: f64,
    weight_decay: f64,
    /// The number of steps.
    steps: Parameter,
    squares: State,
}

impl Adagrad {
    /// With sums of squares that start at 0.1, MindSpore's default, and `ε = 1e-10`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the rate is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: learning_rate("Adagrad", rate),
            rate_decay: 0.0,
            epsilon: 1e-10,
            weight_decay: 0.0,
            steps: count(),
            squares: State::filled(0.1),
        }
    }

    /// Sets the initial value of the sums of squares.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn accumulator(self, first: f64) -> Self {
        let first = checked("Adagrad", "first", first, &Interval::RATE);
        Self { squares: State::filled(first), ..self }
    }

    /// Sets the decay of the learning rate.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn rate_decay(self, rate_decay: f64) -> Self {
        let rate_decay = checked("Adagrad", "rate_decay", rate_decay, &Interval::RATE);
        Self { rate_decay, ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        let epsilon = checked("Adagrad", "epsilon", epsilon, &Interval::POSITIVE);
        Self { epsilon, ..self }
    }

    /// Adds `weight_decay p` to each gradient.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        let weight_decay = checked("Adagrad", "weight_decay", weight_decay, &Interval::RATE);
        Self { weight_decay, ..self }
    }
}

impl Arg for Adagrad {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_field("rate", &self.rate, sink);
        [self.rate_decay, self.epsilon, self.weight_decay].visit(sink);
        visit_field("steps", &self.steps, sink);
        visit_field("squares", &self.squares, sink);
    }
}

impl Optimizer for Adagrad {
    fn prepare(&self, parameters: &[Parameter]) {
        self.squares.prepare(parameters);
    }

    fn update(&self, gradients: &Gradients) {
        self.prepare(gradients.parameters());
        let mut rate = self.rate.value();
        if self.rate_decay != 0.0 {
            let steps = self.steps.value();
            rate /= 1.0 + steps.cast(DType::F64) * self.rate_decay;
            self.steps.set(&(steps + 1));
        }
        update_each(gradients, |parameter, value, gradient| {
            let gradient = decayed(&value, gradient, self.weight_decay);
            let squares = self.squares.of(parameter);
            let sum = &squares + gradient.square();
            squares.set(&sum);
            &value - gradient * rate.cast(value.dtype()) / (sum.sqrt() + self.epsilon)
        });
    }

    fn set_learning_rate(&self, rate: f64) {
        set_rate(&self.rate, "Adagrad", rate);
    }
}
