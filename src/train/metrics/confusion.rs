//! The confusion matrix, and the metrics computed from it.

use super::{Metric, Scores, class_numbers, largest, no_samples, refuse};
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::{Code, Result, Tensor};

/// Counts how many samples of each true class were predicted as each class.
///
/// Predictions are scores `[.., classes]`, of which the largest determines the class, or class indices `[..]`. Targets
/// are class indices `[..]`.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::ConfusionMatrix;
/// let mut matrix = ConfusionMatrix::new(2);
/// matrix.update(&tensor![0, 1, 1], &tensor![0, 0, 1])?;
/// assert_eq!(matrix.counts().to_vec::<i64>(), [1, 1, 0, 1]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    classes: usize,
    counts: Vec<i64>,
}

impl ConfusionMatrix {
    /// Creates a matrix of zeros.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero classes.
    #[track_caller]
    pub fn new(classes: usize) -> Self {
        check_positive("ConfusionMatrix", "classes", classes).or_raise();
        Self { classes, counts: vec![0; classes * classes] }
    }

    /// Sets all counts to zero.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// Adds a batch.
    ///
    /// # Errors
    /// The errors of [`Metric::update`].
    pub fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        const METRIC: &str = "ConfusionMatrix";
        let pairs: Vec<(usize, usize)> = if predictions.dtype().is_float() {
            let scores = Scores::new(METRIC, predictions, targets)?;
            if scores.classes != self.classes {
                let message = format!("there are scores of {} classes instead of {}", scores.classes, self.classes);
                return Err(refuse(METRIC, Code::Shape, message, [predictions, targets]));
            }
            let targets = class_numbers(METRIC, predictions, targets, self.classes)?;
            targets.into_iter().zip(scores.rows().map(|it| largest(it.0))).collect()
        } else {
            if predictions.shape() != targets.shape() {
                let message = "classes are predicted for other targets".to_owned();
                return Err(refuse(METRIC, Code::Shape, message, [predictions, targets]));
            }
            let [targets, predicted] =
                [targets, predictions].map(|it| class_numbers(METRIC, predictions, it, self.classes));
            targets?.into_iter().zip(predicted?).collect()
        };
        pairs.into_iter().for_each(|(class, predicted)| self.counts[class * self.classes + predicted] += 1);
        Ok(())
    }

    /// Returns the counts, i64 `[classes, classes]`, with a row for each true class.
    pub fn counts(&self) -> Tensor {
        Tensor::from_slice([self.classes, self.classes], &self.counts)
    }

    fn all(&self) -> i64 {
        self.counts.iter().sum()
    }

    /// Returns the true positives of a class, the samples predicted as the class, and the samples of the class.
    fn of(&self, class: usize) -> [f64; 3] {
        let row = &self.counts[class * self.classes..][..self.classes];
        let column: i64 = self.counts.iter().skip(class).step_by(self.classes).sum();
        [row[class], column, row.iter().sum()].map(|it| it as f64)
    }
}

/// The reduction of per-class values to one number.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::{Average, Metric, Recall};
/// // All of three samples of class 0, and none of one sample of class 1.
/// let recall = |average| {
///     let mut metric = Recall::new(2).average(average);
///     metric.update(&tensor![0, 0, 0, 0], &tensor![0, 0, 0, 1])?;
///     metric.eval()
/// };
/// assert_eq!([recall(Average::Macro)?, recall(Average::Micro)?, recall(Average::Weighted)?], [0.5, 0.75, 0.75]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Average {
    /// The unweighted mean over classes.
    #[default]
    Macro,
    /// The value for all samples together.
    Micro,
    /// The mean over classes, weighted by their numbers of samples.
    Weighted,
}

/// Divides; zero divided by zero is zero.
fn quotient(part: f64, all: f64) -> f64 {
    if all == 0.0 { 0.0 } else { part / all }
}

/// Computes the value of a class from its counts.
type OfClass = fn([f64; 3]) -> f64;

fn averaged(matrix: &ConfusionMatrix, average: Average, of_class: OfClass, metric: &str) -> Result<f64> {
    if matrix.all() == 0 {
        return Err(no_samples(metric));
    }
    let counts = (0..matrix.classes).map(|it| matrix.of(it));
    Ok(match average {
        Average::Macro => counts.map(of_class).sum::<f64>() / matrix.classes as f64,
        Average::Weighted => counts.map(|it| of_class(it) * it[2]).sum::<f64>() / matrix.all() as f64,
        Average::Micro => of_class(counts.fold([0.0; 3], |sum, it| std::array::from_fn(|at| sum[at] + it[at]))),
    })
}

macro_rules! scores {
    ($($(#[$about:meta])* $name:ident, $text:literal, $of_class:expr;)*) => {$(
        $(#[$about])*
        ///
        /// Predictions and targets are as in [`ConfusionMatrix`]. Zero divided by zero is zero. The result is the
        /// unweighted mean over classes unless [`average`](Self::average) sets a different reduction.
        #[derive(Clone, Debug)]
        pub struct $name {
            matrix: ConfusionMatrix,
            average: Average,
        }

        impl $name {
            /// Creates the metric without samples, for this number of classes.
            ///
            /// # Panics
            /// Raises [`Code::Argument`] for zero classes.
            #[track_caller]
            pub fn new(classes: usize) -> Self {
                Self { matrix: ConfusionMatrix::new(classes), average: Average::default() }
            }

            /// Sets the reduction over classes.
            pub fn average(self, average: Average) -> Self {
                Self { average, ..self }
            }

            /// Returns the value of each class.
            pub fn per_class(&self) -> Vec<f64> {
                let of_class: OfClass = $of_class;
                (0..self.matrix.classes).map(|it| of_class(self.matrix.of(it))).collect()
            }
        }

        impl Metric for $name {
            fn name(&self) -> String {
                $text.to_owned()
            }

            fn clear(&mut self) {
                self.matrix.clear();
            }

            fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
                self.matrix.update(predictions, targets).map_err(|it| it.with_op(stringify!($name)))
            }

            fn eval(&self) -> Result<f64> {
                averaged(&self.matrix, self.average, $of_class, stringify!($name))
            }
        }
    )*};
}

scores! {
    /// Precision: the fraction of samples predicted as a class that belong to it.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::train::{Metric, Precision};
    /// let mut metric = Precision::new(2);
    /// metric.update(&tensor![0, 1, 1], &tensor![0, 0, 1])?;
    /// assert_eq!((metric.per_class(), metric.eval()?), (vec![1.0, 0.5], 0.75));
    /// # Ok::<(), ms::Error>(())
    /// ```
    Precision, "precision", |[right, predicted, _]| quotient(right, predicted);
    /// Recall: the fraction of samples of a class that are predicted as the class.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::train::{Metric, Recall};
    /// let mut metric = Recall::new(2);
    /// metric.update(&tensor![0, 1, 1], &tensor![0, 0, 1])?;
    /// assert_eq!((metric.per_class(), metric.eval()?), (vec![0.5, 1.0], 0.75));
    /// # Ok::<(), ms::Error>(())
    /// ```
    Recall, "recall", |[right, _, all]| quotient(right, all);
    /// The F1 score: the harmonic mean of precision and recall.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::train::{Metric, F1};
    /// let mut metric = F1::new(2);
    /// metric.update(&tensor![0, 1, 1], &tensor![0, 0, 1])?;
    /// assert!((metric.eval()? - 2.0 / 3.0).abs() < 1e-9);
    /// # Ok::<(), ms::Error>(())
    /// ```
    F1, "f1", |[right, predicted, all]| quotient(2.0 * right, predicted + all);
}
