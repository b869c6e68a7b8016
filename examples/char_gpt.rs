//! Trains a small GPT on the letters of a sonnet and generates text, like its PyTorch twin
//! `peers/programs/char_gpt.py`. It uses AdamW without decay of vectors, a warm-up with cosine decay, and clipping. A
//! second run continues from a checkpoint of the first.
//!
//! `cargo run --release --example char_gpt`

mod common;

use common::{below, check_onnx, compare, data, initialize};
use ms::prelude::*;
use ms::{load_checkpoint, save_checkpoint};
use std::collections::BTreeSet;
use std::path::Path;

const CONTEXT: usize = 32;
const FEATURES: usize = 64;
const BATCH: usize = 16;
const STEPS: u64 = 200;
const WARM_UP: u64 = 20;

#[cell]
struct Gpt {
    letters: nn::Embedding,
    positions: nn::Embedding,
    blocks: nn::TransformerEncoder,
    head: nn::Dense,
}

#[cell]
impl Gpt {
    fn new(letters: usize) -> Self {
        let layer = || nn::TransformerEncoderLayer::new(FEATURES, 4).dim_feedforward(4 * FEATURES).dropout(0.0);
        let layer = move || layer().activation(nn::GELU).batch_first(true).norm_first(true);
        Self {
            letters: nn::Embedding::new(letters, FEATURES),
            positions: nn::Embedding::new(CONTEXT, FEATURES),
            blocks: nn::TransformerEncoder::new(2, layer).norm(nn::LayerNorm::new(FEATURES)),
            head: nn::Dense::new(FEATURES, letters).without_bias(),
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let x = self.letters(x) + self.positions(&ops::arange(x.dim(1)));
        self.head(&self.blocks(&x, &nn::AttentionMask::causal()))
    }
}

fn loss(net: &Gpt, (x, y): &(Tensor, Tensor)) -> Tensor {
    let logits = net.call(x);
    ops::cross_entropy(logits.reshape([-1, logits.shape()[2] as isize]), y.flatten(0))
}

/// Encodes a text as positions in an alphabet.
fn encode(alphabet: &[char], text: &str) -> Vec<i64> {
    text.chars().map(|it| alphabet.binary_search(&it).expect("a letter of the alphabet") as i64).collect()
}

/// Returns pieces of the text, and the next letter for each of their letters.
fn batch(codes: &Tensor, step: u64) -> (Tensor, Tensor) {
    let first = below(&format!("batch.{step}"), &[BATCH], (codes.numel() - CONTEXT) as u64);
    let at = first.expand_dims(1) + ops::arange(CONTEXT);
    (codes.at(&at), codes.at(&(at + 1)))
}

/// Trains from a step on, from the checkpoint unless it is the first step. Returns the network and the losses.
fn train(letters: usize, codes: &Tensor, path: &Path, first: u64) -> Result<(Gpt, Vec<f32>)> {
    let net = Gpt::new(letters);
    initialize(&net)?;
    let vectors: Vec<_> = net.parameters().into_iter().filter(|it| it.load().shape().len() == 1).collect();
    let opt = Adam::new(3e-3).decoupled_weight_decay(0.1).without_decay_of(&vectors).clip_by_global_norm(1.0);
    let opt = opt.schedule(WarmUp::new(WARM_UP).from(0.05).then(CosineDecay::new(STEPS - WARM_UP)));
    if first > 0 {
        load_checkpoint(path, (&net, &opt))?;
    }
    let mut losses = Vec::new();
    for step in first..STEPS {
        losses.push(opt.step(&net, &batch(codes, step), loss).item());
        if step + 1 == STEPS / 2 {
            save_checkpoint(path, (&net, &opt))?;
        }
    }
    Ok((net, losses))
}

/// Extends the prompt with the most probable letters.
fn generate(net: &Gpt, alphabet: &[char], prompt: &str, length: usize) -> String {
    let mut text = encode(alphabet, prompt);
    for _ in 0..length {
        let last = Tensor::from(text[text.len().saturating_sub(CONTEXT)..].to_vec());
        text.push(net.call(&last.expand_dims(0)).at((0, -1)).argmax(-1).item());
    }
    text.iter().map(|&code| alphabet[code as usize]).collect()
}

fn main() -> Result<()> {
    let text = std::fs::read_to_string(data("sonnet.txt")).expect("the file is in the repository");
    let alphabet: Vec<char> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
    let codes = Tensor::from(encode(&alphabet, &text));
    let path = std::env::temp_dir().join(format!("ms-char-gpt-{}", std::process::id()));
    let (net, losses) = train(alphabet.len(), &codes, &path, 0)?;
    let (_, resumed) = train(alphabet.len(), &codes, &path, STEPS / 2)?;
    assert_eq!(resumed, losses[STEPS as usize / 2..], "the run that was resumed has the same losses");
    println!("{}", generate(&net, &alphabet, "Shall I ", 120));
    std::fs::remove_file(&path).expect("it was written");
    compare("char_gpt", &losses, 5e-6);
    check_onnx("char_gpt", |it| net.call(&it[0]), &[codes.i(..CONTEXT).expand_dims(0)])
}
