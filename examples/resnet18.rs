//! A ResNet-18 with the weights of a file that has the names of torchvision, evaluated beside
//! `peers/programs/resnet18.py`. The file is made here, since the weights would be 45 MB: its names and shapes are those
//! that the twin has, its values those of the formula that both sides share.
//!
//! `cargo run --release --example resnet18`

mod common;

use common::{compare_values, uniform, write_weights};
use ms::prelude::*;

fn conv(inputs: usize, outputs: usize, kernel: usize, stride: usize) -> nn::Conv2d {
    nn::Conv2d::new(inputs, outputs, kernel).stride(stride).padding(kernel / 2).without_bias()
}

#[cell]
struct Block {
    conv1: nn::Conv2d,
    bn1: nn::BatchNorm,
    conv2: nn::Conv2d,
    bn2: nn::BatchNorm,
    shortcut: nn::Sequential,
}

#[cell]
impl Block {
    fn new(inputs: usize, outputs: usize, stride: usize) -> Self {
        Self {
            conv1: conv(inputs, outputs, 3, stride),
            bn1: nn::BatchNorm::new(outputs),
            conv2: conv(outputs, outputs, 3, 1),
            bn2: nn::BatchNorm::new(outputs),
            shortcut: match stride {
                1 => nn::sequential![],
                _ => nn::sequential![conv(inputs, outputs, 1, stride), nn::BatchNorm::new(outputs)],
            },
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let y = self.bn1(&self.conv1(x)).relu();
        let y = self.bn2(&self.conv2(&y));
        (y + self.shortcut(x)).relu()
    }
}

fn stage(inputs: usize, outputs: usize, stride: usize) -> nn::Sequential {
    nn::sequential![Block::new(inputs, outputs, stride), Block::new(outputs, outputs, 1)]
}

#[cell]
struct ResNet18 {
    stem: nn::Sequential,
    pool: nn::MaxPool2d,
    stages: nn::Sequential,
    fc: nn::Dense,
}

#[cell]
impl ResNet18 {
    fn new(classes: usize) -> Self {
        Self {
            stem: nn::sequential![conv(3, 64, 7, 2), nn::BatchNorm::new(64), nn::ReLU],
            pool: nn::MaxPool2d::new(3).stride(2).padding(1),
            stages: nn::sequential![stage(64, 64, 1), stage(64, 128, 2), stage(128, 256, 2), stage(256, 512, 2)],
            fc: nn::Dense::new(512, classes),
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc(&self.stages(&self.pool(&self.stem(x))).mean([2, 3]))
    }
}

/// What torchvision calls a parameter: `layer1.0.downsample.0.weight` is `stages.0.0.shortcut.0.weight` here.
fn torchvision(name: &str) -> String {
    let name = name.replace("stem.0", "conv1").replace("stem.1", "bn1").replace("shortcut", "downsample");
    (0..4).fold(name, |name, at| name.replace(&format!("stages.{at}."), &format!("layer{}.", at + 1)))
}

#[jit]
fn forward(net: &ResNet18, x: &Tensor) -> Tensor {
    net.call(x)
}

fn main() -> Result<()> {
    // The results have the same bits on every processor, as near to PyTorch's everywhere.
    ms::set_context(Context { precision: Precision::Strict, ..ms::context() });
    let path = std::env::temp_dir().join(format!("ms-resnet18-{}.safetensors", std::process::id()));
    write_weights("resnet18", &path)?;
    let net = ResNet18::new(1000);
    let options = LoadOptions::new().convention(Convention::PyTorch).rename(torchvision);
    let report = net.load_state_dict(&StateDict::read(&path)?, &options)?;
    std::fs::remove_file(&path).expect("it was written");
    println!("{} parameters and buffers were imported", report.loaded.len());

    net.set_train(false);
    let images = uniform("images", &[2, 3, 32, 32]);
    compare_values("resnet18", &net.call(&images), 1e-6);
    compare_values("resnet18", &forward(&net, &images), 1e-6);
    Ok(())
}
