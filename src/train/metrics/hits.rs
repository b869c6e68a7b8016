//! Accuracies.

use super::{Metric, Scores, largest, no_samples};
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::{Result, Tensor};

/// Counts of correct and of all predictions.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    right: u64,
    all: u64,
}

impl Hits {
    fn add(&mut self, scores: &Scores, is_right: impl Fn(&[f64], usize) -> bool) {
        self.right += scores.rows().filter(|it| is_right(it.0, it.1)).count() as u64;
        self.all += scores.targets.len() as u64;
    }

    fn fraction(&self, metric: &str) -> Result<f64> {
        match self.all {
            0 => Err(no_samples(metric)),
            all => Ok(self.right as f64 / all as f64),
        }
    }
}

/// The fraction of rows of predictions `[.., classes]` in which the largest score is at the target class, `[..]`.
///
/// ```
/// use ms::{prelude::*, train::{Accuracy, Metric}};
/// let mut metric = Accuracy::new();
/// metric.update(&tensor![[2.0, 1.0], [0.0, 3.0], [5.0, 4.0], [1.0, 2.0]], &tensor![0, 1, 1, 1])?;
/// assert_eq!(metric.eval()?, 0.75);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Accuracy {
    hits: Hits,
}

impl Accuracy {
    /// Creates the metric without samples.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Metric for Accuracy {
    fn name(&self) -> String {
        "accuracy".to_owned()
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        let scores = Scores::new("Accuracy", predictions, targets)?;
        self.hits.add(&scores, |scores, class| largest(scores) == class);
        Ok(())
    }

    fn eval(&self) -> Result<f64> {
        self.hits.fraction("Accuracy")
    }
}

/// The fraction of rows of predictions `[.., classes]` in which the target class, `[..]`, is among the `k` largest
/// scores. Ties prefer lower classes.
///
/// ```
/// use ms::{prelude::*, train::{Metric, TopKCategoricalAccuracy}};
/// let mut metric = TopKCategoricalAccuracy::new(2);
/// metric.update(&tensor![[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], &tensor![1, 0])?;
/// assert_eq!(metric.eval()?, 0.5);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopKCategoricalAccuracy {
    k: usize,
    hits: Hits,
}

impl TopKCategoricalAccuracy {
    /// Creates the metric without samples.
    ///
    /// # Panics
    /// Raises [`Code::Argument`](ms_core::Code::Argument) for a `k` of zero.
    #[track_caller]
    pub fn new(k: usize) -> Self {
        check_positive("TopKCategoricalAccuracy", "k", k).or_raise();
        Self { k, hits: Hits::default() }
    }
}

impl Metric for TopKCategoricalAccuracy {
    fn name(&self) -> String {
        format!("top_{}_accuracy", self.k)
    }

    fn clear(&mut self) {
        self.hits = Hits::default();
    }

    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        let scores = Scores::new("TopKCategoricalAccuracy", predictions, targets)?;
        let k = self.k;
        self.hits.add(&scores, |scores, class| {
            let before = |(other, score): (usize, &f64)| {
                *score > scores[class] || (*score == scores[class] && other < class) || score.is_nan()
            };
            !scores[class].is_nan() && scores.iter().enumerate().filter(|it| before(*it)).count() < k
        });
        Ok(())
    }

    fn eval(&self) -> Result<f64> {
        self.hits.fraction("TopKCategoricalAccuracy")
    }
}
