//! Hyperparameters of optimisers. Compiled steps read them from slots, so a change needs no recompilation.

use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::tensor::{SlotId, WeakParameter};
use ms_core::trace::{Arg, Name, Sink};
use ms_core::{DType, Parameter, Tensor};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// A number of an optimiser, such as a momentum. A compiled step takes it as an input, so a new value needs no
/// recompilation. Checkpoints include it.
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
    /// An f64, which is precise enough for parameters of every dtype.
    slot: Parameter,
}

impl Hyperparameter {
    /// Creates a hyperparameter `name` of the optimiser `owner`, and checks that its value is in `interval`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] with both names for a value outside of the interval.
    #[track_caller]
    pub fn new(owner: &'static str, name: &'static str, value: f64, interval: &'static Interval) -> Self {
        check_interval(owner, name, value, interval).or_raise();
        let first = Tensor::from(value);
        let slot = Parameter::buffer([0usize; 0], DType::F64, || first);
        Self { owner, name, interval, slot }
    }

    /// Returns the value.
    #[track_caller]
    pub fn get(&self) -> f64 {
        self.slot.load().item()
    }

    /// Sets the value.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a value outside of the interval.
    #[track_caller]
    pub fn set(&self, value: f64) {
        check_interval(self.owner, self.name, value, self.interval).or_raise();
        self.slot.set(&Tensor::from(value));
    }

    /// Returns the value as an f64 tensor of rank 0: an input of the step that is being compiled.
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

/// A factor of an optional term. While it is zero, compiled steps omit the term.
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
    /// The last value that was read from the slot, and whether it is not zero. Reading a number waits for its device.
    known: Mutex<Option<(Tensor, bool)>>,
}

impl Term {
    /// Creates a factor; see [`Hyperparameter::new`].
    ///
    /// # Panics
    /// Raises the errors of [`Hyperparameter::new`].
    #[track_caller]
    pub fn new(owner: &'static str, name: &'static str, value: f64, interval: &'static Interval) -> Self {
        let factor = Hyperparameter::new(owner, name, value, interval);
        let known = Mutex::new(Some((factor.slot.load(), value != 0.0)));
        Self { factor, known }
    }

    /// Returns whether the factor is not zero.
    #[track_caller]
    pub fn is_present(&self) -> bool {
        let value = self.factor.slot.load();
        let address = |it: &Tensor| it.as_array().map(|it| (it.device(), it.device_ptr()));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            // The cached tensor owns its memory, so an equal address means an unchanged value.
            Some((seen, is_present)) if address(seen) == address(&value) => *is_present,
            _ => {
                let is_present = value.item::<f64>() != 0.0;
                *known = Some((value, is_present));
                is_present
            }
        }
    }

    /// Returns the factor as an f64 tensor, or `None` while it is zero.
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

/// The learning rate of an optimiser: the current rate, which steps read, and the base rate, from which a
/// [`Schedule`](super::Schedule) computes it.
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
    /// Creates a learning rate of the optimiser `owner`.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(owner: &'static str, rate: f64) -> Self {
        let base = Hyperparameter::new(owner, "rate", rate, &Interval::RATE);
        Self { rate: Hyperparameter::new(owner, "rate", rate, &Interval::RATE), base }
    }

    /// Returns the learning rate of the next step, or of the last step if there is a schedule.
    pub fn get(&self) -> f64 {
        self.rate.get()
    }

    /// Sets the learning rate; with a schedule, the base rate.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn set(&self, rate: f64) {
        self.rate.set(rate);
        self.base.set(rate);
    }

    /// Returns the base rate.
    pub fn base(&self) -> &Hyperparameter {
        &self.base
    }

    /// Returns the learning rate as an f64 tensor of rank 0.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        self.rate.value()
    }

    /// Stores the rate that a schedule computed.
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

/// Weight decay: a [`Term`] with a list of exempt parameters.
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
    /// Creates a weight decay that applies to all parameters.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `factor` is at least zero and finite.
    #[track_caller]
    pub fn new(owner: &'static str, factor: f64) -> Self {
        let factor = Term::new(owner, "weight_decay", factor, &Interval::RATE);
        Self { factor, exempt: BTreeMap::new() }
    }

    /// Returns the weight decay with a new factor.
    #[track_caller]
    pub(super) fn with_factor(self, factor: f64) -> Self {
        Self { factor: Term::new(self.factor.owner, self.factor.name, factor, self.factor.interval), ..self }
    }

    /// Returns the weight decay without these parameters.
    pub(super) fn without(mut self, parameters: &[Parameter]) -> Self {
        self.exempt.extend(parameters.iter().map(|it| (it.id(), it.downgrade())));
        self
    }

    /// Returns `decay`, the factor in the dtype of the state, unless the parameter is exempt.
    pub fn of<'a>(&self, parameter: &Parameter, decay: &'a Option<Tensor>) -> Option<&'a Tensor> {
        decay.as_ref().filter(|_| !self.exempt.contains_key(&parameter.id()))
    }

    /// Returns `term + decay parameter`, or `term` if the parameter is exempt. `decay` is [`Term::value`] in the dtype
    /// of the parameter's state.
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

/// Generates the builder methods of the field `weight_decay`; the caller documents the first one.
macro_rules! weight_decay_methods {
    ($(#[$doc:meta])*) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// Raises [`ms_core::Code::Argument`] unless `weight_decay` is at least zero and finite.
        #[track_caller]
        pub fn weight_decay(self, weight_decay: f64) -> Self {
            Self { weight_decay: self.weight_decay.with_factor(weight_decay), ..self }
        }

        /// Exempts these parameters from weight decay, such as biases and the scales of normalisations.
        pub fn without_decay_of(self, parameters: &[ms_core::Parameter]) -> Self {
            Self { weight_decay: self.weight_decay.without(parameters), ..self }
        }
    };
}
pub(super) use weight_decay_methods;
