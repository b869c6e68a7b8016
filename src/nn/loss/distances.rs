//! Losses by the distance of rows, and losses of whole tensors.

use super::{check_same_shape, losses, widen};
use crate::prelude::*;
use ms_core::error::OrRaise;
use ms_core::ops::Reduction;
use ms_core::ops::rules::{Interval, check_interval};

losses! {
    /// The cosine embedding loss of rows of `x1` and `x2` ([`ops::cosine_embedding_loss`]): `1 - cos` where the target
    /// is 1, and `max(cos - margin, 0)` where it is -1.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::CosineEmbeddingLoss::new().call(&tensor![[1.0, 0.0]], &tensor![[0.0, 1.0]], &tensor![1]);
    /// assert!((loss.item::<f32>() - 1.0).abs() < 1e-6);
    /// ```
    CosineEmbeddingLoss(x1, x2, target) {
        /// Sets the margin; zero by default.
        margin: f64 = 0.0,
    } => |it| ops::cosine_embedding_loss(x1, x2, target, it.margin, Reduction::None);

    /// The margin ranking loss `max(margin - target (x1 - x2), 0)`. Where the target is 1, `x1` should be larger by the
    /// margin; where it is -1, `x2` should be.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::MarginRankingLoss::new().call(&tensor![1.0], &tensor![3.0], &tensor![1.0]);
    /// assert!((loss.item::<f32>() - 2.0).abs() < 1e-6);
    /// ```
    MarginRankingLoss(x1, x2, target) {
        /// Sets the margin; zero by default.
        margin: f64 = 0.0,
    } => |it| {
        check_interval("MarginRankingLoss", "margin", it.margin, &Interval::FINITE).or_raise();
        check_same_shape("MarginRankingLoss", x1, &[("x2", x2), ("target", target)]);
        ops::clamp_min(it.margin - target * (x1 - x2), 0.0)
    };

    /// The triplet margin loss of rows: `max(d(anchor, positive) - d(anchor, negative) + margin, 0)` with the distance
    /// `d(a, b) = norm(a - b + eps)` (Balntas et al. 2016, "Learning Shallow Convolutional Feature Descriptors with
    /// Triplet Losses").
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::TripletMarginLoss::new().call(&tensor![[0.0, 0.0]], &tensor![[3.0, 4.0]], &tensor![[0.0, 1.0]]);
    /// assert!((loss.item::<f32>() - (5.0 - 1.0 + 1.0)).abs() < 1e-4);
    /// ```
    TripletMarginLoss(anchor, positive, negative) {
        /// Sets the margin; 1 by default.
        margin: f64 = 1.0,
        /// Sets the order of the norm; 2 by default.
        p: f64 = 2.0,
        /// Sets the number added to every difference; 1e-6 by default.
        eps: f64 = 1e-6,
        /// Sets whether the distance between positive and negative is used if it is smaller than the distance between
        /// anchor and negative.
        swap: bool = false,
    } => |it| {
        check_interval("TripletMarginLoss", "margin", it.margin, &Interval::FINITE).or_raise();
        check_same_shape("TripletMarginLoss", anchor, &[("positive", positive), ("negative", negative)]);
        let distance = |a: &Tensor, b: &Tensor| ops::norm(a - b + it.eps, it.p, -1);
        let mut apart = distance(anchor, negative);
        if it.swap {
            apart = ops::minimum(apart, distance(positive, negative));
        }
        ops::clamp_min(distance(anchor, positive) - apart + it.margin, 0.0)
    };
}

/// The root mean square error: the square root of the mean of `(x - target)²`.
///
/// ```
/// use ms::prelude::*;
/// assert_eq!(nn::RMSELoss.call(&tensor![1.0, 2.0], &tensor![5.0, 2.0]).item::<f32>(), 8f32.sqrt());
/// ```
#[cell]
#[derive(Clone, Copy, Debug, Default)]
pub struct RMSELoss;

