//! A GPT: four blocks of width 256 with four heads, 1024 tokens, four sequences of 128.

#![allow(dead_code, reason = "each benchmark uses a part")]

use ms::amp::{Level, auto_mixed_precision};
use ms::optim::MasterWeights;
use ms::prelude::*;

pub const VOCABULARY: usize = 1024;
pub const WIDTH: usize = 256;
pub const BLOCKS: usize = 4;
const HEADS: usize = 4;
pub const BATCH: usize = 4;
pub const LENGTH: usize = 128;

#[cell]
struct Block {
    norm1: nn::LayerNorm,
    qkv: nn::Dense,
    out: nn::Dense,
    norm2: nn::LayerNorm,
    up: nn::Dense,
    down: nn::Dense,
}

#[cell]
impl Block {
    fn new() -> Self {
        Self {
            norm1: nn::LayerNorm::new(WIDTH),
            qkv: nn::Dense::new(WIDTH, 3 * WIDTH),
            out: nn::Dense::new(WIDTH, WIDTH),
            norm2: nn::LayerNorm::new(WIDTH),
            up: nn::Dense::new(WIDTH, 4 * WIDTH),
            down: nn::Dense::new(4 * WIDTH, WIDTH),
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let (batch, length) = (x.shape()[0], x.shape()[1]);
        let heads: Vec<Tensor> = ops::split(self.qkv(&self.norm1(x)), 3, -1)
            .iter()
            .map(|it| it.reshape([batch, length, HEADS, WIDTH / HEADS]).permute([0, 2, 1, 3]))
            .collect();
        let options = ops::AttentionOptions { causal: true, ..Default::default() };
        let attended = ops::scaled_dot_product_attention(&heads[0], &heads[1], &heads[2], &options);
        let x = x + self.out(&attended.permute([0, 2, 1, 3]).reshape([batch, length, WIDTH]));
        &x + self.down(&ops::gelu_tanh(self.up(&self.norm2(&x))))
    }
}

/// The model; the token embedding is also the output layer.
#[cell]
pub struct Gpt {
    tokens: nn::Embedding,
    places: nn::Embedding,
    blocks: Vec<Block>,
    norm: nn::LayerNorm,
}

#[cell]
impl Gpt {
    pub fn new() -> Self {
        Self {
            tokens: nn::Embedding::new(VOCABULARY, WIDTH),
            places: nn::Embedding::new(LENGTH, WIDTH),
            blocks: (0..BLOCKS).map(|_| Block::new()).collect(),
            norm: nn::LayerNorm::new(WIDTH),
        }
    }

    fn construct(&self, ids: &Tensor) -> Tensor {
        let mut x = self.tokens(ids) + &self.places.table;
        for block in &self.blocks {
            x = block.call(&x);
        }
        ops::dense(self.norm(&x), &self.tokens.table, None).reshape([BATCH * LENGTH, VOCABULARY])
    }
}

/// Creates the model, tokens `[batch, length]`, and the next tokens `[batch * length]`.
pub fn inputs() -> (Gpt, Tensor, Tensor) {
    random::set_seed(0);
    let numbers = |shape: &[usize]| random::randint(shape, 0, VOCABULARY as i64);
    (Gpt::new(), numbers(&[BATCH, LENGTH]), numbers(&[BATCH * LENGTH]))
}

/// The model, optimiser and data of a training step.
pub struct Training<O> {
    net: Gpt,
    optimizer: O,
    batch: (Tensor, Tensor),
}

impl Training<Adam> {
    /// Creates a step in f32.
    pub fn new() -> Self {
        let (net, ids, targets) = inputs();
        Self { net, optimizer: Adam::new(1e-3), batch: (ids, targets) }
    }
}

impl Training<MasterWeights<Adam>> {
    /// Creates a step in bf16, except for normalisations, with f32 master weights.
    pub fn in_bf16() -> Self {
        let (net, ids, targets) = inputs();
        auto_mixed_precision(&net, Level::O2, DType::BF16);
        Self { net, optimizer: Adam::new(1e-3).master_weights(), batch: (ids, targets) }
    }
}

impl<O: Optimizer> Training<O> {
    /// Runs one step and returns the loss.
    pub fn step(&self) -> f32 {
        let loss = |net: &Gpt, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
        self.optimizer.step(&self.net, &self.batch, loss).cast(DType::F32).item()
    }
}
