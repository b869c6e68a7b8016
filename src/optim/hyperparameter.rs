//! Numbers of optimisers, in slots: compiled steps read them, so that changing one compiles nothing
//! again.

use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::tensor::{SlotId, WeakParameter};
use ms_core::trace::{Arg, Name, Sink};
use ms_core::{DType, Parameter, Tensor};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// A number of an optimiser, such as a momentum. A compiled step takes it as an input: another value
/// compiles nothing again. It is a part of checkpoints.
///
/// ```
/// use ms::prelude::*;
/// let opt = RMSProp::new(0.1);
/// opt.epsilon.set(1e-6);
/// assert_eq!(opt.epsilon.get(), 1e-6);
/// ```
pub struct Hyperparameter {
    owner: &'static str,
    name: &'static str,
    interval: &'static Interval,
    /// f64, so that it is precise enough for parameters of every dtype.
    slot: Parameter,
}

impl Hyperparameter {
    /// A number of the optimiser `owner`, which is checked to be in an interval.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] with both names for a number outside.
    #[track_caller]
    pub fn new(owner: &'static str, name: &'static str, value: f64, interval: &'static Interval) -> Self {
        check_interval(owner, name, value, interval).or_raise();
        let first = Tensor::from(value);
        let slot = Parameter::buffer([0usize; 0], DType::F64, || first);
        Self { owner, name, interval, slot }
    }

    /// The number.
    #[track_caller]
    pub fn get(&self) -> f64 {
        self.slot.load().item()
    }

    /// Sets the number.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a number outside of the interval.
    #[track_caller]
    pub fn set(&self, value: f64) {
        check_interval(self.owner, self.name, value, self.interval).or_raise();
        self.slot.set(&Tensor::from(value));
    }

    /// The number as an f64 tensor without dimensions: an input of the step that is being compiled.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        self.slot.value()
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Hyperparameter {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.parameter(&self.slot);
    }
}

/// The factor of a term that is absent from compiled steps while it is zero.
///
/// ```
/// use ms::prelude::*;
/// use ms::{ops::rules::Interval, optim::Term};
/// let decay = Term::new("MyRule", "decay", 0.0, &Interval::RATE);
/// assert!(decay.value().is_none());
/// decay.set(0.5);
/// assert_eq!(decay.value().map(|it| it.item::<f64>()), Some(0.5));
/// ```
pub struct Term {
    factor: Hyperparameter,
    /// The last value of the slot that was read, and whether it is not zero: reading a number waits for the
    /// device that it is on.
    known: Mutex<Option<(Tensor, bool)>>,
}

impl Term {
    /// A factor; see [`Hyperparameter::new`].
    ///
    /// # Panics
    /// As for [`Hyperparameter::new`].
    #[track_caller]
    pub fn new(owner: &'static str, name: &'static str, value: f64, interval: &'static Interval) -> Self {
        let factor = Hyperparameter::new(owner, name, value, interval);
        let known = Mutex::new(Some((factor.slot.load(), value != 0.0)));
        Self { factor, known }
    }

    /// Whether it is not zero.
    #[track_caller]
    pub fn is_present(&self) -> bool {
        let value = self.factor.slot.load();
        let address = |it: &Tensor| it.as_array().map(|it| (it.device(), it.device_ptr()));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            // Nobody writes memory that is known here.
            Some((seen, is_present)) if address(seen) == address(&value) => *is_present,
            _ => {
                let is_present = value.item::<f64>() != 0.0;
                *known = Some((value, is_present));
                is_present
            }
        }
    }

    /// The factor as an f64 tensor; `None` while it is zero.
    #[track_caller]
    pub fn value(&self) -> Option<Tensor> {
        self.is_present().then(|| self.factor.value())
    }
}

impl Deref for Term {
    type Target = Hyperparameter;

    fn deref(&self) -> &Hyperparameter {
        &self.factor
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Term {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.is_present().visit(sink);
        self.factor.visit(sink);
    }
}

/// The learning rate of an optimiser: the number that steps read, and the one that a
/// [`Schedule`](super::Schedule) computes it from.
///
/// ```
/// use ms::prelude::*;
/// let opt = SGD::new(0.1).schedule(StepDecay::new(1, 0.5));
/// let (net, x) = (nn::Dense::new(1, 1), tensor![[1.0]]);
/// for _ in 0..2 {
///     opt.step(&net, &x, |net, x| net.call(x).sum(()));
/// }
/// let rate = opt.learning_rates()[0];
/// assert_eq!((rate.base().get(), rate.get()), (0.1, 0.05));
/// ```
pub struct LearningRate {
    rate: Hyperparameter,
    base: Hyperparameter,
}

impl LearningRate {
    /// A rate of the optimiser `owner`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn new(owner: &'static str, rate: f64) -> Self {
        let base = Hyperparameter::new(owner, "rate", rate, &Interval::RATE);
        Self { rate: Hyperparameter::new(owner, "rate", rate, &Interval::RATE), base }
    }

