//! Optimiser state: slots for each parameter, and step counters.

use ms_core::tensor::{WeakParameter, is_outside_functions, outside_functions};
use ms_core::trace::{Arg, Name, PerParameter, Sink};
use ms_core::{DType, Parameter, Tensor, ops};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A slot for each trained parameter. It is created when the parameter is first trained, and dropped with the
/// parameter. See the example of [`UpdateRule`](super::UpdateRule).
pub struct State {
    /// Whether slots belong to the optimiser, and not to the function that created them.
    owned_by_optimizer: bool,
    /// Computes the shape of a slot from the shape of its parameter.
    shape: Box<ShapeOf>,
    first: Initial,
    /// The slots, shared with readers. A reader sees the slots that existed when it began.
    slots: Mutex<Arc<Slots>>,
}

/// Computes the shape of a slot from the shape of its parameter.
type ShapeOf = dyn Fn(&[usize]) -> Vec<usize> + Send + Sync;

/// The initial value of a slot.
enum Initial {
    /// A number that fills the slot.
    Filled(f64),
    /// The value of the parameter.
    Copied,
}

#[derive(Clone)]
struct Slots {
    all: Vec<(WeakParameter, Parameter)>,
    /// The index of a parameter's slot, by the parameter's id.
    places: HashMap<u64, usize>,
}

impl State {
    /// Creates state with the parameter's shape, initially zero.
    pub fn zeros() -> Self {
        Self::filled(0.0)
    }

    /// Creates state with the parameter's shape, initially filled with a number.
    pub fn filled(first: f64) -> Self {
        Self::new(<[usize]>::to_vec, Initial::Filled(first))
    }

    /// Creates state that is initially a copy of the parameter.
    pub fn copies() -> Self {
        Self::new(<[usize]>::to_vec, Initial::Copied)
    }

    /// Creates state of one number for each parameter, initially zero.
    pub fn scalars() -> Self {
        Self::shaped(|_| Vec::new())
    }

    /// Creates state with a shape that depends on the parameter's shape, initially zero.
    pub fn shaped(shape: impl Fn(&[usize]) -> Vec<usize> + Send + Sync + 'static) -> Self {
        Self::new(shape, Initial::Filled(0.0))
    }

    fn new(shape: impl Fn(&[usize]) -> Vec<usize> + Send + Sync + 'static, first: Initial) -> Self {
        let slots = Mutex::new(Arc::new(Slots { all: Vec::new(), places: HashMap::new() }));
        Self { owned_by_optimizer: is_outside_functions(), shape: Box::new(shape), first, slots }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Slots>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the slot of a parameter.
    ///
    /// # Panics
    /// Panics unless the parameter was prepared. An [`UpdateRule`](super::UpdateRule) prepares all state unless it
    /// overrides `prepare_state`.
    pub fn of(&self, parameter: &Parameter) -> Parameter {
        let slots = self.lock();
        let place = slots.places.get(&parameter.id()).expect("the parameter was prepared");
        slots.all[*place].1.clone()
    }
}

#[diagnostic::do_not_recommend]
impl Arg for State {
    fn visit(&self, sink: &mut Sink<'_>) {
        if !sink.per_parameter(self) {
            return;
        }
        let slots = self.lock().clone();
        // A signature needs no names, and there may be thousands of slots.
        if !sink.takes_names() {
            slots.all.iter().for_each(|it| sink.parameter(&it.1));
            return;
        }
        for (place, (parameter, slot)) in slots.all.iter().enumerate() {
            // The slot of a dropped parameter is no longer state; the next `prepare` drops it.
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
        // Every step prepares, but only the first one finds parameters without slots.
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
            let (shape, dtype) = ((self.shape)(like.shape()), accumulator(like.dtype()));
            let first = || match self.first {
                Initial::Filled(first) => ops::full_of(&*shape, first, dtype),
                Initial::Copied => like.cast(dtype),
            };
            let make = || Parameter::buffer(&*shape, dtype, first);
            let own = if self.owned_by_optimizer { outside_functions(make) } else { make() };
            places.insert(parameter.id(), all.len());
            all.push((parameter.downgrade(), own));
        }
        if all.len() == before {
            return;
        }
        let gone: Vec<_> = all.extract_if(.., |it| !it.0.is_alive()).collect();
        if !gone.is_empty() {
            *places = all.iter().enumerate().map(|(place, it)| (it.0.id(), place)).collect();
        }
        // Observers of a dropped slot may access this state, so the lock is released first.
        drop(slots);
        drop(gone);
    }
}

/// Returns the dtype in which parameters of a dtype are updated: averages of small numbers, and their quotients, need
/// at least f32.
pub(super) fn accumulator(dtype: DType) -> DType {
    if dtype.is_narrow_float() { dtype.compute() } else { dtype }
}

/// Updates `average ← average + share (term - average)` and returns the new value. With `share = 1 - β` this is
/// `β average + (1 - β) term`. An average of equal terms is exactly that term.
///
/// ```
/// use ms::{optim::averaged, prelude::*};
/// let average = Parameter::new(tensor![1.0], "average");
/// assert_eq!(averaged(&average, &tensor![0.25], &tensor![5.0]).to_vec::<f32>(), [2.0]);
/// assert_eq!(average.value().to_vec::<f32>(), [2.0]);
/// ```
pub fn averaged(average: &Parameter, share: &Tensor, term: &Tensor) -> Tensor {
    let last = average.value();
    let next = &last + (term - &last) * share;
    average.set(&next);
    next
}

/// Creates the slot of a step counter, initially zero.
pub(super) fn count() -> Parameter {
    Parameter::buffer([0usize; 0], DType::I64, || Tensor::from(0i64))
}

/// Computes `1 - βᵗ` for step number `t` in f64, without the cancellation of a power near one.
pub(super) fn bias_correction(beta: &Tensor, t: &Tensor) -> Tensor {
    -ops::expm1(t * beta.log())
}
