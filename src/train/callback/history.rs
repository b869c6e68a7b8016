//! The numbers of all epochs.

use super::{Callback, RunContext};
use crate::train::model::Scores;
use ms_core::Result;

/// Keeps the loss and the scores of every epoch.
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
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct History {
    epochs: Vec<EpochRecord>,
}

/// The numbers of an epoch.
#[derive(Clone, PartialEq, Debug)]
pub struct EpochRecord {
    /// The number of the epoch, from 1 on.
    pub epoch: u64,
    /// The mean loss of its steps.
    pub loss: f64,
    /// What the evaluation after it gave; nothing if there was none.
    pub scores: Scores,
}

impl History {
    /// No epochs.
    pub fn new() -> Self {
        Self::default()
    }

    /// The epochs in order.
    pub fn epochs(&self) -> &[EpochRecord] {
        &self.epochs
    }
}

impl Callback for History {
    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let record = EpochRecord { epoch: run.epoch(), loss: run.mean_loss()?, scores: run.scores().clone() };
        self.epochs.push(record);
        Ok(())
    }
}
