//! Compares functions of a symbolic size with eager execution, for every size from 0 to 6.
//!
//! Both give the same result, or both are refused.

use crate::compare::{Axes, Function, Symbolic, data};
use ms::prelude::*;

/// Returns the differences of a function of one argument for the sizes 0 to 6 of its axis `n`.
fn differences(axes: Axes, body: &dyn Fn(&[Tensor]) -> Tensor) -> Vec<String> {
    let compiled = Symbolic::new(&[axes], body);
    let told = |n: usize| {
        let shape: Vec<usize> = axes.iter().map(|it| if *it == "n" { n } else { 3 }).collect();
        let x = [data(&shape)];
        // A device reports an error when somebody waits for its stream.
        let waited = |it: ms::Result<Tensor>| it.and_then(|it| ms::synchronize().map(|()| it));
        let (got, want) = (waited(compiled.call(&x)), waited(ms::catch(|| body(&x))));
        let told = match (got, want) {
            (Ok(got), Ok(want)) => differ(&got, &want),
            (Err(_), Err(_)) => None,
            (got, want) => Some(format!("{}\n  eagerly: {}", said(got), said(want))),
        };
        told.map(|it| format!("n = {n}: {it}"))
    };
    (0..=6).filter_map(told).collect()
}

fn said(result: ms::Result<Tensor>) -> String {
    result.map_or_else(|error| error.to_string(), |it| format!("{:?}", it.ty()))
}

fn differ(got: &Tensor, want: &Tensor) -> Option<String> {
    if (got.shape(), got.dtype()) != (want.shape(), want.dtype()) {
        return Some(format!("{:?}, not {:?}", got.ty(), want.ty()));
    }
    let pairs = got.cast(DType::F32).to_vec::<f32>().into_iter().zip(want.cast(DType::F32).to_vec::<f32>());
    let near = |a: f32, b: f32| (a - b).abs() <= 1e-4 * b.abs().max(1.0) || a == b || (a.is_nan() && b.is_nan());
    pairs.into_iter().find(|&(a, b)| !near(a, b)).map(|(a, b)| format!("{a}, not {b}"))
}

