//! Adagrad.

use super::Optimizer;
use super::state::{State, count, decayed, learning_rate, update_each};
use ms_core::session::Gradients;
use ms_core::trace::{Arg, Sink};
use ms_core::{DType, Parameter, Tensor};

/// `s ← s + g²`, `p ← p - lr g / (sqrt(s) + ε)` (Duchi et al. 2011, "Adaptive Subgradient Methods
/// for Online Learning and Stochastic Optimization"); the rate of step `t` is
/// `lr / (1 + (t - 1) rate_decay)`.
pub struct Adagrad {
    rate: Parameter,
    rate_decay: f64,
    epsilon: f64,
    weight_decay: f64,
    /// Steps that were made.
    steps: Parameter,
    squares: State<1>,
}

impl Adagrad {
    /// With sums of squares that start at 0.1, MindSpore's default, and `ε = 1e-10`.
    pub fn new(rate: f64) -> Self {
        Self {
            rate: learning_rate(rate),
            rate_decay: 0.0,
            epsilon: 1e-10,
            weight_decay: 0.0,
            steps: count(),
            squares: State::filled(0.1),
        }
    }

    /// The same with sums of squares that start at another value.
    pub fn accumulator(self, first: f64) -> Self {
        Self { squares: State::filled(first), ..self }
    }

    /// The same with a rate that falls from step to step.
    pub fn rate_decay(self, rate_decay: f64) -> Self {
        Self { rate_decay, ..self }
    }

    /// The same with another `ε`.
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon, ..self }
    }

    /// The same with `weight_decay p` added to each gradient.
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }
}

impl Arg for Adagrad {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.parameter(&self.rate);
        [self.rate_decay, self.epsilon, self.weight_decay].visit(sink);
        sink.parameter(&self.steps);
        self.squares.visit(sink);
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
            let [squares] = self.squares.of(parameter);
            let sum = &squares + gradient.square();
            squares.set(&sum);
            &value - gradient * rate.cast(value.dtype()) / (sum.sqrt() + self.epsilon)
        });
    }

    fn set_learning_rate(&self, rate: f64) {
        self.rate.set(&Tensor::from(rate));
    }
}
