//! Normalisations: layer, RMS, group, instance and batch normalisation.

mod composites;

pub use composites::{BATCH_NORM, GROUP_NORM, INSTANCE_NORM, LAYER_NORM, RMS_NORM};

use crate::ops::core::axis::{named, normalize_axis, stored_axis};
use crate::ops::core::composite::first_result;
use crate::ops::core::rules::{Interval, check_dims, check_interval};
use crate::ops::core::wide::{result_dtype, rounded, widened};
use crate::ops::{assert_that, mean, size, var};
use crate::tensor::{AsTensor, DType, Dim, Tensor, first_poisoned};
use composites::{EpsAttrs, GroupNormAttrs, LayerNormAttrs, RmsNormAttrs};
use ms_ir::error::{Code, Error, OrRaise, Result, called};

/// Returns the first axis of a normalisation; a negative one counts from the end.
fn first_axis(op: &str, x: &Tensor, begin: isize) -> Result<usize> {
    normalize_axis(begin, x.rank()).map_err(|it| named(op, &[x], it))
}

/// Checks that an operand is a scalar or has the shape of the axes of `x` from `axis` on.
fn over_axes(op: &str, x: &Tensor, axis: usize, name: &str, operand: &Tensor) -> Result<()> {
    stored_axis(axis, x.rank()).map_err(|it| named(op, &[x], it))?;
    if operand.rank() == 0 { Ok(()) } else { check_dims(op, name, operand, &x.dims()[axis..]) }
}

/// Returns the number of channels of `x` `[n, c, ..]`, and checks that operands have one entry for each.
fn channels(op: &str, x: &Tensor, per_channel: &[(&str, &Tensor)]) -> Result<Dim> {
    let &[_, channels, ..] = &x.dims()[..] else {
        let error = Error::new(Code::Shape, format!("{} has no axes of examples and channels", x.ty()));
        return Err(error.with_op(op));
    };
    per_channel.iter().try_for_each(|(name, it)| check_dims(op, name, it, &[channels]))?;
    Ok(channels)
}

/// Checks that statistics are of at least two values, as the unbiased variance divides by their number minus one. A
/// symbolic size is checked in calls.
#[track_caller]
fn check_count(op: &str, x: &Tensor, count: Dim) -> Result<()> {
    let needed = "statistics need two values for each channel at least";
    match count.as_const() {
        Some(2..) => {}
        Some(count) => {
            let error = Error::new(Code::Argument, format!("{needed}, and {} has {count}", x.ty()));
            return Err(named(op, &[x], error.help("in evaluation the kept statistics are taken")));
        }
        None => assert_that(size(count, DType::I64).gt(1), &format!("`{op}`: {needed}"), &[]),
    }
    Ok(())
}

/// Returns the number of values of each channel of `x` `[n, c, ..]`.
fn counted(x: &Tensor) -> Dim {
    x.dims().iter().enumerate().filter(|it| it.0 != 1).map(|it| *it.1).product()
}

/// Aligns one entry per channel with axis 1 of a tensor of `rank`.
fn per_channel(x: &Tensor, rank: usize) -> Tensor {
    let mut dims = vec![Dim::new(1); rank];
    dims[1] = x.ty().elements();
    x.reshape(dims)
}

/// Returns `(x - mean) / sqrt(variance + eps) * gamma + beta` over the axes from `begin_norm_axis` on. `gamma` and
/// `beta` have the shape of these axes, or are scalars (Ba et al. 2016, "Layer Normalization").
///
/// # Panics
/// Raises [`Code::OutOfRange`] for an axis that does not exist, [`Code::Shape`] for a `gamma` or `beta` of another
/// shape, and [`Code::Argument`] unless `eps` is positive and finite.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::layer_norm(tensor![[1., 3.]], None, None, -1, 1e-9).to_vec::<f32>(), [-1., 1.]);
/// ```
#[track_caller]
pub fn layer_norm(
    x: impl AsTensor,
    gamma: Option<&Tensor>,
    beta: Option<&Tensor>,
    begin_norm_axis: isize,
    eps: f64,
) -> Tensor {
    let _called = called("layer_norm");
    let x = &*x.as_tensor();
    propagate_poison!(x);
    or_poison!(check_interval("layer_norm", "eps", eps, &Interval::POSITIVE));
    let axis = or_poison!(first_axis("layer_norm", x, begin_norm_axis));
    for it in [gamma, beta].into_iter().flatten() {
        propagate_poison!(it);
    }
    let operands: Vec<&Tensor> = [Some(x), gamma, beta].into_iter().flatten().collect();
    first_result(&LAYER_NORM, &LayerNormAttrs::attrs(axis, eps, gamma.is_some()), &operands)
}

