//! Scaled dot-product attention: means of values, weighted by the match of their keys with a query.

mod block;
mod blocked;
#[cfg(test)]
mod tests;

use crate::ops::core::composite::first_result;
use crate::ops::core::rules::{Interval, check_interval, to_operand};
use crate::ops::core::wide::{result_dtype, rounded, widened};
use crate::ops::{Batching, Cotangents, Derivative, Sample, SampleInput, Vjp, matmul};
use crate::tensor::{AsTensor, Attrs, DType, Outputs, Tensor, apply1};
use block::{Block, Scoring};
pub use blocked::{BLOCKED_ATTENTION, BLOCKED_ATTENTION_GRAD, BlockedAttentionAttrs};
use ms_ir::error::called;
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
    /// The mask. Bools select the keys that each query uses; numbers are added to the scores.
    pub mask: Option<Tensor>,
    /// Whether a query uses only keys up to its own position.
    pub causal: bool,
    /// The factor of the scores; one over the square root of the features by default.
    pub scale: Option<f64>,
}

attributes! {
    /// The attributes of [`SCALED_DOT_PRODUCT_ATTENTION`]: whether a query uses only keys up to its own position, and
    /// the optional factor of scores.
    struct AttentionAttrs { causal: bool, scaled: bool, scale: f64 }
}

impl AttentionAttrs<'_> {
    fn scoring(self) -> Scoring {
        Scoring { causal: self.causal(), scale: self.scaled().then(|| self.scale()) }
    }
}

composite! {
    /// Computes `p v` with the weights `p = softmax(q kᵀ * scale + mask)`, and returns the weights as second result.
    /// The operands are `q`, `k`, `v`, and an optional mask. A mask of bools selects the keys that are used; numbers
    /// are added to the scores.
    SCALED_DOT_PRODUCT_ATTENTION = 860: "scaled_dot_product_attention", AttentionAttrs::DECLARED;
    body attend;
    derivative Derivative::Rule(gradients), finite: false;
    // The weights are a result and have the lanes of `q`.
    batching Batching::Partial(|it| it.broadcast(0));
    samples samples;
}

fn attend(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let whole = Block::whole(inputs);
    let weights = whole.weights(AttentionAttrs::of(attrs).scoring());
    smallvec![matmul(&weights, &whole.v), weights]
}

fn gradients(it: &Vjp<'_>) -> Cotangents {
    let inputs: Vec<&Tensor> = it.inputs.iter().collect();
    let of_results = [0, 1].map(|at| it.cotangents[at].as_ref());
    let scoring = AttentionAttrs::of(it.attrs).scoring();
    let all = Block::whole(&inputs).gradients(scoring, it.needs, &it.outputs[1], of_results, None);
    let to_operands = all.into_iter().zip(it.inputs);
    to_operands.map(|(gradient, operand)| gradient.map(|it| to_operand(&it, operand))).collect()
}

/// Creates a sample with operands of these shapes, and a mask.
fn sample(dtype: DType, shapes: [&[usize]; 3], mask: Option<(DType, &[usize])>, attrs: Attrs) -> Sample {
    let mask = mask.map(|(dtype, shape)| SampleInput::of(dtype, shape, 0.0, 1.0));
    let operands = shapes.map(|it| SampleInput::of(dtype, it, -1.0, 1.0));
    Sample::new(operands.into_iter().chain(mask)).attrs(attrs)
}

fn samples() -> Vec<Sample> {
    let plain = || AttentionAttrs::attrs(false, false, 1.0);
    let heads: [&[usize]; 3] = [&[2, 3, 4], &[2, 5, 4], &[2, 5, 2]];
    let square: [&[usize]; 3] = [&[3, 4], &[3, 4], &[3, 2]];
    let mut samples = vec![
        sample(DType::F32, heads, Some((DType::F32, &[3, 5])), AttentionAttrs::attrs(false, true, 0.7)),
        sample(DType::F32, [&[2, 3, 4], &[5, 4], &[5, 2]], None, plain()),
        sample(DType::F32, square, None, AttentionAttrs::attrs(true, false, 1.0)),
    ];
    samples.extend([DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| sample(it, heads, None, plain())));
    samples
}

/// Returns the weights by which [`scaled_dot_product_attention`] multiplies values: `softmax(q kᵀ * scale + mask)`,
/// `[.., queries, keys]`. A query for which all keys are excluded has zeros.
///
/// # Panics
/// Panics in the cases of [`scaled_dot_product_attention`].
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![[1., 0.], [1., 0.]];
/// let weights = ops::attention_weights(&x, &x, &ops::AttentionOptions::default());
/// assert_eq!(weights.to_vec::<f32>(), [0.5; 4]);
/// let none = ops::AttentionOptions { mask: Some(tensor![false]), ..ops::AttentionOptions::default() };
/// assert_eq!(ops::attention_weights(&x, &x, &none).to_vec::<f32>(), [0.; 4]);
/// ```
#[track_caller]
pub fn attention_weights(q: impl AsTensor, k: impl AsTensor, options: &AttentionOptions) -> Tensor {
    let _called = called("attention_weights");
    let (q, k) = (q.as_tensor(), k.as_tensor());
    propagate_poison!(q, k);
    if let Some(scale) = options.scale {
        or_poison!(check_interval("attention_weights", "scale", scale, &Interval::FINITE));
    }
    if let Some(mask) = &options.mask {
        propagate_poison!(mask);
    }
    let operands: Vec<&Tensor> = [&*q, &*k, &*k].into_iter().chain(&options.mask).collect();
    let dtype = result_dtype(operands.iter().map(|&it| Some(it)));
    let wide: Vec<Tensor> = operands.into_iter().map(widened).collect();
    let scoring = Scoring { causal: options.causal, scale: options.scale };
    let weights = Block::whole(&wide.iter().collect::<Vec<_>>()).weights(scoring);
    dtype.map_or(weights.clone(), |it| rounded(weights, it))
}

/// Returns `softmax(q kᵀ * scale + mask) v` with `q` `[.., queries, features]`, `k` `[.., keys, features]` and `v`
/// `[.., keys, values]` (Vaswani et al., "Attention is all you need", 2017).
///
/// A query for which the mask excludes all keys has the result zero, and contributes nothing to gradients.
///
/// With more than four million weights, attention runs in blocks of queries, and one block of weights is materialised
/// at a time. The memory of the op and of its gradient is then linear in the number of queries and keys. A causal block
/// skips the keys that none of its queries uses. Symbolic sizes are not partitioned.
///
/// # Panics
/// Raises [`Code::Shape`](crate::Code::Shape) for incompatible shapes, and for a mask that does not broadcast to the
/// scores `[.., queries, keys]`. Raises [`Code::Argument`](crate::Code::Argument) for a scale that is not finite.
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
    let operands: Vec<&Tensor> = [&*q, &*k, &*v].into_iter().chain(&options.mask).collect();
    let (causal, scaled, scale) = (options.causal, options.scale.is_some(), options.scale.unwrap_or(1.0));
    match Block::whole(&operands).queries_of_blocks() {
        Some(queries) => {
            let attrs = BlockedAttentionAttrs::attrs(causal, scaled, scale, queries);
            apply1(BLOCKED_ATTENTION.op(), &attrs, &operands)
        }
        None => first_result(&SCALED_DOT_PRODUCT_ATTENTION, &AttentionAttrs::attrs(causal, scaled, scale), &operands),
    }
}