/// Calls all functions and their gradients, with `n` as the first or the second axis.
#[track_caller]
fn all(cases: &[(&str, Function)]) {
    let mut wrong = Vec::new();
    for (axes, &(name, case)) in
        [&["n", "_"] as Axes, &["_", "n"]].into_iter().flat_map(|it| cases.iter().map(move |case| (it, case)))
    {
        let gradient = |x: &[Tensor]| {
            let loss = |x: &Tensor| {
                let y = case(std::slice::from_ref(x));
                (&y * (&y + 1.0).sin()).sum(())
            };
            ms::grad(loss)(&x[0])
        };
        let is_smooth = ms::catch(|| case(&[data(&axes.iter().map(|_| 3).collect::<Vec<_>>())]).dtype().is_float());
        wrong.extend(differences(axes, &case).into_iter().map(|it| format!("{name}: {it}")));
        if is_smooth.unwrap_or(true) {
            wrong.extend(differences(axes, &gradient).into_iter().map(|it| format!("the gradient of {name}: {it}")));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

macro_rules! cases {
    ($($case:expr;)*) => { &[$((stringify!($case), $case as Function)),*] };
}

/// Functions that reduce over the axis `n`. Some have a value without elements.
const REDUCED: &[(&str, Function)] = cases! {
    |x| ops::logsumexp(&x[0], 0);
    |x| ops::logsumexp(&x[0], keepdims(0));
    |x| ops::logsumexp(&x[0], 1);
    |x| ops::logsumexp(&x[0], ());
    |x| ops::logsumexp(x[0].cast(DType::F16), 0);
    |x| ops::norm(&x[0], 2.0, 0);
    |x| ops::norm(&x[0], 2.0, keepdims(1));
    |x| ops::norm(&x[0], 3.0, ());
    |x| ops::norm(&x[0], 1.0, 0);
    |x| ops::norm(&x[0], 0.0, 0);
    |x| ops::norm(&x[0], -1.0, 0);
    |x| ops::norm(&x[0], f64::INFINITY, 0);
    |x| ops::norm(&x[0], f64::NEG_INFINITY, 1);
    |x| ops::max(&x[0], 0);
    |x| ops::min(&x[0], 1);
    |x| ops::max(&x[0], ());
    |x| ops::argmax(&x[0], 0);
    |x| ops::argmin(&x[0], 1);
    |x| ops::argmax(&x[0], ());
    |x| ops::sum(&x[0], 0);
    |x| ops::prod(&x[0], 0);
    |x| ops::all(x[0].gt(0.0), 0);
    |x| ops::any(x[0].gt(0.0), ());
    |x| ops::mean(&x[0], 0);
    |x| ops::var(&x[0], 0, 1);
    |x| ops::var(&x[0], (), 0);
    |x| ops::std(&x[0], 0, 1);
    |x| ops::count_nonzero(&x[0], 0);
    |x| ops::softmax(&x[0], 0);
    |x| ops::softmax(&x[0], 1);
    |x| ops::log_softmax(&x[0], 0);
    |x| ops::cumsum(&x[0], 0);
    |x| ops::cumprod(&x[0], 0);
    |x| ops::sort(&x[0], 0, false).0;
    |x| ops::sort(&x[0], 0, true).1;
    |x| ops::topk(&x[0], 1, 0, true).0;
    |x| ops::topk(&x[0], 2, 1, true).1;
    |x| ops::layer_norm(&x[0], None, None, 0, 1e-5);
    |x| ops::layer_norm(&x[0], None, None, -1, 1e-5);
    |x| ops::rms_norm(&x[0], Tensor::scalar(2.0), -1, 1e-6);
    |x| ops::cosine_similarity(&x[0], &(&x[0] + 1.0), 0, 1e-8);
    |x| ops::cosine_similarity(&x[0], &(&x[0] + 1.0), 1, 1e-8);
    |x| ops::mse_loss(&x[0], ops::ones_like(&x[0]));
    |x| ops::cross_entropy(&x[0], ops::softmax(&x[0] * 2.0, 1));
    |x| ops::cross_entropy(&x[0], ops::zeros_like(x[0].sum(1)).cast(DType::I64));
    |x| ops::kl_div(ops::log_softmax(&x[0], 1), ops::softmax(&x[0] * 2.0, 1), false, ops::Reduction::Mean);
    |x| ops::batch_norm(&x[0], Tensor::ones(x[0].dim(1)), Tensor::zeros(x[0].dim(1)), None, 1e-5);
    |x| ops::matmul(ops::transpose(&x[0], 0, 1), &x[0]);
    |x| ops::einsum("ij->j", &[&x[0]]);
    |x| ops::scaled_dot_product_attention(&x[0].expand_dims(0), &x[0].expand_dims(0), &x[0].expand_dims(0), &Default::default());
    |x| ops::scaled_dot_product_attention(&x[0].expand_dims(0), &x[0].expand_dims(0), &x[0].expand_dims(0), &ops::AttentionOptions { causal: true, ..Default::default() });
    |x| ops::segment(&x[0], ops::iota((x[0].dim(0),), 0, DType::I64) / 2, 4, ops::Segment::Max);
    |x| ops::interpolate(x[0].reshape((1, 1, x[0].dim(0), x[0].dim(1))), [2, 3], ops::Interpolation::Nearest);
    |x| ops::adaptive_avg_pool(x[0].expand_dims(0), &[2]);
    |x| ops::diag(x[0].i((.., 0)), 1);
    |x| ops::diag(&x[0], 0);
    |x| ops::tril(&x[0], 0);
    |x| ops::roll(&x[0], &[1], 0);
    |x| ops::pad(&x[0], &[(1, 1), (0, 1)], ops::PadMode::Reflect);
    |x| ops::pad(&x[0], &[(1, 1), (0, 1)], ops::PadMode::Wrap);
    |x| ops::flip(&x[0], 0);
    |x| ops::repeat(&x[0], 2, 0);
    |x| ops::one_hot(ops::iota((x[0].dim(0),), 0, DType::I64), 7);
};

#[test]
fn reductions_over_axes_without_elements() {
    all(REDUCED);
}

/// Tests windows in ceil mode, some of which are refused.
#[test]
fn windows_in_ceil_mode() {
    for kernel in 1..5 {
        for stride in 1..4 {
            for padding in 0..3 {
                for dilation in 1..4 {
                    let options = ops::PoolOptions::new(1, kernel).stride(stride).padding(padding).ceil_mode(true);
                    let image = |x: &[Tensor]| x[0].reshape((1, 1, -1));
                    let largest = |x: &[Tensor]| ops::max_pool(image(x), &options.clone().dilation(dilation));
                    let mean = |x: &[Tensor]| ops::avg_pool(image(x), &options);
                    pooled(&largest, &format!("largest of {options:?}, dilation {dilation}"));
                    if dilation == 1 {
                        pooled(&mean, &format!("means of {options:?}"));
                    }
                }
            }
        }
    }
}

/// Calls a function of windows, its gradient and its second derivatives, and maps it over lanes.
#[track_caller]
fn pooled(body: &dyn Fn(&[Tensor]) -> Tensor, what: &str) {
    let loss = |x: &Tensor| {
        let y = body(std::slice::from_ref(x));
        (&y * (&y + 1.0).sin()).sum(())
    };
    let gradient = |x: &[Tensor]| ms::grad(loss)(&x[0]);
    let hessian = |x: &[Tensor]| ms::hessian(loss)(&x[0]);
    let lanes =
        |x: &[Tensor]| ms::vmap(|x: &Tensor| body(std::slice::from_ref(x)))(&ops::stack(&[&x[0], &(&x[0] * 2.0)], 0));
    for body in [body, &gradient, &hessian, &lanes] {
        let wrong = differences(&["n"], body);
        assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    }
}

/// Functions with windows over symbolic axes of images with channels.
const IMAGES: &[(&str, Function)] = cases! {
    |x| ops::max_pool(x[0].reshape((1, 1, x[0].dim(0), x[0].dim(1))), &ops::PoolOptions::new(2, [3, 2]).stride([2, 1]).ceil_mode(true));
    |x| ops::max_pool(x[0].expand_dims(0), &ops::PoolOptions::new(1, 2).stride(2).ceil_mode(true));
    |x| ops::max_pool(x[0].expand_dims(0).transpose(1, 2), &ops::PoolOptions::new(1, 2).stride(3).ceil_mode(true));
    |x| {
        let options = ops::PoolOptions::new(1, 3).stride(2).ceil_mode(true);
        ops::max_pool(x[0].expand_dims(0), &options) + ops::avg_pool(x[0].expand_dims(0), &options)
    };
    |x| {
        let options = ops::PoolOptions::new(2, [2, 1]).stride([2, 1]).ceil_mode(true);
        let image = ops::conv2d(x[0].reshape((1, 1, x[0].dim(0), x[0].dim(1))), data(&[2, 1, 1, 1]), None, &ops::ConvOptions::new(2));
        ops::max_pool(ops::relu(image), &options)
    };
};

#[test]
fn images_in_ceil_mode() {
    all(IMAGES);
}

#[test]
fn transposed_convolutions() {
    for kernel in 1..4 {
        for stride in 1..4 {
            for (padding, extra, dilation) in
                [(0, 0, 1), (1, 0, 1), (2, 0, 1), (0, 1, 2), (1, 1, 2), (2, 2, 3), (3, 0, 1)]
            {
                let options = ops::ConvOptions::new(1).stride(stride).padding(padding).dilation(dilation);
                let body = |x: &[Tensor]| {
                    let weight = data(&[1, 2, kernel]);
                    ops::conv_transpose(x[0].reshape((1, 1, -1)), weight, Some(&data(&[2])), &options, extra)
                };
                pooled(&body, &format!("kernel {kernel}, {options:?}, output padding {extra}"));
            }
        }
    }
}

/// Transposed convolutions with a symbolic number of channels, of images, and of spatial positions.
const TRANSPOSED: &[(&str, Function)] = cases! {
    |x| ops::conv_transpose(x[0].expand_dims(0), Tensor::ones((x[0].dim(0), 2, 2)), None, &ops::ConvOptions::new(1), 0);
    |x| ops::conv_transpose(x[0].expand_dims(1), Tensor::ones((1, 2, 2)), None, &ops::ConvOptions::new(1).stride(2), 1);
    |x| ops::conv_transpose2d(x[0].reshape((1, 1, x[0].dim(0), x[0].dim(1))), data(&[1, 2, 2, 2]), None, &ops::ConvOptions::new(2), 0);
};

#[test]
fn transposed_convolutions_of_images() {
    all(TRANSPOSED);
}
