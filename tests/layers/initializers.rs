//! Tests initial values: moments, bounds and structure.

use ms::nn::init::{self, Fan, Gain};
use ms::prelude::*;

/// Checks the mean and the standard deviation, and that no number exceeds the bound.
fn moments(name: &str, x: &Tensor, std: f64, bound: f64) {
    let x: Vec<f64> = x.cast(DType::F64).to_vec();
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let deviation = (x.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / x.len() as f64).sqrt();
    assert!(mean.abs() < 0.05 * std && (deviation / std - 1.0).abs() < 0.05, "{name}: {mean} ± {deviation}, not {std}");
    assert!(x.iter().all(|it| it.abs() <= bound * 1.000001), "{name}: beyond {bound}");
}

#[test]
fn distributions_have_their_moments() {
    random::set_seed(3);
    // The convolution has 8 * 9 inputs and 500 * 9 outputs.
    let shape = [500, 8, 3, 3];
    let std = |fan: f64| (1.0 / fan).sqrt();
    let root3 = 3f64.sqrt();
    assert_eq!(init::fans(&shape), (72, 4500));
    let mean = (72.0 + 4500.0) / 2.0;
    moments("xavier_uniform", &init::xavier_uniform(&shape, 2.0), 2.0 * std(mean), 2.0 * root3 * std(mean));
    moments("xavier_normal", &init::xavier_normal(&shape, 1.0), std(mean), f64::INFINITY);
    let relu = 2f64.sqrt() * std(72.0);
    moments("he_uniform", &init::he_uniform(&shape, Gain::ReLU, Fan::In), relu, root3 * relu);
    moments("he_normal", &init::he_normal(&shape, Gain::LeakyReLU(1.0), Fan::Out), std(4500.0), f64::INFINITY);
    // A normal distribution that is truncated at two standard deviations has this deviation.
    moments("truncated_normal", &init::truncated_normal(shape, 0.0, 1.5, -3.0, 3.0), 1.5 * 0.87962566, 3.0);
    assert!(init::truncated_normal([1000], 0.0, 1.0, 2.0, 9.0).min(()).item::<f32>() >= 2.0);
    let error = ms::catch(|| init::truncated_normal([3], 0.0, 1.0, 5.0, 9.0)).expect_err("nothing is there");
    assert_eq!(error.code(), ms::Code::Argument);
}

#[test]
fn structured_weights() {
    for shape in [vec![5, 3], vec![3, 5], vec![4, 2, 3], vec![4, 4]] {
        let q = init::orthogonal(&shape, 0.5).reshape((shape[0], shape[1..].iter().product::<usize>()));
        let q = if q.shape()[0] > q.shape()[1] { q.permute([1, 0]) } else { q };
        let gram = ops::matmul(&q, q.permute([1, 0]));
        let wrong = (gram - ops::eye(q.shape()[0]) * 0.25).abs().max(()).item::<f32>();
        assert!(wrong < 1e-6, "{shape:?}: {wrong}");
    }
    let sparse = init::sparse([10, 4], 0.35, 1.0);
    let zeros = sparse.eq(0.0).cast(DType::I64).sum(0).to_vec::<i64>();
    assert_eq!(zeros, [4; 4], "a share of each column, rounded up");
    let groups = init::dirac(&[4, 2, 3], 2).to_vec::<f32>();
    let ones: Vec<usize> = (0..groups.len()).filter(|&at| groups[at] == 1.0).collect();
    assert_eq!((ones, groups.iter().sum::<f32>()), (vec![1, 10, 13, 22], 4.0));
    assert!(ms::catch(|| init::orthogonal(&[3], 1.0)).is_err());
}

/// A layer that a compiled function creates keeps its first initial weight.
#[test]
fn layers_take_initial_values() {
    let ones = |shape: &[usize]| Tensor::ones(shape);
    assert_eq!(
        nn::Dense::new(3, 2).weight_init(ones).bias_init(ones).call(&Tensor::ones([1, 3])).to_vec::<f32>(),
        [4.0; 2]
    );
    let made = ms::jit(|x: &Tensor| {
        nn::Dense::new(3, 2).without_bias().weight_init(|it| nn::init::xavier_uniform(it, 1.0)).call(x)
    });
    let x = Tensor::ones([1, 3]);
    assert_eq!(made(&x).to_vec::<f32>(), made(&x).to_vec::<f32>());
    let table = nn::Embedding::new(3, 2).padding_idx(1).weight_init(ones);
    assert_eq!(table.table.value().to_vec::<f32>(), [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
}
