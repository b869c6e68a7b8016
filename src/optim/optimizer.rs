//! The optimiser trait and compiled training steps.

use super::accumulation::Accumulated;
use super::average::Averaged;
use super::clip::{Clip, Clipped};
use super::hook::Hooked;
use super::hyperparameter::LearningRate;
use super::master::MasterWeights;
use super::rule::UpdateRule;
use super::schedule::{Schedule, Scheduled};
use crate::amp::{LossScaled, LossScaler};
use ms_core::error::{in_call, raise};
use ms_core::session::{Gradients, JitFn, JitReturn, captures_nothing, type_key, value_and_grad};
use ms_core::tensor::is_host_only;
use ms_core::trace::{Arg, Cell, Tree, TypeKey, leaves, scan};
use ms_core::{Code, Error, Parameter, Tensor};
use std::panic::Location;

/// Updates parameters from their gradients.
///
/// The algorithms are [rules](super::UpdateRule) for one parameter. An optimiser that changes gradients or
/// hyperparameters wraps another optimiser, and compiles into the same graph:
///
/// ```
/// use ms::prelude::*;
/// let opt = Adam::new(1e-2).clip_by_global_norm(1.0).schedule(CosineDecay::new(1000)).average(0.999);
/// let net = nn::Dense::new(3, 1);
/// let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
/// let before = opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
/// let after = opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
/// assert!(after.item::<f32>() < before.item::<f32>());
/// ```
pub trait Optimizer: Arg {
    /// Creates missing state for these parameters. [`Optimizer::update`] does so too.
    #[track_caller]
    fn prepare(&self, parameters: &[Parameter]);

    /// Updates every parameter that has a gradient.
    #[track_caller]
    fn update(&self, gradients: &Gradients);

    /// Computes a loss with auxiliary results, and the gradients of the loss for [`Optimizer::update`].
    /// [`Optimizer::loss_scale`] differentiates a multiple of the loss instead.
    #[track_caller]
    fn differentiate<C, R, A>(&self, net: &C, loss: impl Fn(&C) -> (R, A)) -> ((R, A), Gradients)
    where
        Self: Sized,
        C: Cell + 'static,
        R: Tree,
        A: Tree,
    {
        let of_one_number = |net: &C| {
            let (result, aux) = loss(net);
            check_loss(&result);
            (result, aux)
        };
        value_and_grad(of_one_number).has_aux()(net)
    }

    /// Returns whether the next [`Optimizer::update`] changes parameters, a `bool[]`, or `None` if every update does.
    /// [Schedules] and [averages] around an optimiser count these updates. Their order with an
    /// [accumulation](Optimizer::accumulate) therefore does not matter.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert!(SGD::new(0.1).updates().is_none());
    /// let opt = SGD::new(0.1).accumulate(2).clip_by_value(1.0);
    /// assert!(!opt.updates().expect("it accumulates").item::<bool>());
    /// ```
    ///
    /// [Schedules]: Optimizer::schedule
    /// [averages]: Optimizer::average
    fn updates(&self) -> Option<Tensor> {
        None
    }

    /// Returns the learning rates: one, or one for each parameter group.
    fn learning_rates(&self) -> Vec<&LearningRate>;

    /// Sets every learning rate, without recompilation of compiled steps.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let opt = Adam::new(1e-3);
    /// opt.set_learning_rate(1e-4);
    /// assert_eq!(opt.learning_rates()[0].get(), 1e-4);
    /// ```
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a rate that is negative or not finite.
    #[track_caller]
    fn set_learning_rate(&self, rate: f64) {
        for it in self.learning_rates() {
            it.set(rate);
        }
    }