/// Returns `x / sqrt(mean(x²) + eps) * gamma` over the axes from `begin_norm_axis` on (Zhang and Sennrich 2019, "Root
/// Mean Square Layer Normalization").
///
/// # Panics
/// Panics in the cases of [`layer_norm`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::rms_norm(tensor![[3., 3.]], tensor![1., 2.], -1, 1e-9).to_vec::<f32>(), [1., 2.]);
/// ```
#[track_caller]
pub fn rms_norm(x: impl AsTensor, gamma: impl AsTensor, begin_norm_axis: isize, eps: f64) -> Tensor {
    let _called = called("rms_norm");
    let (x, gamma) = (&*x.as_tensor(), &*gamma.as_tensor());
    propagate_poison!(x, gamma);
    or_poison!(check_interval("rms_norm", "eps", eps, &Interval::POSITIVE));
    let axis = or_poison!(first_axis("rms_norm", x, begin_norm_axis));
    first_result(&RMS_NORM, &RmsNormAttrs::attrs(axis, eps), &[x, gamma])
}

/// Applies [`layer_norm`] to each of `groups` groups of channels of `x` `[n, c, ..]`, with a `gamma` and a `beta` per
/// channel (Wu and He 2018, "Group Normalization").
///
/// # Panics
/// Raises [`Code::Argument`] unless the groups divide the channels and `eps` is positive and finite. Raises
/// [`Code::Shape`] when `x` has no channels, and for a `gamma` or `beta` of another shape.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[1., 3.], [5., 7.]]];
/// let y = ops::group_norm(&x, 2, tensor![1., 1.], tensor![0., 0.], 1e-9);
/// assert_eq!(y.to_vec::<f32>(), [-1., 1., -1., 1.]);
/// ```
#[track_caller]
pub fn group_norm(x: impl AsTensor, groups: usize, gamma: impl AsTensor, beta: impl AsTensor, eps: f64) -> Tensor {
    let _called = called("group_norm");
    let (x, gamma, beta) = (&*x.as_tensor(), &*gamma.as_tensor(), &*beta.as_tensor());
    propagate_poison!(x, gamma, beta);
    or_poison!(check_interval("group_norm", "eps", eps, &Interval::POSITIVE));
    first_result(&GROUP_NORM, &GroupNormAttrs::attrs(groups, eps), &[x, gamma, beta])
}

/// Applies [`group_norm`] to groups of one channel (Ulyanov et al. 2016, "Instance Normalization").
///
/// # Panics
/// Panics in the cases of [`group_norm`], and raises [`Code::Argument`] for channels of fewer than two values.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[1., 3.]]];
/// assert_eq!(ops::instance_norm(&x, tensor![2.], tensor![1.], 1e-9).to_vec::<f32>(), [-1., 3.]);
/// ```
#[track_caller]
pub fn instance_norm(x: impl AsTensor, gamma: impl AsTensor, beta: impl AsTensor, eps: f64) -> Tensor {
    let _called = called("instance_norm");
    let (x, gamma, beta) = (&*x.as_tensor(), &*gamma.as_tensor(), &*beta.as_tensor());
    propagate_poison!(x, gamma, beta);
    or_poison!(check_interval("instance_norm", "eps", eps, &Interval::POSITIVE));
    or_poison!(channels("instance_norm", x, &[]));
    or_poison!(check_count("instance_norm", x, x.dims()[2..].iter().copied().product()));
    first_result(&INSTANCE_NORM, &EpsAttrs::attrs(eps), &[x, gamma, beta])
}

