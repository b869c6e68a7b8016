//! Stochastic gradient descent, with and without momentum.

use super::hyperparameter::{LearningRate, Term, WeightDecay, weight_decay_methods};
use super::{State, UpdateRule};
use ms_core::error::raise;
use ms_core::ops::rules::Interval;
use ms_core::trace::{Arg, PerParameter, Sink};
use ms_core::{Code, Error, Parameter, Tensor, ops};
use ms_macros::cell;

/// Stochastic gradient descent: `p ← p - lr g`. With momentum, `v ← momentum v + (1 - dampening) g`, where `v = g` in
/// the first step, and `p ← p - lr v`. Nesterov's form is `p ← p - lr (g + momentum v)` (Sutskever et al. 2013, "On the
/// importance of initialization and momentum in deep learning"; in the formulation of PyTorch and MindSpore).
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = SGD::new(0.1).momentum(0.9);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.95).abs() < 1e-4);
/// ```
#[cell]
pub struct SGD {
    /// The name in error messages.
    #[cell(skip)]
    name: &'static str,
    /// The learning rate.
    pub rate: LearningRate,
    /// The momentum.
    pub momentum: Term,
    /// The dampening.
    pub dampening: Term,
    nesterov: bool,
    /// The weight decay.
    pub weight_decay: WeightDecay,
    velocity: State,
    /// Whether a parameter has a velocity, as 0 or 1, since the first gradient is not dampened.
    moving: State,
}

impl SGD {
    /// Creates plain gradient descent with this learning rate.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self::named("SGD", rate)
    }

    #[track_caller]
    fn named(name: &'static str, rate: f64) -> Self {
        Self {
            name,
            rate: LearningRate::new(name, rate),
            momentum: Term::new(name, "momentum", 0.0, &Interval::DECAY),
            dampening: Term::new(name, "dampening", 0.0, &Interval::SHARE),
            nesterov: false,
            weight_decay: WeightDecay::new(name, 0.0),
            velocity: State::zeros(),
            moving: State::scalars(),
        }
    }

    /// Sets the momentum.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `momentum` is at least zero and less than one.
    #[track_caller]
    pub fn momentum(self, momentum: f64) -> Self {
        Self { momentum: Term::new(self.name, "momentum", momentum, &Interval::DECAY), ..self }
    }

    /// Sets the dampening: gradients are multiplied by `1 - dampening` before they are added to the velocity.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `dampening` is from zero to one, and for a nonzero dampening with
    /// [`SGD::nesterov`].
    #[track_caller]
    pub fn dampening(self, dampening: f64) -> Self {
        Self { dampening: Term::new(self.name, "dampening", dampening, &Interval::SHARE), ..self }.undampened()
    }

    /// Sets whether Nesterov momentum is used. Without momentum, training raises [`Code::Argument`].
    ///
    /// # Panics
    /// Raises [`Code::Argument`] in combination with [`SGD::dampening`].
    #[track_caller]
    pub fn nesterov(self, nesterov: bool) -> Self {
        Self { nesterov, ..self }.undampened()
    }

    weight_decay_methods! {
        /// Adds `weight_decay p` to each gradient.
    }

    /// Checks that Nesterov momentum is not combined with dampening.
    #[track_caller]
    fn undampened(self) -> Self {
        if self.nesterov && self.dampening.is_present() {
            self.refuse_nesterov("dampening", self.dampening.get(), "0");
        }
        self
    }

    #[track_caller]
    #[cold]
    fn refuse_nesterov(&self, name: &str, value: f64, taken: &str) -> ! {
        let message = format!("with `nesterov`, `{name}` is {value}, but has to be {taken}");
        raise(Error::new(Code::Argument, message).with_op(self.name));
    }
}

/// The learning rate, the momentum, the dampening, and the weight decay.
type SGDStep = (Tensor, Option<Tensor>, Option<Tensor>, Option<Tensor>);

impl UpdateRule for SGD {
    type Step = SGDStep;

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> SGDStep {
        (self.rate.value(), self.momentum.value(), self.dampening.value(), self.weight_decay.value())
    }

    fn apply(&self, step: &SGDStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let (rate, momentum, dampening, decay) = step;
        let gradient = self.weight_decay.add(parameter, &value, gradient, decay);
        let Some(momentum) = momentum else { return value - gradient * rate };
        let velocity = self.velocity.of(parameter);
        let gradient = match dampening {
            None => gradient,
            Some(dampening) => {
                let moving = self.moving.of(parameter);
                let share = 1.0 - &moving * dampening;
                moving.set(&ops::ones_like(&share));
                gradient * share
            }
        };
        let next = ops::momentum_update(&value, &velocity.value(), &gradient, rate, momentum, self.nesterov);
        velocity.set(&next[1]);
        next[0].clone()
    }

    fn prepare_state(&self, parameters: &[Parameter]) {
        let is_moving = self.momentum.is_present();
        if self.nesterov && !is_moving {
            self.refuse_nesterov("momentum", self.momentum.get(), "above 0");
        }
        if is_moving {
            self.velocity.prepare(parameters);
            if self.dampening.is_present() {
                self.moving.prepare(parameters);
            }
        }
    }
}

/// [`SGD`] with momentum and without dampening, under MindSpore's name: `v ← momentum v + g`, `p ← p - lr v`.
/// Nesterov's form is `p ← p - lr (g + momentum v)`.
///
/// ```
/// use ms::{Gradients, prelude::*};
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = Momentum::new(0.1, 0.9).weight_decay(0.5);
/// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5]]));
/// assert!((weight.value().item::<f32>() - 0.9).abs() < 1e-4);
/// ```
pub struct Momentum(SGD);

impl Momentum {
    /// Creates gradient descent with this learning rate and momentum.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `rate` is at least zero and finite, and `momentum` at least zero and less than
    /// one.
    #[track_caller]
    pub fn new(rate: f64, momentum: f64) -> Self {
        Self(SGD::named("Momentum", rate).momentum(momentum))
    }

    /// Sets whether Nesterov momentum is used; see [`SGD::nesterov`].
    pub fn nesterov(self, nesterov: bool) -> Self {
        Self(self.0.nesterov(nesterov))
    }

    /// Adds `weight_decay p` to each gradient.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `weight_decay` is at least zero and finite.
    #[track_caller]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self(self.0.weight_decay(weight_decay))
    }

    /// Exempts these parameters from weight decay.
    pub fn without_decay_of(self, parameters: &[Parameter]) -> Self {
        Self(self.0.without_decay_of(parameters))
    }
}

impl std::ops::Deref for Momentum {
    type Target = SGD;

    fn deref(&self) -> &SGD {
        &self.0
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Momentum {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.0.visit(sink);
    }
}

impl UpdateRule for Momentum {
    type Step = SGDStep;

    fn learning_rate(&self) -> &LearningRate {
        self.0.learning_rate()
    }

    fn begin(&self) -> SGDStep {
        self.0.begin()
    }

    fn apply(&self, step: &SGDStep, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        self.0.apply(step, parameter, value, gradient)
    }

    fn prepare_state(&self, parameters: &[Parameter]) {
        self.0.prepare_state(parameters);
    }
}