    /// Runs one training step, compiled as one graph: forward, backward, update. Returns the scalar loss
    /// `loss(net, batch)` before the update.
    ///
    /// `loss` captures nothing (checked at compile time). Its data is passed in `batch`, so no captured batch can
    /// become a constant of the graph. Inside a `#[jit]` function, the step is part of that function, which may declare
    /// [symbolic sizes](macro@crate::jit) with `dims`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let net = nn::Dense::new(3, 1);
    /// let opt = SGD::new(0.1);
    /// let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
    /// let before = opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
    /// let after = opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
    /// assert!(after.item::<f32>() < before.item::<f32>());
    /// ```
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Shape`] for a loss with several elements. Reduce it by `.mean(())` or `.sum(())`.
    #[track_caller]
    fn step<C: Cell + 'static, B: Arg, F: Fn(&C, &B) -> Tensor>(&self, net: &C, batch: &B, loss: F) -> Tensor
    where
        Self: Sized,
    {
        const { captures_nothing(size_of::<F>() != 0) }
        static STEP: JitFn = JitFn::new("Optimizer::step", file!(), line!(), 0);
        let key = type_key(&(&loss, std::marker::PhantomData::<Self>));
        compiled(&STEP, key, self, net, batch, &(), |batch| self.step_eagerly(net, batch, loss))
    }

    /// Runs one training step eagerly; see [`Optimizer::step`].
    #[track_caller]
    fn step_eagerly<C: Cell + 'static, B: Arg, R: Tree>(&self, net: &C, batch: &B, loss: impl Fn(&C, &B) -> R) -> R
    where
        Self: Sized,
    {
        let here = Location::caller();
        let step = || {
            let of_one_number = |net: &C| {
                let loss = loss(net, batch);
                check_loss_at(&loss, here);
                (loss, ())
            };
            let ((loss, ()), gradients) = self.differentiate(net, of_one_number);
            self.update(&gradients);
            loss
        };
        // Asynchronous device errors are reported at the caller's line.
        if is_host_only() { step() } else { in_call("Optimizer::step_eagerly", None, here, step) }
    }

    /// Runs one training step with a function that returns the loss and auxiliary results, such as predictions or
    /// metrics. Auxiliary results are not differentiated. See [`Optimizer::step`].
    ///
    /// ```
    /// use ms::prelude::*;
    /// let (net, opt) = (nn::Dense::new(3, 2), SGD::new(0.1));
    /// let batch = (Tensor::ones([4, 3]), tensor![0, 1, 0, 1]);
    /// let (loss, logits) = opt.step_with_aux(&net, &batch, |net, (x, y)| {
    ///     let logits = net.call(x);
    ///     (ops::cross_entropy(&logits, y), logits)
    /// });
    /// assert_eq!((loss.shape().len(), logits.shape()), (0, &[4, 2][..]));
    /// ```
    #[track_caller]
    fn step_with_aux<C, B, A, F>(&self, net: &C, batch: &B, loss: F) -> (Tensor, A)
    where
        Self: Sized,
        C: Cell + 'static,
        B: Arg,
        A: Tree + Send + Sync + 'static,
        F: Fn(&C, &B) -> (Tensor, A),
    {
        const { captures_nothing(size_of::<F>() != 0) }
        static STEP: JitFn = JitFn::new("Optimizer::step_with_aux", file!(), line!(), 0);
        let key = type_key(&(&loss, std::marker::PhantomData::<Self>));
        compiled(&STEP, key, self, net, batch, &(), |batch| {
            let (result, gradients) = self.differentiate(net, |net| loss(net, batch));
            self.update(&gradients);
            result
        })
    }

    /// Runs one training step over `parts` micro-batches, with the mean of their losses and gradients; see
    /// [`Optimizer::step`]. The tensors of the batch are split along their first axis. For a mean loss, this is the
    /// step of the whole batch, but only the activations of one micro-batch are in memory.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let (net, opt) = (nn::Dense::new(3, 1), SGD::new(0.1));
    /// let batch = (Tensor::ones([8, 3]), Tensor::zeros([8, 1]));
    /// let loss = opt.step_in_parts(4, &net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
    /// assert_eq!(loss.shape().len(), 0);
    /// ```
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero parts, and [`ms_core::Code::Shape`] if `parts` does not divide the
    /// batch.
    #[track_caller]
    fn step_in_parts<C, B, F>(&self, parts: usize, net: &C, batch: &B, loss: F) -> Tensor
    where
        Self: Sized,
        C: Cell + 'static,
        B: Tree,
        F: Fn(&C, &B) -> Tensor,
    {
        const { captures_nothing(size_of::<F>() != 0) }
        static STEP: JitFn = JitFn::new("Optimizer::step_in_parts", file!(), line!(), 0);
        let key = type_key(&(&loss, std::marker::PhantomData::<Self>));
        compiled(&STEP, key, self, net, batch, &parts, |batch| {
            let (loss, gradients) = super::accumulation::accumulate_micro_batches(self, parts, net, batch, loss);
            self.update(&gradients);
            loss
        })
    }

