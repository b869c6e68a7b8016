//! Adadelta.

use super::Optimizer;
use super::state::{State, averaged, checked, decayed, learning_rate, set_rate, update_each, visit_field};
use ms_core::Parameter;
use ms_core::ops::rules::Interval;
use ms_core::session::Gradients;
use ms_core::trace::{Arg, PerParameter, Sink};

/// `s ← ρ s + (1 - ρ) g²`, `Δ = sqrt(d + ε) / sqrt(s + ε) g`, `d ← ρ d + (1 - ρ) Δ²`,
/// `p ← p - lr Δ` (Zeiler 2012, "ADADELTA: An Adaptive Learning Rate Method").
pub struct Adadelta {
    rate: Parameter,
    rho: f64,
    epsilon: f64,
    weight_decay: f64,
    /// Averages of the squares of gradients, and of steps.
    squares: State,
    steps: State,
}

impl Adadelta {
    /// With `ρ = 0.9` and `ε = 1e-6`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the rate is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: learning_rate("Adadelta", rate),
            rho: 0.9,
            epsilon: 1e-6,
            weight_decay: 0.0,
            squares: State::zeros(),
            steps: State::zeros(),
        }
    }

    /// Sets `ρ`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is from zero to one.
    #[track_caller]
    pub fn rho(self, rho: f64) -> Self {
        let rho = checked("Adadelta", "rho", rho, &Interval::SHARE);
        Self { rho, ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        let epsilon = checked("Adadelta", "epsilon", epsilon, &Interval::POSITIVE);
        Self { epsilon, ..self }
    }

    /// Adds `weight_decay p` to each gradient.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        let weight_decay = checked("Adadelta", "weight_decay", weight_decay, &Interval::RATE);
        Self { weight_decay, ..self }
    }
}

impl Arg for Adadelta {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_field("rate", &self.rate, sink);
        [self.rho, self.epsilon, self.weight_decay].visit(sink);
        visit_field("squares", &self.squares, sink);
        visit_field("steps", &self.steps, sink);
    }
}

impl Optimizer for Adadelta {
    fn prepare(&self, parameters: &[Parameter]) {
        self.squares.prepare(parameters);
        self.steps.prepare(parameters);
    }

    fn update(&self, gradients: &Gradients) {
        self.prepare(gradients.parameters());
        let rate = self.rate.value();
        update_each(gradients, |parameter, value, gradient| {
            let gradient = decayed(&value, gradient, self.weight_decay);
            let (squares, steps) = (self.squares.of(parameter), self.steps.of(parameter));
            let square = averaged(&squares, self.rho, &gradient.square());
            let step = (&steps + self.epsilon).sqrt() / (square + self.epsilon).sqrt() * gradient;
            averaged(&steps, self.rho, &step.square());
            &value - step * rate.cast(value.dtype())
        });
    }

    fn set_learning_rate(&self, rate: f64) {
        set_rate(&self.rate, "Adadelta", rate);
    }
}
