//! Attention: means of values, weighted by the match of their keys with a query.

use crate::error::{OrRaise, called};
use crate::ops::core::composite::first_result;
use crate::ops::core::rules::{Interval, check_broadcast, check_interval, to_operand};
use crate::ops::primitive::iota::spaced;
use crate::ops::{
    Batching, Cotangents, Derivative, Sample, SampleInput, Vjp, add, full_of, greater_equal, iota, keepdims, matmul,
    mul, rsqrt, select, size, softmax, sum, transpose,
};
use crate::tensor::{AsTensor, Attrs, DType, Outputs, Scalar, Tensor};
use smallvec::smallvec;

/// Options of attention.
///
/// ```
/// use ms_core::{ops, tensor};
/// let options = ops::AttentionOptions { causal: true, ..ops::AttentionOptions::default() };
/// let x = tensor![[1.0], [2.0]];
/// // The first query uses the first key only.
/// assert_eq!(ops::scaled_dot_product_attention(&x, &x, &x, &options).to_vec::<f32>()[0], 1.0);
/// ```
#[derive(Clone, Default, Debug)]
pub struct AttentionOptions {
    /// Of bools: which keys are used for which query. Of numbers: added to the scores.
    pub mask: Option<Tensor>,
    /// Whether a query uses only keys up to its own position.
    pub causal: bool,
    /// The factor of scores; one over the square root of the features by default.
    pub scale: Option<f64>,
}

attributes! {
    /// The attributes of [`SCALED_DOT_PRODUCT_ATTENTION`]: whether a query uses only keys up to its own position, and
    /// the factor of scores, if it is given.
    struct AttentionAttrs { causal: bool, scaled: bool, scale: f64 }
}

composite! {
    /// `p v` with the weights `p = softmax(q kᵀ * scale + mask)`, and these. The operands are `q`, `k`, `v`, and the mask
    /// if there is one: of bools, which keys are used, or of numbers that are added to the scores.
    SCALED_DOT_PRODUCT_ATTENTION = 860: "scaled_dot_product_attention", AttentionAttrs::DECLARED;
    body attend;
    derivative Derivative::Rule(gradients), finite: false;
    // The weights, a result, have the lanes of `q`.
    batching Batching::Partial(|it| it.broadcast(0));
    samples samples;
}

fn attend(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let [q, k, v, mask @ ..] = inputs else { unreachable!("the operands are `q`, `k` and `v`") };
    let mut scores = scaled(attrs, matmul(*q, transpose(*k, -2, -1)), q);
    let excluded = full_of((), f64::NEG_INFINITY, scores.dtype());
    if AttentionAttrs::of(attrs).causal() {
        let (queries, keys) = (scores.dim(-2), scores.dim(-1));
        let rows = spaced((queries, 1), 0, Scalar::Int(0), Scalar::Int(1), DType::I64);
        let seen = greater_equal(rows, iota((1, keys), 1, DType::I64));
        scores = select(seen, &scores, &excluded);
    }
    if let [mask] = mask {
        check_broadcast("scaled_dot_product_attention", "mask", mask, &scores.dims()).or_raise();
        scores = match mask.dtype() {
            DType::Bool => select(*mask, &scores, &excluded),
            _ => add(&scores, *mask),
        };
    }
    let weights = softmax(&scores, -1);
    smallvec![matmul(&weights, *v), weights]
}

/// Scores times their factor.
fn scaled(attrs: &Attrs, scores: Tensor, q: &Tensor) -> Tensor {
    let (it, features) = (AttentionAttrs::of(attrs), q.dim(-1));
    match features.as_const() {
        _ if it.scaled() => mul(scores, it.scale()),
        Some(features) => mul(scores, 1.0 / (features as f64).sqrt()),
        None => mul(&scores, rsqrt(size(features, scores.dtype()))),
    }
}

/// With `p` the weights, `gp = g vᵀ` their gradient, and `gs = p (gp - Σ gp p)` that of the masked scores: `gs k` and
/// `gsᵀ q` times the factor, `pᵀ g`, and `gs` for a mask that is added.
fn gradients(it: &Vjp<'_>) -> Cotangents {
    let [q, k, v, mask @ ..] = it.inputs else { unreachable!("the operands are `q`, `k` and `v`") };
    let (p, g) = (&it.outputs[1], it.cotangents[0].as_ref());
    let to = |gradient: Tensor, operand: &Tensor| Some(to_operand(&gradient, operand));
    let to_v = g.filter(|_| it.needs[2]).and_then(|g| to(matmul(transpose(p, -2, -1), g), v));
    let through = g.map(|g| matmul(g, transpose(v, -2, -1)));
    let terms = through.into_iter().chain(it.cotangents[1].clone());
    let to_p = terms.reduce(|a, b| a + b).expect("one of the results has a gradient");
    let masked = p * (&to_p - sum(&to_p * p, keepdims(-1)));
    let scores = scaled(it.attrs, masked.clone(), q);
    let mut all: Cotangents = smallvec![
        it.needs[0].then(|| to(matmul(&scores, k), q)).flatten(),
        it.needs[1].then(|| to(matmul(transpose(&scores, -2, -1), q), k)).flatten(),
        to_v,
    ];
    all.extend(mask.first().map(|mask| to(masked, mask).filter(|_| mask.dtype().is_float())));
    all
}

fn samples() -> Vec<Sample> {
    let of = |dtype, shapes: [&[usize]; 3], mask: Option<(DType, &[usize])>, attrs: Attrs| {
        let mask = mask.map(|(dtype, shape)| SampleInput::of(dtype, shape, 0.0, 1.0));
        let operands = shapes.map(|it| SampleInput::of(dtype, it, -1.0, 1.0));
        Sample::new(operands.into_iter().chain(mask)).attrs(attrs)
    };
    let plain = || AttentionAttrs::attrs(false, false, 1.0);
    let heads: [&[usize]; 3] = [&[2, 3, 4], &[2, 5, 4], &[2, 5, 2]];
    let square: [&[usize]; 3] = [&[3, 4], &[3, 4], &[3, 2]];
    let mut samples = vec![
        of(DType::F32, heads, Some((DType::F32, &[3, 5])), AttentionAttrs::attrs(false, true, 0.7)),
        of(DType::F32, [&[2, 3, 4], &[5, 4], &[5, 2]], None, plain()),
        of(DType::F32, square, None, AttentionAttrs::attrs(true, false, 1.0)),
    ];
    samples.extend([DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(it, heads, None, plain())));
    samples
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
    let _called = called("scaled_dot_product_attention");
    let (q, k, v) = (q.as_tensor(), k.as_tensor(), v.as_tensor());
    propagate_poison!(q, k, v);
    if let Some(scale) = options.scale {
        or_poison!(check_interval("scaled_dot_product_attention", "scale", scale, &Interval::FINITE));
    }
    if let Some(mask) = &options.mask {
        propagate_poison!(mask);
    }
    let attrs = AttentionAttrs::attrs(options.causal, options.scale.is_some(), options.scale.unwrap_or(1.0));
    let operands: Vec<&Tensor> = [&*q, &*k, &*v].into_iter().chain(&options.mask).collect();
    first_result(&SCALED_DOT_PRODUCT_ATTENTION, &attrs, &operands)
}
