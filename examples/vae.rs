//! Trains a variational autoencoder on handwritten digits and draws new ones, like its PyTorch twin
//! `peers/programs/vae.py`.
//!
//! `cargo run --release --example vae`

mod common;

use common::{check_onnx, compare, data, initialize, normal, picture};
use ms::prelude::*;

const TRAIN: usize = 1408;
const BATCH: usize = 64;
const STEPS: usize = 200;
const LATENT: usize = 8;

#[cell]
struct Vae {
    encoder: nn::Sequential,
    decoder: nn::Sequential,
}

#[cell]
impl Vae {
    fn new() -> Self {
        Self {
            encoder: nn::sequential![nn::Dense::new(64, 128), nn::ReLU, nn::Dense::new(128, 2 * LATENT)],
            decoder: nn::sequential![nn::Dense::new(LATENT, 128), nn::ReLU, nn::Dense::new(128, 64)],
        }
    }

    fn construct(&self, x: &Tensor, noise: &Tensor) -> (Tensor, Tensor, Tensor) {
        let [mean, log_variance] = self.encoder(x).split(2, -1).try_into().expect("there are two parts");
        (self.decoder(&(&mean + noise * (0.5 * &log_variance).exp())), mean, log_variance)
    }
}

/// Computes the negative evidence lower bound of an image.
fn loss(net: &Vae, (x, noise): &(Tensor, Tensor)) -> Tensor {
    let (logits, mean, log_variance) = net.call(x, noise);
    let reconstruction = ops::bce_with_logits(logits, x, None, ops::Reduction::Sum);
    let divergence = 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(());
    (reconstruction + divergence) / BATCH as f32
}

fn main() -> Result<()> {
    let pixels = read_csv(data("digits.csv"), &CsvOptions::new().header(false))?.matrix()?.i((.., ..64)) / 16.0;
    let net = Vae::new();
    initialize(&net)?;
    let opt = Adam::new(2e-3);
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let first = step * BATCH % TRAIN;
        let batch = (pixels.i(first..first + BATCH), normal(&format!("noise.{step}"), &[BATCH, LATENT]));
        losses.push(opt.step(&net, &batch, loss).item::<f32>());
    }
    let images = net.decoder.call(&normal("samples", &[4, LATENT])).sigmoid().reshape([4, 8, 8]);
    for row in ops::concat(&ops::unstack(&images, 0), 1).to_vec::<f32>().chunks(32) {
        println!("{}", row.iter().map(|it| b" .:-=+*#%@"[((10.0 * it) as usize).min(9)] as char).collect::<String>());
    }
    picture::images("vae_samples", &[("samples", images)]);
    compare("vae", &losses, 2e-6);
    check_onnx("vae", |it| net.call(&it[0], &it[1]), &[pixels.i(..4), normal("samples", &[4, LATENT])])
}
