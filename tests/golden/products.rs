//! Applies products, convolutions, pooling and interpolation by the names of the golden cases.

use crate::case::Attributes;
use ms::Tensor;
use ms::ops::{self, ConvOptions, Interpolation, PoolOptions};

pub fn apply(op: &str, attrs: &Attributes, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let result = match op {
        "adaptive_avg_pool2d" => ops::adaptive_avg_pool2d(&x[0], &attrs.sizes("output_size")[..]),
        "avg_pool2d" => ops::avg_pool(&x[0], &pool(attrs).count_include_pad(attrs.flag("count_include_pad"))),
        "conv1d" => ops::conv1d(&x[0], &x[1], x.get(2), &conv(attrs)),
        "conv2d" => ops::conv2d(&x[0], &x[1], x.get(2), &conv(attrs)),
        "conv3d" => ops::conv3d(&x[0], &x[1], x.get(2), &conv(attrs)),
        "conv_transpose2d" => {
            ops::conv_transpose2d(&x[0], &x[1], x.get(2), &conv(attrs), &attrs.sizes("output_padding")[..])
        }
        "dense" => ops::dense(&x[0], &x[1], x.get(2)),
        "einsum" => ops::einsum(attrs.text("equation"), x),
        "interpolate" => ops::interpolate(&x[0], &attrs.sizes("size"), interpolation(attrs)),
        "matmul" => {
            let side = |i: usize, key: &str| if attrs.flag(key) { x[i].transpose(-2, -1) } else { x[i].clone() };
            ops::matmul(side(0, "transpose_a"), side(1, "transpose_b"))
        }
        "max_pool2d" => ops::max_pool(&x[0], &pool(attrs).dilation(&attrs.sizes("dilation")[..])),
        _ => return None,
    };
    Some(vec![result])
}

pub fn conv(attrs: &Attributes) -> ConvOptions {
    let [stride, padding, dilation] = ["stride", "padding", "dilation"].map(|key| attrs.sizes(key));
    ConvOptions::new(stride.len())
        .stride(&stride[..])
        .padding(&padding[..])
        .dilation(&dilation[..])
        .groups(attrs.size("groups"))
}

pub fn pool(attrs: &Attributes) -> PoolOptions {
    let [kernel, stride, padding] = ["kernel_size", "stride", "padding"].map(|key| attrs.sizes(key));
    PoolOptions::new(kernel.len(), &kernel[..])
        .stride(&stride[..])
        .padding(&padding[..])
        .ceil_mode(attrs.flag("ceil_mode"))
}

fn interpolation(attrs: &Attributes) -> Interpolation {
    match attrs.text("mode") {
        "nearest" => Interpolation::Nearest,
        "bilinear" => Interpolation::Linear { align_corners: attrs.flag("align_corners") },
        other => panic!("no interpolation is called {other}"),
    }
}
