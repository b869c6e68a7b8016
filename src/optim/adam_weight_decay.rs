//! Adam without bias correction, and with decoupled weight decay.

use super::Optimizer;
use super::state::{State, averaged, checked, learning_rate, set_rate, update_each, visit_field};
use ms_core::Parameter;
use ms_core::ops::rules::Interval;
use ms_core::session::Gradients;
use ms_core::trace::{Arg, PerParameter, Sink};

/// MindSpore's `AdamWeightDecay`: `m ← β₁ m + (1 - β₁) g`, `v ← β₂ v + (1 - β₂) g²`,
/// `p ← p - lr (m / (sqrt(v) + ε) + weight_decay p)`.
///
/// Unlike [`Adam`](super::Adam) it does not correct the bias of the averages, which start at zero.
/// AdamW is [`Adam::decoupled_weight_decay`](super::Adam::decoupled_weight_decay).
pub struct AdamWeightDecay {
    rate: Parameter,
    betas: (f64, f64),
    epsilon: f64,
    weight_decay: f64,
    first_moment: State,
    second_moment: State,
}

impl AdamWeightDecay {
    /// With `β = (0.9, 0.999)`, `ε = 1e-6` and no decay.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the rate is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: learning_rate("AdamWeightDecay", rate),
            betas: (0.9, 0.999),
            epsilon: 1e-6,
            weight_decay: 0.0,
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
        checked("AdamWeightDecay", "first", first, &Interval::DECAY);
        checked("AdamWeightDecay", "second", second, &Interval::DECAY);
        Self { betas: (first, second), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        let epsilon = checked("AdamWeightDecay", "epsilon", epsilon, &Interval::POSITIVE);
        Self { epsilon, ..self }
    }

    /// Adds `weight_decay p` to each step before it is scaled by the rate.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        let weight_decay = checked("AdamWeightDecay", "weight_decay", weight_decay, &Interval::RATE);
        Self { weight_decay, ..self }
    }
}

impl Arg for AdamWeightDecay {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_field("rate", &self.rate, sink);
        [self.betas.0, self.betas.1, self.epsilon, self.weight_decay].visit(sink);
        visit_field("first_moment", &self.first_moment, sink);
        visit_field("second_moment", &self.second_moment, sink);
    }
}

impl Optimizer for AdamWeightDecay {
    fn prepare(&self, parameters: &[Parameter]) {
        self.first_moment.prepare(parameters);
        self.second_moment.prepare(parameters);
    }

    fn update(&self, gradients: &Gradients) {
        self.prepare(gradients.parameters());
        let rate = self.rate.value();
        update_each(gradients, |parameter, value, gradient| {
            let first = averaged(&self.first_moment.of(parameter), self.betas.0, &gradient);
            let second = averaged(&self.second_moment.of(parameter), self.betas.1, &gradient.square());
            let step = first / (second.sqrt() + self.epsilon) + &value * self.weight_decay;
            &value - step * rate.cast(value.dtype())
        });
    }

    fn set_learning_rate(&self, rate: f64) {
        set_rate(&self.rate, "AdamWeightDecay", rate);
    }
}
