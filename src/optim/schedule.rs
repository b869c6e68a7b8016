//! Learning-rate schedules.

use super::Optimizer;
use super::hyperparameter::LearningRate;
use super::optimizer::differentiate_inside;
use super::state::count;
use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_interval, check_positive};
use ms_core::session::Gradients;
use ms_core::trace::{Arg, Sink};
use ms_core::{DType, Parameter, Tensor, ops};
use ms_macros::{Static, cell};
use std::f64::consts::PI;

/// A learning rate as a function of the step number. It is compiled into the step, so it also works in loops of
/// compiled functions.
///
/// [`Optimizer::schedule`] applies a schedule. [`schedule_fn`] creates one from a function.
///
/// ```
/// use ms::prelude::*;
/// /// Doubles the rate every ten steps.
/// #[cell]
/// struct Growing;
/// impl Schedule for Growing {
///     fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
///         base * ops::pow(2.0, ops::floor(step / 10.0))
///     }
/// }
/// assert_eq!([0, 9, 10].map(|step| Growing.at(0.5, step)), [0.5, 0.5, 1.0]);
/// ```
pub trait Schedule: Arg {
    /// Returns the learning rate of step number `step`, starting from 0, for the base rate `base`. All are f64 tensors
    /// of rank 0.
    #[track_caller]
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor;

    /// Evaluates [`Schedule::rate`] on host numbers.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!([0, 1, 2, 4].map(|step| StepDecay::new(2, 0.5).at(1.0, step)), [1.0, 1.0, 0.5, 0.25]);
    /// ```
    fn at(&self, base: f64, step: u64) -> f64 {
        self.rate(&Tensor::from(base), &Tensor::from(step as f64)).item()
    }
}

/// An optimiser with scheduled learning rates; the result of [`Optimizer::schedule`].
///
/// ```
/// use ms::prelude::*;
/// let opt = SGD::new(1.0).schedule(StepDecay::new(1, 0.5));
/// let (net, x) = (nn::Dense::new(1, 1).without_bias(), tensor![[1.0]]);
/// net.weight.set(&tensor![[0.0]]);
/// for _ in 0..2 {
///     opt.step(&net, &x, |net, x| net.call(x).sum(()));
/// }
/// assert_eq!(net.weight.value().item::<f32>(), -1.5);
/// ```
#[cell]
pub struct Scheduled<O, S> {
    /// The wrapped optimiser, which receives the rates.
    pub optimizer: O,
    schedule: S,
    /// The number of updates so far.
    steps: Parameter,
}

impl<O: Optimizer, S: Schedule> Scheduled<O, S> {
    pub(super) fn new(optimizer: O, schedule: S) -> Self {
        Self { optimizer, schedule, steps: count() }
    }
}

impl<O: Optimizer, S: Schedule> Optimizer for Scheduled<O, S> {
    fn prepare(&self, parameters: &[Parameter]) {
        self.optimizer.prepare(parameters);
    }

    differentiate_inside!();

    fn update(&self, gradients: &Gradients) {
        let steps = self.steps.value();
        let updates = self.optimizer.updates();
        self.steps.set(&match updates {
            Some(updates) => &steps + updates.cast(DType::I64),
            None => &steps + 1,
        });
        let steps = steps.cast(DType::F64);
        for rate in self.optimizer.learning_rates() {
            rate.schedule(&self.schedule.rate(&rate.base().value(), &steps));
        }
        self.optimizer.update(gradients);
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        self.optimizer.learning_rates()
    }
}

#[track_caller]
fn checked(schedule: &str, name: &str, value: f64, interval: &Interval) -> f64 {
    check_interval(schedule, name, value, interval).or_raise();
    value
}

#[track_caller]
fn positive(schedule: &str, name: &str, steps: u64) -> u64 {
    check_positive(schedule, name, steps as usize).or_raise();
    steps
}

/// Returns the fraction of `steps` that is complete, at most one.
fn progress(step: &Tensor, steps: u64) -> Tensor {
    ops::minimum(step / steps as f64, 1.0)
}

