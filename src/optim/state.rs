//! State of optimisers: slots for each parameter, learning rates, counters.

use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::session::Gradients;
use ms_core::tensor::{WeakParameter, apart, is_apart};
use ms_core::trace::{Arg, Name, PerParameter, Sink};
use ms_core::{DType, Parameter, Tensor, ops};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A slot for each trained parameter, dropped together with the parameter.
pub struct State {
    /// Whether slots belong to the optimiser, and not to the function that made it.
    apart: bool,
    /// Whether a slot is one number rather than of the parameter's shape.
    scalar: bool,
    /// The initial value of slots.
    first: f64,
    /// Shared with readers, which keep the slots of the time when they read.
    slots: Mutex<Arc<Slots>>,
}

#[derive(Clone)]
struct Slots {
    all: Vec<(WeakParameter, Parameter)>,
    /// The index of the slot of a parameter, by its identity.
    places: HashMap<u64, usize>,
}

impl State {
    /// Slots of the parameter's shape, zero at first.
    pub fn zeros() -> Self {
        Self::filled(0.0)
    }

    /// Slots of the parameter's shape, filled with a value at first.
    pub fn filled(first: f64) -> Self {
        let slots = Mutex::new(Arc::new(Slots { all: Vec::new(), places: HashMap::new() }));
        Self { apart: is_apart(), scalar: false, first, slots }
    }

    /// Slots of one number each, zero at first.
    pub fn scalars() -> Self {
        Self { scalar: true, ..Self::zeros() }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Slots>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of a parameter that was prepared.
    pub fn of(&self, parameter: &Parameter) -> Parameter {
        let slots = self.lock();
        let place = slots.places.get(&parameter.id()).expect("`prepare` saw the parameter");
        slots.all[*place].1.clone()
    }
}

impl Arg for State {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.per_parameter(self);
        let slots = self.lock().clone();
        // There may be thousands, and a call that is signed takes no names.
        if !sink.takes_names() {
            slots.all.iter().for_each(|it| sink.parameter(&it.1));
            return;
        }
        for (place, (parameter, slot)) in slots.all.iter().enumerate() {
            // The slot of a dropped parameter is no state any more; the next `prepare` drops it.
            if let Some(parameter) = parameter.upgrade() {
                sink.begin(Name::Of(&parameter, place));
                sink.parameter(slot);
                sink.end();
            }
        }
    }
}

impl PerParameter for State {
    fn prepare(&self, parameters: &[Parameter]) {
        let mut slots = self.lock();
        // Every step prepares; only the first one finds parameters without slots.
        let all = &slots.all;
        if all.len() == parameters.len() && all.iter().zip(parameters).all(|(known, it)| known.0.id() == it.id()) {
            return;
        }
        let Slots { all, places } = Arc::make_mut(&mut slots);
        let before = all.len();
        for parameter in parameters {
            if places.contains_key(&parameter.id()) {
                continue;
            }
            let like = parameter.load();
            let shape = if self.scalar { &[] } else { like.shape() };
            let dtype = accumulator(like.dtype());
            let make = || Parameter::buffer(shape, dtype, || ops::full_of(shape, self.first, dtype));
            let own = if self.apart { apart(make) } else { make() };
            places.insert(parameter.id(), all.len());
            all.push((parameter.downgrade(), own));
        }
        if all.len() == before {
            return;
        }
        let gone: Vec<_> = all.extract_if(.., |it| !it.0.is_kept()).collect();
        if !gone.is_empty() {
            *places = all.iter().enumerate().map(|(place, it)| (it.0.id(), place)).collect();
        }
        // Observers of a dropped slot may access this state.
        drop(slots);
        drop(gone);
    }
}

/// Shows a field.
#[inline]
pub fn visit_field(name: &str, field: &impl Arg, sink: &mut Sink<'_>) {
    sink.begin(Name::Field(name));
    field.visit(sink);
    sink.end();
}

/// A hyper-parameter of an optimiser, checked to be in an interval.
///
/// # Panics
/// Raises [`ms_core::Code::Argument`] otherwise.
#[track_caller]
pub fn checked(optimizer: &str, name: &str, value: f64, interval: &Interval) -> f64 {
    check_interval(optimizer, name, value, interval).or_raise();
    value
}

/// The slot of a learning rate: in f64, so that it is precise enough for parameters of every dtype.
#[track_caller]
pub fn learning_rate(optimizer: &str, rate: f64) -> Parameter {
    checked(optimizer, "rate", rate, &Interval::RATE);
    Parameter::buffer([0usize; 0], DType::F64, || Tensor::from(rate))
}

/// Writes a learning rate into its slot.
#[track_caller]
pub fn set_rate(slot: &Parameter, optimizer: &str, rate: f64) {
    slot.set(&Tensor::from(checked(optimizer, "rate", rate, &Interval::RATE)));
}

/// The slot of a count of steps, zero at first.
pub fn count() -> Parameter {
    Parameter::buffer([0usize; 0], DType::I64, || Tensor::from(0i64))
}

/// The dtype in which parameters of a dtype are updated: averages of small numbers, and their
/// quotients, need f32 at least.
fn accumulator(dtype: DType) -> DType {
    if dtype.is_narrow_float() { dtype.compute() } else { dtype }
}

/// Replaces the value of each parameter by the result of `update` on it, its value and its
/// gradient, both in the dtype of its state.
pub fn update_each(gradients: &Gradients, update: impl Fn(&Parameter, Tensor, Tensor) -> Tensor) {
    for (parameter, gradient) in gradients.iter() {
        let value = parameter.value();
        let (dtype, wide) = (value.dtype(), accumulator(value.dtype()));
        let next = update(parameter, value.cast(wide), gradient.cast(wide));
        parameter.set(&next.cast(dtype));
    }
}

/// `gradient + decay value`.
pub fn decayed(value: &Tensor, gradient: Tensor, decay: f64) -> Tensor {
    if decay == 0.0 { gradient } else { gradient + value * decay }
}

/// `average ← rate average + (1 - rate) term`; returns its new value.
pub fn averaged(average: &Parameter, rate: f64, term: &Tensor) -> Tensor {
    let last = average.value();
    // In f32 `rate + (1 - rate)` is not one: an average of equal terms would not be that term.
    // The smaller of the two factors is the more precise one.
    let next = if rate >= 0.5 { &last + (term - &last) * (1.0 - rate) } else { term + (&last - term) * rate };
    average.set(&next);
    next
}
