//! The training step.

use ms_core::session::{Gradients, JitFn, type_key, value_and_grad};
use ms_core::trace::{Arg, Cell, Tree};
use ms_core::{Parameter, Tensor};

/// Updates parameters from their gradients.
pub trait Optimizer: Arg {
    /// Creates the state of those parameters that have none yet; [`Optimizer::update`] does so too.
    #[track_caller]
    fn prepare(&self, parameters: &[Parameter]);

    /// Updates every parameter that has a gradient.
    #[track_caller]
    fn update(&self, gradients: &Gradients);

    /// Sets the learning rate; compiled steps use it without recompilation.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a rate that is negative or not finite.
    #[track_caller]
    fn set_learning_rate(&self, rate: f64);

    /// One training step, compiled as one graph: forward, backward, update. Returns the loss
    /// `loss(net, batch)` before the update.
    ///
    /// `loss` captures nothing (checked at compile time): its data is passed in `batch`, so that no
    /// captured batch can become a constant of the graph.
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
    #[track_caller]
    fn step<C: Cell + 'static, B: Arg, F: Fn(&C, &B) -> Tensor>(&self, net: &C, batch: &B, loss: F) -> Tensor
    where
        Self: Sized,
    {
        const { assert!(size_of::<F>() == 0, "the loss captures a value: pass it with the batch") }
        static STEP: JitFn = JitFn::new("Optimizer::step", file!(), line!(), 0);
        self.prepare(&net.trainable_parameters());
        let mut call = STEP.begin(type_key(&(&loss, std::marker::PhantomData::<Self>)), |sink| {
            sink.argument("self");
            self.visit(sink);
            sink.argument("net");
            net.visit(sink);
            sink.argument("batch");
            batch.visit(sink);
        });
        if let Some(loss) = call.cached() {
            return loss;
        }
        let batch = call.enter(batch);
        call.finish(|| self.step_eagerly(net, &*batch, loss))
    }

    /// [`Optimizer::step`], executed eagerly.
    #[track_caller]
    fn step_eagerly<C: Cell + 'static, B: Arg, R: Tree>(&self, net: &C, batch: &B, loss: impl Fn(&C, &B) -> R) -> R
    where
        Self: Sized,
    {
        let (loss, gradients) = value_and_grad(|net: &C| loss(net, batch))(net);
        self.update(&gradients);
        loss
    }
}