/// Returns `factor^n`.
fn power(factor: f64, n: Tensor) -> Tensor {
    ops::pow(Tensor::from(factor), n)
}

/// A step decay `base factor^floor(t / every)`, like PyTorch's `StepLR`.
///
/// ```
/// use ms::prelude::*;
/// let schedule = StepDecay::new(2, 0.5);
/// assert_eq!([0, 1, 2, 4].map(|step| schedule.at(1.0, step)), [1.0, 1.0, 0.5, 0.25]);
/// ```
#[derive(Clone, Debug, Static)]
pub struct StepDecay {
    every: u64,
    factor: f64,
}

impl StepDecay {
    /// Creates a schedule that multiplies the rate by `factor` after every `every` steps.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] if `every` is zero, and for a factor that is negative or not finite.
    #[track_caller]
    pub fn new(every: u64, factor: f64) -> Self {
        let factor = checked("StepDecay", "factor", factor, &Interval::RATE);
        Self { every: positive("StepDecay", "every", every), factor }
    }
}

impl Schedule for StepDecay {
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
        base * power(self.factor, ops::floor(step / self.every as f64))
    }
}

/// A decay `base factor^n` after `n` of the milestones, like PyTorch's `MultiStepLR`.
///
/// ```
/// use ms::prelude::*;
/// let schedule = MultiStepDecay::new([2, 3], 0.5);
/// assert_eq!([0, 1, 2, 3, 4].map(|step| schedule.at(1.0, step)), [1.0, 1.0, 0.5, 0.25, 0.25]);
/// ```
#[derive(Clone, Debug, Static)]
pub struct MultiStepDecay {
    milestones: Vec<u64>,
    factor: f64,
}

impl MultiStepDecay {
    /// Creates a schedule that multiplies the rate by `factor` at each of these steps.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a factor that is negative or not finite.
    #[track_caller]
    pub fn new(milestones: impl Into<Vec<u64>>, factor: f64) -> Self {
        let factor = checked("MultiStepDecay", "factor", factor, &Interval::RATE);
        Self { milestones: milestones.into(), factor }
    }
}

impl Schedule for MultiStepDecay {
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
        let passed = self.milestones.iter().map(|&it| step.ge(it as f64).cast(DType::F64));
        let passed = passed.reduce(|sum, it| sum + it).unwrap_or_else(|| Tensor::from(0.0f64));
        base * power(self.factor, passed)
    }
}

/// An exponential decay `base factor^t`, like PyTorch's `ExponentialLR`.
///
/// ```
/// use ms::prelude::*;
/// let schedule = ExponentialDecay::new(0.5);
/// assert_eq!([0, 1, 2].map(|step| schedule.at(1.0, step)), [1.0, 0.5, 0.25]);
/// ```
#[derive(Clone, Debug, Static)]
pub struct ExponentialDecay {
    factor: f64,
}

impl ExponentialDecay {
    /// Creates a schedule that multiplies the rate by `factor` after every step.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a factor that is negative or not finite.
    #[track_caller]
    pub fn new(factor: f64) -> Self {
        Self { factor: checked("ExponentialDecay", "factor", factor, &Interval::RATE) }
    }
}

impl Schedule for ExponentialDecay {
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
        base * power(self.factor, step.clone())
    }
}

/// A cosine decay `min + (base - min) (1 + cos(π t / steps)) / 2` up to `steps`, and `min` afterwards, like PyTorch's
/// `CosineAnnealingLR` (Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", without
/// restarts).
///
/// ```
/// use ms::prelude::*;
/// let schedule = CosineDecay::new(10).min(0.25);
/// let rates = [0, 5, 10, 20].map(|step| schedule.at(1.25, step));
/// assert!(rates.iter().zip([1.25, 0.75, 0.25, 0.25]).all(|(a, b)| (a - b).abs() < 1e-9));
/// ```
#[derive(Clone, Debug, Static)]
pub struct CosineDecay {
    steps: u64,
    min: f64,
}

