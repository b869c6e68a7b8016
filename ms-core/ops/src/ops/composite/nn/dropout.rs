//! Dropout.

use crate::ops::api::random;
use crate::ops::core::rules::{Interval, check_interval};
use crate::ops::select;
use crate::tensor::{AsTensor, Tensor};
use ms_ir::error::called;

/// Sets each element to zero with probability `p`, and scales the others by `1 / (1 - p)` (Srivastava et al. 2014,
/// "Dropout"). Dropped infinities and NaNs become zero too. Draws from the default generator.
///
/// # Panics
/// Raises [`Code::Argument`](crate::Code::Argument) unless `p` is at least zero and less than one.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = ops::dropout(tensor![1., 1., 1., 1.], 0.5);
/// assert!(x.to_vec::<f32>().iter().all(|it| [0., 2.].contains(it)));
/// ```
#[track_caller]
pub fn dropout(x: impl AsTensor, p: f64) -> Tensor {
    let _called = called("dropout");
    let x = &*x.as_tensor();
    or_poison!(check_interval("dropout", "p", p, &Interval::DECAY));
    let kept = random::bernoulli(x.dims(), 1.0 - p);
    // A product with zero is NaN for infinities.
    select(kept, x * (1.0 / (1.0 - p)), 0.0)
}
