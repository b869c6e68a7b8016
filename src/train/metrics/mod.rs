//! Metrics of predictions.

mod area;
mod bleu;
mod confusion;
mod errors;
mod hits;
mod perplexity;

pub use area::Auc;
pub use bleu::BleuScore;
pub use confusion::{Average, ConfusionMatrix, F1, Precision, Recall};
pub use errors::{MAE, MSE};
pub use hits::{Accuracy, TopKCategoricalAccuracy};
pub use perplexity::Perplexity;

use ms_core::{Code, DType, Error, Result, Tensor};

/// A metric of the predictions for a whole dataset, accumulated batch by batch in f64.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::{Accuracy, Metric};
/// let mut accuracy = Accuracy::new();
/// accuracy.update(&tensor![[0.1, 0.9], [0.8, 0.2]], &tensor![1, 1])?;
/// accuracy.update(&tensor![[0.3, 0.7]], &tensor![1])?;
/// assert_eq!(accuracy.eval()?, 2.0 / 3.0);
/// # Ok::<(), ms::Error>(())
/// ```
pub trait Metric {
    /// Returns the name of the metric in results, such as `accuracy`.
    fn name(&self) -> String;

    /// Removes all samples.
    fn clear(&mut self);

    /// Adds a batch.
    ///
    /// # Errors
    /// [`Code::Shape`], [`Code::DType`] and [`Code::OutOfRange`] for predictions and targets that do not match. No
    /// sample of the batch is added then.
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()>;

    /// Returns the value for all samples since the last [`Metric::clear`].
    ///
    /// # Errors
    /// [`Code::Argument`] if the metric is undefined for these samples, for example without samples.
    fn eval(&self) -> Result<f64>;
}

/// Computes the fraction of rows of `logits: [n, classes]` in which the largest entry is at the class in `target: [n]`.
///
/// ```
/// use ms::prelude::*;
/// let logits = tensor![[2.0, 1.0], [0.0, 3.0], [5.0, 4.0], [1.0, 2.0]];
/// assert_eq!(accuracy(&logits, &tensor![0, 1, 1, 1]).item::<f32>(), 0.75);
/// ```
#[track_caller]
pub fn accuracy(logits: &Tensor, target: &Tensor) -> Tensor {
    logits.argmax(-1).eq(target).mean(())
}

/// A mean over batches of different sizes, weighted by their sizes.
///
/// ```
/// use ms::prelude::*;
/// let mut loss = Mean::default();
/// loss.add(1.0, 3);
/// loss.add(3.0, 1);
/// assert_eq!(loss.get(), 1.5);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    /// Adds the mean of `count` examples.
    pub fn add(&mut self, value: f32, count: usize) {
        self.sum += value as f64 * count as f64;
        self.weight += count as f64;
    }

    /// Returns the mean so far; NaN before the first value.
    pub fn get(&self) -> f64 {
        self.sum / self.weight
    }
}

fn refuse(metric: &str, code: Code, message: String, operands: [&Tensor; 2]) -> Error {
    Error::new(code, message).with_op(metric).with_operands(operands.map(|it| it.ty().to_string()))
}

fn no_samples(metric: &str) -> Error {
    Error::new(Code::Argument, "there are no samples").with_op(metric)
}

/// Reads numbers as f64, in row-major order.
fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    ms_core::catch(|| tensor.cast(DType::F64))?.try_to_vec()
}

/// Class scores `[.., classes]` and the true class `[..]` of each row.
struct Scores {
    scores: Vec<f64>,
    classes: usize,
    targets: Vec<usize>,
}

impl Scores {
    fn new(metric: &str, predictions: &Tensor, targets: &Tensor) -> Result<Self> {
        let wrong = |code, message: &str| refuse(metric, code, message.to_owned(), [predictions, targets]);
        if !predictions.dtype().is_float() {
            return Err(wrong(Code::DType, "predictions are floats"));
        }
        let Some((&classes, _)) = predictions.shape().split_last().filter(|it| it.1 == targets.shape()) else {
            return Err(wrong(Code::Shape, "predictions are `[.., classes]` for targets `[..]`"));
        };
        if classes == 0 {
            return Err(wrong(Code::Shape, "there is no class"));
        }
        let scores = numbers(predictions)?;
        let targets = class_numbers(metric, predictions, targets, classes)?;
        Ok(Self { scores, classes, targets })
    }

    /// Iterates over rows: the scores of all classes, and the true class.
    fn rows(&self) -> impl Iterator<Item = (&[f64], usize)> {
        self.scores.chunks_exact(self.classes).zip(self.targets.iter().copied())
    }
}

/// Reads integers or bools as class indices, and checks that they are below `classes`.
fn class_numbers(metric: &str, predictions: &Tensor, targets: &Tensor, classes: usize) -> Result<Vec<usize>> {
    if targets.dtype().is_float() {
        let message = "targets are integers".to_owned();
        return Err(refuse(metric, Code::DType, message, [predictions, targets]));
    }
    let numbers: Vec<i64> = ms_core::catch(|| targets.cast(DType::I64))?.try_to_vec()?;
    let class = |it: i64| {
        usize::try_from(it).ok().filter(|it| *it < classes).ok_or_else(|| {
            let message = format!("there is no class {it} among {classes}");
            refuse(metric, Code::OutOfRange, message, [predictions, targets])
        })
    };
    numbers.into_iter().map(class).collect()
}

/// Returns the class of the largest score; the first one in a tie. NaN is the largest, as in [`Tensor::argmax`].
fn largest(scores: &[f64]) -> usize {
    let above = |a: f64, b: f64| a > b || (a.is_nan() && !b.is_nan());
    (1..scores.len()).fold(0, |best, it| if above(scores[it], scores[best]) { it } else { best })
}
