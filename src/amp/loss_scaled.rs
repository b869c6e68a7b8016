//! Optimisers that differentiate a scaled loss.

use super::LossScaler;
use crate::ops;
use crate::optim::optimizer::check_loss;
use crate::optim::{LearningRate, Optimizer};
use ms_core::ops::FloatStatus;
use ms_core::session::{Gradients, value_and_grad};
use ms_core::trace::{Cell, Tree, cond};
use ms_core::{Parameter, Tensor};
use ms_macros::cell;

/// An optimiser with loss scaling, created by [`Optimizer::loss_scale`].
///
/// A step multiplies the loss by a factor before differentiation, and divides the gradients by it. A step with
/// gradients that are not finite changes no parameter.
///
/// A training loop with `value_and_grad` calls [`Optimizer::differentiate`] instead, and then [`Optimizer::update`],
/// which takes unscaled gradients.
///
/// ```
/// use ms::{Gradients, amp::DynamicLossScaler, prelude::*};
/// let (weight, opt) = (Parameter::new(tensor![1.0], "w"), SGD::new(0.5).loss_scale(DynamicLossScaler::new(4.0)));
/// let update = |gradient: f32| opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![gradient]]));
/// update(f32::INFINITY);
/// assert_eq!(weight.value().to_vec::<f32>(), [1.0]);
/// update(1.0);
/// assert_eq!(weight.value().to_vec::<f32>(), [0.5]);
/// ```
#[cell]
pub struct LossScaled<O, S> {
    /// The wrapped optimiser, which receives unscaled gradients.
    pub optimizer: O,
    /// The loss scaler.
    pub scaler: S,
    status: FloatStatus,
}

impl<O: Optimizer, S: LossScaler> LossScaled<O, S> {
    pub(crate) fn new(optimizer: O, scaler: S) -> Self {
        Self { optimizer, scaler, status: FloatStatus::alloc() }
    }

    /// Returns a `bool[]`: whether all elements of the gradients are finite.
    #[track_caller]
    fn are_finite(&self, gradients: &Gradients) -> Tensor {
        self.status.clear();
        // The status inspects results of ops, so an op is applied; `|x|` is finite exactly where `x` is.
        gradients.iter().for_each(|(_, gradient)| drop(ops::abs(gradient)));
        self.status.get().at(0).eq(0.0)
    }
}

impl<O: Optimizer, S: LossScaler> Optimizer for LossScaled<O, S> {
    fn prepare(&self, parameters: &[Parameter]) {
        self.optimizer.prepare(parameters);
    }

    fn differentiate<C, R, A>(&self, net: &C, loss: impl Fn(&C) -> (R, A)) -> ((R, A), Gradients)
    where
        C: Cell + 'static,
        R: Tree,
        A: Tree,
    {
        let scale = self.scaler.scale();
        let multiple = |net: &C| {
            let (result, aux) = loss(net);
            check_loss(&result);
            (result.rebuild(&mut |it| it * &scale), (result, aux))
        };
        let ((_, results), gradients) = value_and_grad(multiple).has_aux()(net);
        // Gradients of f16 are unscaled in f32, where small values do not underflow.
        let share = 1.0 / scale;
        let divided = gradients.iter().map(|(_, it)| ops::mul(it, &share)).collect();
        (results, Gradients::new(gradients.parameters().to_vec(), divided))
    }

    fn updates(&self) -> Option<Tensor> {
        self.optimizer.updates()
    }

    fn update(&self, gradients: &Gradients) {
        Optimizer::prepare(self, gradients.parameters());
        let finite = self.are_finite(gradients);
        cond(&finite, |_| self.optimizer.update(gradients), |_| (), &());
        self.scaler.adjust(&finite);
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        self.optimizer.learning_rates()
    }
}
