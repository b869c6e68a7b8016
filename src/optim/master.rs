//! Master weights: f32 copies of f16 and bf16 parameters.

use super::hyperparameter::LearningRate;
use super::rule::update_with;
use super::{Optimizer, State, UpdateRule};
use ms_core::Parameter;
use ms_core::session::Gradients;
use ms_core::trace::PerParameter;
use ms_macros::cell;

/// An optimiser with master weights (Micikevicius et al. 2018, "Mixed Precision Training"); the result of
/// [`Optimizer::master_weights`]. It updates an f32 copy of every f16 and bf16 parameter, and rounds the copy to the
/// parameter. Updates that are smaller than the parameter's precision thereby add up.
///
/// The copies are optimiser state. They start with the values that parameters have when the optimiser first sees them,
/// and checkpoints include them.
///
/// ```
/// use ms::prelude::*;
/// use ms::Gradients;
/// let weight = Parameter::new(tensor![1.0].cast(DType::BF16), "w");
/// let opt = SGD::new(1.0).master_weights();
/// let step = || opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.001].cast(DType::BF16)]));
/// // The numbers below 1 are 1/256 apart.
/// (0..8).for_each(|_| step());
/// assert!((weight.value().item::<ms::tensor::bf16>().to_f32() - 0.992).abs() < 1.0 / 256.0);
/// assert!(weight.value().item::<ms::tensor::bf16>().to_f32() < 1.0);
/// ```
#[cell]
pub struct MasterWeights<R> {
    /// The update rule, which is applied to the copies.
    pub rule: R,
    masters: State,
}

impl<R: UpdateRule> MasterWeights<R> {
    pub(super) fn new(rule: R) -> Self {
        Self { rule, masters: State::copies() }
    }

    /// Returns the parameters that need a copy.
    fn narrow(parameters: &[Parameter]) -> Vec<Parameter> {
        parameters.iter().filter(|it| it.load().dtype().is_narrow_float()).cloned().collect()
    }
}

impl<R: UpdateRule> Optimizer for MasterWeights<R> {
    fn prepare(&self, parameters: &[Parameter]) {
        self.rule.prepare_state(parameters);
        PerParameter::prepare(&self.masters, &Self::narrow(parameters));
    }

    fn update(&self, gradients: &Gradients) {
        Optimizer::prepare(self, gradients.parameters());
        update_with(&self.rule, gradients, |it| it.load().dtype().is_narrow_float().then(|| self.masters.of(it)));
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        vec![self.rule.learning_rate()]
    }
}
