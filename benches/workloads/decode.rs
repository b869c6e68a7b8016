//! Decoding with a key/value cache: one token of a GPT of eight layers, per call and in a compiled loop.

use crate::{Workload, needs};
use ms::nn::KeyValueCache;
use ms::prelude::*;
use std::hint::black_box;

const WIDTH: usize = 512;
const HEADS: usize = 8;
const LAYERS: usize = 8;
const VOCABULARY: usize = 1024;
const CAPACITY: usize = 2000;
/// The position of the first token of a call.
const POSITION: i64 = 1900;
/// The number of tokens that a call of the loop decodes.
const TOKENS: usize = 16;

#[cell]
struct Block {
    norm1: nn::LayerNorm,
    attention: nn::MultiheadAttention,
    norm2: nn::LayerNorm,
    up: nn::Dense,
    down: nn::Dense,
}

impl Block {
    fn new() -> Self {
        Self {
            norm1: nn::LayerNorm::new(WIDTH),
            attention: nn::MultiheadAttention::new(WIDTH, HEADS).batch_first(true),
            norm2: nn::LayerNorm::new(WIDTH),
            up: nn::Dense::new(WIDTH, 4 * WIDTH),
            down: nn::Dense::new(4 * WIDTH, WIDTH),
        }
    }

    fn step(&self, x: &Tensor, cache: &mut KeyValueCache) -> Tensor {
        let (attended, next) = self.attention.step(&self.norm1.call(x), cache);
        *cache = next;
        let x = x + attended;
        &x + self.down.call(&ops::gelu_tanh(self.up.call(&self.norm2.call(&x))))
    }
}

#[cell]
struct Decoder {
    tokens: nn::Embedding,
    places: nn::Embedding,
    blocks: Vec<Block>,
    norm: nn::LayerNorm,
}

impl Decoder {
    fn new() -> Self {
        random::set_seed(0);
        Self {
            tokens: nn::Embedding::new(VOCABULARY, WIDTH),
            places: nn::Embedding::new(CAPACITY, WIDTH),
            blocks: (0..LAYERS).map(|_| Block::new()).collect(),
            norm: nn::LayerNorm::new(WIDTH),
        }
    }

    fn caches(&self) -> Vec<KeyValueCache> {
        self.blocks.iter().map(|it| it.attention.cache(1, CAPACITY)).collect()
    }

    /// Returns the token after `token`, `[1, 1]`.
    fn step(&self, token: &Tensor, caches: &mut [KeyValueCache]) -> Tensor {
        let mut x = self.tokens.call(token) + self.places.call(&caches[0].length);
        for (block, cache) in self.blocks.iter().zip(caches) {
            x = block.step(&x, cache);
        }
        ops::argmax(ops::dense(self.norm.call(&x), &self.tokens.table, None), -1)
    }
}

#[jit]
fn next(net: &Decoder, token: &Tensor, caches: &mut Vec<KeyValueCache>) -> Tensor {
    net.step(token, caches)
}

#[jit]
fn generate(net: &Decoder, token: &Tensor, caches: &mut Vec<KeyValueCache>) -> Tensor {
    let mut token = token.clone();
    for _ in ms::range(0, TOKENS) {
        token = net.step(&token, caches);
    }
    token
}

/// Prepares calls of a function on a cache that is filled up to the position.
fn calls(f: fn(&Decoder, &Tensor, &mut Vec<KeyValueCache>) -> Tensor) -> Box<dyn FnMut()> {
    let net = Decoder::new();
    net.set_train(false);
    let (mut caches, token) = (net.caches(), Tensor::zeros_of([1, 1], DType::I64));
    Box::new(move || {
        for cache in &mut caches {
            cache.length = Tensor::from(POSITION);
        }
        black_box(f(&net, &token, &mut caches).item::<i64>());
    })
}

pub fn workloads() -> Vec<Workload> {
    let parameters = LAYERS * 12 * WIDTH * WIDTH + VOCABULARY * WIDTH;
    let numbers = parameters + LAYERS * 2 * POSITION as usize * WIDTH;
    vec![
        Workload { name: "gpt_decode", make: || calls(next), needs: needs(2 * numbers, numbers) },
        Workload {
            name: "gpt_decode_loop16",
            make: || calls(generate),
            needs: needs(2 * TOKENS * numbers, TOKENS * numbers),
        },
    ]
}
