//! Trains a small convolutional network on handwritten digits, writes it as an ONNX model, and reads it back as a
//! function that classifies the same.
//!
//! `cargo run --release --features onnx --example onnx`

use ms::io::{ExportOptions, ExportedFunction};
use ms::prelude::*;

const TRAIN: usize = 1437;

fn main() -> Result<()> {
    random::set_seed(1);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv");
    let table = read_csv(path, &CsvOptions::new().header(false))?.matrix()?;
    let images = (table.i((.., 0..64)) / 16.0).reshape([-1, 1, 8, 8]);
    let classes = table.i((.., 64)).cast(DType::I64);
    let (test_images, test_classes) = (images.i(TRAIN..), classes.i(TRAIN..));

    let net = nn::sequential![
        nn::Conv2d::new(1, 8, 3).padding(1),
        nn::BatchNorm::new(8),
        nn::ReLU,
        nn::MaxPool2d::new(2),
        nn::Flatten::new(),
        nn::Dense::new(8 * 4 * 4, 10)
    ];
    let data = TensorDataset::new((images.i(0..TRAIN), classes.i(0..TRAIN)));
    let train = DataLoader::new(data.shuffle().batch(64).drop_last(true));
    let mut model = Model::new(net, |x, y| ops::cross_entropy(x, y), Adam::new(2e-3));
    model.train(10, &train, &mut [])?;
    let wanted = model.predict(&test_images);

    let net = model.network();
    net.set_train(false);
    let options = ExportOptions::new().input("images", ["count", "_", "_", "_"]);
    let exported = ms::export(|x: &Tensor| net.call(x), (&images.i(0..1),), &options)?;
    let file = std::env::temp_dir().join(format!("ms digits {}.onnx", std::process::id()));
    exported.save_onnx(&file)?;

    let read = ExportedFunction::load_onnx(&file)?;
    let logits = read.call(&[&test_images])?.remove(0);
    let difference = (&logits - wanted).abs().max(()).item::<f32>();
    let accuracy = logits.argmax(-1).eq(test_classes).mean(()).item::<f32>();
    println!("{read}: {} bytes", std::fs::metadata(&file).expect("it was written").len());
    println!("accuracy {:.1} %, largest difference {difference:e}", 100.0 * accuracy);
    assert!(accuracy > 0.85 && difference < 1e-4);
    std::fs::remove_file(&file).expect("it was written");
    Ok(())
}
