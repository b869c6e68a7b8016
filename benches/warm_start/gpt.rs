//! The training step of `gpt_train` in `peers/peer_bench.py`: four blocks of width 256 with four
//! heads, 1024 tokens, four sequences of 128.

use ms::prelude::*;

const VOCABULARY: usize = 1024;
const WIDTH: usize = 256;
const BLOCKS: usize = 4;
const HEADS: usize = 4;
const BATCH: usize = 4;
const LENGTH: usize = 128;

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

/// The model; the token embedding is the output layer as well.
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

/// The inputs of a step.
pub struct Training {
    net: Gpt,
    optimizer: Adam,
    batch: (Tensor, Tensor),
}

impl Training {
    pub fn new() -> Self {
        random::set_seed(0);
        let numbers = |shape: &[usize]| random::randint(shape, 0, VOCABULARY as i64);
        let batch = (numbers(&[BATCH, LENGTH]), numbers(&[BATCH * LENGTH]));
        Self { net: Gpt::new(), optimizer: Adam::new(1e-3), batch }
    }

    /// Runs one step; returns the loss.
    pub fn step(&self) -> f32 {
        let loss = |net: &Gpt, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
        self.optimizer.step(&self.net, &self.batch, loss).item()
    }
}
