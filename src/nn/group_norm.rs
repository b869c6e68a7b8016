//! Group and instance normalisation.

use super::compute::{operand, result};
use super::init::filled_parameter;
use crate::prelude::*;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::check_positive;
use ms_core::trace::ComputeDType;
use ms_core::{Code, Error};

/// Group normalisation: normalises each group of channels of `x` `[n, channels, ..]`, then multiplies by `gamma` and
/// adds `beta` per channel ([`ops::group_norm`]).
///
/// ```
/// use ms::prelude::*;
/// let y = nn::GroupNorm::new(2, 4).call(&random::randn([3, 4, 5]));
/// assert_eq!(y.shape(), [3, 4, 5]);
/// ```
#[cell]
#[derive(Debug)]
pub struct GroupNorm {
    /// The scale, `[channels]`, initially ones; `None` without an affine transform.
    pub gamma: Option<Parameter>,
    /// The shift, `[channels]`, initially zeros; `None` without an affine transform.
    pub beta: Option<Parameter>,
    /// The term added to the variance; positive and finite.
    pub eps: f64,
    /// The number of groups.
    pub groups: usize,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
}

impl GroupNorm {
    /// Creates a layer with `eps = 1e-5`.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] unless `groups` divides `channels`.
    #[track_caller]
    pub fn new(groups: usize, channels: usize) -> Self {
        check_positive("GroupNorm", "groups", groups).or_raise();
        if !channels.is_multiple_of(groups) {
            let message = format!("`groups` is {groups}, but has to divide the {channels} channels");
            raise(Error::new(Code::Argument, message).with_op("GroupNorm"));
        }
        let (gamma, beta) = (filled_parameter(&[channels], 1.0), filled_parameter(&[channels], 0.0));
        Self { gamma: Some(gamma), beta: Some(beta), eps: 1e-5, groups, compute: ComputeDType::default() }
    }

    /// Removes `gamma` and `beta`.
    pub fn without_affine(self) -> Self {
        Self { gamma: None, beta: None, ..self }
    }
}

#[cell]
impl GroupNorm {
    fn construct(&self, x: &Tensor) -> Tensor {
        let own = operand(&self.compute, x);
        let (gamma, beta) = per_channel(&own, &self.gamma, &self.beta);
        result(&self.compute, ops::group_norm(&own, self.groups, gamma, beta, self.eps), x)
    }
}

/// Instance normalisation: normalises each channel of each example of `x` `[n, channels, ..]`, then multiplies by
/// `gamma` and adds `beta` per channel ([`ops::instance_norm`]). There may be any number of further axes.
///
/// ```
/// use ms::prelude::*;
/// let y = nn::InstanceNorm::new(1).call(&tensor![[[1.0, 3.0]], [[5.0, 9.0]]]);
/// assert!(ops::abs(y - tensor![[[-1.0, 1.0]], [[-1.0, 1.0]]]).max(()).item::<f32>() < 1e-4);
/// ```
#[cell]
#[derive(Debug)]
pub struct InstanceNorm {
    /// The scale, `[channels]`, initially ones; `None` without an affine transform.
    pub gamma: Option<Parameter>,
    /// The shift, `[channels]`, initially zeros; `None` without an affine transform.
    pub beta: Option<Parameter>,
    /// The term added to the variance; positive and finite.
    pub eps: f64,
    /// The compute dtype. The result is cast back to the dtype of the operand.
    pub compute: ComputeDType,
}

impl InstanceNorm {
    /// Creates a layer with `eps = 1e-5`.
    #[track_caller]
    pub fn new(channels: usize) -> Self {
        let (gamma, beta) = (filled_parameter(&[channels], 1.0), filled_parameter(&[channels], 0.0));
        Self { gamma: Some(gamma), beta: Some(beta), eps: 1e-5, compute: ComputeDType::default() }
    }

    /// Removes `gamma` and `beta`.
    pub fn without_affine(self) -> Self {
        Self { gamma: None, beta: None, ..self }
    }
}

#[cell]
impl InstanceNorm {
    fn construct(&self, x: &Tensor) -> Tensor {
        let own = operand(&self.compute, x);
        let (gamma, beta) = per_channel(&own, &self.gamma, &self.beta);
        result(&self.compute, ops::instance_norm(&own, gamma, beta, self.eps), x)
    }
}

/// Returns the scale and shift of the channels of `x`.
#[track_caller]
fn per_channel(x: &Tensor, gamma: &Option<Parameter>, beta: &Option<Parameter>) -> (Tensor, Tensor) {
    let channels = x.dims().get(1).copied().unwrap_or(0.into());
    let or_filled = |it: &Option<Parameter>, value: f64| match it {
        Some(it) => it.value(),
        None => ops::full_of([channels], value, x.dtype()),
    };
    (or_filled(gamma, 1.0), or_filled(beta, 0.0))
}
