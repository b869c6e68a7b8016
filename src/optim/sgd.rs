//! Stochastic gradient descent, with and without momentum.

use super::Optimizer;
use super::state::{State, decayed, learning_rate, update_each};
use ms_core::session::Gradients;
use ms_core::trace::{Arg, Sink};
use ms_core::{Parameter, Tensor};

/// `p ← p - lr g`; with momentum `v ← momentum v + (1 - dampening) g`, where `v = g` at the first
/// step, and `p ← p - lr v`, or `p ← p - lr (g + momentum v)` in Nesterov's form (Sutskever et al.
/// 2013, "On the importance of initialization and momentum in deep learning", as PyTorch and
/// MindSpore write it).
pub struct SGD {
    rate: Parameter,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    weight_decay: f64,
    velocity: State<1>,
    /// Whether a parameter has a velocity, as 0 or 1: the first gradient is not dampened.
    moving: State<1>,
}

impl SGD {
    /// Plain descent with this learning rate.
    pub fn new(rate: f64) -> Self {
        Self {
            rate: learning_rate(rate),
            momentum: 0.0,
            dampening: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            velocity: State::zeros(),
            moving: State::scalars(),
        }
    }

    /// The same with momentum.
    pub fn momentum(self, momentum: f64) -> Self {
        Self { momentum, ..self }
    }

    /// The same with gradients that enter the velocity `1 - dampening` times.
    pub fn dampening(self, dampening: f64) -> Self {
        Self { dampening, ..self }
    }

    /// The same with Nesterov's step, which looks ahead.
    pub fn nesterov(self, nesterov: bool) -> Self {
        Self { nesterov, ..self }
    }

    /// The same with `weight_decay p` added to each gradient.
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }

    /// The new velocity of a parameter.
    fn accelerate(&self, parameter: &Parameter, gradient: &Tensor) -> Tensor {
        let [velocity] = self.velocity.of(parameter);
        let next = if self.dampening == 0.0 {
            &velocity * self.momentum + gradient
        } else {
            let [moving] = self.moving.of(parameter);
            let share = 1.0 - &moving * self.dampening;
            moving.set(&ms_core::ops::ones_like(&share));
            &velocity * self.momentum + gradient * share
        };
        velocity.set(&next);
        next
    }
}

impl Arg for SGD {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.parameter(&self.rate);
        for fixed in [self.momentum, self.dampening, self.weight_decay] {
            fixed.visit(sink);
        }
        self.nesterov.visit(sink);
        self.velocity.visit(sink);
        self.moving.visit(sink);
    }
}

impl Optimizer for SGD {
    fn prepare(&self, parameters: &[Parameter]) {
        if self.momentum != 0.0 {
            self.velocity.prepare(parameters);
            if self.dampening != 0.0 {
                self.moving.prepare(parameters);
            }
        }
    }

    fn update(&self, gradients: &Gradients) {
        self.prepare(gradients.parameters());
        let rate = self.rate.value();
        update_each(gradients, |parameter, value, gradient| {
            let gradient = decayed(&value, gradient, self.weight_decay);
            let direction = if self.momentum == 0.0 {
                gradient
            } else {
                let velocity = self.accelerate(parameter, &gradient);
                if self.nesterov { gradient + velocity * self.momentum } else { velocity }
            };
            &value - direction * rate.cast(value.dtype())
        });
    }

    fn set_learning_rate(&self, rate: f64) {
        self.rate.set(&Tensor::from(rate));
    }
}

/// [`SGD`] with momentum and no dampening, under the name that MindSpore has for it:
/// `v ← momentum v + g`, `p ← p - lr v`, or `p ← p - lr (g + momentum v)` in Nesterov's form.
pub struct Momentum(SGD);

impl Momentum {
    /// Descent with this learning rate and momentum.
    pub fn new(rate: f64, momentum: f64) -> Self {
        Self(SGD::new(rate).momentum(momentum))
    }

    /// The same with Nesterov's step, which looks ahead.
    pub fn nesterov(self, nesterov: bool) -> Self {
        Self(self.0.nesterov(nesterov))
    }

    /// The same with `weight_decay p` added to each gradient.
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self(self.0.weight_decay(weight_decay))
    }
}

impl Arg for Momentum {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.0.visit(sink);
    }
}

impl Optimizer for Momentum {
    fn prepare(&self, parameters: &[Parameter]) {
        self.0.prepare(parameters);
    }

    fn update(&self, gradients: &Gradients) {
        self.0.update(gradients);
    }

    fn set_learning_rate(&self, rate: f64) {
        self.0.set_learning_rate(rate);
    }
}
