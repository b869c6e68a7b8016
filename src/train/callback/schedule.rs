//! Sets learning rates by a host function.

use super::{Callback, RunContext};
use ms_core::Result;

/// Sets the learning rates before every step to a function of the current rate and the number of steps done. Prefer
/// [schedules](crate::optim::Schedule) of an optimiser, which are part of the compiled step and of checkpoints. This
/// callback is for functions that they cannot express.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::LearningRateScheduler;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.5));
/// let mut halve = LearningRateScheduler::new(|rate, step| if step == 2 { rate / 2.0 } else { rate });
/// model.train(2, &loader, &mut [&mut halve])?;
/// assert_eq!(model.optimizer().learning_rates()[0].get(), 0.25);
/// # Ok::<(), ms::Error>(())
/// ```
pub struct LearningRateScheduler<F> {
    rate: F,
}

impl<F: FnMut(f64, u64) -> f64> LearningRateScheduler<F> {
    /// Creates a callback that sets every rate to `rate(current, step)`.
    pub fn new(rate: F) -> Self {
        Self { rate }
    }
}

impl<F: FnMut(f64, u64) -> f64> Callback for LearningRateScheduler<F> {
    fn on_step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let step = run.step();
        for it in run.learning_rates() {
            let rate = (self.rate)(it.get(), step);
            ms_core::catch(|| it.set(rate))?;
        }
        Ok(())
    }
}
