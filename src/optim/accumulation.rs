//! Gradient accumulation over micro-batches and over steps.

use super::Optimizer;
use super::hyperparameter::LearningRate;
use super::state::{State, count};
use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::check_positive;
use ms_core::session::Gradients;
use ms_core::trace::{Cell, PerParameter, Tree, cond, scan};
use ms_core::{Code, Error, Parameter, Tensor, ops};
use ms_macros::cell;

/// Computes the mean loss and the mean gradients over micro-batches.
#[track_caller]
pub(super) fn accumulate_micro_batches<O: Optimizer, C: Cell + 'static, B: Tree>(
    optimizer: &O,
    parts: usize,
    net: &C,
    batch: &B,
    loss: impl Fn(&C, &B) -> Tensor,
) -> (Tensor, Gradients) {
    check_positive("step_in_parts", "parts", parts).or_raise();
    let cut = batch.rebuild(&mut |it| split_batch(it, parts));
    let run = |part: &B| optimizer.differentiate(net, |net| (loss(net, part), ()));
    let parameters = net.trainable_parameters();
    let zeros: Vec<Tensor> = parameters.iter().map(|it| ops::zeros_like(it.value())).collect();
    // The dtype of the loss is known only inside of the function, so the loss is a scan output and not a carry.
    let add = |sums: &Vec<Tensor>, part: &B| {
        let ((loss, ()), gradients) = run(part);
        let sums = sums.iter().zip(gradients.iter()).map(|(sum, (_, it))| sum + it);
        (sums.collect::<Vec<_>>(), loss)
    };
    let (sums, losses) = scan(add, zeros, &cut);
    let means = sums.into_iter().map(|it| it / parts as f64).collect();
    (ops::mean(losses, ()), Gradients::new(parameters, means))
}

/// Reshapes `[n, ..]` to `[parts, n / parts, ..]`.
#[track_caller]
fn split_batch(x: &Tensor, parts: usize) -> Tensor {
    let mut dims = x.dims();
    let refuse = |what: String| -> ! {
        let error = Error::new(Code::Shape, what).with_op("step_in_parts").with_operands([x.ty().to_string()]);
        raise(error)
    };
    let Some(&all) = dims.first() else { refuse("a tensor of the batch has no axis to be cut along".into()) };
    if all.as_const().is_some_and(|it| it % parts != 0) {
        refuse(format!("a batch of {all} has no {parts} equal parts"));
    }
    dims[0] = all / parts;
    dims.insert(0, parts.into());
    x.reshape(&*dims)
}

/// An optimiser that updates in every `n`-th step only, with the mean gradients of the last `n` steps; the result of
/// [`Optimizer::accumulate`].
///
/// A [schedule](Optimizer::schedule) and an [average](Optimizer::average) count updates, whether they wrap this
/// optimiser or are inside it.
///
/// ```
/// use ms::prelude::*;
/// use ms::Gradients;
/// let weight = Parameter::new(tensor![1.0], "w");
/// let opt = SGD::new(1.0).accumulate(2);
/// let update = |g: f32| {
///     opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![g]]));
///     weight.value().item::<f32>()
/// };
/// assert_eq!([1.0, 3.0, 1.0, 1.0].map(update), [1.0, -1.0, -1.0, -2.0]);
/// ```
#[cell]
pub struct Accumulated<O> {
    /// The wrapped optimiser, which receives mean gradients.
    pub optimizer: O,
    every: usize,
    /// The number of steps since the last update.
    count: Parameter,
    sums: State,
}

impl<O: Optimizer> Accumulated<O> {
    #[track_caller]
    pub(super) fn new(optimizer: O, every: usize) -> Self {
        check_positive("accumulate", "steps", every).or_raise();
        Self { optimizer, every, count: count(), sums: State::zeros() }
    }
}

impl<O: Optimizer> Optimizer for Accumulated<O> {
    fn prepare(&self, parameters: &[Parameter]) {
        self.optimizer.prepare(parameters);
        self.sums.prepare(parameters);
    }

    fn updates(&self) -> Option<Tensor> {
        let own = (self.count.value() + 1).ge(self.every as i64);
        Some(match self.optimizer.updates() {
            Some(inner) => ops::logical_and(own, inner),
            None => own,
        })
    }

    fn differentiate<C, R, A>(&self, net: &C, loss: impl Fn(&C) -> (R, A)) -> ((R, A), Gradients)
    where
        C: Cell + 'static,
        R: Tree,
        A: Tree,
    {
        self.optimizer.differentiate(net, loss)
    }

    fn update(&self, gradients: &Gradients) {
        Optimizer::prepare(self, gradients.parameters());
        let count = self.count.value() + 1;
        self.count.set(&(&count % self.every as i64));
        for (parameter, gradient) in gradients.iter() {
            let sum = self.sums.of(parameter);
            let next = sum.value() + gradient.cast(sum.value().dtype());
            sum.set(&next);
        }
        let parameters = gradients.parameters();
        let update = |_: &()| {
            let sums: Vec<Parameter> = parameters.iter().map(|it| self.sums.of(it)).collect();
            let mean =
                |(sum, gradient): (&Parameter, &Tensor)| (sum.value() / self.every as f64).cast(gradient.dtype());
            let means = sums.iter().zip(gradients.iter().map(|it| it.1)).map(mean).collect();
            self.optimizer.update(&Gradients::new(parameters.to_vec(), means));
            sums.iter().for_each(|it| it.set(&ops::zeros_like(it.value())));
        };
        cond(count.ge(self.every as i64), update, |_| (), &());
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        self.optimizer.learning_rates()
    }
}
