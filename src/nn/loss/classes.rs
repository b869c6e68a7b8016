//! Classification losses.

use super::{check_same_shape, losses, widen};
use crate::prelude::*;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::{Interval, check_interval};
use ms_core::ops::{CrossEntropy, Reduction};
use ms_core::{Code, Error};

macro_rules! of_classes {
    ($($(#[$doc:meta])* $name:ident: $method:ident $(, $smoothing:ident)?;)*) => {$(
        $(#[$doc])*
        ///
        /// Operands of f16 and bf16 are computed in f32. The mean and the sum are scalars; without a reduction there is
        /// a loss for each example or element.
        ///
        /// # Panics
        /// A call raises [`ms_core::Code::Shape`] for operands with shapes that do not match.
        #[cell]
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            reduction: Reduction,
            weight: Option<Tensor>,
            ignore_index: Option<i64>,
            $($smoothing: f64,)?
        }

        impl $name {
            /// Creates the loss with the mean over all examples.
            pub fn new() -> Self {
                Self::default()
            }

            /// Sets the reduction.
            pub fn reduction(self, reduction: Reduction) -> Self {
                Self { reduction, ..self }
            }

            /// Sets a weight for each class, `[classes]`. The mean is divided by the sum of the weights.
            pub fn weight(self, weight: Tensor) -> Self {
                Self { weight: Some(weight), ..self }
            }

            /// Sets the class of ignored examples.
            pub fn ignore_index(self, class: i64) -> Self {
                Self { ignore_index: Some(class), ..self }
            }

            $(
                /// Sets the label smoothing: the fraction of the target that is distributed evenly over all classes.
                pub fn $smoothing(self, $smoothing: f64) -> Self {
                    Self { $smoothing, ..self }
                }
            )?

            fn options(&self) -> CrossEntropy {
                CrossEntropy {
                    reduction: self.reduction,
                    weight: self.weight.clone(),
                    ignore_index: self.ignore_index,
                    label_smoothing: 0.0 $(+ self.$smoothing)?,
                }
            }
        }

        #[cell]
        impl $name {
            fn construct(&self, x: &Tensor, target: &Tensor) -> Tensor {
                self.options().$method(widen(x), widen(target))
            }
        }
    )*};
}

of_classes! {
    /// The cross entropy between logits `[n, classes, ..]` and class indices `[n, ..]`, or distributions
    /// `[n, classes, ..]` ([`ops::CrossEntropy::of`]).
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::CrossEntropyLoss::new().call(&tensor![[0.0, 0.0]], &tensor![1]);
    /// assert!((loss.item::<f32>() - 2f32.ln()).abs() < 1e-6);
    /// ```
    CrossEntropyLoss: of, label_smoothing;
    /// The negative log-likelihood of class indices `[n, ..]` under log-probabilities `[n, classes, ..]`
    /// ([`ops::CrossEntropy::of_log_probabilities`]).
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::NLLLoss::new().call(&tensor![[0.25, 0.75]].log(), &tensor![0]);
    /// assert!((loss.item::<f32>() - 4f32.ln()).abs() < 1e-6);
    /// ```
    NLLLoss: of_log_probabilities;
}

/// Returns the number of classes of `x` `[n, classes]`.
#[track_caller]
fn classes(loss: &str, x: &Tensor) -> usize {
    match (x.rank(), x.dims().last().and_then(|it| it.as_const())) {
        (2, Some(classes)) => classes,
        _ => {
            let message = format!("{} does not have examples and a constant number of classes", x.ty());
            raise(Error::new(Code::Shape, message).with_op(loss));
        }
    }
}

/// Computes `x^p` for `x >= 0`. Where `x` is zero and `p` is below one, the gradient would be infinite; it is zero
/// here.
#[track_caller]
fn power(x: &Tensor, p: f64) -> Tensor {
    if p == 0.0 || p >= 1.0 {
        return ops::pow(x, p);
    }
    let zero = x.eq(0.0);
    ops::select(&zero, 0.0, ops::pow(ops::select(&zero, 1.0, x), p))
}

losses! {
    /// The mean over classes of the binary cross entropy of logits `x` `[n, classes]` with targets of 0 and 1.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::MultiLabelSoftMarginLoss::new().call(&tensor![[0.0, 0.0]], &tensor![[1.0, 0.0]]);
    /// assert!((loss.item::<f32>() - 2f32.ln()).abs() < 1e-6);
    /// ```
    MultiLabelSoftMarginLoss(x, target) {
        /// Sets a weight for each class, `[classes]`.
        weight: Option<Tensor> = None,
    } => |it| {
        let losses = ops::bce_with_logits(x, target, None, Reduction::None);
        let losses = match &it.weight {
            Some(weight) => losses * weight,
            None => losses,
        };
        losses.mean(-1)
    };

    /// The multi-class margin loss of scores `x` `[n, classes]` and class indices `[n]`:
    /// `Σ max(margin - x[target] + x[i], 0)^p / classes` over the other classes `i`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::MultiMarginLoss::new().call(&tensor![[0.5, 0.25]], &tensor![0]);
    /// assert!((loss.item::<f32>() - (1.0 - 0.5 + 0.25) / 2.0).abs() < 1e-6);
    /// ```
    MultiMarginLoss(x, target) {
        /// Sets the exponent; 1 by default.
        p: f64 = 1.0,
        /// Sets the margin; 1 by default.
        margin: f64 = 1.0,
        /// Sets a weight for each class, `[classes]`.
        weight: Option<Tensor> = None,
    } => |it| {
        check_interval("MultiMarginLoss", "p", it.p, &Interval::POSITIVE).or_raise();
        check_interval("MultiMarginLoss", "margin", it.margin, &Interval::FINITE).or_raise();
        let count = classes("MultiMarginLoss", x);
        let target = target.expand_dims(-1);
        let own = ops::take_along_axis(x, &target, 1);
        let others = target.ne(ops::arange(count as i64));
        // The target class has no loss; an infinite score minus itself would be NaN.
        let short = ops::clamp_min(ops::select(others, it.margin - own + x, 0.0), 0.0);
        let mut losses = if it.p == 1.0 { short } else { power(&short, it.p) };
        if let Some(weight) = &it.weight {
            losses = losses * ops::gather(weight, &target, 0);
        }
        losses.sum(-1) / count as f64
    };

    /// The multi-label margin loss of scores `x` `[n, classes]` and lists of class indices `[n, classes]`. A list ends
    /// before its first negative number. The loss is `Σ max(1 - x[j] + x[i], 0) / classes` over the classes `j` in the
    /// list and the classes `i` that are not in it.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::MultiLabelMarginLoss::new().call(&tensor![[0.5, 0.25]], &tensor![[0, -1]]);
    /// assert!((loss.item::<f32>() - (1.0 - 0.5 + 0.25) / 2.0).abs() < 1e-6);
    /// ```
    MultiLabelMarginLoss(x, target) {} => |_it| {
        check_same_shape("MultiLabelMarginLoss", x, &[("target", target)]);
        let count = classes("MultiLabelMarginLoss", x);
        let listed = ops::cumprod(target.ge(0).cast(DType::I64), 1).gt(0);
        let target = ops::clamp_min(target, 0);
        let hits = target.expand_dims(-1).eq(ops::arange(count as i64));
        let is_target = ops::logical_and(hits, listed.expand_dims(-1)).any(1);
        let own = ops::take_along_axis(x, &target, 1).expand_dims(-1);
        let counted = ops::logical_and(listed.expand_dims(-1), ops::logical_not(is_target).expand_dims(1));
        let short = ops::select(counted, 1.0 - own + x.expand_dims(1), 0.0);
        ops::clamp_min(short, 0.0).sum([1, 2]) / count as f64
    };

    /// The focal loss `-(1 - p)^gamma log p` of logits `[n, classes]` and class indices `[n]`, where `p` is the
    /// probability of the class (Lin et al. 2017, "Focal Loss for Dense Object Detection").
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::FocalLoss::new().gamma(0.0).call(&tensor![[0.0, 0.0]], &tensor![1]);
    /// assert!((loss.item::<f32>() - 2f32.ln()).abs() < 1e-6);
    /// ```
    FocalLoss(x, target) {
        /// Sets the exponent; 2 by default.
        gamma: f64 = 2.0,
        /// Sets a weight for each class, `[classes]`.
        weight: Option<Tensor> = None,
    } => |it| {
        check_interval("FocalLoss", "gamma", it.gamma, &Interval::RATE).or_raise();
        let logarithm = -CrossEntropy { reduction: Reduction::None, ..CrossEntropy::default() }.of(x, target);
        let losses = -power(&-ops::expm1(&logarithm), it.gamma) * logarithm;
        match &it.weight {
            Some(weight) => losses * ops::gather(weight, target, 0),
            None => losses,
        }
    };
}