    /// The rate of the next step; under a schedule, that of the last one.
    pub fn get(&self) -> f64 {
        self.rate.get()
    }

    /// Sets the rate; under a schedule, the rate from which it starts.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn set(&self, rate: f64) {
        self.rate.set(rate);
        self.base.set(rate);
    }

    /// The rate that was set.
    pub fn base(&self) -> &Hyperparameter {
        &self.base
    }

    /// The rate as an f64 tensor without dimensions.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        self.rate.value()
    }

    /// Writes the rate that a schedule computes.
    #[track_caller]
    pub(super) fn schedule(&self, rate: &Tensor) {
        self.rate.slot.set(rate);
    }
}

#[diagnostic::do_not_recommend]
impl Arg for LearningRate {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.rate.visit(sink);
        sink.begin(Name::Field("base"));
        self.base.visit(sink);
        sink.end();
    }
}

/// The decay of weights: a [`Term`], with parameters that it is not applied to.
///
/// ```
/// use ms::prelude::*;
/// use ms::optim::WeightDecay;
/// let (weight, decay) = (Parameter::new(tensor![2.0], "w"), WeightDecay::new("MyRule", 0.25));
/// let (gradient, factor) = (tensor![1.0], decay.value().map(|it| it.cast(DType::F32)));
/// assert_eq!(decay.add(&weight, &weight.value(), gradient, &factor).to_vec::<f32>(), [1.5]);
/// ```
pub struct WeightDecay {
    factor: Term,
    exempt: BTreeMap<SlotId, WeakParameter>,
}

impl WeightDecay {
    /// A decay of all parameters.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
    #[track_caller]
    pub fn new(owner: &'static str, factor: f64) -> Self {
        let factor = Term::new(owner, "weight_decay", factor, &Interval::RATE);
        Self { factor, exempt: BTreeMap::new() }
    }

    /// With another factor.
    #[track_caller]
    pub(super) fn with_factor(self, factor: f64) -> Self {
        Self { factor: Term::new(self.factor.owner, self.factor.name, factor, self.factor.interval), ..self }
    }

    /// Without these parameters.
    pub(super) fn without(mut self, parameters: &[Parameter]) -> Self {
        self.exempt.extend(parameters.iter().map(|it| (it.id(), it.downgrade())));
        self
    }

    /// The decay of a parameter, in the dtype of its state: `decay`, unless the parameter is exempt.
    pub fn of<'a>(&self, parameter: &Parameter, decay: &'a Option<Tensor>) -> Option<&'a Tensor> {
        decay.as_ref().filter(|_| !self.exempt.contains_key(&parameter.id()))
    }

    /// `term + decay parameter`, where the decay applies: `decay` is [`Term::value`] in the dtype of
    /// the parameter's state.
    pub fn add(&self, parameter: &Parameter, value: &Tensor, term: Tensor, decay: &Option<Tensor>) -> Tensor {
        match self.of(parameter, decay) {
            Some(decay) => term + value * decay,
            None => term,
        }
    }
}

impl Deref for WeightDecay {
    type Target = Term;

    fn deref(&self) -> &Term {
        &self.factor
    }
}

#[diagnostic::do_not_recommend]
impl Arg for WeightDecay {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.factor.visit(sink);
        self.exempt.len().visit(sink);
        for (place, (&id, parameter)) in self.exempt.iter().enumerate() {
            match parameter.upgrade() {
                Some(parameter) if sink.takes_names() => {
                    sink.begin(Name::Of(&parameter, place));
                    sink.end();
                }
                _ => sink.fixed(id),
            }
        }
    }
}

/// The builder methods of the field `weight_decay`, of which the first one is documented.
macro_rules! weight_decay_methods {
    ($(#[$doc:meta])*) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// Raises [`ms_core::Code::Argument`] unless it is at least zero and finite.
        #[track_caller]
        pub fn weight_decay(self, weight_decay: f64) -> Self {
            Self { weight_decay: self.weight_decay.with_factor(weight_decay), ..self }
        }

        /// Applies no weight decay to these parameters, such as biases and the factors of
        /// normalisations.
        pub fn without_decay_of(self, parameters: &[ms_core::Parameter]) -> Self {
            Self { weight_decay: self.weight_decay.without(parameters), ..self }
        }
    };
}
pub(super) use weight_decay_methods;