#[cell]
impl RMSELoss {
    fn construct(&self, x: &Tensor, target: &Tensor) -> Tensor {
        let square = ops::mse_loss(widen(x), widen(target));
        // The square root of zero has an infinite gradient.
        let zero = square.eq(0.0);
        ops::select(&zero, 0.0, ops::sqrt(ops::select(&zero, 1.0, square)))
    }
}

/// The Dice loss `1 - 2 Σ x target / (Σ x² + Σ target² + smooth)` over all elements (Milletari et al. 2016, "V-Net").
///
/// ```
/// use ms::prelude::*;
/// let loss = nn::DiceLoss::default().call(&tensor![1.0, 0.0], &tensor![1.0, 0.0]).item::<f32>();
/// assert!(loss < 1e-4);
/// ```
#[cell]
#[derive(Clone, Debug)]
pub struct DiceLoss {
    /// The term added to the divisor; positive, 1e-5 by default.
    pub smooth: f64,
}

impl Default for DiceLoss {
    fn default() -> Self {
        Self { smooth: 1e-5 }
    }
}

#[cell]
impl DiceLoss {
    fn construct(&self, x: &Tensor, target: &Tensor) -> Tensor {
        check_interval("DiceLoss", "smooth", self.smooth, &Interval::POSITIVE).or_raise();
        check_same_shape("DiceLoss", x, &[("target", target)]);
        let (x, target) = (&widen(x), &widen(target));
        let sum = |it: Tensor| it.sum(());
        1.0 - 2.0 * sum(x * target) / (sum(x.square()) + sum(target.square()) + self.smooth)
    }
}

/// The mean over classes of the [`DiceLoss`], each multiplied by the weight of its class. A softmax over the classes is
/// applied to logits `[n, classes, ..]`. Targets have the same shape, with one where an element belongs to the class.
///
/// ```
/// use ms::prelude::*;
/// let (logits, target) = (tensor![[20.0, -20.0], [-20.0, 20.0]], tensor![[1.0, 0.0], [0.0, 1.0]]);
/// assert!(nn::MultiClassDiceLoss::new().call(&logits, &target).item::<f32>() < 1e-4);
/// ```
#[cell]
#[derive(Clone, Debug)]
pub struct MultiClassDiceLoss {
    smooth: f64,
    weight: Option<Tensor>,
    ignored: Option<usize>,
}

impl Default for MultiClassDiceLoss {
    fn default() -> Self {
        Self { smooth: 1e-5, weight: None, ignored: None }
    }
}

#[cell]
impl MultiClassDiceLoss {
    /// Creates the loss with equal class weights.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the term added to the divisors; positive, 1e-5 by default.
    pub fn smooth(mut self, smooth: f64) -> Self {
        self.smooth = smooth;
        self
    }

    /// Sets the weight of each class, `[classes]`; one by default.
    pub fn weight(mut self, weight: Tensor) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Ignores a class. It still counts in the divisor of the mean.
    pub fn ignore_index(mut self, class: usize) -> Self {
        self.ignored = Some(class);
        self
    }

    fn construct(&self, x: &Tensor, target: &Tensor) -> Tensor {
        check_interval("MultiClassDiceLoss", "smooth", self.smooth, &Interval::POSITIVE).or_raise();
        check_same_shape("MultiClassDiceLoss", x, &[("target", target)]);
        let (x, target) = (&widen(x), &widen(target));
        let classes = x.dim(1);
        let others: Vec<i64> = (0..x.rank() as i64).filter(|it| *it != 1).collect();
        let sum = |it: Tensor| it.sum(&others[..]);
        let p = ops::softmax(x, 1);
        let mut loss = 1.0 - 2.0 * sum(&p * target) / (sum(p.square()) + sum(target.square()) + self.smooth);
        if let Some(weight) = &self.weight {
            check_same_shape("MultiClassDiceLoss", &loss, &[("weight", weight)]);
            loss = loss * weight;
        }
        if let Some(ignored) = self.ignored {
            let kept = Tensor::arange(classes).ne(ignored as i64);
            loss = loss * kept.cast(x.dtype());
        }
        loss.mean(())
    }
}