    /// Runs several [steps](Optimizer::step) as one graph, one for each index of the first axis of all tensors in
    /// `batches`. Returns the losses, each before its update.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let (net, opt) = (nn::Dense::new(3, 1), SGD::new(0.1));
    /// let batches = (Tensor::ones([5, 4, 3]), Tensor::zeros([5, 4, 1]));
    /// let losses = opt.steps(&net, &batches, |net, (x, y)| ops::mse_loss(&net.call(x), y)).to_vec::<f32>();
    /// assert!(losses.len() == 5 && losses[4] < losses[0]);
    /// ```
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Shape`] if the first axes of the tensors differ.
    #[track_caller]
    fn steps<C, B, F>(&self, net: &C, batches: &B, loss: F) -> Tensor
    where
        Self: Sized,
        C: Cell + 'static,
        B: Tree,
        F: Fn(&C, &B) -> Tensor,
    {
        const { captures_nothing(size_of::<F>() != 0) }
        static STEPS: JitFn = JitFn::new("Optimizer::steps", file!(), line!(), 0);
        let key = type_key(&(&loss, std::marker::PhantomData::<Self>));
        compiled(&STEPS, key, self, net, batches, &(), |batches| {
            scan(|(), batch: &B| ((), self.step_eagerly(net, batch, &loss)), (), batches).1
        })
    }

    /// Clips every element of a gradient to `±limit`.
    ///
    /// ```
    /// use ms::{Gradients, prelude::*};
    /// let weight = Parameter::new(tensor![0.0, 0.0], "w");
    /// SGD::new(1.0).clip_by_value(1.0).update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5, -3.0]]));
    /// assert_eq!(weight.value().to_vec::<f32>(), [-0.5, 1.0]);
    /// ```
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the limit is positive and finite.
    #[track_caller]
    fn clip_by_value(self, limit: f64) -> Clipped<Self>
    where
        Self: Sized,
    {
        Clipped::new(self, Clip::Value, limit)
    }

    /// Scales each gradient with a norm above `limit` down to that norm.
    ///
    /// See the example of [`Clip`].
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the limit is positive and finite.
    #[track_caller]
    fn clip_by_norm(self, limit: f64) -> Clipped<Self>
    where
        Self: Sized,
    {
        Clipped::new(self, Clip::Norm, limit)
    }

    /// Scales all gradients together if the norm of all their elements exceeds `limit`, like PyTorch's
    /// `clip_grad_norm_`.
    ///
    /// See the example of [`Clip`].
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the limit is positive and finite.
    #[track_caller]
    fn clip_by_global_norm(self, limit: f64) -> Clipped<Self>
    where
        Self: Sized,
    {
        Clipped::new(self, Clip::GlobalNorm, limit)
    }

    /// Replaces every gradient by the result of `hook` on the parameter and the gradient. A hook captures nothing
    /// (checked at compile time).
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::Gradients;
    /// let weight = Parameter::new(tensor![1.0, 1.0], "w");
    /// let opt = SGD::new(1.0).hook(|_, gradient| ops::sign(gradient));
    /// opt.update(&Gradients::new(vec![weight.clone()], vec![tensor![0.5, -3.0]]));
    /// assert_eq!(weight.value().to_vec::<f32>(), [0.0, 2.0]);
    /// ```
    fn hook<F: Fn(&Parameter, &Tensor) -> Tensor>(self, hook: F) -> Hooked<Self, F>
    where
        Self: Sized,
    {
        Hooked::new(self, hook)
    }

    /// Computes the learning rates of every step from the base rates and the number of steps so far. With an
    /// [accumulation](Optimizer::accumulate) inside or outside, updates are counted instead of steps.
    ///
    /// See the example of [`Scheduled`].
    fn schedule<S: Schedule>(self, schedule: S) -> Scheduled<Self, S>
    where
        Self: Sized,
    {
        Scheduled::new(self, schedule)
    }

