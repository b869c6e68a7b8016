//! Trains an MLP and a small convolutional network on handwritten digits. Each runs eagerly, and with the whole
//! training step compiled as one graph, and the two are compared.
//!
//! `cargo run --release --example digits`

use ms::prelude::*;
use std::time::{Duration, Instant};

const EPOCHS: usize = 30;
const BATCH: usize = 64;
const TRAIN: usize = 1437;

#[cell]
struct Mlp {
    fc1: nn::Dense,
    fc2: nn::Dense,
}

#[cell]
impl Mlp {
    fn new() -> Self {
        Self { fc1: nn::Dense::new(64, 128), fc2: nn::Dense::new(128, 10) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc2(&self.fc1(x).relu())
    }
}

#[cell]
struct ConvNet {
    conv1: nn::Conv2d,
    conv2: nn::Conv2d,
    pool: nn::MaxPool2d,
    fc: nn::Dense,
}

#[cell]
impl ConvNet {
    fn new() -> Self {
        Self {
            conv1: nn::Conv2d::new(1, 16, 3).padding(1),
            conv2: nn::Conv2d::new(16, 32, 3).padding(1),
            pool: nn::MaxPool2d::new(2),
            fc: nn::Dense::new(32 * 4 * 4, 10),
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let x = x.reshape([x.shape()[0], 1, 8, 8]);
        let x = self.pool(&self.conv1(&x).relu());
        let x = self.conv2(&x).relu();
        self.fc(&x.flatten(1))
    }
}

/// Reads the digits: 64 pixels from 0 to 1 for each image, and its class.
fn digits() -> ms::Result<(Digits, Digits)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv");
    let table = read_csv(path, &CsvOptions::new().header(false))?.matrix()?;
    let (pixels, classes) = (table.i((.., 0..64)) / 16.0, table.i((.., 64)).cast(DType::I64));
    let cut = |x: &Tensor| (x.i(0..TRAIN), x.i(TRAIN..));
    let (x, y) = (cut(&pixels), cut(&classes));
    Ok(((x.0, y.0), (x.1, y.1)))
}

/// Images and their classes.
type Digits = (Tensor, Tensor);

/// The times of a training run: the first step, which compiles, and the median of the others.
struct Timing {
    first: Duration,
    median: Duration,
}

fn train<N: Cell + Layer>(name: &str, net: &N, data: &(Digits, Digits), compiled: bool) -> ms::Result<Timing> {
    let (train, test) = data;
    let opt = Adam::new(1e-3);
    let loader = DataLoader::new(TensorDataset::new(train.clone()).shuffle().batch(BATCH));
    let mut times = Vec::new();
    for epoch in 1..=EPOCHS {
        let mut mean = Mean::default();
        let mut bar = Progress::new(format!("{name} epoch {epoch:2}"), loader.len());
        for batch in &loader {
            let batch = batch?;
            let loss = |net: &N, (x, y): &Digits| ops::cross_entropy(net.forward(x), y);
            let start = Instant::now();
            let loss = if compiled { opt.step(net, &batch, loss) } else { opt.step_eagerly(net, &batch, loss) };
            times.push(start.elapsed());
            mean.add(loss.item(), batch.0.shape()[0]);
            bar.step(format!("loss {:.4}", mean.get()));
        }
        bar.clear();
        let accuracy: f32 = accuracy(&net.forward(&test.0), &test.1).item();
        println!("{name} epoch {epoch:2}  loss {:.4}  test accuracy {:5.1} %", mean.get(), 100.0 * accuracy);
    }
    let first = times.remove(0);
    times.sort();
    Ok(Timing { first, median: times[times.len() / 2] })
}

/// Saves the network, loads it into a new one, and checks that both predict the same.
fn round_trip<N: Cell + Layer>(name: &str, net: &N, fresh: &N, test: &Digits) -> ms::Result<()> {
    let path = std::env::temp_dir().join(format!("ms-digits-{name}-{}.safetensors", std::process::id()));
    ms::save_checkpoint(&path, net)?;
    ms::load_checkpoint(&path, fresh)?;
    let same = net.forward(&test.0).to_vec::<f32>() == fresh.forward(&test.0).to_vec::<f32>();
    assert!(same, "the loaded network answers as the saved one");
    println!("{name}: saved to and loaded from {}", path.display());
    std::fs::remove_file(&path).map_err(|error| Error::new(ms::Code::Io, error.to_string()))
}

fn compare<N: Cell + Layer>(name: &str, make: fn() -> N, data: &(Digits, Digits)) -> ms::Result<()> {
    let run = |compiled: bool| -> ms::Result<_> {
        ms::random::set_seed(1);
        let label = format!("{name} {}", if compiled { "compiled" } else { "eager   " });
        let net = make();
        Ok((train(&label, &net, data, compiled)?, net))
    };
    let ((eager, _), (compiled, net)) = (run(false)?, run(true)?);
    round_trip(name, &net, &make(), &data.1)?;
    println!(
        "{name}: compiled in {:.1?}; a step takes {:.1?} eagerly and {:.1?} compiled: {:.2} times faster\n",
        compiled.first,
        eager.median,
        compiled.median,
        eager.median.as_secs_f64() / compiled.median.as_secs_f64()
    );
    Ok(())
}

fn main() -> ms::Result<()> {
    let data = digits()?;
    println!("{} training and {} test images\n", data.0.1.numel(), data.1.1.numel());
    compare("MLP", Mlp::new, &data)?;
    compare("ConvNet", ConvNet::new, &data)
}
