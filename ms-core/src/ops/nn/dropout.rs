//! Dropout.

use crate::ops::random;
use crate::tensor::{AsTensor, Tensor};

/// Each element zero with probability `p`, the others scaled by `1 / (1 - p)`; drawn from the
/// default generator (Srivastava et al. 2014, "Dropout").
#[track_caller]
pub fn dropout(x: impl AsTensor, p: f64) -> Tensor {
    let x = &*x.as_tensor();
    let kept = random::bernoulli(x.dims(), 1.0 - p);
    x * (kept.cast(x.dtype()) / (1.0 - p))
}
