//! Tests pooling.

use crate::oracle::layer;
use ms::prelude::*;

#[test]
fn pools_are_those_of_pytorch() {
    layer("max_pool1d", nn::MaxPool1d::new(3).stride(2).padding(1));
    layer("max_pool2d", nn::MaxPool2d::new([3, 2]).stride([2, 1]).padding([1, 0]).dilation([1, 2]));
    layer("max_pool2d_ceil", nn::MaxPool2d::new(2).ceil_mode(true));
    layer("max_pool3d", nn::MaxPool3d::new(2).stride(1));
    layer("avg_pool1d", nn::AvgPool1d::new(3).stride(2).padding(1));
    layer("avg_pool2d", nn::AvgPool2d::new([3, 2]).stride([2, 1]).padding(1).count_include_pad(false));
    layer("avg_pool2d_ceil", nn::AvgPool2d::new(2).ceil_mode(true));
    layer("avg_pool3d", nn::AvgPool3d::new(2).stride(1));
    layer("adaptive_avg_pool1d", nn::AdaptiveAvgPool1d::new(3));
    layer("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d::new([2, 3]));
    layer("adaptive_avg_pool3d", nn::AdaptiveAvgPool3d::new([1, 2, 3]));
    layer("adaptive_max_pool1d", nn::AdaptiveMaxPool1d::new(3));
    layer("adaptive_max_pool2d", nn::AdaptiveMaxPool2d::new([2, 3]));
    layer("adaptive_max_pool2d_even", nn::AdaptiveMaxPool2d::new(2));
    layer("adaptive_max_pool3d", nn::AdaptiveMaxPool3d::new([1, 2, 3]));
}

#[test]
fn padding_of_one_side_counts_for_nothing() {
    let x = tensor![[[1.0, 3.0, -2.0, -4.0, -6.0]]];
    let cases: [(&str, Tensor, &[f32]); 5] = [
        ("max, same", nn::MaxPool1d::new(2).pad_mode(nn::PadMode::Same).call(&x), &[3.0, -2.0, -6.0]),
        ("mean, same", nn::AvgPool1d::new(2).pad_mode(nn::PadMode::Same).call(&x), &[2.0, -3.0, -6.0]),
        ("mean, same, wide", nn::AvgPool1d::new(4).pad_mode(nn::PadMode::Same).call(&x), &[2.0 / 3.0, -5.0]),
        ("max, behind", nn::MaxPool1d::new(2).padding([(0, 1)]).call(&x), &[3.0, -2.0, -6.0]),
        ("mean, behind", nn::AvgPool1d::new(2).padding([(0, 1)]).call(&x), &[2.0, -3.0, -3.0]),
    ];
    for (name, got, want) in cases {
        let got = got.to_vec::<f32>();
        assert!(got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{name}: {got:?}");
    }
}
