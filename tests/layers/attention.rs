//! Tests attention, transformers and generation.

use crate::oracle::{check, load, near, numbered};
use ms::nn::{AttentionMask, DecoderMasks};
use ms::prelude::*;

fn padding(mask: &[Tensor]) -> AttentionMask {
    mask.first().cloned().map_or_else(AttentionMask::default, AttentionMask::padding)
}

fn decoder_masks(memory: &[Tensor]) -> DecoderMasks {
    DecoderMasks { memory: padding(memory), ..DecoderMasks::causal() }
}

#[test]
fn attention_is_that_of_pytorch() {
    let none = AttentionMask::default;
    check("attention", nn::MultiheadAttention::new(4, 2), move |net, x, _| {
        vec![net.call(&x[0], &x[0], &x[0], &none())]
    });
    check("attention_causal", nn::MultiheadAttention::new(4, 2).batch_first(true), |net, x, _| {
        vec![net.call(&x[0], &x[0], &x[0], &AttentionMask::causal())]
    });
    check("attention_masks", nn::MultiheadAttention::new(4, 2).batch_first(true), |net, x, by| {
        // Each head of each sequence has a mask.
        let pairs = ops::broadcast_to(&by[1], [4, 3, 3]);
        let mask = AttentionMask { attn_mask: Some(pairs), ..AttentionMask::padding(by[0].clone()) };
        vec![net.call(&x[0], &x[1], &x[2], &mask), net.weights(&x[0], &x[1], &mask)]
    });
    let net = nn::MultiheadAttention::new(4, 2).features(3, 5).without_bias();
    check("attention_sizes", net, |net, x, by| {
        let mask = AttentionMask { attn_mask: Some(by[0].clone()), ..AttentionMask::default() };
        vec![net.call(&x[0], &x[1], &x[2], &mask)]
    });
}

fn encoder_layer() -> nn::TransformerEncoderLayer {
    nn::TransformerEncoderLayer::new(4, 2).dim_feedforward(6).dropout(0.0)
}

fn decoder_layer() -> nn::TransformerDecoderLayer {
    nn::TransformerDecoderLayer::new(4, 2).dim_feedforward(6).dropout(0.0)
}

fn encoder() -> nn::TransformerEncoder {
    nn::TransformerEncoder::new(2, || encoder_layer().batch_first(true)).norm(nn::LayerNorm::new(4))
}

fn decoder() -> nn::TransformerDecoder {
    nn::TransformerDecoder::new(2, || decoder_layer().batch_first(true)).norm(nn::LayerNorm::new(4))
}

#[test]
fn encoders_are_those_of_pytorch() {
    check("encoder_layer", encoder_layer().batch_first(true), |net, x, by| vec![net.call(&x[0], &padding(by))]);
    let first = encoder_layer().norm_first(true).activation(nn::GELU).layer_norm_eps(1e-3);
    check("encoder_layer_norm_first", first, |net, x, by| vec![net.call(&x[0], &padding(by))]);
    check("encoder", encoder(), |net, x, _| vec![net.call(&x[0], &AttentionMask::causal())]);
}

#[test]
fn decoders_are_those_of_pytorch() {
    check("decoder_layer", decoder_layer(), |net, x, by| vec![net.call(&x[0], &x[1], &decoder_masks(by))]);
    let first = decoder_layer().norm_first(true).batch_first(true);
    check("decoder_layer_norm_first", first, |net, x, by| vec![net.call(&x[0], &x[1], &decoder_masks(by))]);
    check("decoder", decoder(), |net, x, by| vec![net.call(&x[0], &x[1], &decoder_masks(by))]);
    let whole = nn::Transformer {
        encoder: nn::TransformerEncoder::new(1, encoder_layer).norm(nn::LayerNorm::new(4)),
        decoder: nn::TransformerDecoder::new(1, decoder_layer).norm(nn::LayerNorm::new(4)),
    };
    check("transformer", whole, |net, x, _| {
        vec![net.call(&x[0], &x[1], &AttentionMask::default(), &DecoderMasks::causal())]
    });
}

#[test]
fn rotary_positions_are_rotations() {
    check("rotary", nn::RotaryEmbedding::new(4), |net, x, by| vec![net.call(&x[0], &by[0])]);
    let net = nn::RotaryEmbedding::new(4).interleaved(true);
    check("rotary_interleaved", net, |net, x, by| vec![net.call(&x[0], &by[0])]);
    // Scores depend only on the distance of positions.
    let attention = nn::MultiheadAttention::new(8, 2).rotary(nn::RotaryEmbedding::new(4)).batch_first(true);
    let x = Tensor::ones([1, 5, 8]);
    let weights = attention.weights(&x, &x, &AttentionMask::default());
    let ratio = |row: isize, a: isize, b: isize| {
        weights.i((0, 0, row, a)).item::<f32>() / weights.i((0, 0, row, b)).item::<f32>()
    };
    assert!((ratio(1, 0, 2) - ratio(3, 2, 4)).abs() < 1e-4);
    assert!((ratio(1, 0, 2) - 1.0).abs() > 1e-6, "positions matter");
}

#[jit]
fn encoder_step(
    net: &nn::TransformerEncoder,
    x: &Tensor,
    caches: &Vec<nn::KeyValueCache>,
) -> (Tensor, Vec<nn::KeyValueCache>) {
    net.step(x, caches)
}

