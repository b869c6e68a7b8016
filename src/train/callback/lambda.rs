//! Callbacks from closures.

use super::{Callback, RunContext};
use ms_core::Result;

/// A function that is called at an event of a run.
type Hook<'a> = Box<dyn FnMut(&mut RunContext<'_>) -> Result<()> + 'a>;

macro_rules! lambda {
    ($($(#[$about:meta])* $name:ident;)*) => {
        /// Calls functions at the events of a run.
        ///
        /// ```
        /// use ms::prelude::*;
        /// use ms::train::LambdaCallback;
        /// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
        /// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
        /// let mut steps = Vec::new();
        /// let mut note = LambdaCallback::new().on_step_end(|run| Ok(steps.push(run.step())));
        /// model.train(2, &loader, &mut [&mut note])?;
        /// drop(note);
        /// assert_eq!(steps, [1, 2, 3, 4]);
        /// # Ok::<(), ms::Error>(())
        /// ```
        #[derive(Default)]
        pub struct LambdaCallback<'a> {
            $($name: Option<Hook<'a>>,)*
        }

        impl<'a> LambdaCallback<'a> {
            /// Creates a callback without functions.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$about])*
                pub fn $name(self, hook: impl FnMut(&mut RunContext<'_>) -> Result<()> + 'a) -> Self {
                    Self { $name: Some(Box::new(hook)), ..self }
                }
            )*
        }

        impl Callback for LambdaCallback<'_> {
            $(
                fn $name(&mut self, run: &mut RunContext<'_>) -> Result<()> {
                    self.$name.as_mut().map_or(Ok(()), |it| it(run))
                }
            )*
        }
    };
}

lambda! {
    /// Sets the function that is called before the first step.
    on_train_begin;
    /// Sets the function that is called before the first step of an epoch.
    on_epoch_begin;
    /// Sets the function that is called before a step.
    on_step_begin;
    /// Sets the function that is called after a step.
    on_step_end;
    /// Sets the function that is called after an epoch and its evaluation.
    on_epoch_end;
    /// Sets the function that is called after the last step.
    on_train_end;
}
