//! Optimisers, and the training step.

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
/// The algorithms are [rules](super::UpdateRule) for one parameter. What changes gradients before
/// an update, or numbers between updates, is an optimiser around another one, and compiles into
/// the same graph:
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
    /// Creates the state of those parameters that have none yet; [`Optimizer::update`] does so too.
    #[track_caller]
    fn prepare(&self, parameters: &[Parameter]);

    /// Updates every parameter that has a gradient.
    #[track_caller]
    fn update(&self, gradients: &Gradients);

    /// The result of a loss with auxiliary results, and the gradients of the loss for [`Optimizer::update`].
    /// [`Optimizer::loss_scale`] computes them from a multiple of the loss.
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

    /// Whether the next [`Optimizer::update`] changes parameters, a `bool[]`; `None` if every one does. [Schedules] and
    /// [averages] around an optimiser count these updates, so that their order with an
    /// [accumulation](Optimizer::accumulate) does not matter.
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

    /// Its learning rates: one, or one for each group of parameters.
    fn learning_rates(&self) -> Vec<&LearningRate>;

    /// Sets every learning rate; compiled steps use it without recompilation.
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

    /// One training step, compiled as one graph: forward, backward, update. Returns the loss
    /// `loss(net, batch)` before the update, which is one number.
    ///
    /// `loss` captures nothing (checked at compile time): its data is passed in `batch`, so that no
    /// captured batch can become a constant of the graph. Inside a function with `#[jit]` the step
    /// is a part of that function, which may declare [sizes that vary](macro@crate::jit) with `dims`.
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
    /// Raises [`ms_core::Code::Shape`] for a loss of several elements: `.mean(())` or `.sum(())` makes it one.
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

    /// [`Optimizer::step`], executed eagerly.
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
        // Errors of a device are at the line of this call.
        if is_host_only() { step() } else { in_call("Optimizer::step_eagerly", None, here, step) }
    }

    /// [`Optimizer::step`] for a function that returns the loss with auxiliary results, which are not
    /// differentiated: predictions, metrics, parts of the loss.
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

    /// [`Optimizer::step`] with the mean loss and the mean gradients of `parts` equal parts of the
    /// batch, cut along the first axis of each of its tensors, one after the other in one graph: the
    /// step of the whole batch with the activations of one part in memory, for a loss that is a mean.
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
    /// Raises [`ms_core::Code::Argument`] for no parts, and [`ms_core::Code::Shape`] for a batch that
    /// has no such parts.
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
            let (loss, gradients) = super::accumulation::mean_over_parts(self, parts, net, batch, loss);
            self.update(&gradients);
            loss
        })
    }

    /// Several [steps](Optimizer::step) as one graph, one for each index of the first axis of all tensors
    /// of `batches`. Returns the losses, each before its update.
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
    /// Raises [`ms_core::Code::Shape`] when the first axes of tensors differ.
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

    /// Limits every element of a gradient to `±limit`.
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

    /// Scales each gradient whose norm is above `limit` to that norm.
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

    /// Scales all gradients together where the norm of all their elements is above `limit`; PyTorch's
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

    /// Replaces every gradient by the result of `hook` on its parameter and itself. A hook captures
    /// nothing (checked at compile time).
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

    /// Computes the learning rates of every step from those that were set, and from the number of
    /// steps so far. With an [accumulation](Optimizer::accumulate) on either side a step is an update.
    ///
    /// See the example of [`Scheduled`].
    fn schedule<S: Schedule>(self, schedule: S) -> Scheduled<Self, S>
    where
        Self: Sized,
    {
        Scheduled::new(self, schedule)
    }

    /// Keeps an exponential moving average of every parameter, which starts with its value after the first update.
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

    /// Keeps a copy in f32 of every parameter of f16 and bf16, which takes the updates. What is around an
    /// optimiser, such as clipping, comes after it.
    ///
    /// See the example of [`MasterWeights`].
    fn master_weights(self) -> MasterWeights<Self>
    where
        Self: Sized + UpdateRule,
    {
        MasterWeights::new(self)
    }

    /// Multiplies the loss before it is differentiated, and divides the gradients: small gradients of f16 are
    /// not lost. Steps whose gradients are not finite update nothing.
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

    /// Updates only in every `steps`-th step, with the mean of the gradients since the update before. Schedules and
    /// averages count updates, whether they are put before or behind this.
    ///
    /// See the example of [`Accumulated`].
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for no steps.
    #[track_caller]
    fn accumulate(self, steps: usize) -> Accumulated<Self>
    where
        Self: Sized,
    {
        Accumulated::new(self, steps)
    }
}

/// The result of `body` on a batch, compiled with the optimiser, the network and `fixed` as further
/// arguments.
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
    // Errors of new state are at the line of this call.
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

/// Refuses a loss that is not one number: its gradient would be that of a sum.
///
/// # Panics
/// Raises [`Code::Shape`].
#[track_caller]
pub(crate) fn check_loss(loss: &impl Tree) {
    check_loss_at(loss, Location::caller());
}

/// [`check_loss`] with the line of the error.
fn check_loss_at(loss: &impl Tree, here: &'static Location<'static>) {
    for it in leaves(loss) {
        if !it.is_poisoned() && it.dims().iter().any(|size| size.as_const() != Some(1)) {
            let error = Error::new(Code::Shape, format!("the loss is {}, but a step minimises one number", it.ty()));
            raise(error.at(here).with_op("Optimizer::step").help("make it one: `.mean(())`, or `.sum(())`"));
        }
    }
}

/// [`Optimizer::differentiate`] and [`Optimizer::updates`] of an optimiser around the one in the field `optimizer`.
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
