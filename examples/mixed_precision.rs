//! Mixed precision: one network at four levels. In f16, loss scaling prevents small gradients from underflow, and
//! master weights in f32 take the updates.
//!
//! `cargo run --release --example mixed_precision`

mod common;

use common::{TRAIN, digits};
use ms::amp::{DynamicLossScaler, Level, LossScaler, StaticLossScaler, auto_mixed_precision};
use ms::prelude::*;

const STEPS: usize = 300;

/// The results of a training run.
struct Outcome {
    accuracy: f32,
    bytes: usize,
    scale: f32,
    zeros: f32,
}

/// Trains a network at a level. The images, and so all tensors between layers, have the level's dtype.
fn train(level: Level, dtype: DType, scaler: impl LossScaler + Cell + 'static) -> Result<Outcome> {
    random::set_seed(1);
    let (images, classes) = digits()?;
    let images = if let Level::O2 | Level::O3 = level { images.cast(dtype) } else { images };
    let net = nn::sequential![nn::Dense::new(64, 128), nn::LayerNorm::new(128), nn::ReLU, nn::Dense::new(128, 10)];
    if level != Level::O0 {
        auto_mixed_precision(&net, level, dtype);
    }
    let opt = Adam::new(1e-3).master_weights().loss_scale(scaler);
    let data = TensorDataset::new((images.i(..TRAIN), classes.i(..TRAIN)));
    let loader = DataLoader::new(data.shuffle().batch(64).drop_last(true));
    let loss = |net: &nn::Sequential, (x, y): &(Tensor, Tensor)| nn::CrossEntropyLoss::new().call(&net.call(x), y);
    for _ in 0..STEPS {
        opt.step(&net, &loader.draw()?, loss);
    }
    let logits = net.call(&images.i(TRAIN..)).cast(DType::F32);
    let bytes = net.parameters().iter().map(|it| it.load().numel() * it.load().dtype().size()).sum();
    let scale = opt.scaler.scale();
    // The fraction of zeros in the gradients of the scaled loss, which have the dtypes of the parameters.
    let batch = loader.draw()?;
    let scaled = |net: &nn::Sequential| loss(net, &batch) * &scale;
    let (_, gradients) = ms::value_and_grad(scaled)(&net);
    let zeros = gradients.iter().map(|it| it.1.eq(0.0).sum(()).item::<i64>()).sum::<i64>() as f32;
    let count = gradients.iter().map(|it| it.1.numel()).sum::<usize>() as f32;
    let accuracy = accuracy(&logits, &classes.i(TRAIN..)).item();
    Ok(Outcome { accuracy, bytes, scale: scale.item(), zeros: zeros / count })
}

fn main() -> Result<()> {
    let plain = train(Level::O0, DType::F16, StaticLossScaler::new(1.0))?;
    // The initial factor is too large on purpose: steps with gradients that are not finite only reduce it.
    let dynamic = || DynamicLossScaler::new(2f64.powi(24)).scale_window(100);
    let runs = [
        ("O0, f32", plain),
        ("O1, bf16", train(Level::O1, DType::BF16, StaticLossScaler::new(1.0))?),
        ("O2, f16", train(Level::O2, DType::F16, dynamic())?),
        ("O3, bf16", train(Level::O3, DType::BF16, StaticLossScaler::new(1.0))?),
    ];
    println!("{:10} {:>8} {:>9} {:>10} {:>15}", "level", "accuracy", "bytes", "factor", "zero gradients");
    for (name, it) in &runs {
        let (accuracy, zeros) = (100.0 * it.accuracy, 100.0 * it.zeros);
        println!("{name:10} {accuracy:6.1} % {:9} {:10} {zeros:13.1} %", it.bytes, it.scale);
    }
    let [plain, mixed, scaled, narrow] = runs.map(|it| it.1);
    assert!(plain.accuracy > 0.88, "{}", plain.accuracy);
    for it in [&mixed, &scaled, &narrow] {
        assert!((it.accuracy - plain.accuracy).abs() < 0.03, "{} and {}", it.accuracy, plain.accuracy);
    }
    // 9,866 parameters, of which 256 belong to the normalisation.
    assert_eq!((plain.bytes, mixed.bytes, scaled.bytes, narrow.bytes), (39464, 39464, 20244, 19732));
    assert!(scaled.scale < 2f32.powi(24) && scaled.scale > 64.0, "{}", scaled.scale);
    Ok(())
}
