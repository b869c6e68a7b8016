//! An encoder-decoder with attention learns to reverse sequences, like its PyTorch twin `peers/programs/seq2seq.py`.
//!
//! `cargo run --release --example seq2seq`

mod common;

use common::{below, check_onnx, compare, initialize};
use ms::prelude::*;

const LENGTH: usize = 8;
const SYMBOLS: usize = 10;
const START: usize = SYMBOLS;
const FEATURES: usize = 32;
const BATCH: usize = 64;
const STEPS: usize = 200;

#[cell]
struct Reverser {
    symbols: nn::Embedding,
    positions: nn::Embedding,
    encoder: nn::TransformerEncoder,
    decoder: nn::TransformerDecoder,
    head: nn::Dense,
}

#[cell]
impl Reverser {
    fn new() -> Self {
        let encoder = || nn::TransformerEncoderLayer::new(FEATURES, 4).dim_feedforward(64).dropout(0.0);
        let decoder = || nn::TransformerDecoderLayer::new(FEATURES, 4).dim_feedforward(64).dropout(0.0);
        Self {
            symbols: nn::Embedding::new(SYMBOLS + 1, FEATURES),
            positions: nn::Embedding::new(LENGTH, FEATURES),
            encoder: nn::TransformerEncoder::new(1, || encoder().batch_first(true)),
            decoder: nn::TransformerDecoder::new(1, || decoder().batch_first(true)),
            head: nn::Dense::new(FEATURES, SYMBOLS),
        }
    }

    fn embed(&self, x: &Tensor) -> Tensor {
        self.symbols(x) + self.positions(&ops::arange(x.dim(1)))
    }

    fn construct(&self, source: &Tensor, target: &Tensor) -> Tensor {
        let memory = self.encoder(&self.embed(source), &nn::AttentionMask::default());
        self.head(&self.decoder(&self.embed(target), &memory, &nn::DecoderMasks::causal()))
    }
}

fn after_start(x: &Tensor) -> Tensor {
    ops::concat(&[Tensor::full([x.shape()[0], 1], START as i64), x.clone()], 1)
}

fn loss(net: &Reverser, (source, target): &(Tensor, Tensor)) -> Tensor {
    let logits = net.call(source, &after_start(&target.i((.., ..-1))));
    ops::cross_entropy(logits.reshape([-1, SYMBOLS as isize]), target.flatten(0))
}

/// Generates the most probable symbols, one after the other.
fn translate(net: &Reverser, source: &Tensor) -> Tensor {
    let mut result = source.i((.., ..0));
    for _ in 0..LENGTH {
        result = ops::concat(&[&result, &net.call(source, &after_start(&result)).i((.., -1..)).argmax(-1)], 1);
    }
    result
}

fn main() -> Result<()> {
    let net = Reverser::new();
    initialize(&net)?;
    let opt = Adam::new(3e-3);
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let source = below(&format!("batch.{step}"), &[BATCH, LENGTH], SYMBOLS as u64);
        losses.push(opt.step(&net, &(source.clone(), source.flip(1)), loss).item::<f32>());
    }
    let source = below("test", &[200, LENGTH], SYMBOLS as u64);
    let right = translate(&net, &source).eq(source.flip(1)).cast(DType::F32).mean(()).item::<f32>();
    println!("{:.1} % of the symbols of other sequences are right", 100.0 * right);
    compare("seq2seq", &losses, 2e-5);
    let inputs = [source.clone(), after_start(&source.i((.., ..-1)))];
    check_onnx("seq2seq", |it| net.call(&it[0], &it[1]), &inputs)
}
