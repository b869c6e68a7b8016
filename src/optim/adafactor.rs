//! The Adafactor optimiser.

use super::hyperparameter::{Hyperparameter, LearningRate, WeightDecay, weight_decay_methods};
use super::state::{averaged, count};
use super::{State, UpdateRule};
use ms_core::ops::rules::Interval;
use ms_core::trace::PerParameter;
use ms_core::{DType, Parameter, Tensor, ops};
use ms_macros::{Tree, cell};

/// Adafactor (Shazeer and Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", algorithms 4 and
/// 5), as in PyTorch. With `β = 1 - t^-decay` for step `t`:
///
/// - For matrices, only averages over rows and columns are stored: `r ← β r + (1 - β) mean(g², columns)`,
///   `c ← β c + (1 - β) mean(g², rows)`, and `v = r c / mean(r)`.
/// - For other parameters, all squares are averaged: `v ← β v + (1 - β) g²`.
/// - With `u = g / sqrt(v)`, the update is `p ← p - α u / max(1, rms(u) / clip)`, where `rms` is the root mean square
///   and `α = max(ε, rms(p)) min(lr, 1 / sqrt(t))`.
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = Adafactor::new(0.1);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.9).abs() < 1e-4);
/// ```
#[cell]
pub struct Adafactor {
    /// The learning rate.
    pub rate: LearningRate,
    /// The exponent of the step number; PyTorch's `-beta2_decay`.
    pub decay: Hyperparameter,
    /// The lower bound of a parameter's root mean square.
    pub epsilon: Hyperparameter,
    /// The root mean square above which an update is scaled down.
    pub clip: Hyperparameter,
    /// The weight decay.
    pub weight_decay: WeightDecay,
    /// The number of steps.
    steps: Parameter,
    rows: State,
    columns: State,
    squares: State,
}

impl Adafactor {
    /// Creates the optimiser with `decay = 0.8`, `ε = 1e-3`, `clip = 1` and no weight decay.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self {
            rate: LearningRate::new("Adafactor", rate),
            decay: Hyperparameter::new("Adafactor", "decay", 0.8, &Interval::RATE),
            epsilon: Hyperparameter::new("Adafactor", "epsilon", 1e-3, &Interval::POSITIVE),
            clip: Hyperparameter::new("Adafactor", "clip", 1.0, &Interval::POSITIVE),
            weight_decay: WeightDecay::new("Adafactor", 0.0),
            steps: count(),
            rows: State::shaped(|shape| [&shape[..shape.len() - 1], &[1]].concat()),
            columns: State::shaped(|shape| {
                let (last, rest) = shape.split_last().expect("matrices have axes");
                [&rest[..rest.len() - 1], &[1, *last]].concat()
            }),
            squares: State::zeros(),
        }
    }

    /// Sets the exponent of the step number.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `decay` is at least zero and finite.
    #[track_caller]
    pub fn decay(self, decay: f64) -> Self {
        Self { decay: Hyperparameter::new("Adafactor", "decay", decay, &Interval::RATE), ..self }
    }

    /// Sets `ε`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `epsilon` is positive and finite.
    #[track_caller]
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self { epsilon: Hyperparameter::new("Adafactor", "epsilon", epsilon, &Interval::POSITIVE), ..self }
    }

    /// Sets the root mean square above which an update is scaled down.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `clip` is positive and finite.
    #[track_caller]
    pub fn clip(self, clip: f64) -> Self {
        Self { clip: Hyperparameter::new("Adafactor", "clip", clip, &Interval::POSITIVE), ..self }
    }

    weight_decay_methods! {
        /// Subtracts `lr weight_decay p` from each parameter before the update.
    }
}

/// The shared values of a step of [`Adafactor`].
#[derive(Clone, Tree)]
pub struct AdafactorStep {
    /// `min(lr, 1 / sqrt(t))`.
    rate: Tensor,
    /// `t^-decay`.
    share: Tensor,
    epsilon: Tensor,
    clip: Tensor,
    /// `-lr weight_decay`.
    decay: Option<Tensor>,
}

fn is_matrix(shape: &[usize]) -> bool {
    shape.len() > 1
}

/// Returns the machine epsilon of a float dtype.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f32::EPSILON as f64,
    }
}

/// Computes the root mean square.
fn rms(x: &Tensor) -> Tensor {
    ops::mean(x.square(), ()).sqrt()
}

impl UpdateRule for Adafactor {
    type Step = AdafactorStep;

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> AdafactorStep {
        let steps = self.steps.value() + 1;
        self.steps.set(&steps);
        let (steps, rate) = (steps.cast(DType::F64), self.rate.value());
        AdafactorStep {
            share: ops::pow(&steps, -self.decay.value()),
            epsilon: self.epsilon.value(),
            clip: self.clip.value(),
            decay: self.weight_decay.value().map(|it| -(it * &rate)),
            rate: ops::minimum(rate, 1.0 / steps.sqrt()),
        }
    }

    fn apply(&self, step: &AdafactorStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let length = rms(&value);
        let value = self.weight_decay.add(parameter, &value, value.clone(), &step.decay);
        // PyTorch also uses the machine epsilon of the parameter's dtype.
        let least = least(parameter.load().dtype());
        let variance = if is_matrix(gradient.shape()) {
            let rows =
                averaged(&self.rows.of(parameter), &step.share, &ops::mean(gradient.square(), ops::keepdims(-1)));
            let columns =
                averaged(&self.columns.of(parameter), &step.share, &ops::mean(gradient.square(), ops::keepdims(-2)));
            let mean = ops::maximum(ops::mean(&rows, ops::keepdims(-2)), least);
            rows * columns / mean
        } else {
            averaged(&self.squares.of(parameter), &step.share, &gradient.square())
        };
        let direction = gradient / ops::maximum(variance, least * least).sqrt();
        let alpha = ops::maximum(length, &step.epsilon) * &step.rate;
        let shorter = ops::maximum(rms(&direction) / &step.clip, 1.0);
        value - direction * (alpha / shorter)
    }

    fn prepare_state(&self, parameters: &[Parameter]) {
        let is_factored = |it: &Parameter| is_matrix(it.load().shape());
        let (matrices, others): (Vec<_>, Vec<_>) = parameters.iter().cloned().partition(is_factored);
        self.rows.prepare(&matrices);
        self.columns.prepare(&matrices);
        self.squares.prepare(&others);
    }
}