impl CosineDecay {
    /// Creates a decay to zero over `steps` steps.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero steps.
    #[track_caller]
    pub fn new(steps: u64) -> Self {
        Self { steps: positive("CosineDecay", "steps", steps), min: 0.0 }
    }

    /// Sets the final learning rate.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `min` is at least zero and finite.
    #[track_caller]
    pub fn min(self, min: f64) -> Self {
        Self { min: checked("CosineDecay", "min", min, &Interval::RATE), ..self }
    }
}

/// Interpolates along half a cosine: `from` at progress 0, and `to` at 1.
fn anneal(from: &Tensor, to: &Tensor, progress: Tensor) -> Tensor {
    to + (from - to) * ((ops::cos(progress * PI) + 1.0) / 2.0)
}

impl Schedule for CosineDecay {
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
        anneal(base, &Tensor::from(self.min), progress(step, self.steps))
    }
}

/// A polynomial decay `end + (base - end) (1 - t / steps)^power` up to `steps`, and `end` afterwards. With `end = 0` it
/// is PyTorch's `PolynomialLR`.
///
/// ```
/// use ms::prelude::*;
/// let schedule = PolynomialDecay::new(4, 1.0).end(0.5);
/// assert_eq!([0, 2, 4, 8].map(|step| schedule.at(1.0, step)), [1.0, 0.75, 0.5, 0.5]);
/// ```
#[derive(Clone, Debug, Static)]
pub struct PolynomialDecay {
    steps: u64,
    power: f64,
    end: f64,
}

impl PolynomialDecay {
    /// Creates a decay to zero over `steps` steps.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero steps, and for a power that is not positive.
    #[track_caller]
    pub fn new(steps: u64, power: f64) -> Self {
        let power = checked("PolynomialDecay", "power", power, &Interval::POSITIVE);
        Self { steps: positive("PolynomialDecay", "steps", steps), power, end: 0.0 }
    }

    /// Sets the final learning rate.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `end` is at least zero and finite.
    #[track_caller]
    pub fn end(self, end: f64) -> Self {
        Self { end: checked("PolynomialDecay", "end", end, &Interval::RATE), ..self }
    }
}

impl Schedule for PolynomialDecay {
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
        let left = 1.0 - progress(step, self.steps);
        (base - self.end) * ops::pow(left, self.power) + self.end
    }
}

/// A constant learning rate: the base rate in every step.
///
/// ```
/// use ms::{optim::Constant, prelude::*};
/// assert_eq!(Constant.at(0.1, 1000), 0.1);
/// ```
#[derive(Clone, Debug, Default, Static)]
pub struct Constant;

impl Schedule for Constant {
    fn rate(&self, base: &Tensor, _: &Tensor) -> Tensor {
        base.clone()
    }
}

/// A linear warm-up from a fraction of the base rate to the base rate, followed by another schedule, like PyTorch's
/// `LinearLR` in a `SequentialLR`. Steps of the second schedule are counted from the end of the warm-up.
///
/// ```
/// use ms::prelude::*;
/// let schedule = WarmUp::new(2).then(ExponentialDecay::new(0.5));
/// assert_eq!([0, 1, 2, 3].map(|step| schedule.at(1.0, step)), [0.0, 0.5, 1.0, 0.5]);
/// ```
#[derive(Clone, Debug, Static)]
pub struct WarmUp<S = Constant> {
    steps: u64,
    from: f64,
    then: S,
}

impl WarmUp {
    /// Creates a warm-up from zero over `steps` steps.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero steps.
    #[track_caller]
    pub fn new(steps: u64) -> Self {
        Self { steps: positive("WarmUp", "steps", steps), from: 0.0, then: Constant }
    }
}

impl<S: Schedule> WarmUp<S> {
    /// Sets the initial fraction of the base rate.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `from` is from zero to one.
    #[track_caller]
    pub fn from(self, from: f64) -> Self {
        Self { from: checked("WarmUp", "from", from, &Interval::SHARE), ..self }
    }

