//! A denoising autoencoder: it compresses noisy handwritten digits to 16 numbers, and learns to reconstruct the clean
//! digits.
//!
//! `cargo run --release --example autoencoder`

mod common;

use common::{TRAIN, digits, picture};
use ms::prelude::*;

const NOISE: f64 = 0.3;
const STEPS: usize = 1500;

fn main() -> Result<()> {
    random::set_seed(1);
    let (pixels, _) = digits()?;
    let (train, test) = (pixels.i(..TRAIN), pixels.i(TRAIN..));
    let net = nn::sequential![
        nn::Dense::new(64, 128),
        nn::ReLU,
        nn::Dense::new(128, 16),
        nn::Dense::new(16, 128),
        nn::ReLU,
        nn::Dense::new(128, 64),
        nn::Sigmoid,
    ];
    let opt = Adam::new(2e-3).schedule(CosineDecay::new(STEPS as u64));
    let loader = DataLoader::new(TensorDataset::new(train).shuffle().batch(64).drop_last(true));
    let mut losses = picture::Points::new();
    for step in 0..STEPS {
        // The noise is drawn in the compiled step.
        let loss = |net: &nn::Sequential, clean: &Tensor| {
            ops::mse_loss(net.call(&(clean + random::normal([64, 64], 0.0, NOISE))), clean)
        };
        let loss = opt.step(&net, &loader.draw()?, loss).item::<f32>();
        losses.push((step as f64, loss as f64));
    }
    picture::curves("autoencoder_loss", "Autoencoder: the mean squared error", "step", &[("training", losses)]);

    let noisy = &test + random::normal([test.shape()[0], 64], 0.0, NOISE);
    let restored = net.call(&noisy);
    let rows = [("digit", &test), ("with noise", &noisy), ("restored", &restored)];
    picture::images("autoencoder", &rows.map(|(label, it)| (label, it.i(..10).reshape([10, 8, 8]))));
    let error = |it: &Tensor| ops::mse_loss(it, &test).item::<f32>();
    println!("mean squared error: {:.4} with noise, {:.4} restored", error(&noisy), error(&restored));
    // The error of the noisy images is the variance of the noise; reconstruction reduces it to a third.
    assert!((error(&noisy) - 0.09).abs() < 0.003);
    assert!(error(&restored) < 0.03);
    Ok(())
}
