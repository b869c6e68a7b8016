//! Adam.

use super::Optimizer;
use super::state::{State, averaged, checked, count, decayed, learning_rate, set_rate, update_each, visit_field};
use ms_core::ops::rules::Interval;
use ms_core::ops::{expm1, maximum};
use ms_core::session::Gradients;
use ms_core::trace::{Arg, PerParameter, Sink};
use ms_core::{DType, Parameter, Tensor};

/// Adam (Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1):
/// `m ← β₁ m + (1 - β₁) g`, `v ← β₂ v + (1 - β₂) g²`, `p ← p - lr m̂ / (sqrt(v̂) + ε)` with
/// `m̂ = m / (1 - β₁ᵗ)`, `v̂ = v / (1 - β₂ᵗ)`.
///
/// ```
/// use ms::prelude::*;
/// use ms::Gradients;
/// let parameter = Parameter::new(tensor![1.0, -2.0], "p");
/// let gradients = Gradients::new(vec![parameter.clone()], vec![tensor![0.5, 3.0]]);
/// Adam::new(0.1).update(&gradients);
/// // The first step has the length of the learning rate, whatever the gradient's.
/// assert!(parameter.value().to_vec::<f32>().iter().zip([0.9, -2.1]).all(|(p, want)| (p - want).abs() < 1e-6));
/// ```
pub struct Adam {
    rate: Parameter,
    betas: (f64, f64),
    epsilon: f64,
    weight_decay: f64,
    decoupled: bool,
    amsgrad: bool,
    /// The number of steps.
    steps: Parameter,
    first_moment: State,
    second_moment: State,
    /// The largest second moment so far.
    largest: State,
}

impl Adam {
    /// With `β = (0.9, 0.999)` and `ε = 1e-8`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the rate is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: learning_rate("Adam", rate),
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
            amsgrad: false,
            steps: count(),
            first_moment: State::zeros(),
            second_moment: State::zeros(),
            largest: State::zeros(),
        }
    }

    /// Sets the decay rates of the moments.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless both are at least zero and less than one.
    #[track_caller]
    pub fn betas(self, first: f64, second: f64) -> Self {
        checked("Adam", "first", first, &Interval::DECAY);
        checked("Adam", "second", second, &Interval::DECAY);
        Self { betas: (first, second), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        let epsilon = checked("Adam", "epsilon", epsilon, &Interval::POSITIVE);
        Self { epsilon, ..self }
    }

    /// Adds `weight_decay p` to each gradient.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        let weight_decay = checked("Adam", "weight_decay", weight_decay, &Interval::RATE);
        Self { weight_decay, ..self }
    }

    /// AdamW: the decay is taken from the parameter itself, `p ← p - lr weight_decay p`, before
    /// the step (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization").
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn decoupled_weight_decay(self, weight_decay: f64) -> Self {
        let weight_decay = checked("Adam", "weight_decay", weight_decay, &Interval::RATE);
        Self { weight_decay, decoupled: true, ..self }
    }

    /// Uses the largest `v` so far instead of `v` (Reddi et al. 2018, "On the Convergence of Adam
    /// and Beyond").
    pub fn amsgrad(self, amsgrad: bool) -> Self {
        Self { amsgrad, ..self }
    }
}

impl Arg for Adam {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_field("rate", &self.rate, sink);
        for fixed in [self.betas.0, self.betas.1, self.epsilon, self.weight_decay] {
            fixed.visit(sink);
        }
        [self.decoupled, self.amsgrad].visit(sink);
        visit_field("steps", &self.steps, sink);
        visit_field("first_moment", &self.first_moment, sink);
        visit_field("second_moment", &self.second_moment, sink);
        visit_field("largest", &self.largest, sink);
    }
}

impl Optimizer for Adam {
    fn prepare(&self, parameters: &[Parameter]) {
        self.first_moment.prepare(parameters);
        self.second_moment.prepare(parameters);
        if self.amsgrad {
            self.largest.prepare(parameters);
        }
    }

    fn update(&self, gradients: &Gradients) {
        self.prepare(gradients.parameters());
        let (b1, b2) = self.betas;
        let steps = self.steps.value() + 1;
        self.steps.set(&steps);
        let steps = steps.cast(DType::F64);
        // 1 - βᵗ, without the cancellation of a power that is near one.
        let correction = |beta: f64| -expm1(&steps * beta.ln());
        let (c1, c2) = (correction(b1), correction(b2));
        let rate = self.rate.value();
        let (step, root) = (&rate / c1, c2.sqrt());
        update_each(gradients, |parameter, mut value, mut gradient| {
            let dtype = value.dtype();
            let of = |it: &Tensor| it.cast(dtype);
            if self.decoupled {
                value = &value - &value * of(&(&rate * self.weight_decay));
            } else {
                gradient = decayed(&value, gradient, self.weight_decay);
            }
            let first = averaged(&self.first_moment.of(parameter), b1, &gradient);
            let mut second = averaged(&self.second_moment.of(parameter), b2, &gradient.square());
            if self.amsgrad {
                let largest = self.largest.of(parameter);
                second = maximum(&largest, &second);
                largest.set(&second);
            }
            let scale = second.sqrt() / of(&root) + self.epsilon;
            value - first * of(&step) / scale
        });
    }

    fn set_learning_rate(&self, rate: f64) {
        set_rate(&self.rate, "Adam", rate);
    }
}
