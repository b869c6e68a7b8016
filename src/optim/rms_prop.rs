//! RMSProp.

use super::Optimizer;
use super::state::{State, averaged, checked, decayed, learning_rate, set_rate, update_each, visit_field};
use ms_core::Parameter;
use ms_core::ops::maximum;
use ms_core::ops::rules::Interval;
use ms_core::session::Gradients;
use ms_core::trace::{Arg, PerParameter, Sink};

/// `s ← α s + (1 - α) g²`, `p ← p - lr g / (sqrt(s) + ε)` (Tieleman and Hinton 2012, "Lecture 6.5:
/// RMSProp"). Centred: `s - a²` instead of `s`, with `a ← α a + (1 - α) g` (Graves 2013,
/// "Generating Sequences With Recurrent Neural Networks"). With momentum:
/// `b ← momentum b + g / (sqrt(s) + ε)`, `p ← p - lr b`.
pub struct RMSProp {
    rate: Parameter,
    decay: f64,
    epsilon: f64,
    momentum: f64,
    centered: bool,
    weight_decay: f64,
    squares: State,
    means: State,
    velocity: State,
}

impl RMSProp {
    /// With `α = 0.9` and `ε = 1e-10`, MindSpore's defaults.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the rate is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: learning_rate("RMSProp", rate),
            decay: 0.9,
            epsilon: 1e-10,
            momentum: 0.0,
            centered: false,
            weight_decay: 0.0,
            squares: State::zeros(),
            means: State::zeros(),
            velocity: State::zeros(),
        }
    }

    /// Sets `α`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and less than one.
    #[track_caller]
    pub fn decay(self, decay: f64) -> Self {
        let decay = checked("RMSProp", "decay", decay, &Interval::DECAY);
        Self { decay, ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        let epsilon = checked("RMSProp", "epsilon", epsilon, &Interval::POSITIVE);
        Self { epsilon, ..self }
    }

    /// Sets the momentum.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and less than one.
    #[track_caller]
    pub fn momentum(self, momentum: f64) -> Self {
        let momentum = checked("RMSProp", "momentum", momentum, &Interval::DECAY);
        Self { momentum, ..self }
    }

    /// Uses the variance of the gradients instead of their squares.
    pub fn centered(self, centered: bool) -> Self {
        Self { centered, ..self }
    }

    /// Adds `weight_decay p` to each gradient.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        let weight_decay = checked("RMSProp", "weight_decay", weight_decay, &Interval::RATE);
        Self { weight_decay, ..self }
    }
}

impl Arg for RMSProp {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_field("rate", &self.rate, sink);
        [self.decay, self.epsilon, self.momentum, self.weight_decay].visit(sink);
        self.centered.visit(sink);
        for (name, slots) in [("squares", &self.squares), ("means", &self.means), ("velocity", &self.velocity)] {
            visit_field(name, slots, sink);
        }
    }
}

impl Optimizer for RMSProp {
    fn prepare(&self, parameters: &[Parameter]) {
        self.squares.prepare(parameters);
        if self.centered {
            self.means.prepare(parameters);
        }
        if self.momentum != 0.0 {
            self.velocity.prepare(parameters);
        }
    }

    fn update(&self, gradients: &Gradients) {
        self.prepare(gradients.parameters());
        let rate = self.rate.value();
        update_each(gradients, |parameter, value, gradient| {
            let gradient = decayed(&value, gradient, self.weight_decay);
            let squares = self.squares.of(parameter);
            let mut scale = averaged(&squares, self.decay, &gradient.square());
            if self.centered {
                let means = self.means.of(parameter);
                let mean = averaged(&means, self.decay, &gradient);
                // A variance is not negative, but its rounded value may be.
                scale = maximum(scale - mean.square(), 0.0);
            }
            let mut step = gradient / (scale.sqrt() + self.epsilon);
            if self.momentum != 0.0 {
                let velocity = self.velocity.of(parameter);
                step = &velocity * self.momentum + step;
                velocity.set(&step);
            }
            &value - step * rate.cast(value.dtype())
        });
    }

    fn set_learning_rate(&self, rate: f64) {
        set_rate(&self.rate, "RMSProp", rate);
    }
}