#[jit]
fn decoder_step(
    net: &nn::TransformerDecoder,
    x: &Tensor,
    caches: &Vec<nn::DecoderCache>,
    memory: &AttentionMask,
) -> (Tensor, Vec<nn::DecoderCache>) {
    net.step(x, caches, memory)
}

/// Splits a sequence `[batch, time, features]` into parts that begin at these positions.
fn parts(x: &Tensor, starts: &[isize]) -> Vec<Tensor> {
    let ends = starts[1..].iter().copied().chain([x.shape()[1] as isize]);
    starts.iter().zip(ends).map(|(&start, end)| x.i((.., start..end))).collect()
}

#[test]
fn generation_gives_what_the_whole_sequence_gives() {
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let net = nn::TransformerEncoder::new(2, || {
                let layer = encoder_layer().batch_first(true).norm_first(true);
                layer.rotary(nn::RotaryEmbedding::new(2))
            });
            let x = random::randn([2, 5, 4]);
            let want = net.call(&x, &AttentionMask::causal());
            // The prompt has three positions, then one position follows at a time. One case has room for more.
            for (starts, capacity) in [(&[0, 3, 4][..], 8), (&[0, 1, 2, 3, 4], 5)] {
                let (mut caches, mut results) = (net.caches(2, capacity), Vec::new());
                for part in parts(&x, starts) {
                    let (y, next) = encoder_step(&net, &part, &caches);
                    results.push(y);
                    caches = next;
                }
                near("encoder", &ops::concat(&results, 1), &want);
            }
            let mut caches = net.caches(2, 3);
            let step = |caches: &Vec<nn::KeyValueCache>| encoder_step(&net, &x.i((.., 0..2)), caches).1;
            caches = step(&caches);
            // A device reports a failed assertion when somebody waits.
            let refused = ms::catch(|| step(&caches)).and_then(|_| ms::synchronize());
            let error = refused.expect_err("there are three places");
            assert_eq!(error.code(), ms::Code::Assertion, "{error}");
        });
        let net = decoder();
        load("decoder", &net);
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let (x, memory) = (numbered("decoder", "in"), padding(&numbered("decoder", "by")));
            let (mut caches, mut results) = (net.caches(&x[1], 2, 4), Vec::new());
            for part in parts(&x[0], &[0, 1, 2]) {
                let (y, next) = decoder_step(&net, &part, &caches, &memory);
                results.push(y);
                caches = next;
            }
            near("decoder", &ops::concat(&results, 1), &numbered("decoder", "out")[0]);
        });
    }
}

#[test]
fn dropout_of_weights_is_in_training() {
    let net = nn::MultiheadAttention::new(8, 2).dropout(0.5);
    let x = random::randn([5, 1, 8]);
    let run = || net.call(&x, &x, &x, &AttentionMask::causal()).to_vec::<f32>();
    assert_ne!(run(), run());
    net.set_train(false);
    let (kept, plain) = (run(), nn::MultiheadAttention::new(8, 2));
    plain.load_state_dict(&net.state_dict(), &LoadOptions::new()).expect("they are alike");
    assert_eq!(kept, plain.call(&x, &x, &x, &AttentionMask::causal()).to_vec::<f32>());
}

/// Composes attention of one head from basic ops.
fn composed(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor) -> Tensor {
    let scores = ops::matmul(q, k.transpose(-2, -1)) / (q.shape()[1] as f64).sqrt() + mask;
    let causal = ops::tril(Tensor::ones(scores.shape()), 0).gt(0.0);
    ops::matmul(ops::softmax(ops::select(&causal, &scores, f64::NEG_INFINITY), -1), v)
}

fn causal(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor) -> Tensor {
    let options = ops::AttentionOptions { mask: Some(mask.clone()), causal: true, ..Default::default() };
    ops::scaled_dot_product_attention(q, k, v, &options)
}

/// Long attention, which is partitioned into blocks of queries, agrees with the composed ops.
#[test]
fn long_attention_is_what_it_is_made_of() {
    let numbers = |shape: &[usize]| random::uniform(shape, -1.0, 1.0);
    let [q, k, v] = [&[2200, 3], &[2000, 3], &[2000, 2]].map(|it| numbers(it));
    let mask = numbers(&[2000]);
    let weights = numbers(&[2200, 2]);
    type Attention = fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Tensor;
    let results = |attention: Attention| {
        let loss = |q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor| (attention(q, k, v, mask) * &weights).sum(());
        let (value, (dq, dk, dv, dm)) = ms::value_and_grad(loss).wrt_all()(&q, &k, &v, &mask);
        // Without a gradient for the mask, one op computes the other gradients.
        let of_fixed = |q: &Tensor, k: &Tensor, v: &Tensor| loss(q, k, v, &mask);
        let (again, (q, k, v)) = ms::value_and_grad(of_fixed).wrt_all()(&q, &k, &v);
        [value, dq, dk, dv, dm, again, q, k, v].map(|it| it.to_vec::<f32>())
    };
    let compiled = |q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor| ms::jit(causal)(q, k, v, mask);
    let want = results(composed);
    for (way, got) in [("eager", results(causal)), ("compiled", results(compiled))] {
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((got - want).abs() <= 1e-4 * (1.0 + want.abs()), "{way}: {got} is not {want}");
        }
    }
}
