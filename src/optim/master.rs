//! Copies of narrow parameters that take their updates.

use super::hyperparameter::LearningRate;
use super::rule::update_with;
use super::{Optimizer, State, UpdateRule};
use crate::prelude::cell;
use ms_core::Parameter;
use ms_core::session::Gradients;
use ms_core::trace::PerParameter;

/// An optimiser that keeps a copy in f32 of every parameter of f16 and bf16, updates the copy, and rounds
/// it to the parameter: updates that are smaller than the distance of two numbers of the parameter add up
/// (Micikevicius et al. 2018, "Mixed Precision Training"). The result of
/// [`Optimizer::master_weights`].
///
/// The copies are state of the optimiser: they begin with the values of the parameters when it first sees
/// them, and are in its checkpoints.
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
    /// The rule that updates the copies.
    pub rule: R,
    masters: State,
}

impl<R: UpdateRule> MasterWeights<R> {
    pub(super) fn new(rule: R) -> Self {
        Self { rule, masters: State::copies() }
    }

    /// The parameters that have copies.
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
