//! Evaluates a ResNet-18 with weights under torchvision's names, like its PyTorch twin `peers/programs/resnet18.py`.
//! The weights file would take 45 MB, so it is generated. Its names and shapes are the twin's, and its values follow
//! the formula that both sides share.
//!
//! `cargo run --release --example resnet18`

mod common;

use common::{check_onnx, compare_values, uniform, write_weights};
use ms::prelude::*;

fn conv(inputs: usize, outputs: usize, kernel: usize, stride: usize) -> nn::Conv2d {
    nn::Conv2d::new(inputs, outputs, kernel).stride(stride).padding(kernel / 2).without_bias()
}

fn block(inputs: usize, outputs: usize, stride: usize) -> nn::Residual {
    let body = nn::sequential! {
        conv1: conv(inputs, outputs, 3, stride),
        bn1: nn::BatchNorm::new(outputs),
        relu: nn::ReLU,
        conv2: conv(outputs, outputs, 3, 1),
        bn2: nn::BatchNorm::new(outputs),
    };
    let block = nn::Residual::new(body).activation(nn::ReLU);
    match stride {
        1 => block,
        _ => block.shortcut(nn::sequential![conv(inputs, outputs, 1, stride), nn::BatchNorm::new(outputs)]),
    }
}

fn stage(inputs: usize, outputs: usize, stride: usize) -> nn::Sequential {
    nn::sequential![block(inputs, outputs, stride), block(outputs, outputs, 1)]
}

fn resnet18(classes: usize) -> nn::Sequential {
    nn::sequential! {
        conv1: conv(3, 64, 7, 2),
        bn1: nn::BatchNorm::new(64),
        relu: nn::ReLU,
        maxpool: nn::MaxPool2d::new(3).stride(2).padding(1),
        layer1: stage(64, 64, 1),
        layer2: stage(64, 128, 2),
        layer3: stage(128, 256, 2),
        layer4: stage(256, 512, 2),
        avgpool: nn::AdaptiveAvgPool2d::new(1),
        flatten: nn::Flatten::new(),
        fc: nn::Dense::new(512, classes),
    }
}

#[jit]
fn forward(net: &nn::Sequential, x: &Tensor) -> Tensor {
    net.call(x)
}

fn main() -> Result<()> {
    // Strict precision gives the same bits on every processor, so the difference to PyTorch is the same everywhere.
    ms::set_context(Context { precision: Precision::Strict, ..ms::context() });
    let path = std::env::temp_dir().join(format!("ms-resnet18-{}.safetensors", std::process::id()));
    write_weights("resnet18", &path)?;
    let net = resnet18(1000);
    let options = LoadOptions::new().convention(Convention::PyTorch).rename(|it| it.replace("shortcut", "downsample"));
    let report = net.load_state_dict(&StateDict::read(&path)?, &options)?;
    std::fs::remove_file(&path).expect("it was written");
    println!("{} parameters and buffers were imported", report.loaded.len());

    net.set_train(false);
    let images = uniform("images", &[2, 3, 32, 32]);
    compare_values("resnet18", &net.call(&images), 1e-6);
    compare_values("resnet18", &forward(&net, &images), 1e-6);
    check_onnx("resnet18", |it| net.call(&it[0]), &[images])
}
