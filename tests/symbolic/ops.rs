//! Tests every op on tensors with a symbolic size of one axis.

use crate::compare::{Axes, Function, Shapes, compare, data};
use ms::prelude::*;

/// Runs all cases, and reports failures.
fn all(arguments: &[Axes], shapes: &[Shapes], cases: &[(&str, Function)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, case)| {
            let found = ms::catch(|| compare(arguments, shapes, case));
            let found = found.unwrap_or_else(|error| Err(error.to_string()));
            found.err().map(|error| format!("{name}: {error}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

/// Runs the gradients of those cases that have one.
fn gradients(arguments: &[Axes], shapes: &[Shapes], cases: &[(&str, Function)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter(|it| (it.1)(&[data(shapes[0][0])]).dtype() == DType::F32 && !it.0.contains("zeros_like(&x[0])"))
        .filter_map(|(name, case)| {
            let loss = |x: &Tensor| {
                let y = case(std::slice::from_ref(x));
                ops::sum(&y * ops::sin(&y + 1.0), ())
            };
            let gradient = |x: &[Tensor]| ms::grad(loss)(&x[0]);
            let found = ms::catch(|| compare(arguments, shapes, &gradient));
            let found = found.unwrap_or_else(|error| Err(error.to_string()));
            found.err().map(|error| format!("{name}: {error}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

macro_rules! cases {
    ($($case:expr;)*) => { &[$((stringify!($case), $case as Function)),*] };
}

/// Returns indices of rows of `x`.
fn places(x: &Tensor) -> Tensor {
    (ops::abs(x.i((.., 0))) * 2.9).cast(DType::I64)
}

const SHAPES: &[(&str, Function)] = cases! {
    |x| x[0].reshape([-1, 4]);
    |x| x[0].reshape((x[0].dim(0), -1));
    |x| x[0].reshape((-1, x[0].dim(1) / 2));
    |x| x[0].reshape((x[0].dim(0) * x[0].dim(1),));
    |x| x[0].reshape((x[0].dim(0), 1, x[0].dim(1)));
    |x| ops::flatten(&x[0], 0);
    |x| ops::flatten(ops::expand_dims(&x[0], 1), 1);
    |x| ops::transpose(&x[0], 0, 1);
    |x| ops::move_axis(&x[0], 0, 1);
    |x| x[0].permute([1, 0]);
    |x| ops::expand_dims(&x[0], 1) - ops::expand_dims(&x[0], 0);
    |x| ops::squeeze(ops::expand_dims(&x[0], 0), 0);
    |x| ops::concat(&[&x[0], &x[0]], 0);
    |x| ops::concat(&[&x[0], &(&x[0] * 2.0)], 1);
    |x| ops::concat(&[&x[0], &x[0].i((.., 0..2))], 1);
    |x| ops::stack(&[&x[0], &(&x[0] + 1.0)], 0);
    |x| ops::stack(&[&x[0], &(&x[0] + 1.0)], -1);
    |x| ops::unstack(&ops::stack(&[&x[0], &(&x[0] + 1.0)], 1), 1)[1].clone();
    |x| ops::split(&ops::concat(&[&x[0], &x[0]], 1), 2, 1)[1].clone();
    |x| ops::broadcast_to(x[0].i((0..1, ..)), (x[0].dim(0), x[0].dim(1)));
    |x| ops::broadcast_to(&x[0], (2, x[0].dim(0), x[0].dim(1)));
    |x| ops::tile(&x[0], &[2, 3]);
    |x| ops::repeat(&x[0], 3, 0);
    |x| ops::repeat(&x[0], 3, 1);
    |x| ops::flip(&x[0], 0);
    |x| ops::flip(&x[0], 1);
    |x| ops::roll(&x[0], &[1], 0);
    |x| ops::roll(&x[0], &[-2], 1);
    |x| ops::pad(&x[0], &[(1, 2), (3, 0)], ops::PadMode::Constant(0.5.into()));
    |x| ops::pad(&x[0], &[(0, 0), (2, 1)], ops::PadMode::Reflect);
    |x| ops::pad(&x[0], &[(1, 1), (1, 1)], ops::PadMode::Edge);
    |x| ops::slice(&x[0], &[0, 1], &[2, 3]);
    |x| x[0].i((.., 1..3));
    |x| x[0].i((1.., ..));
    |x| x[0].i((..-1, ..));
    |x| x[0].i((.., ..-1));
    |x| x[0].i((.., (..).step(2)));
    |x| x[0].i(((..).step(2), ..));
    |x| x[0].i(((..).step(-1), (..).step(-1)));
    |x| x[0].i((0, ..));
    |x| x[0].i((-1, ..));
    |x| x[0].i((.., -1));
    |x| ops::zeros_like(&x[0]);
    |x| ops::full_like(&x[0], 2.5);
    |x| Tensor::zeros((x[0].dim(0), 3)) + ops::size(x[0].dim(0), DType::F32);
    |x| ops::iota((x[0].dim(0), x[0].dim(1)), 0, DType::F32) * &x[0];
    |x| ops::iota((x[0].dim(0), x[0].dim(1)), 1, DType::F32) * &x[0];
    |x| ops::arange(x[0].dim(1)) * 2;
    |x| ops::tril(&x[0], 0);
    |x| ops::triu(&x[0], 1);
    |x| ops::masked_fill(&x[0], x[0].gt(0.5), -3.0);
    |x| ops::select(x[0].gt(0.0), &x[0], 0.0);
};

#[test]
fn shapes_of_any_size() {
    all(&[&["n", "_"]], ROWS_OF_EVEN, SHAPES);
    all(&[&["_", "n"]], COLUMNS_OF_FOUR, SHAPES);
    all(&[&["m", "n"]], BOTH_OF_FOUR, SHAPES);
}

const ROWS_OF_EVEN: &[Shapes] = &[&[&[4, 8]], &[&[2, 8]], &[&[64, 8]], &[&[18, 8]], &[&[4, 8]]];
const COLUMNS_OF_FOUR: &[Shapes] = &[&[&[6, 8]], &[&[6, 12]], &[&[6, 40]], &[&[6, 4]]];
const BOTH_OF_FOUR: &[Shapes] = &[&[&[6, 8]], &[&[3, 20]], &[&[14, 4]]];

const VALUES: &[(&str, Function)] = cases! {
    |x| ops::sum(&x[0], 0);
    |x| ops::sum(&x[0], keepdims(1));
    |x| ops::sum(&x[0], ());
    |x| ops::mean(&x[0], 0);
    |x| ops::mean(&x[0], [0, 1]);
    |x| ops::var(&x[0], 0, 1);
    |x| ops::std(&x[0], keepdims(1), 0);
    |x| ops::prod(&x[0], 1);
    |x| ops::max(&x[0], 0);
    |x| ops::min(&x[0], 1);
    |x| ops::argmax(&x[0], 0);
    |x| ops::argmin(&x[0], 1);
    |x| ops::count_nonzero(&x[0], 0);
    |x| ops::logsumexp(&x[0], 0);
    |x| ops::norm(&x[0], 2.0, 1);
    |x| ops::cumsum(&x[0], 0);
    |x| ops::cumsum(&x[0], 1);
    |x| ops::cumprod(&x[0], 1);
    |x| ops::softmax(&x[0], 0);
    |x| ops::softmax(&x[0], 1);
    |x| ops::log_softmax(&x[0], -1);
    |x| ops::layer_norm(&x[0], None, None, -1, 1e-5);
    |x| ops::rms_norm(&x[0], Tensor::scalar(2.0), -1, 1e-6);
    |x| ops::sort(&x[0], 0, false).0;
    |x| ops::sort(&x[0], 1, true).1;
    |x| ops::argsort(&x[0], 1, false);
    |x| ops::topk(&x[0], 2, 1, true).0;
    |x| ops::topk(&x[0], 2, 1, false).1;
    |x| ops::gather(&x[0], Tensor::from(vec![1i64, 0, 1]), 0);
    |x| ops::gather(&x[0], Tensor::from(vec![1i64, 3]), 1);
    |x| ops::take_along_axis(&x[0], ops::argmax(&x[0], 1).expand_dims(1), 1);
    |x| ops::index_select(&x[0], Tensor::from(vec![0i64, 2]), 1);
    |x| ops::one_hot(places(&x[0]), 4);
    |x| ops::embedding(places(&x[0]), data(&[5, 3]), None);
    |x| ops::scatter_add(Tensor::zeros([3, 1]), places(&x[0]).expand_dims(1), x[0].i((.., 0..1)), 0);
    |x| ops::index_add(Tensor::zeros((3, x[0].dim(1))), places(&x[0]), &x[0], 0);
    |x| ops::gather_nd(&x[0], Tensor::from(vec![1i64, 2]).reshape([1, 2]));
    |x| ops::matmul(&x[0], ops::transpose(&x[0], 0, 1));
    |x| ops::matmul(ops::transpose(&x[0], 0, 1), &x[0]);
    |x| ops::bmm(ops::expand_dims(&x[0], 0), ops::expand_dims(ops::transpose(&x[0], 0, 1), 0));
    |x| ops::outer(x[0].i((.., 0)), x[0].i((0, ..)));
    |x| ops::einsum("ij,kj->ik", &[&x[0], &x[0]]);
    |x| ops::einsum("ij->j", &[&x[0]]);
    |x| ops::einsum("bi,bj->bij", &[&x[0], &x[0]]);
    |x| ops::mse_loss(&x[0], ops::ones_like(&x[0]));
    |x| ops::huber_loss(&x[0], ops::zeros_like(&x[0]), 1.0, ops::Reduction::Mean);
    |x| ops::binary_cross_entropy(ops::sigmoid(&x[0]), ops::ones_like(&x[0]), None, ops::Reduction::Sum);
    |x| ops::cosine_similarity(&x[0], &(&x[0] + 1.0), 1, 1e-8);
    |x| ops::kl_div(ops::log_softmax(&x[0], 1), ops::softmax(&x[0] * 2.0, 1), false, ops::Reduction::Mean);
};

#[test]
fn values_of_any_size() {
    all(&[&["n", "_"]], ROWS_OF_EVEN, VALUES);
    all(&[&["_", "n"]], COLUMNS_OF_FOUR, VALUES);
    all(&[&["m", "n"]], BOTH_OF_FOUR, VALUES);
}

/// Returns the square matrix of the products of rows.
fn square(x: &Tensor) -> Tensor {
    ops::matmul(x, ops::transpose(x, 0, 1))
}

/// Returns the cross entropy of `x` with these options.
fn loss(x: &Tensor, target: &Tensor, weighted: bool, label_smoothing: f64) -> Tensor {
    let weight = weighted.then(|| ops::size(x.dim(1), DType::F32) + ops::arange(x.dim(1)).cast(DType::F32));
    let ignore_index = (weighted && target.dtype().is_int()).then_some(1);
    ops::CrossEntropy { weight, ignore_index, label_smoothing, ..Default::default() }.of(x, target)
}

/// Diagonals, and losses over any number of classes.
const DIAGONALS: &[(&str, Function)] = cases! {
    |x| ops::diag(x[0].i((.., 1)), 0);
    |x| ops::diag(x[0].i((.., 1)), 2);
    |x| ops::diag(x[0].i((0, ..)), -3);
    |x| ops::diag(square(&x[0]), 0);
    |x| ops::diag(square(&x[0]), 1);
    |x| ops::diag(square(&x[0]), -1);
    |x| ops::diag(ops::concat(&[&square(&x[0]), &x[0].i((.., 0..2))], 1), 0);
    |x| ops::diag(ops::concat(&[&square(&x[0]), &x[0].i((.., 0..2))], 1), 1);
    |x| ops::diag(ops::transpose(ops::concat(&[&square(&x[0]), &x[0].i((.., 0..2))], 1), 0, 1), -1);
    |x| ops::eye(x[0].dim(0)) * square(&x[0]);
    |x| ops::eye_of(x[0].dim(0), x[0].dim(1), 1, DType::F32) * &x[0];
    |x| ops::einsum("ii->i", &[&square(&x[0])]);
    |x| ops::einsum("ii", &[&square(&x[0])]);
    |x| ops::cross_entropy(&x[0], places(&x[0]));
    |x| ops::cross_entropy(&x[0], places(&x[0]).cast(DType::I8));
    |x| ops::cross_entropy(&x[0], ops::softmax(&x[0] * 2.0, 1));
    |x| ops::cross_entropy(x[0].i((0, ..)), x[0].i((1, 0)).gt(9.0).cast(DType::I32));
    |x| ops::nll_loss(ops::log_softmax(&x[0], 1), places(&x[0]));
    |x| loss(&x[0], &places(&x[0]), false, 0.25);
    |x| loss(&x[0], &places(&x[0]), true, 0.0);
    |x| loss(&x[0], &places(&x[0]), true, 0.5);
    |x| loss(&x[0], &ops::softmax(&x[0] * 2.0, 1), true, 0.125);
};

#[test]
fn diagonals_and_classes_of_any_number() {
    all(&[&["n", "_"]], ROWS_OF_EVEN, DIAGONALS);
    all(&[&["_", "n"]], COLUMNS_OF_FOUR, DIAGONALS);
    all(&[&["m", "n"]], BOTH_OF_FOUR, DIAGONALS);
    gradients(&[&["n", "_"]], ROWS_OF_EVEN, DIAGONALS);
    gradients(&[&["m", "n"]], BOTH_OF_FOUR, DIAGONALS);
}

/// Ops on images with symbolic batch and spatial axes.
const IMAGES: &[(&str, Function)] = cases! {
    |x| ops::conv2d(&x[0], data(&[4, 3, 3, 3]), None, &ops::ConvOptions::new(2).stride(2).padding(1));
    |x| ops::conv2d(&x[0], data(&[6, 1, 3, 2]), Some(&data(&[6])), &ops::ConvOptions::new(2).groups(3));
    |x| ops::conv2d(&x[0], data(&[4, 3, 2, 2]), None, &ops::ConvOptions::new(2).dilation(3));
    |x| ops::conv_transpose2d(&x[0], data(&[3, 2, 3, 3]), None, &ops::ConvOptions::new(2).stride(2), 0);
    |x| ops::max_pool2d(&x[0], 2);
    |x| ops::avg_pool2d(&x[0], 3);
    |x| ops::adaptive_avg_pool2d(&x[0], 2);
    |x| ops::conv1d(ops::flatten(&x[0], 2), data(&[2, 3, 4]), None, &ops::ConvOptions::new(1).stride(3));
    |x| ops::interpolate(&x[0], &[5, 7], ops::Interpolation::Nearest);
    |x| ops::interpolate(&x[0], (x[0].dim(2) * 2, x[0].dim(3) + 1), ops::Interpolation::Nearest);
    |x| ops::interpolate(&x[0], (x[0].dim(2) * 2, 6), ops::Interpolation::Linear { align_corners: false });
    |x| ops::interpolate(&x[0], (4, x[0].dim(3) * 2), ops::Interpolation::Linear { align_corners: true });
    |x| ops::group_norm(&x[0], 1, data(&[3]), data(&[3]), 1e-5);
    |x| ops::instance_norm(&x[0], data(&[3]), data(&[3]), 1e-5);
    |x| ops::batch_norm(&x[0], data(&[3]), data(&[3]), None, 1e-5);
    |x| ops::pad(&x[0], &[(0, 0), (0, 0), (2, 1), (3, 3)], ops::PadMode::Reflect);
    |x| ops::pad(&x[0], &[(0, 0), (0, 0), (2, 1), (3, 3)], ops::PadMode::Wrap);
    |x| ops::mean(&x[0], [2, 3]);
    |x| ops::roll(&x[0], &[1, -3], [2, 3]);
    |x| ops::concat(&[&x[0], &ops::relu(&x[0])], 1);
    |x| ops::concat(&[&x[0], &x[0].i((.., .., .., 1..3))], 3);
    |x| x[0].i((.., .., 1.., (..).step(2)));
    |x| ops::flatten(ops::max_pool2d(&x[0], 2), 1).sum(1);
    |x| x[0].permute([0, 2, 3, 1]).reshape((-1, 3));
    |x| x[0].reshape((x[0].dim(0) * 3, x[0].dim(2) * x[0].dim(3)));
    |x| ops::matmul(&x[0], ops::transpose(&x[0], 2, 3));
    |x| ops::softmax(ops::flatten(&x[0], 2), -1);
};

const SIZES: &[Shapes] = &[&[&[2, 3, 9, 9]], &[&[1, 3, 8, 11]], &[&[5, 3, 16, 7]], &[&[2, 3, 9, 10]]];

#[test]
fn images_of_any_size() {
    all(&[&["batch", "_", "height", "width"]], SIZES, IMAGES);
    gradients(&[&["batch", "_", "height", "width"]], SIZES, IMAGES);
}

/// Ops on sequences with symbolic batch and length.
const SEQUENCES: &[(&str, Function)] = cases! {
    |x| ops::scaled_dot_product_attention(&x[0], &x[0], &x[0], &ops::AttentionOptions { causal: true, ..Default::default() });
    |x| ops::layer_norm(&x[0], None, None, -1, 1e-5);
    |x| ops::matmul(&x[0], data(&[4, 6]));
    |x| ops::matmul(&x[0], ops::transpose(&x[0], 1, 2));
    |x| ops::cumsum(&x[0], 1);
    |x| ops::einsum("bti,ij->btj", &[&x[0], &data(&[4, 3])]);
    |x| ops::einsum("bti,bsi->bts", &[&x[0], &x[0]]);
    |x| ops::mean(&x[0], 1);
    |x| ops::max(&x[0], [0, 1]);
    |x| x[0].i((.., -1, ..));
    |x| x[0].reshape((x[0].dim(0), x[0].dim(1), 2, 2)).permute([0, 2, 1, 3]);
    |x| x[0].reshape((x[0].dim(0) * x[0].dim(1), 4));
    |x| ops::softmax(ops::sum(&x[0], 2), 1);
    |x| ops::take_along_axis(&x[0], ops::argmax(&x[0], 1).expand_dims(1), 1);
    |x| ops::tril(ops::matmul(&x[0], ops::transpose(&x[0], 1, 2)), 0);
    |x| ops::concat(&[&ops::zeros_like(&x[0].i((.., 0..1, ..))), &x[0].i((.., ..-1, ..))], 1);
    |x| ms::vmap(|x: &Tensor| ops::softmax(ops::matmul(x, ops::transpose(x, 0, 1)), -1))(&x[0]);
    |x| ms::vmap(ms::vmap(|x: &Tensor| x * ops::sum(x, ())))(&x[0]);
    |x| ms::vmap(ms::grad(|x: &Tensor| ops::sum(ops::tanh(x).square(), ())))(&x[0]);
    |x| ms::jvp(|x: &Tensor| ops::sum(ops::tanh(x) * x, 1))(&x[0], &x[0]).1;
};

const LENGTHS: &[Shapes] = &[&[&[2, 3, 4]], &[&[1, 1, 4]], &[&[5, 16, 4]], &[&[3, 2, 4]], &[&[2, 5, 4]]];

#[test]
fn sequences_of_any_size() {
    all(&[&["batch", "time", "_"]], LENGTHS, SEQUENCES);
    gradients(&[&["batch", "time", "_"]], LENGTHS, SEQUENCES);
}

#[test]
fn gradients_of_any_size() {
    for cases in [SHAPES, VALUES] {
        gradients(&[&["n", "_"]], ROWS_OF_EVEN, cases);
    }
}

#[test]
fn gradients_of_any_width() {
    for cases in [SHAPES, VALUES] {
        gradients(&[&["m", "n"]], BOTH_OF_FOUR, cases);
    }
}
