//! Stochastic gradient descent, with and without momentum.

use super::Optimizer;
use super::state::{State, checked, decayed, learning_rate, set_rate, update_each, visit_field};
use ms_core::error::raise;
use ms_core::ops::rules::Interval;
use ms_core::session::Gradients;
use ms_core::trace::{Arg, PerParameter, Sink};
use ms_core::{Code, Error, Parameter, Tensor};

/// `p ← p - lr g`; with momentum `v ← momentum v + (1 - dampening) g`, where `v = g` at the first
/// step, and `p ← p - lr v`, or `p ← p - lr (g + momentum v)` in Nesterov's form (Sutskever et al.
/// 2013, "On the importance of initialization and momentum in deep learning", as PyTorch and
/// MindSpore write it).
pub struct SGD {
    /// Its name in messages.
    name: &'static str,
    rate: Parameter,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    weight_decay: f64,
    velocity: State,
    /// Whether a parameter has a velocity, as 0 or 1: the first gradient is not dampened.
    moving: State,
}

impl SGD {
    /// Plain descent with this learning rate.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless the rate is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self::named("SGD", rate)
    }

    #[track_caller]
    fn named(name: &'static str, rate: f64) -> Self {
        Self {
            name,
            rate: learning_rate(name, rate),
            momentum: 0.0,
            dampening: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            velocity: State::zeros(),
            moving: State::scalars(),
        }
    }

    /// Sets the momentum.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless it is at least zero and less than one.
    #[track_caller]
    pub fn momentum(self, momentum: f64) -> Self {
        checked(self.name, "momentum", momentum, &Interval::DECAY);
        Self { momentum, ..self }
    }

    /// Scales gradients by `1 - dampening` before they are added to the velocity.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless it is from zero to one, and unless it is zero together with
    /// [`SGD::nesterov`].
    #[track_caller]
    pub fn dampening(self, dampening: f64) -> Self {
        checked(self.name, "dampening", dampening, &Interval::SHARE);
        Self { dampening, ..self }.undampened()
    }

    /// Uses Nesterov's step, which looks ahead along a velocity: without momentum, training raises
    /// [`Code::Argument`].
    ///
    /// # Panics
    /// Raises [`Code::Argument`] together with [`SGD::dampening`].
    #[track_caller]
    pub fn nesterov(self, nesterov: bool) -> Self {
        Self { nesterov, ..self }.undampened()
    }

    /// Checks that Nesterov's step is not combined with dampening.
    #[track_caller]
    fn undampened(self) -> Self {
        if self.nesterov && self.dampening != 0.0 {
            self.refuse_nesterov("dampening", self.dampening, "0");
        }
        self
    }

    #[track_caller]
    #[cold]
    fn refuse_nesterov(&self, name: &str, value: f64, taken: &str) -> ! {
        let message = format!("with `nesterov`, `{name}` is {value}, but has to be {taken}");
        raise(Error::new(Code::Argument, message).with_op(self.name));
    }

    /// Adds `weight_decay p` to each gradient.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        checked(self.name, "weight_decay", weight_decay, &Interval::RATE);
        Self { weight_decay, ..self }
    }

    /// The new velocity of a parameter.
    fn accelerate(&self, parameter: &Parameter, gradient: &Tensor) -> Tensor {
        let velocity = self.velocity.of(parameter);
        let next = if self.dampening == 0.0 {
            &velocity * self.momentum + gradient
        } else {
            let moving = self.moving.of(parameter);
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
        visit_field("rate", &self.rate, sink);
        for fixed in [self.momentum, self.dampening, self.weight_decay] {
            fixed.visit(sink);
        }
        self.nesterov.visit(sink);
        visit_field("velocity", &self.velocity, sink);
        visit_field("moving", &self.moving, sink);
    }
}

impl Optimizer for SGD {
    fn prepare(&self, parameters: &[Parameter]) {
        if self.nesterov && self.momentum == 0.0 {
            self.refuse_nesterov("momentum", self.momentum, "above 0");
        }
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
        set_rate(&self.rate, self.name, rate);
    }
}

/// [`SGD`] with momentum and without dampening, under MindSpore's name:
/// `v ← momentum v + g`, `p ← p - lr v`, or `p ← p - lr (g + momentum v)` in Nesterov's form.
pub struct Momentum(SGD);

impl Momentum {
    /// Descent with this learning rate and momentum.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless the rate is at least zero and finite, and the momentum at least
    /// zero and less than one.
    #[track_caller]
    pub fn new(rate: f64, momentum: f64) -> Self {
        Self(SGD::named("Momentum", rate).momentum(momentum))
    }

    /// Uses Nesterov's step, which looks ahead; see [`SGD::nesterov`].
    pub fn nesterov(self, nesterov: bool) -> Self {
        Self(self.0.nesterov(nesterov))
    }

    /// Adds `weight_decay p` to each gradient.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
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