/// The mean and the variance of [`batch_norm`], with one entry per channel.
///
/// ```
/// use ms_core::{ops, tensor};
/// let kept = ops::BatchStatistics { mean: tensor![0.0], var: tensor![1.0] };
/// // A batch with the mean 3, and the variance 2 with one degree of freedom less.
/// let next = kept.updated(tensor![[2.0], [4.0]], 0.5);
/// assert_eq!((next.mean.to_vec::<f32>(), next.var.to_vec::<f32>()), (vec![1.5], vec![1.5]));
/// ```
#[derive(Clone, Debug)]
pub struct BatchStatistics {
    /// The means.
    pub mean: Tensor,
    /// The variances.
    pub var: Tensor,
}

impl BatchStatistics {
    /// Returns the statistics of `x` `[n, c, ..]`; the variance is divided by `n - ddof`.
    ///
    /// # Errors
    /// [`Code::Argument`] for channels of fewer than two values.
    #[track_caller]
    fn of(x: &Tensor, ddof: usize) -> Result<Self> {
        check_count("batch_norm", x, counted(x))?;
        let axes: Vec<isize> = (0..x.rank() as isize).filter(|&it| it != 1).collect();
        Ok(Self { mean: mean(x, &axes), var: var(x, &axes, ddof) })
    }

    /// Moves the statistics by `momentum` towards the statistics of `x` `[n, c, ..]`, without a gradient. The variance
    /// of `x` is divided by `n - 1`.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for channels of fewer than two values, and a `momentum` that is not from 0 to 1.
    /// Raises [`Code::Shape`] unless the statistics have one entry for each channel.
    #[track_caller]
    pub fn updated(&self, x: impl AsTensor, momentum: f64) -> Self {
        let x = crate::ops::stop_gradient(x);
        if first_poisoned(&[&x, &self.mean, &self.var]).is_some() {
            return self.clone();
        }
        check_interval("batch_norm", "momentum", momentum, &Interval::SHARE).or_raise();
        channels("batch_norm", &x, &[("mean", &self.mean), ("var", &self.var)]).or_raise();
        let round = |it: Tensor, old: &Tensor| match result_dtype([Some(&x), Some(old)]) {
            Some(dtype) => rounded(it, dtype),
            None => it,
        };
        let batch = Self::of(&widened(&x), 1).or_raise();
        let mix = |old: &Tensor, new: &Tensor| round(widened(old) * (1.0 - momentum) + new * momentum, old);
        Self { mean: mix(&self.mean, &batch.mean), var: mix(&self.var, &batch.var) }
    }
}

/// Returns `(x - mean) / sqrt(variance + eps) * gamma + beta` per channel of `x` `[n, c, ..]`. Uses the given
/// statistics, or the statistics of `x` while training (Ioffe and Szegedy 2015, "Batch Normalization").
///
/// # Panics
/// Raises [`Code::Shape`] when `x` has no channels, and for operands that do not have one entry for each. Raises
/// [`Code::Argument`] when the statistics of `x` are used and channels have fewer than two values, and unless `eps` is
/// positive and finite.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[1.], [3.]];
/// assert_eq!(ops::batch_norm(&x, tensor![1.], tensor![0.], None, 1e-9).to_vec::<f32>(), [-1., 1.]);
/// ```
#[track_caller]
pub fn batch_norm(
    x: impl AsTensor,
    gamma: impl AsTensor,
    beta: impl AsTensor,
    statistics: Option<&BatchStatistics>,
    eps: f64,
) -> Tensor {
    let _called = called("batch_norm");
    let (x, gamma, beta) = (&*x.as_tensor(), &*gamma.as_tensor(), &*beta.as_tensor());
    propagate_poison!(x, gamma, beta);
    or_poison!(check_interval("batch_norm", "eps", eps, &Interval::POSITIVE));
    or_poison!(channels("batch_norm", x, &[]));
    let operands = match statistics {
        Some(BatchStatistics { mean, var }) => {
            propagate_poison!(mean, var);
            vec![x, gamma, beta, mean, var]
        }
        None => {
            or_poison!(check_count("batch_norm", x, counted(x)));
            vec![x, gamma, beta]
        }
    };
    first_result(&BATCH_NORM, &EpsAttrs::attrs(eps), &operands)
}
