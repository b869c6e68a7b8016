//! Regression errors.

use super::{Metric, no_samples, numbers, refuse};
use ms_core::{Code, Result, Tensor};

macro_rules! errors {
    ($($(#[$about:meta])* $name:ident, $text:literal, $of:expr;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            sum: f64,
            count: u64,
        }

        impl $name {
            /// Creates the metric without samples.
            pub fn new() -> Self {
                Self::default()
            }
        }

        impl Metric for $name {
            fn name(&self) -> String {
                $text.to_owned()
            }

            fn clear(&mut self) {
                *self = Self::new();
            }

            fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
                if predictions.shape() != targets.shape() {
                    let message = "there is one prediction for each target".to_owned();
                    return Err(refuse(stringify!($name), Code::Shape, message, [predictions, targets]));
                }
                let of: fn(f64) -> f64 = $of;
                let (got, want) = (numbers(predictions)?, numbers(targets)?);
                self.sum += got.iter().zip(&want).map(|(got, want)| of(got - want)).sum::<f64>();
                self.count += got.len() as u64;
                Ok(())
            }

            fn eval(&self) -> Result<f64> {
                match self.count {
                    0 => Err(no_samples(stringify!($name))),
                    count => Ok(self.sum / count as f64),
                }
            }
        }
    )*};
}

errors! {
    /// The mean absolute error over all elements of predictions and targets of one shape. MindSpore divides by the
    /// number of rows instead.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::train::{Metric, MAE};
    /// let mut metric = MAE::new();
    /// metric.update(&tensor![1.0, 2.0], &tensor![3.0, 2.0])?;
    /// assert_eq!(metric.eval()?, 1.0);
    /// # Ok::<(), ms::Error>(())
    /// ```
    MAE, "mae", f64::abs;
    /// The mean squared error over all elements of predictions and targets of one shape. MindSpore divides by the
    /// number of rows instead.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::train::{Metric, MSE};
    /// let mut metric = MSE::new();
    /// metric.update(&tensor![1.0, 2.0], &tensor![3.0, 2.0])?;
    /// assert_eq!(metric.eval()?, 2.0);
    /// # Ok::<(), ms::Error>(())
    /// ```
    MSE, "mse", |it| it * it;
}
