//! Stochastic gradient descent.

use super::Optimizer;
use super::state::{self, State};
use ms_core::session::Gradients;
use ms_core::trace::{Arg, Sink};
use ms_core::{Parameter, Tensor};

/// `p ← p - lr g`; with momentum `v ← momentum v + g`, `p ← p - lr v` (Sutskever et al. 2013,
/// "On the importance of initialization and momentum in deep learning", as PyTorch writes it).
pub struct Sgd {
    rate: Parameter,
    momentum: f64,
    weight_decay: f64,
    velocity: State<1>,
}

impl Sgd {
    /// Plain descent with this learning rate.
    pub fn new(rate: f64) -> Self {
        Self { rate: state::rate(rate), momentum: 0.0, weight_decay: 0.0, velocity: State::new() }
    }

    /// The same with momentum.
    pub fn momentum(self, momentum: f64) -> Self {
        Self { momentum, ..self }
    }

    /// The same with `weight_decay p` added to each gradient.
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }
}

impl Arg for Sgd {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.parameter(&self.rate);
        self.momentum.visit(sink);
        self.weight_decay.visit(sink);
        self.velocity.visit(sink);
    }
}

impl Optimizer for Sgd {
    fn prepare(&self, parameters: &[Parameter]) {
        if self.momentum != 0.0 {
            self.velocity.prepare(parameters);
        }
    }

    fn update(&self, gradients: &Gradients) {
        if self.momentum != 0.0 {
            self.velocity.prepare(gradients.iter().map(|it| it.0));
        }
        let rate = self.rate.value();
        for (parameter, gradient) in gradients.iter() {
            let value = parameter.value();
            let gradient = state::decayed(&value, gradient, self.weight_decay);
            let direction = if self.momentum == 0.0 {
                gradient
            } else {
                let [velocity] = self.velocity.of(parameter);
                let next = &velocity * self.momentum + &gradient;
                velocity.set(&next);
                next
            };
            let rate = rate.cast(value.dtype());
            parameter.set(&(value - direction * rate));
        }
    }

    fn set_learning_rate(&self, rate: f64) {
        self.rate.set(&Tensor::scalar(rate));
    }
}
