//! Update rules: optimisers that update one parameter at a time.

use super::hyperparameter::LearningRate;
use super::optimizer::Optimizer;
use super::state::accumulator;
use ms_core::session::Gradients;
use ms_core::trace::{Arg, PerParameter, Sink, Tree, Visitor};
use ms_core::{DType, Parameter, Tensor};

/// The update of one parameter. Every rule is an [`Optimizer`]. A user-defined optimiser needs only this trait and
/// `#[cell]` on its struct:
///
/// ```
/// use ms::optim::{Hyperparameter, LearningRate, State, UpdateRule};
/// use ms::{ops::rules::Interval, prelude::*};
///
/// /// `v ← momentum v + sign(g)`, `p ← p - lr v`.
/// #[cell]
/// struct SignDescent {
///     rate: LearningRate,
///     momentum: Hyperparameter,
///     velocity: State,
/// }
///
/// impl UpdateRule for SignDescent {
///     type Step = [Tensor; 2];
///
///     fn learning_rate(&self) -> &LearningRate {
///         &self.rate
///     }
///
///     fn begin(&self) -> [Tensor; 2] {
///         [self.rate.value(), self.momentum.value()]
///     }
///
///     fn apply(&self, step: &[Tensor; 2], parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
///         let [rate, momentum] = step;
///         let velocity = self.velocity.of(parameter);
///         let next = &velocity * momentum + ops::sign(gradient);
///         velocity.set(&next);
///         value - next * rate
///     }
/// }
///
/// let opt = SignDescent {
///     rate: LearningRate::new("SignDescent", 0.1),
///     momentum: Hyperparameter::new("SignDescent", "momentum", 0.5, &Interval::DECAY),
///     velocity: State::zeros(),
/// };
/// let (net, batch) = (nn::Dense::new(1, 1).without_bias(), tensor![[2.0]]);
/// net.weight.set(&tensor![[1.0]]);
/// for _ in 0..2 {
///     opt.step(&net, &batch, |net, x| net.call(x).sum(()));
/// }
/// assert!((net.weight.value().item::<f32>() - 0.75).abs() < 1e-6);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no optimiser",
    note = "implement `ms::optim::UpdateRule` for it, or `ms::optim::Optimizer`"
)]
pub trait UpdateRule: Arg {
    /// The values that all parameters share in a step, such as learning rates and bias corrections.
    type Step: Tree;

    /// Returns the learning rate.
    fn learning_rate(&self) -> &LearningRate;

    /// Begins a step: advances counters, and returns the shared values in f64.
    #[track_caller]
    fn begin(&self) -> Self::Step;

    /// Returns the new value of a parameter. All tensors, including those of `step`, have the dtype of the parameter's
    /// state. It is the dtype of the parameter, or f32 for f16 and bf16.
    #[track_caller]
    fn apply(&self, step: &Self::Step, parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor;

    /// Creates missing state for these parameters; by default, all of it.
    #[track_caller]
    fn prepare_state(&self, parameters: &[Parameter]) {
        prepare_all(self, parameters);
    }
}

/// Creates missing state for these parameters, wherever it is in a value.
pub(super) fn prepare_all(value: &(impl Arg + ?Sized), parameters: &[Parameter]) {
    struct Prepare<'a>(&'a [Parameter]);
    impl Visitor for Prepare<'_> {
        fn tensor(&mut self, _: &Tensor) {}
        fn parameter(&mut self, _: &Parameter) {}
        fn fixed(&mut self, _: u64) {}
        fn per_parameter(&mut self, state: &dyn PerParameter) -> bool {
            state.prepare(self.0);
            false
        }
    }
    value.visit(&mut Sink::new(&mut Prepare(parameters)));
}

impl<R: UpdateRule> Optimizer for R {
    fn prepare(&self, parameters: &[Parameter]) {
        self.prepare_state(parameters);
    }

    fn update(&self, gradients: &Gradients) {
        self.prepare_state(gradients.parameters());
        update_with(self, gradients, |_| None);
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        vec![self.learning_rate()]
    }
}

/// Applies a rule to every parameter that has a gradient, or to its master copy in `master`, if there is one.
#[track_caller]
pub(super) fn update_with<R: UpdateRule>(
    rule: &R,
    gradients: &Gradients,
    master: impl Fn(&Parameter) -> Option<Parameter>,
) {
    let step = rule.begin();
    let mut steps: Vec<(DType, R::Step)> = Vec::new();
    for (parameter, gradient) in gradients.iter() {
        let master = master(parameter);
        let value = parameter.value();
        let (dtype, wide) = (value.dtype(), accumulator(value.dtype()));
        if !steps.iter().any(|it| it.0 == wide) {
            steps.push((wide, step.rebuild(&mut |it| it.cast(wide))));
        }
        let (_, step) = steps.iter().find(|it| it.0 == wide).expect("added above");
        let value = master.as_ref().map_or_else(|| value.cast(wide), Parameter::value);
        let next = rule.apply(step, parameter, value, gradient.cast(wide));
        if let Some(master) = master {
            master.set(&next);
        }
        parameter.set(&next.cast(dtype));
    }
}
