//! Elementwise losses.

use super::{check_same_shape, losses};
use crate::prelude::*;
use ms_core::error::OrRaise;
use ms_core::ops::Reduction;
use ms_core::ops::rules::{Interval, check_interval};
use std::f64::consts::PI;

losses! {
    /// The squared error `(x - target)²`, for `x` and `target` of one shape.
    ///
    /// ```
    /// use ms::prelude::*;
    /// assert_eq!(nn::MSELoss::new().call(&tensor![1.0, 2.0], &tensor![3.0, 2.0]).item::<f32>(), 2.0);
    /// let sum = nn::MSELoss::new().reduction(ops::Reduction::Sum);
    /// assert_eq!(sum.call(&tensor![1.0, 2.0], &tensor![3.0, 2.0]).item::<f32>(), 4.0);
    /// ```
    MSELoss(x, target) {} => |_it| {
        check_same_shape("MSELoss", x, &[("target", target)]);
        (x - target).square()
    };

    /// The absolute error `|x - target|`, for `x` and `target` of one shape.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::L1Loss::new().call(&tensor![1.0, 2.0], &tensor![3.0, 2.0]);
    /// assert!((loss.item::<f32>() - 1.0).abs() < 1e-6);
    /// ```
    L1Loss(x, target) {} => |_it| {
        check_same_shape("L1Loss", x, &[("target", target)]);
        (x - target).abs()
    };

    /// The smooth L1 loss ([`ops::smooth_l1_loss`]): `d² / (2 beta)` where `d = |x - target|` is below `beta`, else
    /// `d - beta / 2`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::SmoothL1Loss::new().beta(1.0).call(&tensor![0.5, 3.0], &tensor![0.0, 0.0]);
    /// assert!((loss.item::<f32>() - (0.125 + 2.5) / 2.0).abs() < 1e-6);
    /// ```
    SmoothL1Loss(x, target) {
        /// Sets the distance at which the loss becomes linear; 1 by default.
        beta: f64 = 1.0,
    } => |it| ops::smooth_l1_loss(x, target, it.beta, Reduction::None);

    /// The Huber loss ([`ops::huber_loss`]): `d² / 2` where `d = |x - target|` is at most `delta`, else
    /// `delta (d - delta / 2)`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::HuberLoss::new().delta(2.0).call(&tensor![1.0, 4.0], &tensor![0.0, 0.0]);
    /// assert!((loss.item::<f32>() - (0.5 + 6.0) / 2.0).abs() < 1e-6);
    /// ```
    HuberLoss(x, target) {
        /// Sets the distance at which the loss becomes linear; 1 by default.
        delta: f64 = 1.0,
    } => |it| ops::huber_loss(x, target, it.delta, Reduction::None);

    /// The binary cross entropy of probabilities and targets of one shape ([`ops::binary_cross_entropy`]).
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::BCELoss::new().call(&tensor![0.5], &tensor![1.0]);
    /// assert!((loss.item::<f32>() - 2f32.ln()).abs() < 1e-6);
    /// ```
    BCELoss(x, target) {
        /// Sets a weight for each loss, which broadcasts.
        weight: Option<Tensor> = None,
    } => |it| ops::binary_cross_entropy(x, target, it.weight.as_ref(), Reduction::None);

    /// The binary cross entropy of sigmoids of logits `x`, with targets of one shape ([`ops::bce_with_logits`]).
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::BCEWithLogitsLoss::new().call(&tensor![0.0], &tensor![1.0]);
    /// assert!((loss.item::<f32>() - 2f32.ln()).abs() < 1e-6);
    /// ```
    BCEWithLogitsLoss(x, target) {
        /// Sets a weight for each loss, which broadcasts.
        weight: Option<Tensor> = None,
        /// Sets a weight for the losses of positive targets, which broadcasts.
        pos_weight: Option<Tensor> = None,
    } => |it| {
        let losses = ops::bce_with_logits(x, target, it.pos_weight.as_ref(), Reduction::None);
        match &it.weight {
            Some(weight) => losses * weight,
            None => losses,
        }
    };

    /// The Kullback-Leibler divergence of log-probabilities, elementwise ([`ops::kl_div`]). [`Reduction::BatchMean`]
    /// gives the divergence of distributions.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let even = tensor![[0.5, 0.5]].log();
    /// let loss = nn::KLDivLoss::new().reduction(ops::Reduction::BatchMean).call(&even, &tensor![[1.0, 0.0]]);
    /// assert!((loss.item::<f32>() - 2f32.ln()).abs() < 1e-6);
    /// ```
    KLDivLoss(x, target) {
        /// Sets whether the target holds log-probabilities too.
        log_target: bool = false,
    } => |it| ops::kl_div(x, target, it.log_target, Reduction::None);

    /// The negative log-likelihood of counts under Poisson distributions: `e^x - target x`, where `x` is the logarithm
    /// of the mean.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::PoissonNLLLoss::new().call(&tensor![0.0], &tensor![3.0]);
    /// assert!((loss.item::<f32>() - 1.0).abs() < 1e-6);
    /// ```
    PoissonNLLLoss(x, target) {
        /// Sets whether `x` is the logarithm of the mean (the default) or the mean itself.
        log_input: bool = true,
        /// Sets whether Stirling's approximation of `log(target!)` is added for targets above one.
        full: bool = false,
        /// Sets the number added to a mean before its logarithm is taken; 1e-8 by default.
        eps: f64 = 1e-8,
    } => |it| {
        check_same_shape("PoissonNLLLoss", x, &[("target", target)]);
        let losses = match it.log_input {
            true => ops::exp(x) - target * x,
            false => x - target * ops::log(x + it.eps),
        };
        if !it.full {
            return losses;
        }
        let large = target.gt(1.0);
        let count = ops::select(&large, target, 1.0);
        let logarithm = ops::log(&count);
        let stirling = &count * &logarithm - &count + 0.5 * (logarithm + (2.0 * PI).ln());
        losses + ops::select(large, stirling, 0.0)
    };

    /// The negative log-likelihood under normal distributions of means `x` and variances `variance`:
    /// `(log variance + (x - target)² / variance) / 2`. The variance broadcasts to `x`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::GaussianNLLLoss::new().call(&tensor![1.0], &tensor![3.0], &tensor![1.0]);
    /// assert!((loss.item::<f32>() - 2.0).abs() < 1e-6);
    /// ```
    GaussianNLLLoss(x, target, variance) {
        /// Sets whether the constant `log(2π) / 2` is added.
        full: bool = false,
        /// Sets the lower bound of the variance, 1e-6 by default. A smaller variance is clamped and has no gradient.
        eps: f64 = 1e-6,
    } => |it| {
        check_interval("GaussianNLLLoss", "eps", it.eps, &Interval::POSITIVE).or_raise();
        check_same_shape("GaussianNLLLoss", x, &[("target", target)]);
        let small = ops::stop_gradient(variance).lt(it.eps);
        let variance = variance + ops::stop_gradient(ops::select(small, it.eps - variance, 0.0));
        let losses = 0.5 * (ops::log(&variance) + (x - target).square() / variance);
        if it.full { losses + 0.5 * (2.0 * PI).ln() } else { losses }
    };

    /// The soft margin loss `log(1 + e^(-target x))` for targets of 1 and -1, of the shape of `x`.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::SoftMarginLoss::new().call(&tensor![0.0], &tensor![-1.0]);
    /// assert!((loss.item::<f32>() - 2f32.ln()).abs() < 1e-6);
    /// ```
    SoftMarginLoss(x, target) {} => |_it| {
        check_same_shape("SoftMarginLoss", x, &[("target", target)]);
        -ops::logsigmoid(x * target)
    };

    /// The hinge embedding loss: `x` where the target is 1, and `max(margin - x, 0)` where it is -1; both have one
    /// shape.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loss = nn::HingeEmbeddingLoss::new().call(&tensor![0.25, 0.25], &tensor![1.0, -1.0]);
    /// assert!((loss.item::<f32>() - (0.25 + 0.75) / 2.0).abs() < 1e-6);
    /// ```
    HingeEmbeddingLoss(x, target) {
        /// Sets the margin; 1 by default.
        margin: f64 = 1.0,
    } => |it| {
        check_interval("HingeEmbeddingLoss", "margin", it.margin, &Interval::FINITE).or_raise();
        check_same_shape("HingeEmbeddingLoss", x, &[("target", target)]);
        ops::select(target.gt(0), x, ops::clamp_min(it.margin - x, 0.0))
    };
}
