//! Adam.

use super::Optimizer;
use super::state::{State, decayed, rate};
use ms_core::session::Gradients;
use ms_core::trace::{Arg, Sink};
use ms_core::{DType, Parameter, Tensor};

/// Adam (Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1):
/// `m ← β₁ m + (1 - β₁) g`, `v ← β₂ v + (1 - β₂) g²`, `p ← p - lr m̂ / (sqrt(v̂) + ε)` with
/// `m̂ = m / (1 - β₁ᵗ)`, `v̂ = v / (1 - β₂ᵗ)`.
pub struct Adam {
    rate: Parameter,
    betas: (f64, f64),
    epsilon: f64,
    weight_decay: f64,
    decoupled: bool,
    /// `β₁ᵗ` and `β₂ᵗ`.
    powers: [Parameter; 2],
    moments: State<2>,
}

impl Adam {
    /// With `β = (0.9, 0.999)` and `ε = 1e-8`.
    pub fn new(learning_rate: f64) -> Self {
        let power = || {
            let slot = Parameter::init("", (), DType::F32, || Tensor::scalar(1.0));
            slot.set_requires_grad(false);
            slot
        };
        Self {
            rate: rate(learning_rate),
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
            powers: [power(), power()],
            moments: State::new(),
        }
    }

    /// The same with other decay rates of the moments.
    pub fn betas(self, first: f64, second: f64) -> Self {
        Self { betas: (first, second), ..self }
    }

    /// The same with another `ε`.
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon, ..self }
    }

    /// The same with `weight_decay p` added to each gradient.
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }

    /// AdamW: the decay is taken from the parameter itself, `p ← p - lr weight_decay p`, before
    /// the step (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization").
    pub fn decoupled_weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, decoupled: true, ..self }
    }
}

impl Arg for Adam {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.parameter(&self.rate);
        for fixed in [self.betas.0, self.betas.1, self.epsilon, self.weight_decay] {
            fixed.visit(sink);
        }
        self.decoupled.visit(sink);
        self.powers.visit(sink);
        self.moments.visit(sink);
    }
}

impl Optimizer for Adam {
    fn prepare(&self, parameters: &[Parameter]) {
        self.moments.prepare(parameters);
    }

    fn update(&self, gradients: &Gradients) {
        self.moments.prepare(gradients.iter().map(|it| it.0));
        let (b1, b2) = self.betas;
        let advance = |slot: &Parameter, beta: f64| {
            let power = slot * beta;
            slot.set(&power);
            1.0 - power
        };
        let (c1, c2) = (advance(&self.powers[0], b1), advance(&self.powers[1], b2));
        let rate = self.rate.value();
        let (step, root) = (&rate / c1, c2.sqrt());
        for (parameter, gradient) in gradients.iter() {
            let mut value = parameter.value();
            let dtype = value.dtype();
            let of = |it: &Tensor| it.cast(dtype);
            let gradient = if self.decoupled {
                value = &value - &value * of(&(&rate * self.weight_decay));
                gradient.clone()
            } else {
                decayed(&value, gradient, self.weight_decay)
            };
            let [m, v] = self.moments.of(parameter);
            let first = &m * b1 + &gradient * (1.0 - b1);
            let second = &v * b2 + gradient.square() * (1.0 - b2);
            m.set(&first);
            v.set(&second);
            let scale = second.sqrt() / of(&root) + self.epsilon;
            parameter.set(&(value - first * of(&step) / scale));
        }
    }

    fn set_learning_rate(&self, rate: f64) {
        self.rate.set(&Tensor::scalar(rate));
    }
}
