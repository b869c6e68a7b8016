//! Callbacks: what happens during a training run besides training.

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

use super::model::Scores;
use crate::optim::LearningRate;
use ms_core::trace::{Arg, Sink};
use ms_core::{Code, Error, Result, Tensor};

/// What happens at certain points of a run of a [`Model`](super::Model). An error ends the run.
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
    /// Before the first step.
    ///
    /// # Errors
    /// What ends the run.
    fn on_train_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Before the first step of an epoch.
    ///
    /// # Errors
    /// What ends the run.
    fn on_epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// Before a step; in sink mode, before a call that runs several.
    ///
    /// # Errors
    /// What ends the run.
    fn on_step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// After a step; in sink mode, after a call that runs several.
    ///
    /// # Errors
    /// What ends the run.
    fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// After the last step of an epoch, and after the evaluation that follows it.
    ///
    /// # Errors
    /// What ends the run.
    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }

    /// After the last step, also if the run was stopped.
    ///
    /// # Errors
    /// What ends the run.
    fn on_train_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let _ = run;
        Ok(())
    }
}

/// The state of a run, for its callbacks.
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
    /// The losses of the steps of this epoch that this run did, one tensor for each call.
    pub(super) losses: Vec<Tensor>,
    pub(super) scores: Scores,
    pub(super) network: Slots<'a>,
    pub(super) learning_rates: Vec<&'a LearningRate>,
    pub(super) state: Slots<'a>,
    pub(super) stopped: bool,
}

impl RunContext<'_> {
    /// The number of the epoch, from 1 on.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the last epoch.
    pub fn epochs(&self) -> u64 {
        self.epochs
    }

    /// How many steps have been done in all epochs.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Number of steps of an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.steps_per_epoch
    }

    /// The loss of the last step.
    ///
    /// # Errors
    /// [`Code::Argument`] before the first step of an epoch; those of computing the loss.
    pub fn loss(&self) -> Result<f64> {
        let last = self.losses.last().map(values).transpose()?.and_then(|it| it.last().copied());
        last.ok_or_else(|| Error::new(Code::Argument, "the epoch has no step yet").with_op("RunContext::loss"))
    }

    /// The mean loss of the steps of the epoch so far, those of this run.
    ///
    /// # Errors
    /// As [`RunContext::loss`].
    pub fn mean_loss(&self) -> Result<f64> {
        let all = self.losses.iter().map(values).collect::<Result<Vec<_>>>()?.concat();
        match all.len() {
            0 => Err(Error::new(Code::Argument, "the epoch has no step yet").with_op("RunContext::mean_loss")),
            count => Ok(all.iter().sum::<f64>() / count as f64),
        }
    }

    /// A number by its name: `loss` is [the mean loss](Self::mean_loss) of the epoch, and what
    /// evaluation gives begins with `val_`, such as `val_accuracy`.
    ///
    /// # Errors
    /// [`Code::Argument`] with all names for another one.
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

    /// What the last evaluation gave: the loss and the metrics, by their names.
    pub fn scores(&self) -> &Scores {
        &self.scores
    }

    /// The network.
    pub fn network(&self) -> Slots<'_> {
        self.network
    }

    /// The learning rates of the optimiser: one, or one for each group of parameters.
    pub fn learning_rates(&self) -> &[&LearningRate] {
        &self.learning_rates
    }

    /// All that the run goes on from: the network, the optimiser, and the loader of the data. It is what
    /// [`Model::state`](super::Model::state) gives.
    pub fn state(&self) -> Slots<'_> {
        self.state
    }

    /// Ends the run after this step.
    pub fn stop(&mut self) {
        self.stopped = true;
    }
}

/// The slots of a value of any type, whose state can be saved and loaded.
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

/// [`Arg::visit`], for values whose type is not known.
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

/// The losses of a call: one, or one for each of its steps.
fn values(losses: &Tensor) -> Result<Vec<f64>> {
    ms_core::catch(|| losses.cast(ms_core::DType::F64))?.try_to_vec()
}
