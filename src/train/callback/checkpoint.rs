//! Saves checkpoints during a run.

use super::{Callback, RunContext};
use crate::io::save_checkpoint;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::{Code, Error, Result};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Saves the network, the optimiser and the position in the data as `NAME-EPOCH_STEP.safetensors`. It saves at the end
/// of epochs, or at a fixed number of steps, and removes the oldest files of the run.
///
/// ```
/// use ms::prelude::*;
/// use ms::{load_checkpoint, train::ModelCheckpoint};
/// # let folder = std::env::temp_dir().join(format!("ms doc checkpoints {}", std::process::id()));
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let model = || Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), Adam::new(0.1));
/// let mut checkpoint = ModelCheckpoint::new(&folder, "run").keep(2);
/// model().train(3, &loader, &mut [&mut checkpoint])?;
/// let last = checkpoint.last().expect("an epoch ended");
/// assert!(last.ends_with("run-3_6.safetensors"));
/// load_checkpoint(last, model().state(&loader))?;
/// # std::fs::remove_dir_all(&folder).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelCheckpoint {
    folder: PathBuf,
    name: String,
    steps: Option<usize>,
    keep: usize,
    saved: VecDeque<PathBuf>,
    /// The number of steps at the last save.
    at: u64,
}

impl ModelCheckpoint {
    /// Creates a callback that saves at the end of every epoch and retains the last five files.
    pub fn new(folder: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { folder: folder.into(), name: name.into(), steps: None, keep: 5, saved: VecDeque::new(), at: 0 }
    }

    /// Saves every `steps` steps, and not at the end of epochs.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero.
    #[track_caller]
    pub fn every_steps(self, steps: usize) -> Self {
        check_positive("ModelCheckpoint", "steps", steps).or_raise();
        Self { steps: Some(steps), ..self }
    }

    /// Sets how many files are retained.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero.
    #[track_caller]
    pub fn keep(self, files: usize) -> Self {
        check_positive("ModelCheckpoint", "files", files).or_raise();
        Self { keep: files, ..self }
    }

    /// Returns the path of the last saved file.
    pub fn last(&self) -> Option<&PathBuf> {
        self.saved.back()
    }

    fn save(&mut self, run: &RunContext<'_>) -> Result<()> {
        let refuse = |what: &str, path: &PathBuf, error| {
            let message = format!("cannot {what} `{}`: {error}", path.display());
            Error::new(Code::Io, message).with_op("ModelCheckpoint")
        };
        std::fs::create_dir_all(&self.folder).map_err(|it| refuse("create", &self.folder, it))?;
        let path = self.folder.join(format!("{}-{}_{}.safetensors", self.name, run.epoch(), run.step()));
        save_checkpoint(&path, run.state())?;
        self.at = run.step();
        self.saved.retain(|it| *it != path);
        self.saved.push_back(path);
        while self.saved.len() > self.keep {
            let oldest = self.saved.pop_front().expect("there are more than are kept");
            match std::fs::remove_file(&oldest) {
                // The file may have been removed externally.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                done => done.map_err(|it| refuse("remove", &oldest, it))?,
            }
        }
        Ok(())
    }
}

impl Callback for ModelCheckpoint {
    fn on_train_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.at = run.step();
        Ok(())
    }

    fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        match self.steps {
            // A call in sink mode may run several steps.
            Some(steps) if run.step() / steps as u64 > self.at / steps as u64 => self.save(run),
            _ => Ok(()),
        }
    }

    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if self.steps.is_none() { self.save(run) } else { Ok(()) }
    }
}
