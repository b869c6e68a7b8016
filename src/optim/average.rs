//! Exponential moving averages of parameters.

use super::Optimizer;
use super::hyperparameter::{Hyperparameter, LearningRate};
use super::optimizer::differentiate_inside;
use super::state::{State, count};
use ms_core::ops::rules::Interval;
use ms_core::session::Gradients;
use ms_core::trace::{Cell, PerParameter};
use ms_core::{DType, Parameter, Tensor, ops};
use ms_macros::cell;

/// An optimiser that maintains the exponential moving average (EMA) of every parameter, `a ← decay a + (1 - decay) p`
/// after each update; the result of [`Optimizer::average`].
///
/// The average starts with the parameter's value after the first update, as in PyTorch's `AveragedModel` and
/// MindSpore's `EMA`. The initial value of a parameter never enters the average.
///
/// ```
/// use ms::prelude::*;
/// let (net, opt) = (nn::Dense::new(1, 1).without_bias(), SGD::new(1.0).average(0.75));
/// net.weight.set(&tensor![[4.0]]);
/// for (weight, average) in [(0.0, 0.0), (-4.0, -1.0)] {
///     opt.step(&net, &tensor![[4.0]], |net, x| net.call(x).sum(()));
///     assert_eq!(net.weight.value().item::<f32>(), weight);
///     assert_eq!(opt.average_of(&net.weight).item::<f32>(), average);
/// }
/// // Evaluates with the averages, then goes on with the weights.
/// let y = opt.with_averages(&net, || net.call(&tensor![[1.0]]));
/// assert_eq!((y.item::<f32>(), net.weight.value().item::<f32>()), (-1.0, -4.0));
/// ```
#[cell]
pub struct Averaged<O> {
    /// The wrapped optimiser, which updates the parameters.
    pub optimizer: O,
    /// The weight of the old average in each update.
    pub decay: Hyperparameter,
    averages: State,
    /// The number of updates so far.
    count: Parameter,
}

impl<O: Optimizer> Averaged<O> {
    #[track_caller]
    pub(super) fn new(optimizer: O, decay: f64) -> Self {
        let decay = Hyperparameter::new("average", "decay", decay, &Interval::DECAY);
        Self { optimizer, decay, averages: State::copies(), count: count() }
    }

    /// Returns the average of a parameter, in the dtype of the parameter.
    pub fn average_of(&self, parameter: &Parameter) -> Tensor {
        PerParameter::prepare(&self.averages, std::slice::from_ref(parameter));
        self.averages.of(parameter).value().cast(parameter.value().dtype())
    }

    /// Calls `f` while every trainable parameter of `net` has its averaged value.
    #[track_caller]
    pub fn with_averages<R>(&self, net: &impl Cell, f: impl FnOnce() -> R) -> R {
        struct Restore(Vec<(Parameter, Tensor)>);
        impl Drop for Restore {
            fn drop(&mut self) {
                for (parameter, value) in &self.0 {
                    parameter.store(value.clone());
                }
            }
        }
        let parameters = net.trainable_parameters();
        let _restore = Restore(parameters.iter().map(|it| (it.clone(), it.load())).collect());
        for parameter in &parameters {
            parameter.set(&self.average_of(parameter));
        }
        f()
    }
}

impl<O: Optimizer> Optimizer for Averaged<O> {
    fn prepare(&self, parameters: &[Parameter]) {
        self.optimizer.prepare(parameters);
        self.averages.prepare(parameters);
    }

    differentiate_inside!();

    fn update(&self, gradients: &Gradients) {
        self.averages.prepare(gradients.parameters());
        let (updates, count) = (self.optimizer.updates(), self.count.value());
        self.optimizer.update(gradients);
        let (share, is_first) = (1.0 - self.decay.value(), count.eq(0));
        for parameter in gradients.parameters() {
            let average = self.averages.of(parameter);
            let last = average.value();
            let value = parameter.value().cast(last.dtype());
            let next = &last + (&value - &last) * share.cast(last.dtype());
            let next = ops::select(&is_first, &value, next);
            average.set(&match &updates {
                Some(updates) => ops::select(updates, next, last),
                None => next,
            });
        }
        self.count.set(&match updates {
            Some(updates) => count + updates.cast(DType::I64),
            None => count + 1,
        });
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        self.optimizer.learning_rates()
    }
}
