//! Prints the progress of a run.

use super::{Callback, RunContext};
use crate::train::Progress;
use ms_core::Result;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use std::time::{Duration, Instant};

/// Prints the loss at regular steps: `epoch 2/5, step 30/100: loss 0.4512`.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::LossMonitor;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// model.train(3, &loader, &mut [&mut LossMonitor::new(2)])?;
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LossMonitor {
    steps: usize,
    at: u64,
}

impl LossMonitor {
    /// Creates a monitor that prints every `steps` steps.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for zero.
    #[track_caller]
    pub fn new(steps: usize) -> Self {
        check_positive("LossMonitor", "steps", steps).or_raise();
        Self { steps, at: 0 }
    }
}

impl Callback for LossMonitor {
    fn on_train_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.at = run.step();
        Ok(())
    }

    fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let steps = self.steps as u64;
        let is_due = run.step() / steps > self.at / steps;
        self.at = run.step();
        if is_due {
            println!("{}: loss {:.4}", place(run), run.loss()?);
        }
        Ok(())
    }
}

/// Formats the position of a run: `epoch 2/5, step 30/100`.
fn place(run: &RunContext<'_>) -> String {
    let per_epoch = run.steps_per_epoch() as u64;
    let step = run.step() - (run.epoch() - 1) * per_epoch;
    format!("epoch {}/{}, step {step}/{per_epoch}", run.epoch(), run.epochs())
}

/// Prints the duration of each epoch, including its evaluation, and the mean duration of a step.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::TimeMonitor;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// model.train(3, &loader, &mut [&mut TimeMonitor::new()])?;
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TimeMonitor {
    start: Option<(Instant, u64)>,
}

impl TimeMonitor {
    /// Creates a monitor that prints after each epoch.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Callback for TimeMonitor {
    fn on_epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.start = Some((Instant::now(), run.step()));
        Ok(())
    }

    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if let Some((start, first)) = self.start.take() {
            let (time, steps) = (start.elapsed(), run.step() - first);
            let per_step = time / u32::try_from(steps.max(1)).unwrap_or(u32::MAX);
            println!("epoch {}/{}: {time:.1?}, {per_step:.1?} per step", run.epoch(), run.epochs());
        }
        Ok(())
    }
}

/// Shows a progress bar during an epoch, if standard error is a terminal. After each epoch it prints a line with the
/// mean loss and all scores to any output.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::ProgressMonitor;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// model.train(3, &loader, &mut [&mut ProgressMonitor::new()])?;
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Default)]
pub struct ProgressMonitor {
    bar: Option<Progress>,
    shown: Option<Instant>,
}

/// The update period of the loss beside a bar, since reading the loss waits for the step.
const PERIOD: Duration = Duration::from_millis(100);

impl ProgressMonitor {
    /// Creates a monitor with a bar and a line for each epoch.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Callback for ProgressMonitor {
    fn on_epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let mut bar = Progress::new(format!("epoch {}/{}", run.epoch(), run.epochs()), run.steps_per_epoch());
        bar.advance_to(run.step() - (run.epoch() - 1) * run.steps_per_epoch() as u64);
        self.bar = Some(bar);
        Ok(())
    }

    fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let Some(bar) = self.bar.as_mut().filter(|it| it.is_shown()) else { return Ok(()) };
        bar.advance_to(run.step() - (run.epoch() - 1) * run.steps_per_epoch() as u64);
        if self.shown.is_none_or(|it| it.elapsed() > PERIOD) {
            self.shown = Some(Instant::now());
            bar.note(format!("loss {:.4}", run.loss()?));
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.bar = None;
        let scores: Vec<String> = run.scores().iter().map(|(name, it)| format!(", val_{name} {it:.4}")).collect();
        println!("epoch {}/{}: loss {:.4}{}", run.epoch(), run.epochs(), run.mean_loss()?, scores.concat());
        Ok(())
    }
}
