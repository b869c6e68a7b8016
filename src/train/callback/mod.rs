//! Callbacks: hooks of the training loop.

mod checkpoint;
mod early_stopping;
mod history;
mod lambda;
mod monitor;
mod page;
mod schedule;
mod summary;
mod text;

pub use checkpoint::ModelCheckpoint;
pub use early_stopping::{EarlyStopping, Goal};
pub use history::{EpochRecord, History};
pub use lambda::LambdaCallback;
pub use monitor::{LossMonitor, ProgressMonitor, TimeMonitor};
pub use page::TrainingPage;
pub use schedule::LearningRateScheduler;
pub use summary::{SummaryCollector, SummaryWriter};

use crate::optim::LearningRate;
use ms_core::trace::{Arg, Sink};
use ms_core::{Code, Error, Result, Tensor};
use std::collections::BTreeMap;

/// The result of an evaluation by name: the mean loss as `loss`, and the metrics.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::MAE;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let net = nn::Dense::new(3, 1).without_bias().weight_init(|shape| Tensor::ones(shape));
/// let mut model = Model::new(net, |x, y| ops::mse_loss(x, y), SGD::new(0.1)).metric(MAE::new());
/// let scores = model.eval(&loader)?;
/// assert_eq!((scores["loss"], scores["mae"]), (9.0, 3.0));
/// # Ok::<(), ms::Error>(())
/// ```
pub type Scores = BTreeMap<String, f64>;

/// Hooks that a [`Model`](super::Model) calls during a run. An error ends the run.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::{Callback, RunContext};
/// /// Stops when the loss is small.
/// struct Enough(f64);
/// impl Callback for Enough {
///     fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
///         if run.loss()? < self.0 {
///             run.stop();
///         }
///         Ok(())
///     }
/// }
/// let data = TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(4);
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// model.train(1000, &DataLoader::new(data), &mut [&mut Enough(1e-3)])?;
/// # Ok::<(), ms::Error>(())
/// ```
pub trait Callback {
    /// Runs before the first step.
    ///
    /// # Errors
    /// An error ends the run.
    fn on_train_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Runs before the first step of an epoch.
    ///
    /// # Errors
    /// An error ends the run.
    fn on_epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Runs before a step; in sink mode, before a call of several steps.
    ///
    /// # Errors
    /// An error ends the run.
    fn on_step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Runs after a step; in sink mode, after a call of several steps.
    ///
    /// # Errors
    /// An error ends the run.
    fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Runs after the last step of an epoch and the evaluation that follows it.
    ///
    /// # Errors
    /// An error ends the run.
    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Runs after the last step, also if the run was stopped.
    ///
    /// # Errors
    /// An error ends the run.
    fn on_train_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }
}

/// The state of a run, as its callbacks see it.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::LambdaCallback;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// let mut places = Vec::new();
/// let mut note = LambdaCallback::new().on_step_end(|run| Ok(places.push((run.epoch(), run.step()))));
/// model.train(2, &loader, &mut [&mut note])?;
/// drop(note);
/// assert_eq!(places, [(1, 1), (1, 2), (2, 3), (2, 4)]);
/// # Ok::<(), ms::Error>(())
/// ```
pub struct RunContext<'a> {
    pub(super) epoch: u64,
    pub(super) epochs: u64,
    pub(super) step: u64,
    pub(super) steps_per_epoch: usize,
    /// The losses of this run's steps in this epoch, one tensor for each call.
    pub(super) losses: Vec<Tensor>,
    pub(super) scores: Scores,
    pub(super) network: Slots<'a>,
    pub(super) learning_rates: Vec<&'a LearningRate>,
    pub(super) state: Slots<'a>,
    pub(super) stopped: bool,
}

impl RunContext<'_> {
    /// Returns the number of the epoch, starting from 1.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of the last epoch.
    pub fn epochs(&self) -> u64 {
        self.epochs
    }

    /// Returns the number of steps done in all epochs.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Returns the number of steps of an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.steps_per_epoch
    }

    /// Returns the loss of the last step.
    ///
    /// # Errors
    /// [`Code::Argument`] before the first step of an epoch; the errors of computing the loss.
    pub fn loss(&self) -> Result<f64> {
        let last = self.losses.last().map(values).transpose()?.and_then(|it| it.last().copied());
        last.ok_or_else(|| Error::new(Code::Argument, "the epoch has no step yet").with_op("RunContext::loss"))
    }

    /// Returns the mean loss of the steps that this run has done in the epoch.
    ///
    /// # Errors
    /// The errors of [`RunContext::loss`].
    pub fn mean_loss(&self) -> Result<f64> {
        let all = self.losses.iter().map(values).collect::<Result<Vec<_>>>()?.concat();
        match all.len() {
            0 => Err(Error::new(Code::Argument, "the epoch has no step yet").with_op("RunContext::mean_loss")),
            count => Ok(all.iter().sum::<f64>() / count as f64),
        }
    }

    /// Returns a number by name. `loss` is [the mean loss](Self::mean_loss) of the epoch. Names of evaluation scores
    /// begin with `val_`, such as `val_accuracy`.
    ///
    /// # Errors
    /// [`Code::Argument`] for an unknown name; the message lists all names.
    pub fn number(&self, name: &str) -> Result<f64> {
        if name == "loss" {
            return self.mean_loss();
        }
        let score = name.strip_prefix("val_").and_then(|it| self.scores.get(it));
        score.copied().ok_or_else(|| {
            let known: Vec<String> = self.scores.keys().map(|it| format!("`val_{it}`")).collect();
            let message =
                format!("there is no `{name}`, only {}", [vec!["`loss`".to_owned()], known].concat().join(", "));
            Error::new(Code::Argument, message).with_op("RunContext::number")
        })
    }

    /// Returns the loss and metrics of the last evaluation, by name.
    pub fn scores(&self) -> &Scores {
        &self.scores
    }

    /// Returns the network.
    pub fn network(&self) -> Slots<'_> {
        self.network
    }

    /// Returns the learning rates of the optimiser: one, or one for each parameter group.
    pub fn learning_rates(&self) -> &[&LearningRate] {
        &self.learning_rates
    }

    /// Returns everything that a run continues from: the network, the optimiser, and the data loader. It equals
    /// [`Model::state`](super::Model::state).
    pub fn state(&self) -> Slots<'_> {
        self.state
    }

    /// Ends the run after this step.
    pub fn stop(&mut self) {
        self.stopped = true;
    }
}

/// The slots of a value of any type, for saving and loading.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::LambdaCallback;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// let mut names = Vec::new();
/// let mut note = LambdaCallback::new().on_train_end(|run| {
///     names.extend(run.network().state_dict().names().map(str::to_owned));
///     Ok(())
/// });
/// model.train(1, &loader, &mut [&mut note])?;
/// drop(note);
/// assert_eq!(names, ["bias", "weight"]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Slots<'a>(&'a dyn VisitSlots);

impl<'a> Slots<'a> {
    pub(super) fn of(value: &'a impl Arg) -> Self {
        Self(value)
    }
}

/// An object-safe form of [`Arg::visit`].
trait VisitSlots {
    fn visit_slots(&self, sink: &mut Sink<'_>);
}

impl<T: Arg> VisitSlots for T {
    fn visit_slots(&self, sink: &mut Sink<'_>) {
        self.visit(sink);
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Slots<'_> {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.0.visit_slots(sink);
    }
}

/// Returns the losses of a call: one, or one for each of its steps.
fn values(losses: &Tensor) -> Result<Vec<f64>> {
    ms_core::catch(|| losses.cast(ms_core::DType::F64))?.try_to_vec()
}
