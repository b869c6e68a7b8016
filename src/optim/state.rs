//! What optimisers keep for each parameter.

use ms_core::Parameter;
use ms_core::ops;
use ms_core::trace::{Arg, Sink};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `N` slots for each trained parameter, of its type and zero at first.
pub struct State<const N: usize>(Mutex<Vec<(Parameter, [Parameter; N])>>);

impl<const N: usize> State<N> {
    /// No slots yet.
    pub fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Parameter, [Parameter; N])>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the slots of those parameters that have none.
    pub fn prepare<'a>(&self, parameters: impl IntoIterator<Item = &'a Parameter>) {
        let mut all = self.lock();
        let mut known: std::collections::HashSet<u64> = all.iter().map(|it| it.0.id()).collect();
        for parameter in parameters {
            if known.insert(parameter.id()) {
                let zeros = || ops::zeros_like(parameter.load());
                let ty = parameter.load();
                let slots = std::array::from_fn(|_| Parameter::init("", ty.shape(), ty.dtype(), zeros));
                slots.iter().for_each(|it| it.set_requires_grad(false));
                all.push((parameter.clone(), slots));
            }
        }
    }

    /// The slots of a parameter that was prepared.
    pub fn of(&self, parameter: &Parameter) -> [Parameter; N] {
        let all = self.lock();
        let found = all.iter().find(|it| it.0 == *parameter);
        found.expect("`prepare` saw the parameter").1.clone()
    }
}

impl<const N: usize> Arg for State<N> {
    fn visit(&self, sink: &mut dyn Sink) {
        for (_, slots) in self.lock().iter() {
            slots.iter().for_each(|it| sink.parameter(it));
        }
    }
}

/// The slot of a learning rate.
pub fn rate(rate: f64) -> Parameter {
    let slot = Parameter::init("", (), ms_core::DType::F32, || ms_core::Tensor::scalar(rate));
    slot.set_requires_grad(false);
    slot
}

/// `gradient + decay value`.
pub fn decayed(value: &ms_core::Tensor, gradient: &ms_core::Tensor, decay: f64) -> ms_core::Tensor {
    if decay == 0.0 { gradient.clone() } else { gradient + value * decay }
}
