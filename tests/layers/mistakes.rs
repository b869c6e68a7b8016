//! Tests the errors of layers about operands that do not fit.

use ms::prelude::*;

/// Checks that the error of a call has the code and all words, and begins with the layer or op that the user called.
#[track_caller]
fn check(call: impl FnOnce() -> Tensor, first: &str, words: &[&str]) {
    let text = ms::catch(call).expect_err("it is a mistake").to_string();
    let line = text.lines().next().unwrap_or_default();
    let begin = format!("`{first}`: ");
    assert!(line.split_once("]: ").is_some_and(|it| it.1.starts_with(&begin)), "`{first}` is not first in {text}");
    words.iter().for_each(|it| assert!(text.contains(it), "`{it}` is not in {text}"));
    assert!(!text.contains("ms-core/"), "{text}");
    assert!(text.contains("tests/layers/mistakes.rs"), "{text}");
}

#[test]
fn errors_name_the_layer() {
    let x = Tensor::ones([2, 3]);
    let images = Tensor::ones([2, 3, 8, 8]);
    let sequence = Tensor::ones([5, 2, 3]);
    check(|| nn::Dense::new(4, 2).call(&x), "dense", &["MS100", "f32[2, 3]", "`Dense::construct`"]);
    check(|| nn::Conv2d::new(4, 2, 3).call(&images), "conv", &["MS100", "3 channels", "`Conv::construct`"]);
    check(|| nn::Conv2d::new(3, 2, 3).call(&x), "conv", &["MS100", "f32[2, 3]"]);
    check(|| nn::Conv2dTranspose::new(4, 2, 3).call(&images), "conv_transpose", &["MS100"]);
    check(|| nn::BatchNorm::new(4).call(&images), "batch_norm", &["MS100", "[3]"]);
    check(|| nn::LayerNorm::new(4).call(&x), "layer_norm", &["MS100", "`gamma` is f32[4]"]);
    check(|| nn::RMSNorm::new(4).call(&x), "rms_norm", &["MS100", "`gamma` is f32[4]"]);
    check(|| nn::GroupNorm::new(2, 4).call(&images), "group_norm", &["MS100", "`gamma` is f32[4]"]);
    check(|| nn::Embedding::new(4, 2).call(&x), "embedding", &["MS101", "integers, not f32"]);
    check(|| nn::MaxPool2d::new(20).call(&images), "max_pool", &["MS100", "a window of 20"]);
    check(|| nn::AvgPool2d::new(2).call(&x), "avg_pool", &["MS100", "2 spatial axes"]);
    check(|| nn::Flatten::new().call(&Tensor::scalar(1.0)), "flatten", &["MS102"]);
    check(|| nn::PReLU::new(4).call(&images), "PReLU", &["MS100", "do not broadcast"]);
    check(|| nn::LSTM::new(4, 2).call(&x, None, None).0, "LSTM", &["MS100", "time, batch and features"]);
    check(|| nn::LSTM::new(4, 2).call(&sequence, None, None).0, "LSTM", &["MS100", "the layer takes 4"]);
    check(|| nn::GRU::new(4, 2).call(&sequence, None, None).0, "GRU", &["MS100", "the layer takes 4"]);
    let net = nn::sequential![nn::Dense::new(3, 4), nn::ReLU, nn::Dense::new(5, 2)];
    check(|| net.call(&x), "dense", &["MS100", "f32[2, 4]", "`Sequential::construct`"]);
}

#[test]
fn lists_have_an_entry_for_each_axis() {
    let (images, weights) = (Tensor::ones([2, 3, 8, 8]), Tensor::ones([3, 3, 3, 3]));
    let one = &[1usize][..];
    for options in [
        ops::ConvOptions::new(2).stride(one),
        ops::ConvOptions::new(2).padding(one),
        ops::ConvOptions::new(2).dilation(one),
    ] {
        check(|| ops::conv(&images, &weights, None, &options), "conv", &["MS10"]);
        check(|| ops::conv_transpose(&images, &weights, None, &options, 0), "conv_transpose", &["MS10"]);
    }
    for options in [
        ops::PoolOptions::new(2, one),
        ops::PoolOptions::new(2, 2).stride(one),
        ops::PoolOptions::new(2, 2).padding(one),
        ops::PoolOptions::new(2, 2).dilation(one),
    ] {
        check(|| ops::max_pool(&images, &options), "max_pool", &["MS10"]);
    }
    check(|| ops::avg_pool(&images, &ops::PoolOptions::new(2, 2).stride(one)), "avg_pool", &["MS10"]);
}