    /// Sets the schedule that follows.
    pub fn then<T: Schedule>(self, then: T) -> WarmUp<T> {
        WarmUp { steps: self.steps, from: self.from, then }
    }
}

impl<S: Schedule + Clone> Schedule for WarmUp<S> {
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
        let rising = base * (progress(step, self.steps) * (1.0 - self.from) + self.from);
        // A schedule may be undefined for negative steps.
        let after = ops::maximum(step - self.steps as f64, 0.0);
        ops::select(step.lt(self.steps as f64), rising, self.then.rate(base, &after))
    }
}

/// The one-cycle schedule (Smith and Topin 2018, "Super-Convergence: Very Fast Training of Neural Networks Using Large
/// Learning Rates"). The rate rises from `base / 25` to the base rate in the first 30 % of the steps, then falls to
/// `base / 250 000`, along half cosines. This is PyTorch's `OneCycleLR` in two phases, without its cycle of momenta.
///
/// ```
/// use ms::prelude::*;
/// let schedule = OneCycle::new(10);
/// let rates = [0, 2, 9].map(|step| schedule.at(1.0, step));
/// assert!(rates.iter().zip([1.0 / 25.0, 1.0, 1.0 / 250_000.0]).all(|(a, b)| (a - b).abs() < 1e-9));
/// ```
#[derive(Clone, Debug, Static)]
pub struct OneCycle {
    steps: u64,
    rising: f64,
    start: f64,
    end: f64,
}

impl OneCycle {
    /// Creates a cycle of `steps` steps.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero steps.
    #[track_caller]
    pub fn new(steps: u64) -> Self {
        Self { steps: positive("OneCycle", "steps", steps), rising: 0.3, start: 25.0, end: 1e4 }
    }

    /// Sets the fraction of the steps in which the rate rises.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `share` is from zero to one.
    #[track_caller]
    pub fn rising(self, share: f64) -> Self {
        Self { rising: checked("OneCycle", "share", share, &Interval::SHARE), ..self }
    }

    /// Sets the divisors: the initial rate is `base / start`, and the final one is `base / start / end`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless both are positive and finite.
    #[track_caller]
    pub fn divisors(self, start: f64, end: f64) -> Self {
        let start = checked("OneCycle", "start", start, &Interval::POSITIVE);
        Self { start, end: checked("OneCycle", "end", end, &Interval::POSITIVE), ..self }
    }
}

impl Schedule for OneCycle {
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
        let (peak, last) = (self.rising * self.steps as f64 - 1.0, self.steps as f64 - 1.0);
        let (first, end) = (base / self.start, base / (self.start * self.end));
        let falling = ops::minimum((step - peak) / (last - peak).max(f64::MIN_POSITIVE), 1.0);
        let down = anneal(base, &end, falling);
        if peak <= 0.0 {
            return down;
        }
        ops::select(step.le(peak), anneal(&first, base, step / peak), down)
    }
}

/// A [`Schedule`] defined by a function; the result of [`schedule_fn`].
///
/// See the example of [`schedule_fn`].
pub struct ScheduleFn<F>(F);

/// Creates a schedule from a function of the base rate and the step number. The function captures nothing (checked at
/// compile time).
///
/// ```
/// use ms::{optim::schedule_fn, prelude::*};
/// let inverse = schedule_fn(|base, step| base / (step + 1.0));
/// assert_eq!(inverse.at(1.0, 3), 0.25);
/// ```
pub fn schedule_fn<F: Fn(&Tensor, &Tensor) -> Tensor>(f: F) -> ScheduleFn<F> {
    const { assert!(size_of::<F>() == 0, "the schedule captures a value, which would be a constant of the graph") }
    ScheduleFn(f)
}

#[diagnostic::do_not_recommend]
impl<F> Arg for ScheduleFn<F> {
    fn visit(&self, _: &mut Sink<'_>) {}
}

impl<F: Fn(&Tensor, &Tensor) -> Tensor> Schedule for ScheduleFn<F> {
    fn rate(&self, base: &Tensor, step: &Tensor) -> Tensor {
        (self.0)(base, step)
    }
}
