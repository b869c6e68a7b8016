//! Attention: means of values, weighted by the match of their keys with a query.

use crate::ops::core::rules::{Interval, check_broadcast, check_interval};
use crate::ops::primitive::iota::spaced;
use crate::ops::{add, full_of, greater_equal, iota, matmul, mul, rsqrt, select, size, softmax, transpose};
use crate::tensor::{AsTensor, DType, Dim, Scalar, Tensor};

/// Options of attention.
#[derive(Clone, Default, Debug)]
pub struct AttentionOptions {
    /// Of bools: which keys are used for which query. Of numbers: added to the scores.
    pub mask: Option<Tensor>,
    /// Whether a query uses only keys up to its own position.
    pub causal: bool,
    /// The factor of scores; one over the square root of the features by default.
    pub scale: Option<f64>,
}

/// `softmax(q kᵀ * scale + mask) v` with `q` `[.., queries, features]`, `k` `[.., keys,
/// features]` and `v` `[.., keys, values]`: Vaswani et al., "Attention is all you need", 2017.
///
/// # Panics
/// Raises [`Code::Shape`](crate::Code::Shape) when shapes do not fit, and for a mask that does not
/// broadcast to the scores `[.., queries, keys]`; [`Code::Argument`](crate::Code::Argument) for a
/// scale that is not finite.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (q, k, v) = (tensor![[1., 0.]], tensor![[1., 0.], [1., 0.]], tensor![[2.], [4.]]);
/// let y = ops::scaled_dot_product_attention(&q, &k, &v, &ops::AttentionOptions::default());
/// assert_eq!(y.to_vec::<f32>(), [3.]);
/// ```
#[track_caller]
pub fn scaled_dot_product_attention(
    q: impl AsTensor,
    k: impl AsTensor,
    v: impl AsTensor,
    options: &AttentionOptions,
) -> Tensor {
    let (q, k, v) = (q.as_tensor(), k.as_tensor(), v.as_tensor());
    propagate_poison!(q, k, v);
    if let Some(scale) = options.scale {
        or_poison!(check_interval("scaled_dot_product_attention", "scale", scale, &Interval::FINITE));
    }
    let features = q.dims().last().copied().unwrap_or(Dim::new(1));
    let scores = matmul(&*q, transpose(&*k, -2, -1));
    let mut scores = match (options.scale, features.as_const()) {
        (Some(scale), _) => mul(scores, scale),
        (None, Some(features)) => mul(scores, 1.0 / (features as f64).sqrt()),
        (None, None) => mul(&scores, rsqrt(size(features, scores.dtype()))),
    };
    let excluded = full_of((), f64::NEG_INFINITY, scores.dtype());
    if options.causal {
        let (queries, keys) = (scores.dim(-2), scores.dim(-1));
        let rows = spaced((queries, 1), 0, Scalar::Int(0), Scalar::Int(1), DType::I64);
        let seen = greater_equal(rows, iota((1, keys), 1, DType::I64));
        scores = select(seen, &scores, &excluded);
    }
    if let Some(mask) = &options.mask {
        propagate_poison!(mask, &scores);
        or_poison!(check_broadcast("scaled_dot_product_attention", "mask", mask, &scores.dims()));
    }
    match &options.mask {
        Some(mask) if mask.dtype() == DType::Bool => scores = select(mask, &scores, &excluded),
        Some(mask) => scores = add(&scores, mask),
        None => {}
    }
    matmul(softmax(&scores, -1), &*v)
}
