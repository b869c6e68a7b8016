//! Stops a run when a monitored number no longer improves.

use super::{Callback, RunContext};
use crate::io::{LoadOptions, StateDict, Stateful};
use ms_core::Result;

/// The direction of improvement of a number.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::{EarlyStopping, Goal, History};
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// // The error becomes smaller: with the other goal, only the first epoch is good.
/// let (mut history, mut stopping) = (History::new(), EarlyStopping::new("loss", Goal::Max, 1));
/// model.train(100, &loader, &mut [&mut history, &mut stopping])?;
/// assert_eq!((history.epochs().len(), stopping.best().map(|it| it.0)), (3, Some(1)));
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// Smaller is better: losses and errors.
    Min,
    /// Larger is better: accuracies.
    Max,
}

/// Stops a run when [a number](RunContext::number) has not improved for more than `patience` epochs.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::{EarlyStopping, Goal};
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(4));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.0));
/// let mut stopping = EarlyStopping::new("loss", Goal::Min, 2).restore_best(true);
/// model.train(100, &loader, &mut [&mut stopping])?;
/// assert_eq!((loader.epoch(), stopping.best().map(|it| it.0)), (4, Some(1)));
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EarlyStopping {
    number: String,
    goal: Goal,
    patience: u64,
    min_delta: f64,
    restore_best: bool,
    best: Option<(u64, f64)>,
    state: Option<StateDict>,
}

impl EarlyStopping {
    /// Creates a callback for which any improvement counts, and which does not restore parameters.
    pub fn new(number: impl Into<String>, goal: Goal, patience: u64) -> Self {
        let number = number.into();
        Self { number, goal, patience, min_delta: 0.0, restore_best: false, best: None, state: None }
    }

    /// Sets the minimum difference that counts as an improvement.
    pub fn min_delta(self, min_delta: f64) -> Self {
        Self { min_delta, ..self }
    }

    /// Sets whether the parameters of the best epoch are restored at the end of the run.
    pub fn restore_best(self, restore_best: bool) -> Self {
        Self { restore_best, ..self }
    }

    /// Returns the best epoch so far, with its value.
    pub fn best(&self) -> Option<(u64, f64)> {
        self.best
    }
}

impl Callback for EarlyStopping {
    fn on_train_begin(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        (self.best, self.state) = (None, None);
        Ok(())
    }

    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let number = run.number(&self.number)?;
        let gain = |best: f64| match self.goal {
            Goal::Min => best - number,
            Goal::Max => number - best,
        };
        let is_better =
            self.best.is_none_or(|(_, best)| gain(best) > self.min_delta || (best.is_nan() && !number.is_nan()));
        if is_better {
            self.best = Some((run.epoch(), number));
            self.state = self.restore_best.then(|| run.network().state_dict());
        } else if self.best.is_some_and(|(epoch, _)| run.epoch() - epoch > self.patience) {
            run.stop();
        }
        Ok(())
    }

    fn on_train_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if let Some(state) = self.state.take() {
            run.network().load_state_dict(&state, &LoadOptions::new())?;
        }
        Ok(())
    }
}
