//! Tests convolutions and transposed convolutions.

use crate::oracle::layer;
use ms::Code;
use ms::nn::{PadMode, PaddingMode};
use ms::prelude::*;

#[test]
fn convolutions_are_those_of_pytorch() {
    layer("conv1d", nn::Conv1d::new(4, 6, 3).stride(2).padding(2).dilation(2).groups(2));
    layer("conv1d_circular", nn::Conv1d::new(2, 3, 3).padding(2).padding_mode(PaddingMode::Circular));
    layer("conv2d", nn::Conv2d::new(2, 4, [3, 2]).stride([2, 1]).padding([1, 0]));
    layer("conv2d_same", nn::Conv2d::new(2, 3, [4, 3]).pad_mode(PadMode::Same).dilation([1, 2]).without_bias());
    layer("conv2d_same_stride", nn::Conv2d::new(2, 3, 3).stride(2).pad_mode(PadMode::Same));
    layer("conv2d_depthwise", nn::Conv2d::new(3, 6, 3).groups(3).padding(1));
    layer("conv2d_reflect", nn::Conv2d::new(2, 2, 3).padding([1, 2]).padding_mode(PaddingMode::Reflect));
    layer("conv2d_replicate", nn::Conv2d::new(2, 2, 3).stride(2).padding(1).padding_mode(PaddingMode::Replicate));
    layer("conv3d", nn::Conv3d::new(2, 3, [1, 2, 3]).stride([1, 2, 1]).padding([0, 1, 1]));
    layer("conv3d_groups", nn::Conv3d::new(2, 4, 2).dilation([1, 2, 1]).groups(2).without_bias());
}

#[test]
fn transposed_convolutions_are_those_of_pytorch() {
    let groups = nn::Conv1dTranspose::new(4, 6, 3).stride(2).padding(1).output_padding(1).dilation(2).groups(2);
    layer("conv1d_transpose", groups);
    layer("conv2d_transpose", nn::Conv2dTranspose::new(2, 3, [3, 2]).stride([2, 3]).padding([1, 0]));
    layer("conv2d_transpose_same", nn::Conv2dTranspose::new(2, 3, 4).stride([1, 2]).pad_mode(PadMode::Same));
    layer("conv3d_transpose", nn::Conv3dTranspose::new(2, 2, 2).stride([1, 2, 1]).without_bias());
}

#[test]
fn invalid_options_are_refused() {
    let x = || Tensor::ones([1, 4, 5, 5]);
    type Case = (&'static str, Box<dyn Fn() -> Tensor>, Code);
    let cases: [Case; 6] = [
        ("groups", Box::new(move || nn::Conv2d::new(4, 6, 3).groups(4).call(&x())), Code::Argument),
        ("kernel", Box::new(move || nn::Conv2d::new(4, 6, [3]).call(&x())), Code::Argument),
        ("stride", Box::new(move || nn::Conv2dTranspose::new(4, 6, 3).stride(0).call(&x())), Code::Argument),
        ("rank", Box::new(move || nn::Conv1d::new(4, 6, 3).pad_mode(PadMode::Same).call(&x())), Code::Shape),
        ("channels", Box::new(move || nn::Conv2d::new(3, 6, 3).call(&x())), Code::Shape),
        (
            "output_padding",
            Box::new(move || nn::Conv2dTranspose::new(4, 6, 3).output_padding(1).call(&x())),
            Code::Argument,
        ),
    ];
    for (name, run, code) in cases {
        let error = ms::catch(&run).expect_err(name);
        assert_eq!(error.code(), code, "{name}: {error}");
    }
}

#[jit(dims(x = [batch, _, height, _]))]
fn sized(net: &nn::Conv2d, x: &Tensor) -> Tensor {
    net.call(x)
}

#[test]
fn sizes_vary() {
    let net = nn::Conv2d::new(2, 3, 4).pad_mode(PadMode::Same);
    for size in [4, 7] {
        let x = random::randn([2, 2, size, 5]);
        crate::oracle::near("same", &sized(&net, &x), &net.call(&x));
    }
    // The amount of padding depends on the size.
    let net = nn::Conv2d::new(2, 3, 4).stride(2).pad_mode(PadMode::Same);
    let error = ms::catch(|| sized(&net, &Tensor::ones([1, 2, 4, 4]))).expect_err("the size is symbolic");
    assert_eq!(error.code(), Code::Sizes, "{error}");
}
