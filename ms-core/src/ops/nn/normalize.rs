//! Normalisations.

use crate::ops::{mean, rsqrt, var};
use crate::tensor::{AsTensor, Dim, Tensor};

/// `x` with mean zero and variance one over `axes`: `(x - mean) / sqrt(variance + eps)`.
#[track_caller]
fn standardize(x: &Tensor, axes: &[isize], eps: f64) -> Tensor {
    (x - mean(x, axes, true)) * rsqrt(var(x, axes, 0, true) + eps)
}

/// The axes from `begin` on; a negative one counts from the end.
fn axes_from(x: &Tensor, begin: isize) -> Vec<isize> {
    let rank = x.rank() as isize;
    (if begin < 0 { begin + rank } else { begin }..rank).collect()
}

/// One entry per channel, of axis 1, beside a tensor of `rank`.
fn per_channel(x: &Tensor, rank: usize) -> Tensor {
    let mut dims = vec![Dim::new(1); rank];
    dims[1] = x.ty().elements();
    x.reshape(dims)
}

/// `(x - mean) / sqrt(variance + eps) * gamma + beta` over the axes from `begin_norm_axis` on, whose
/// shape `gamma` and `beta` have (Ba et al. 2016, "Layer Normalization").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::layer_norm(tensor![[1., 3.]], None, None, -1, 0.).to_vec::<f32>(), [-1., 1.]);
/// ```
#[track_caller]
pub fn layer_norm(
    x: impl AsTensor,
    gamma: Option<&Tensor>,
    beta: Option<&Tensor>,
    begin_norm_axis: isize,
    eps: f64,
) -> Tensor {
    let x = &*x.as_tensor();
    let normal = standardize(x, &axes_from(x, begin_norm_axis), eps);
    let scaled = gamma.map_or(normal.clone(), |gamma| normal * gamma);
    beta.map_or(scaled.clone(), |beta| scaled + beta)
}

/// `x / sqrt(mean(x²) + eps) * gamma` over the axes from `begin_norm_axis` on (Zhang and Sennrich
/// 2019, "Root Mean Square Layer Normalization").
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::rms_norm(tensor![[3., 3.]], tensor![1., 2.], -1, 0.).to_vec::<f32>(), [1., 2.]);
/// ```
#[track_caller]
pub fn rms_norm(x: impl AsTensor, gamma: impl AsTensor, begin_norm_axis: isize, eps: f64) -> Tensor {
    let x = &*x.as_tensor();
    x * rsqrt(mean(x.square(), axes_from(x, begin_norm_axis), true) + eps) * &*gamma.as_tensor()
}

/// [`layer_norm`] over each of `groups` groups of channels of `x` `[n, c, ..]`, with a `gamma` and a
/// `beta` per channel (Wu and He 2018, "Group Normalization").
///
/// # Panics
/// Raises [`Code::Shape`](crate::Code::Shape) when the groups do not divide the channels.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[1., 3.], [5., 7.]]];
/// let y = ops::group_norm(&x, 2, tensor![1., 1.], tensor![0., 0.], 0.);
/// assert_eq!(y.to_vec::<f32>(), [-1., 1., -1., 1.]);
/// ```
#[track_caller]
pub fn group_norm(x: impl AsTensor, groups: usize, gamma: impl AsTensor, beta: impl AsTensor, eps: f64) -> Tensor {
    let x = &*x.as_tensor();
    let dims = x.dims();
    let rest: Dim = dims[1..].iter().copied().product();
    let grouped = x.reshape((dims[0], groups, rest / groups));
    let normal = standardize(&grouped, &[2], eps).reshape(dims);
    normal * per_channel(&gamma.as_tensor(), x.rank()) + per_channel(&beta.as_tensor(), x.rank())
}

/// [`group_norm`] of groups of one channel (Ulyanov et al. 2016, "Instance Normalization").
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[[1., 3.]]];
/// assert_eq!(ops::instance_norm(&x, tensor![2.], tensor![1.], 0.).to_vec::<f32>(), [-1., 3.]);
/// ```
#[track_caller]
pub fn instance_norm(x: impl AsTensor, gamma: impl AsTensor, beta: impl AsTensor, eps: f64) -> Tensor {
    let x = &*x.as_tensor();
    let axes: Vec<isize> = (2..x.rank() as isize).collect();
    let rank = x.rank();
    standardize(x, &axes, eps) * per_channel(&gamma.as_tensor(), rank) + per_channel(&beta.as_tensor(), rank)
}

/// The mean and the variance by which [`batch_norm`] normalises, each one entry per channel.
#[derive(Clone, Debug)]
pub struct BatchStatistics {
    /// The means.
    pub mean: Tensor,
    /// The variances.
    pub var: Tensor,
}

impl BatchStatistics {
    /// Those of `x` `[n, c, ..]`; the variance is divided by `n - ddof`.
    #[track_caller]
    fn of(x: &Tensor, ddof: usize) -> Self {
        let axes: Vec<isize> = (0..x.rank() as isize).filter(|&it| it != 1).collect();
        Self { mean: mean(x, &axes, false), var: var(x, &axes, ddof, false) }
    }

    /// Moved by `momentum` towards the statistics of `x` `[n, c, ..]`, with the variance divided by
    /// `n - 1`, and without a gradient.
    #[track_caller]
    pub fn updated(&self, x: impl AsTensor, momentum: f64) -> Self {
        let batch = Self::of(&crate::ops::stop_gradient(x), 1);
        let mix = |old: &Tensor, new: &Tensor| old * (1.0 - momentum) + new * momentum;
        Self { mean: mix(&self.mean, &batch.mean), var: mix(&self.var, &batch.var) }
    }
}

/// `(x - mean) / sqrt(variance + eps) * gamma + beta` per channel of `x` `[n, c, ..]`, by the
/// given statistics, or by those of `x` itself while training (Ioffe and Szegedy 2015, "Batch
/// Normalization").
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[1.], [3.]];
/// assert_eq!(ops::batch_norm(&x, tensor![1.], tensor![0.], None, 0.).to_vec::<f32>(), [-1., 1.]);
/// ```
#[track_caller]
pub fn batch_norm(
    x: impl AsTensor,
    gamma: impl AsTensor,
    beta: impl AsTensor,
    statistics: Option<&BatchStatistics>,
    eps: f64,
) -> Tensor {
    let x = &*x.as_tensor();
    let of_x;
    let statistics = match statistics {
        Some(given) => given,
        None => {
            of_x = BatchStatistics::of(x, 0);
            &of_x
        }
    };
    let scale = rsqrt(&statistics.var + eps) * &*gamma.as_tensor();
    let rank = x.rank();
    (x - per_channel(&statistics.mean, rank)) * per_channel(&scale, rank) + per_channel(&beta.as_tensor(), rank)
}
