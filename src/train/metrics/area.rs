//! The area under the ROC curve.

use super::{Metric, class_numbers, numbers, refuse};
use ms_core::{Code, Error, Result, Tensor};

/// The area under the ROC curve of scores `[..]` for binary classes `[..]`, which are 0 or 1. It is the probability
/// that a sample of class 1 has a larger score than one of class 0. Ties count half.
///
/// ```
/// use ms::{prelude::*, train::{Auc, Metric}};
/// let mut metric = Auc::new();
/// metric.update(&tensor![0.1, 0.4, 0.35, 0.8], &tensor![0, 0, 1, 1])?;
/// assert_eq!(metric.eval()?, 0.75);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Auc {
    samples: Vec<(f64, bool)>,
}

impl Auc {
    /// Creates the metric without samples.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Metric for Auc {
    fn name(&self) -> String {
        "auc".to_owned()
    }

    fn clear(&mut self) {
        self.samples.clear();
    }

    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        if predictions.shape() != targets.shape() {
            let message = "there is one score for each target".to_owned();
            return Err(refuse("Auc", Code::Shape, message, [predictions, targets]));
        }
        let (scores, classes) = (numbers(predictions)?, class_numbers("Auc", predictions, targets, 2)?);
        if scores.iter().any(|it| it.is_nan()) {
            return Err(refuse("Auc", Code::Argument, "a score is NaN".to_owned(), [predictions, targets]));
        }
        self.samples.extend(scores.into_iter().zip(classes.into_iter().map(|it| it == 1)));
        Ok(())
    }

    /// Computes the Mann-Whitney statistic from the ranks of the samples of class 1.
    fn eval(&self) -> Result<f64> {
        let mut samples = self.samples.clone();
        samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut ranks, mut before) = (0.0, 0.0);
        // Ties are decided by numeric value: 0 equals -0.
        for equal in samples.chunk_by(|a, b| a.0 == b.0) {
            let count = equal.len() as f64;
            let positives = equal.iter().filter(|it| it.1).count() as f64;
            ranks += positives * (before + (count + 1.0) / 2.0);
            before += count;
        }
        let positives = samples.iter().filter(|it| it.1).count() as f64;
        let negatives = before - positives;
        if positives == 0.0 || negatives == 0.0 {
            let message = "there are not samples of both classes";
            return Err(Error::new(Code::Argument, message).with_op("Auc"));
        }
        Ok((ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives))
    }
}
