//! Attention in blocks of queries, and its gradient.

use super::block::{Block, Total, default_scale};
use super::{AttentionAttrs, sample};
use crate::ops::core::wide::Inner;
use crate::ops::{Batching, Cotangents, Derivative, Sample, SampleInput, Vjp, concat, keepdims, matmul, sum};
use crate::tensor::{Attrs, DType, Outputs, Tensor, apply};
use ms_ir::MapVec;
use ms_ir::error::OrRaise;
use smallvec::smallvec;

attributes! {
    /// The attributes of [`BLOCKED_ATTENTION`] and of its gradient, which begin with the attributes of attention.
    /// `queries` is the number of queries of a block.
    pub struct BlockedAttentionAttrs { causal: bool, scaled: bool, scale: f64, queries: usize where 1..=i64::MAX }
}

impl BlockedAttentionAttrs<'_> {
    /// Returns the factor of scores for queries with `features` features.
    pub fn factor(self, features: usize) -> f64 {
        if self.scaled() { self.scale() } else { default_scale(features) }
    }
}

composite! {
    /// Computes [`SCALED_DOT_PRODUCT_ATTENTION`](super::SCALED_DOT_PRODUCT_ATTENTION) in blocks of queries. The weights
    /// of one block are materialised at a time, and are not a result. The derivative recomputes them, so its memory is
    /// linear in the number of queries too (Dao et al., "FlashAttention", 2022).
    BLOCKED_ATTENTION = 861: "blocked_attention", BlockedAttentionAttrs::DECLARED;
    body attend;
    derivative Derivative::Rule(gradients), finite: false;
    batching Batching::Partial(|it| it.broadcast(0));
    samples samples;
}

composite! {
    /// Computes the gradients of [`BLOCKED_ATTENTION`] for `q`, `k` and `v`. The operands are these, the result, its
    /// gradient, and the optional mask.
    BLOCKED_ATTENTION_GRAD = 862: "blocked_attention_grad", BlockedAttentionAttrs::DECLARED;
    body differentiate;
    derivative Derivative::Body, finite: false;
    inner Inner::Wide { rounded: 3 };
    // Each result has the axes of an operand.
    batching Batching::Partial(|it| {
        let rank = it.inputs[0].rank();
        let all_lanes = it.mapped.iter().all(|&it| it) && it.inputs.iter().all(|it| it.rank() == rank);
        all_lanes.then(|| it.broadcast(0)).flatten()
    });
    samples samples_of_gradients;
}

fn attend(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    Block::whole(inputs).check_ranks().or_raise();
    let scoring = AttentionAttrs::of(attrs).scoring();
    let blocks = Block::all(scoring.causal, BlockedAttentionAttrs::of(attrs).queries(), inputs);
    let results: Vec<Tensor> = blocks.map(|block| matmul(block.weights(scoring), &block.v)).collect();
    smallvec![concat(&results, -2)]
}

fn gradients(it: &Vjp<'_>) -> Cotangents {
    let ([q, k, v], mask) = (&it.inputs[..3], &it.inputs[3..]) else {
        unreachable!("the operands are `q`, `k` and `v`")
    };
    let (y, g) = (&it.outputs[0], it.cotangent());
    if it.needs.get(3) == Some(&true) {
        let inputs: Vec<&Tensor> = it.inputs.iter().collect();
        return of_operands(it.attrs, &inputs, it.needs, y, g);
    }
    let operands: Vec<&Tensor> = [q, k, v, y, g].into_iter().chain(mask).collect();
    let results = apply(BLOCKED_ATTENTION_GRAD.op(), it.attrs, &operands).or_raise();
    let needed = results.into_iter().zip(it.needs).map(|(gradient, needed)| Some(gradient).filter(|_| *needed));
    needed.chain(mask.iter().map(|_| None)).collect()
}

fn differentiate(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let [q, k, v, y, g, mask @ ..] = inputs else { unreachable!("the operands are five, and a mask") };
    let operands: Vec<&Tensor> = [q, k, v].into_iter().chain(mask).copied().collect();
    Block::whole(&operands).check_results([y, g]).or_raise();
    let all = of_operands(attrs, &operands, &[true, true, true, false], y, g);
    all.into_iter().take(3).map(|it| it.expect("it is needed")).collect()
}

/// Returns the gradients of the operands of attention that need one, from the result and its gradient.
fn of_operands(attrs: &Attrs, inputs: &[&Tensor], needs: &[bool], y: &Tensor, g: &Tensor) -> Cotangents {
    let scoring = AttentionAttrs::of(attrs).scoring();
    let mut totals: Vec<Total<'_>> = inputs.map_vec(|it| Total::new(it));
    // The last block uses all keys, so the accumulated gradients of keys and values start at full size.
    for block in Block::all(scoring.causal, BlockedAttentionAttrs::of(attrs).queries(), inputs).rev() {
        let [g, y] = [g, y].map(|it| block.of_result(it));
        let block = block.after(&y);
        let weights = block.weights(scoring);
        // Σ gp p = Σ g v p = Σ g y
        let sum_of_weights = sum(&g * &y, keepdims(-1));
        let parts = block.gradients(scoring, needs, &weights, [Some(&g), None], Some(sum_of_weights));
        for ((total, gradient), (part, first)) in totals.iter_mut().zip(parts).zip(block.operands()) {
            if let Some(gradient) = gradient {
                total.add(&gradient, part, first);
            }
        }
    }
    totals.into_iter().map(Total::finish).collect()
}

fn samples() -> Vec<Sample> {
    let heads: [&[usize]; 3] = [&[2, 3, 4], &[2, 5, 4], &[2, 5, 2]];
    let causal = || BlockedAttentionAttrs::attrs(true, false, 1.0, 2usize);
    let plain = || BlockedAttentionAttrs::attrs(false, true, 0.7, 2usize);
    // The last block has one query, and a case has more queries than keys.
    vec![
        sample(DType::F32, heads, Some((DType::F32, &[3, 5])), plain()),
        sample(DType::F32, heads, Some((DType::Bool, &[2, 1, 5])), plain()),
        sample(DType::F32, [&[2, 5, 4], &[3, 4], &[3, 2]], None, causal()),
        sample(DType::F32, [&[5, 4], &[5, 4], &[5, 2]], None, causal()),
        sample(DType::F64, heads, None, causal()),
        sample(DType::F16, heads, None, plain()),
        sample(DType::BF16, heads, Some((DType::BF16, &[5])), plain()),
    ]
}

/// Returns the samples of attention, with a result and its gradient.
fn samples_of_gradients() -> Vec<Sample> {
    let with_results = |mut sample: Sample| {
        let [q, k, v] = [0, 1, 2].map(|it| &sample.inputs[it]);
        let longest = if q.shape.len() >= k.shape.len() { q } else { k };
        let mut shape = longest.shape.clone();
        let rank = shape.len();
        shape[rank - 2] = q.shape[q.shape.len() - 2];
        shape[rank - 1] = v.shape[v.shape.len() - 1];
        let result = SampleInput::of(q.dtype, &shape, -1.0, 1.0);
        sample.inputs.splice(3..3, [result.clone(), result]);
        sample
    };
    samples().into_iter().map(with_results).collect()
}