    /// Maintains an exponential moving average of every parameter. It starts with the value after the first update.
    ///
    /// See the example of [`Averaged`].
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless the decay is at least zero and less than one.
    #[track_caller]
    fn average(self, decay: f64) -> Averaged<Self>
    where
        Self: Sized,
    {
        Averaged::new(self, decay)
    }

    /// Maintains an f32 copy of every f16 and bf16 parameter and updates the copy. Call this before other wrappers,
    /// such as clipping.
    ///
    /// See the example of [`MasterWeights`].
    fn master_weights(self) -> MasterWeights<Self>
    where
        Self: Sized + UpdateRule,
    {
        MasterWeights::new(self)
    }

    /// Multiplies the loss before differentiation, and divides the gradients, so that small f16 gradients do not
    /// underflow. Steps with gradients that are not finite update nothing.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::amp::DynamicLossScaler;
    /// let (net, opt) = (nn::Dense::new(3, 1), SGD::new(0.1).loss_scale(DynamicLossScaler::new(1024.0)));
    /// let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
    /// let before = opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
    /// let after = opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
    /// assert!(after.item::<f32>() < before.item::<f32>());
    /// ```
    fn loss_scale<S: LossScaler>(self, scaler: S) -> LossScaled<Self, S>
    where
        Self: Sized,
    {
        LossScaled::new(self, scaler)
    }

    /// Updates in every `steps`-th step only, with the mean gradients of the steps since the last update. Schedules and
    /// averages count updates, whether they are applied before or after this.
    ///
    /// See the example of [`Accumulated`].
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero steps.
    #[track_caller]
    fn accumulate(self, steps: usize) -> Accumulated<Self>
    where
        Self: Sized,
    {
        Accumulated::new(self, steps)
    }
}

/// Calls `body` on a batch, compiled with the optimiser, the network and `fixed` as further arguments.
#[track_caller]
pub(super) fn compiled<O: Optimizer, C: Cell + 'static, B: Arg, R: JitReturn>(
    site: &'static JitFn,
    key: TypeKey,
    optimizer: &O,
    net: &C,
    batch: &B,
    fixed: &impl Arg,
    body: impl FnOnce(&B) -> R,
) -> R {
    // Errors of new state are reported at the caller's line.
    in_call("Optimizer::step", None, Location::caller(), || optimizer.prepare(&net.trainable_parameters()));
    let mut call = site.begin(key, |sink| {
        sink.argument("optimizer");
        optimizer.visit(sink);
        sink.argument("net");
        net.visit(sink);
        sink.argument("batch");
        batch.visit(sink);
        sink.argument("parts");
        fixed.visit(sink);
    });
    if let Some(result) = call.cached() {
        return result;
    }
    let batch = call.enter(batch);
    call.finish(|| body(&*batch))
}

/// Checks that a loss is a scalar: the gradient of several elements would be the gradient of their sum.
///
/// # Panics
/// Raises [`Code::Shape`] otherwise.
#[track_caller]
pub(crate) fn check_loss(loss: &impl Tree) {
    check_loss_at(loss, Location::caller());
}

/// Checks a loss as [`check_loss`] does, and reports errors at `here`.
fn check_loss_at(loss: &impl Tree, here: &'static Location<'static>) {
    for it in leaves(loss) {
        if !it.is_poisoned() && it.dims().iter().any(|size| size.as_const() != Some(1)) {
            let error = Error::new(Code::Shape, format!("the loss is {}, but a step minimises one number", it.ty()));
            raise(error.at(here).with_op("Optimizer::step").help("make it one: `.mean(())`, or `.sum(())`"));
        }
    }
}

/// Forwards [`Optimizer::differentiate`] and [`Optimizer::updates`] to the wrapped optimiser in the field `optimizer`.
macro_rules! differentiate_inside {
    () => {
        fn updates(&self) -> Option<ms_core::Tensor> {
            self.optimizer.updates()
        }

        fn differentiate<C, R, A>(&self, net: &C, loss: impl Fn(&C) -> (R, A)) -> ((R, A), ms_core::session::Gradients)
        where
            C: ms_core::trace::Cell + 'static,
            R: ms_core::trace::Tree,
            A: ms_core::trace::Tree,
        {
            self.optimizer.differentiate(net, loss)
        }
    };
}
pub(super) use differentiate_inside;
