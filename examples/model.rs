//! Trains a network on handwritten digits with a `Model`. It uses noisy images from two workers, metrics, callbacks,
//! and several steps per call.
//!
//! `cargo run --release --example model`

use ms::prelude::*;
use ms::train::{Accuracy, EarlyStopping, Goal, ProgressMonitor, TopKCategoricalAccuracy};

const TRAIN: usize = 1437;

fn main() -> Result<()> {
    random::set_seed(1);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv");
    let table = read_csv(path, &CsvOptions::new().header(false))?.matrix()?;
    let digits = TensorDataset::new((table.i((.., 0..64)) / 16.0, table.i((.., 64)).cast(DType::I64)));
    let (train, test) = (digits.clone().take(TRAIN), digits.skip(TRAIN));
    let noisy = |(image, class): (Tensor, Tensor)| (image + random::normal([64], 0.0, 0.05), class);
    let train = train.map(noisy).shuffle().batch(64).drop_last(true);
    let (train, test) = (DataLoader::new(train).workers(2), DataLoader::new(test.batch(120)));

    let net = nn::sequential![nn::Dense::new(64, 128), nn::ReLU, nn::Dense::new(128, 10)];
    let mut model = Model::new(net, |x, y| ops::cross_entropy(x, y), Adam::new(2e-3))
        .metric(Accuracy::new())
        .metric(TopKCategoricalAccuracy::new(2))
        .sink_size(11);
    let mut stopping = EarlyStopping::new("val_loss", Goal::Min, 5).restore_best(true);
    model.fit(25, &train, &test, &mut [&mut ProgressMonitor::new(), &mut stopping])?;

    let scores = model.eval(&test)?;
    if let Some((epoch, loss)) = stopping.best() {
        println!("epoch {epoch} is the best one, with a loss of {loss:.4}");
    }
    println!("accuracy {:.1} %, top 2 {:.1} %", 100.0 * scores["accuracy"], 100.0 * scores["top_2_accuracy"]);
    assert!(scores["accuracy"] > 0.85);
    Ok(())
}
