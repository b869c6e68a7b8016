//! Averages of parameters.

use super::Optimizer;
use super::hyperparameter::{Hyperparameter, LearningRate};
use super::optimizer::differentiate_inside;
use super::state::{State, averaged};
use crate::prelude::cell;
use ms_core::ops::rules::Interval;
use ms_core::session::Gradients;
use ms_core::trace::{Cell, PerParameter};
use ms_core::{Parameter, Tensor};

/// An optimiser that also keeps the exponential moving average of every parameter,
/// `a ← decay a + (1 - decay) p` after each update, which starts at the parameter's value before
/// the first one: the result of [`Optimizer::average`].
///
/// ```
/// use ms::prelude::*;
/// let (net, opt) = (nn::Dense::new(1, 1).without_bias(), SGD::new(1.0).average(0.75));
/// net.weight.set(&tensor![[4.0]]);
/// opt.step(&net, &tensor![[4.0]], |net, x| net.call(x).sum(()));
/// assert_eq!(net.weight.value().item::<f32>(), 0.0);
/// assert_eq!(opt.average_of(&net.weight).item::<f32>(), 3.0);
/// // Evaluates with the averages, then goes on with the weights.
/// let y = opt.with_averages(&net, || net.call(&tensor![[1.0]]));
/// assert_eq!((y.item::<f32>(), net.weight.value().item::<f32>()), (3.0, 0.0));
/// ```
#[cell]
pub struct Averaged<O> {
    /// The optimiser that updates the parameters.
    pub optimizer: O,
    /// The share of the old average in each update.
    pub decay: Hyperparameter,
    averages: State,
}

impl<O: Optimizer> Averaged<O> {
    #[track_caller]
    pub(super) fn new(optimizer: O, decay: f64) -> Self {
        let decay = Hyperparameter::new("average", "decay", decay, &Interval::DECAY);
        Self { optimizer, decay, averages: State::copies() }
    }

    /// The average of a parameter, in the dtype of the parameter.
    pub fn average_of(&self, parameter: &Parameter) -> Tensor {
        PerParameter::prepare(&self.averages, std::slice::from_ref(parameter));
        self.averages.of(parameter).value().cast(parameter.value().dtype())
    }

    /// The result of `f` while every trainable parameter of `net` has the value of its average.
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
        self.optimizer.update(gradients);
        let share = 1.0 - self.decay.value();
        for parameter in gradients.parameters() {
            let average = self.averages.of(parameter);
            let dtype = average.value().dtype();
            averaged(&average, &share.cast(dtype), &parameter.value().cast(dtype));
        }
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        self.optimizer.learning_rates()
    }
}
