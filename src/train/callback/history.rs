//! Records the results of all epochs.

use super::text::{duration, number};
use super::{Callback, RunContext, Scores};
use ms_core::Result;
use std::fmt;
use std::time::{Duration, Instant};

/// Records the loss and the scores of every epoch. `Display` prints a table of the epochs with a summary line.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::History;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// let mut history = History::new();
/// model.train(3, &loader, &mut [&mut history])?;
/// let losses: Vec<f64> = history.epochs().iter().map(|it| it.loss).collect();
/// assert!(losses.len() == 3 && losses[2] < losses[0]);
/// println!("{history}");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct History {
    epochs: Vec<EpochRecord>,
    /// The start time of the epoch, and the number of steps done before.
    begin: Option<(Instant, u64)>,
}

/// The results of an epoch.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::History;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// let mut history = History::new();
/// model.train(2, &loader, &mut [&mut history])?;
/// let last = &history.epochs()[1];
/// assert_eq!((last.epoch, last.steps, last.scores.len()), (2, 2, 0));
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct EpochRecord {
    /// The number of the epoch, starting from 1.
    pub epoch: u64,
    /// The mean loss of the epoch's steps.
    pub loss: f64,
    /// The scores of the evaluation after the epoch; empty if there was none.
    pub scores: Scores,
    /// The number of the epoch's steps in this run.
    pub steps: u64,
    /// The duration of these steps and the evaluation.
    pub time: Duration,
}

impl History {
    /// Creates an empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the epochs in order.
    pub fn epochs(&self) -> &[EpochRecord] {
        &self.epochs
    }

    /// Returns the cells of the table; the first row holds the column names.
    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        let mut scores: Vec<&String> = self.epochs.iter().flat_map(|it| it.scores.keys()).collect();
        scores.sort();
        scores.dedup();
        let names = scores.iter().map(|it| format!("val_{it}"));
        let head = ["epoch", "loss"].map(str::to_owned).into_iter().chain(names);
        let head = head.chain(["steps", "time"].map(str::to_owned)).collect();
        let row = |it: &EpochRecord| {
            let values = scores.iter().map(|name| it.scores.get(*name).map_or_else(String::new, |it| number(*it)));
            let first = [it.epoch.to_string(), number(it.loss)].into_iter();
            first.chain(values).chain([it.steps.to_string(), duration(it.time)]).collect()
        };
        [head].into_iter().chain(self.epochs.iter().map(row)).collect()
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells();
        let width = |at: usize| cells.iter().map(|it| it[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..cells[0].len()).map(width).collect();
        for row in &cells {
            let padded: Vec<String> = row.iter().zip(&widths).map(|(it, width)| format!("{it:>width$}")).collect();
            writeln!(f, "{}", padded.join("  "))?;
        }
        let steps: u64 = self.epochs.iter().map(|it| it.steps).sum();
        let time: Duration = self.epochs.iter().map(|it| it.time).sum();
        write!(f, "{} epochs, {steps} steps in {}", self.epochs.len(), duration(time))?;
        if steps > 0 && !time.is_zero() {
            write!(f, ", {} steps per second", number(steps as f64 / time.as_secs_f64()))?;
        }
        let is_validated = self.epochs.iter().any(|it| it.scores.contains_key("loss"));
        let name = if is_validated { "val_loss" } else { "loss" };
        let loss = |it: &EpochRecord| if is_validated { it.scores.get("loss").copied() } else { Some(it.loss) };
        let losses = self.epochs.iter().filter_map(|it| Some((it.epoch, loss(it).filter(|it| !it.is_nan())?)));
        if let Some((epoch, loss)) = losses.min_by(|a, b| a.1.total_cmp(&b.1)) {
            write!(f, "; the lowest {name} is {} in epoch {epoch}", number(loss))?;
        }
        Ok(())
    }
}

impl Callback for History {
    fn on_epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.begin = Some((Instant::now(), run.step()));
        Ok(())
    }

    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let (begin, first) = self.begin.take().unwrap_or((Instant::now(), run.step()));
        // The time is taken after the loss, since reading the loss waits for the steps.
        let (loss, scores) = (run.mean_loss()?, run.scores().clone());
        let (steps, time) = (run.step() - first, begin.elapsed());
        self.epochs.push(EpochRecord { epoch: run.epoch(), loss, scores, steps, time });
        Ok(())
    }
}
