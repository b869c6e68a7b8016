//! A training run that can be stopped at any step and continues from its checkpoint. It uses a schedule, clipping,
//! weight decay without biases, and averaged weights.
//!
//! `cargo run --release --example training`

use ms::prelude::*;
use ms::{load_checkpoint, save_checkpoint};
use std::path::Path;

const STEPS: u64 = 800;
const SAVES: u64 = 200;

/// Returns points and their classes: inside or outside of a ring.
fn points() -> TensorDataset<(Tensor, Tensor)> {
    let x = random::uniform([512, 2], -1.0, 1.0);
    let radius = x.square().sum(-1).sqrt();
    let inside = ops::logical_and(radius.gt(0.4), radius.lt(0.8));
    TensorDataset::new((x, inside.cast(DType::I64)))
}

fn loss(net: &nn::Sequential, (x, y): &(Tensor, Tensor)) -> (Tensor, Tensor) {
    let logits = net.call(x);
    (ops::cross_entropy(&logits, y), accuracy(&logits, y))
}

/// Trains up to a step, from the checkpoint if there is one. Returns the last loss and accuracy.
fn train(data: &TensorDataset<(Tensor, Tensor)>, path: &Path, until: u64) -> Result<(f32, f32)> {
    let net = nn::sequential![nn::Dense::new(2, 32), nn::ReLU, nn::Dense::new(32, 32), nn::ReLU, nn::Dense::new(32, 2)];
    let biases: Vec<Parameter> = net.parameters().into_iter().filter(|it| it.load().shape().len() == 1).collect();
    let opt = Adam::new(1e-2).decoupled_weight_decay(1e-3).without_decay_of(&biases).clip_by_global_norm(1.0);
    let opt = opt.schedule(WarmUp::new(20).then(CosineDecay::new(STEPS - 20))).average(0.95);
    let (loader, step) = (DataLoader::new(data.clone().shuffle().batch(64)), Counter::new(0));

    let state = (&net, &opt, &loader, &step);
    if path.exists() {
        load_checkpoint(path, state)?;
        println!("goes on from step {}", step.get());
    }
    while step.get() < until {
        let batch = loader.draw()?;
        let (loss, accuracy) = opt.step_with_aux(&net, &batch, loss);
        step.add(1);
        if step.get() % SAVES == 0 {
            let rate = opt.learning_rates()[0].get();
            println!(
                "step {:3}, epoch {:2}: loss {:.4}, accuracy {:5.1} %, learning rate {rate:.5}",
                step.get(),
                loader.epoch(),
                loss.item::<f32>(),
                100.0 * accuracy.item::<f32>(),
            );
            save_checkpoint(path, state)?;
        }
    }
    let whole = DataLoader::new(data.clone().batch(data.len())).draw()?;
    let (loss, accuracy) = opt.with_averages(&net, || loss(&net, &whole));
    Ok((loss.item(), accuracy.item()))
}

fn main() -> Result<()> {
    random::set_seed(1);
    let data = points();
    let folder = std::env::temp_dir();
    let [whole, stopped] = ["whole", "stopped"].map(|it| folder.join(format!("ms-ring-{it}-{}", std::process::id())));

    random::set_seed(2);
    let want = train(&data, &whole, STEPS)?;
    // Stop between two checkpoints, and restart.
    random::set_seed(2);
    train(&data, &stopped, STEPS / 2 + 30)?;
    let got = train(&data, &stopped, STEPS)?;
    println!("with averaged weights: loss {:.4}, accuracy {:.1} %", got.0, 100.0 * got.1);
    assert_eq!(got, want, "the run that was stopped ends like the other one");
    for path in [&whole, &stopped] {
        std::fs::remove_file(path).map_err(|error| Error::new(ms::Code::Io, error.to_string()))?;
    }
    Ok(())
}
