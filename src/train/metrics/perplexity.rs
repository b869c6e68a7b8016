//! The perplexity of a language model.

use super::{Metric, Scores, no_samples};
use ms_core::{DType, Result, Tensor, ops};

/// The perplexity: the exponential of the mean cross entropy of logits `[.., classes]` with targets `[..]`.
///
/// ```
/// use ms::{prelude::*, train::{Metric, Perplexity}};
/// let mut metric = Perplexity::new().ignore(-1);
/// metric.update(&Tensor::zeros([3, 4]), &tensor![0, 3, -1])?;
/// assert!((metric.eval()? - 4.0).abs() < 1e-6);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Perplexity {
    ignored: Option<i64>,
    sum: f64,
    count: u64,
}

impl Perplexity {
    /// Creates the metric without tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ignores targets with this number, such as padding. It need not be a class.
    pub fn ignore(self, target: i64) -> Self {
        Self { ignored: Some(target), ..self }
    }
}

impl Metric for Perplexity {
    fn name(&self) -> String {
        "perplexity".to_owned()
    }

    fn clear(&mut self) {
        (self.sum, self.count) = (0.0, 0);
    }

    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        let kept = match self.ignored {
            Some(ignored) if !targets.dtype().is_float() => {
                let wide = ms_core::catch(|| targets.cast(DType::I64))?;
                let kept: Vec<bool> = wide.try_to_vec::<i64>()?.into_iter().map(|it| it != ignored).collect();
                // Ignored targets are replaced by a valid class.
                let known = ms_core::catch(|| ops::select(wide.eq(ignored), Tensor::zeros_like(&wide), &wide))?;
                Some((kept, known))
            }
            _ => None,
        };
        let scores = Scores::new("Perplexity", predictions, kept.as_ref().map_or(targets, |it| &it.1))?;
        for (at, (scores, class)) in scores.rows().enumerate() {
            if kept.as_ref().is_some_and(|it| !it.0[at]) {
                continue;
            }
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|it| (it - most).exp()).sum();
            self.sum += total.ln() - (scores[class] - most);
            self.count += 1;
        }
        Ok(())
    }

    fn eval(&self) -> Result<f64> {
        match self.count {
            0 => Err(no_samples("Perplexity")),
            count => Ok((self.sum / count as f64).exp()),
        }
    }
}
