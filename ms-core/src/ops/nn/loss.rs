//! Losses.

use super::softmax::log_softmax;
use crate::error::{Code, Error, raise};
use crate::ops::{arange, mean, select, sum};
use crate::tensor::{AsTensor, Tensor};

/// What becomes of the losses of the examples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// All of them.
    None,
}

impl Reduction {
    fn apply(self, losses: &Tensor) -> Tensor {
        match self {
            Self::Mean => mean(losses, (), false),
            Self::Sum => sum(losses, (), false),
            Self::None => losses.clone(),
        }
    }
}

/// The mean of `(x - target)²`.
#[track_caller]
pub fn mse_loss(x: impl AsTensor, target: impl AsTensor) -> Tensor {
    let difference = &*x.as_tensor() - &*target.as_tensor();
    Reduction::Mean.apply(&(&difference * &difference))
}

/// The mean of `|x - target|`.
#[track_caller]
pub fn l1_loss(x: impl AsTensor, target: impl AsTensor) -> Tensor {
    let difference = &*x.as_tensor() - &*target.as_tensor();
    Reduction::Mean.apply(&difference.abs())
}

/// The cross entropy of logits with classes or distributions, and its options.
#[derive(Clone, Debug, Default)]
pub struct CrossEntropy {
    /// What becomes of the losses of the examples.
    pub reduction: Reduction,
    /// Rescales the loss of each class: `[classes]`. The mean divides by the weights that count.
    pub weight: Option<Tensor>,
    /// Examples of this class do not count.
    pub ignore_index: Option<i64>,
    /// The share of the target that is spread evenly over all classes.
    pub label_smoothing: f64,
}

/// The mean cross entropy: see [`CrossEntropy::of`].
#[track_caller]
pub fn cross_entropy(logits: impl AsTensor, target: impl AsTensor) -> Tensor {
    CrossEntropy::default().of(logits, target)
}

impl CrossEntropy {
    /// `-Σ target log softmax(logits)` for logits `[n, classes, ..]` and either classes `[n, ..]`
    /// of an integer dtype or distributions `[n, classes, ..]` of a float dtype.
    ///
    /// # Panics
    /// Raises [`Code::Shape`] when the target has neither shape.
    #[track_caller]
    pub fn of(&self, logits: impl AsTensor, target: impl AsTensor) -> Tensor {
        let (logits, target) = (&*logits.as_tensor(), &*target.as_tensor());
        let axis: isize = if logits.rank() < 2 { 0 } else { 1 };
        let classes = logits.shape().get(axis as usize).copied().unwrap_or(0);
        let logs = log_softmax(logits, axis);
        let along = |x: &Tensor| {
            let mut shape = vec![1; logits.rank()];
            shape[axis as usize] = classes;
            x.reshape(&*shape)
        };
        let weighted = match &self.weight {
            Some(weight) => &logs * along(weight),
            None => logs,
        };
        if target.dtype().is_float() {
            let target = self.smooth(target, classes);
            let losses = -sum(&weighted * target, axis, false);
            return match self.reduction {
                Reduction::Mean => sum(&losses, (), false) / (losses.numel() as f64),
                other => other.apply(&losses),
            };
        }
        let mut wanted: Vec<usize> = logits.shape().to_vec();
        wanted.remove(axis as usize);
        if target.shape() != wanted {
            let message = format!("logits {} take classes of shape {wanted:?}, not {}", logits.ty(), target.ty());
            raise(Error::new(Code::Shape, message).with_op("cross_entropy"));
        }
        // A mask instead of a gather: it is one more factor of an elementwise kernel.
        let target = target.expand_dims(axis);
        let hit = target.eq(along(&arange(classes as i64).cast(target.dtype())));
        let picked = |x: &Tensor| sum(select(&hit, x, 0.0), axis, false);
        let mut losses = -picked(&weighted);
        if self.label_smoothing != 0.0 {
            let even = -sum(&weighted, axis, false) / classes as f64;
            losses = losses * (1.0 - self.label_smoothing) + even * self.label_smoothing;
        }
        let counts = self.ignore_index.map(|index| target.squeeze(axis).ne(index));
        if let Some(counts) = &counts {
            losses = select(counts, &losses, 0.0);
        }
        match (self.reduction, &self.weight, &counts) {
            (Reduction::Mean, None, None) => mean(&losses, (), false),
            (Reduction::Mean, weight, counts) => {
                let one = Tensor::ones_like(&losses);
                let share = weight.as_ref().map_or(one, |it| picked(&(along(it) * Tensor::ones_like(logits))));
                let share = counts.as_ref().map_or(share.clone(), |it| select(it, &share, 0.0));
                sum(&losses, (), false) / sum(share, (), false)
            }
            (other, ..) => other.apply(&losses),
        }
    }

    fn smooth(&self, target: &Tensor, classes: usize) -> Tensor {
        if self.label_smoothing == 0.0 {
            return target.clone();
        }
        target * (1.0 - self.label_smoothing) + self.label_smoothing / classes as f64
    }
}
