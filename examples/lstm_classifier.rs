//! Classifies noise of 200 steps by its strongest channel with an LSTM, like its PyTorch twin
//! `peers/programs/lstm_classifier.py`. The learning rate is low enough that rounding errors do not grow: with 200 time
//! steps, a higher rate makes training chaotic.
//!
//! `cargo run --release --example lstm_classifier`

mod common;

use common::{below, check_onnx, compare, initialize, uniform};
use ms::prelude::*;

const TIME: usize = 200;
const TRAIN: usize = 512;
const TEST: usize = 128;
const BATCH: usize = 32;
const STEPS: usize = 200;
const DRIFT: f64 = 0.5;

#[cell]
struct Classifier {
    lstm: nn::LSTM,
    fc: nn::Dense,
}

#[cell]
impl Classifier {
    fn new() -> Self {
        Self { lstm: nn::LSTM::new(3, 32), fc: nn::Dense::new(32, 3) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let (_, (h, _)) = self.lstm(x, None, None);
        self.fc(&h.at(-1))
    }
}

/// Returns noise `[time, count, 3]` in which one of three channels is higher by [`DRIFT`], and the index of that
/// channel.
fn drifts(name: &str, count: usize) -> (Tensor, Tensor) {
    let class = below(&format!("{name}.class"), &[count], 3);
    (uniform(&format!("{name}.noise"), &[TIME, count, 3]) + DRIFT * ops::one_hot(&class, 3), class)
}

fn main() -> Result<()> {
    let ((x, y), (test_x, test_y)) = (drifts("train", TRAIN), drifts("test", TEST));
    let net = Classifier::new();
    initialize(&net)?;
    let opt = Adam::new(5e-4).clip_by_global_norm(1.0);
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let rows = step * BATCH % TRAIN..step * BATCH % TRAIN + BATCH;
        let batch = (x.i((.., rows.clone())), y.i(rows));
        let loss = opt.step(&net, &batch, |net, (x, y)| ops::cross_entropy(net.call(x), y));
        losses.push(loss.item::<f32>());
    }
    let accuracy: f32 = accuracy(&net.call(&test_x), &test_y).item();
    println!("accuracy on other sequences: {:.1} %", 100.0 * accuracy);
    compare("lstm_classifier", &losses, 5e-6);
    check_onnx("lstm_classifier", |it| net.call(&it[0]), &[test_x])
}
