//! Trains a classifier of handwritten digits and exports it to a file. Another process loads and runs the file, without
//! the network and without macros.
//!
//! `cargo run --release --example exported`

use ms::io::{ExportOptions, ExportedFunction};
use ms::prelude::*;
use ms::train::Accuracy;
use std::path::Path;
use std::process::Command;

const TRAIN: usize = 1437;

/// Reads the digits: 64 pixels from 0 to 1 for each image, and its class.
fn digits() -> Result<(Tensor, Tensor)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv");
    let table = read_csv(path, &CsvOptions::new().header(false))?.matrix()?;
    Ok((table.i((.., 0..64)) / 16.0, table.i((.., 64)).cast(DType::I64)))
}

/// Trains the network, and exports the function from images to their classes, for any number of images.
fn write(path: &Path) -> Result<()> {
    random::set_seed(1);
    let (images, classes) = digits()?;
    let data = TensorDataset::new((images.i(0..TRAIN), classes.i(0..TRAIN)));
    let train = DataLoader::new(data.shuffle().batch(64).drop_last(true));
    let net = nn::sequential![nn::Dense::new(64, 128), nn::ReLU, nn::Dropout::new(0.2), nn::Dense::new(128, 10)];
    let mut model = Model::new(net, |x, y| ops::cross_entropy(x, y), Adam::new(2e-3)).metric(Accuracy::new());
    model.train(20, &train, &mut [])?;

    let net = model.network();
    net.set_train(false);
    let options = ExportOptions::new().input("images", ["count", "_"]);
    let exported = ms::export(|x: &Tensor| net.call(x).argmax(-1), (&images.i(0..1),), &options)?;
    exported.save(path)?;
    println!("{exported} is in {} bytes", std::fs::metadata(path).expect("it was written").len());
    Ok(())
}

/// Loads the function, and counts the images that it classifies correctly.
fn run(path: &Path) -> Result<()> {
    let (images, classes) = digits()?;
    let classify = ExportedFunction::load(path)?;
    let found = classify.call(&[&images.i(TRAIN..)])?;
    let accuracy = found[0].eq(classes.i(TRAIN..)).mean(()).item::<f32>();
    println!("accuracy {:.1} %", 100.0 * accuracy);
    assert!(accuracy > 0.85);
    Ok(())
}

fn main() -> Result<()> {
    if let Some(path) = std::env::args_os().nth(1) {
        return run(Path::new(&path));
    }
    let path = std::env::temp_dir().join(format!("ms digits {}", std::process::id()));
    write(&path)?;
    let program = std::env::current_exe().expect("this program has a file");
    let status = Command::new(program).arg(&path).status().expect("this program starts");
    assert!(status.success());
    std::fs::remove_file(&path).expect("it was written");
    Ok(())
}
