//! Gradient hooks.

use super::Optimizer;
use super::hyperparameter::LearningRate;
use super::optimizer::differentiate_inside;
use ms_core::session::Gradients;
use ms_core::{Parameter, Tensor};
use ms_macros::cell;

/// An optimiser that passes gradients through a function first; the result of [`Optimizer::hook`].
///
/// See the example of [`Optimizer::hook`].
#[cell]
pub struct Hooked<O, F> {
    /// The wrapped optimiser, which receives the new gradients.
    pub optimizer: O,
    // A hook captures nothing, so its type, which is part of every compile key, identifies it.
    #[cell(skip)]
    hook: F,
}

impl<O: Optimizer, F: Fn(&Parameter, &Tensor) -> Tensor> Hooked<O, F> {
    pub(super) fn new(optimizer: O, hook: F) -> Self {
        const { assert!(size_of::<F>() == 0, "the hook captures a value, which would be a constant of the graph") }
        Self { optimizer, hook }
    }
}

impl<O: Optimizer, F: Fn(&Parameter, &Tensor) -> Tensor> Optimizer for Hooked<O, F> {
    fn prepare(&self, parameters: &[Parameter]) {
        self.optimizer.prepare(parameters);
    }

    differentiate_inside!();

    fn update(&self, gradients: &Gradients) {
        let hooked = gradients.iter().map(|(parameter, gradient)| (self.hook)(parameter, gradient));
        self.optimizer.update(&Gradients::new(gradients.parameters().to_vec(), hooked.collect()));
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        self.optimizer.learning_rates()
    }
}
