//! Compares second derivatives of movement, products, convolutions and pooling with differences of first ones, eagerly
//! and compiled.

use super::scattered;
use ms::internals::session::{Compiled, Precision};
use ms::ops::{self, ConvOptions, PoolOptions, Segment};
use ms::tensor::WithStep;
use ms::{DType, Tensor, tensor};

/// Computes `Σ y³` for the result `y` of an op. Its second derivative goes through the op three times.
fn cubed(y: Tensor) -> Tensor {
    ops::sum(ops::mul(ops::square(&y), &y), ())
}

#[track_caller]
fn check(name: &str, shape: &[usize], f: impl Fn(&Tensor) -> Tensor) {
    let (x, direction, weights) = (scattered(shape, 0.1), scattered(shape, 0.4), scattered(shape, 0.7));
    let slope = |x: &Tensor| ops::sum(ops::mul(ms::grad(|x: &Tensor| cubed(f(x)))(x), &weights), ());
    let got = ops::sum(ops::mul(ms::grad(&slope)(&x), &direction), ()).item::<f64>();
    let step = 1e-5;
    let at = |sign: f64| slope(&ops::add(&x, ops::mul(&direction, sign * step))).item::<f64>();
    let want = (at(1.0) - at(-1.0)) / (2.0 * step);
    assert!((got - want).abs() <= 1e-6 * (1.0 + want.abs()), "{name}: {got}, not {want}");
    let graph = ms::internals::trace::build(name, &[x.ty()], |x| Ok(vec![ms::grad(&slope)(&x[0])]))
        .expect("the trace is valid");
    let compiled = Compiled::new(&graph, Precision::Strict).and_then(|it| it.run(&[x])).expect("the graph runs");
    let got = ops::sum(ops::mul(&compiled[0], &direction), ()).item::<f64>();
    assert!((got - want).abs() <= 1e-6 * (1.0 + want.abs()), "{name}, compiled: {got}, not {want}");
}

#[test]
fn second_derivatives() {
    let weight = scattered(&[4, 1, 3, 2], 0.3);
    let options = ConvOptions::new(2).stride([2, 1]).padding(1).groups(2);
    check("conv of input", &[2, 2, 5, 4], |x| ops::conv2d(x, &weight, None, &options));
    let input = scattered(&[2, 2, 5, 4], 0.2);
    check("conv of weight", &[4, 1, 3, 2], |w| ops::conv2d(&input, w, None, &options));
    check("conv of both", &[1, 1, 3, 3], |x| ops::conv2d(x, x, None, &ConvOptions::new(2).padding(1)));
    check("conv_transpose", &[1, 4, 3, 3], |x| {
        ops::conv_transpose2d(x, scattered(&[4, 1, 3, 2], 0.9), None, &ConvOptions::new(2).stride(2).groups(2), 1)
    });
    check("max_pool", &[1, 2, 5, 4], |x| ops::max_pool(x, &PoolOptions::new(2, 3).stride(2).padding(1)));
    check("avg_pool", &[1, 2, 5, 4], |x| ops::avg_pool(x, &PoolOptions::new(2, 2).padding(1)));
    check("adaptive_avg_pool2d", &[1, 2, 5, 4], |x| ops::adaptive_avg_pool2d(x, [2, 3]));
    check("matmul", &[3, 3], |x| x.matmul(x.t()));
    check("einsum", &[3, 3], |x| ops::einsum("ij,jk,kl->il", &[x, x, x]));
    check("gather", &[4, 2], |x| ops::wrapping::gather(x, tensor![1, 1, -1], 0));
    check("gather_nd", &[4, 2], |x| ops::wrapping::gather_nd(x, tensor![[1, 1], [0, -1], [1, 1]]));
    check("dynamic_slice", &[4, 2], |x| ops::dynamic_slice(x, Tensor::scalar(1i64), 2, 0));
    check("dynamic_update_slice", &[4, 2], |x| {
        let value = ops::mul(x.i(0..2), x.i(2..4));
        ops::dynamic_update_slice(x, value, Tensor::scalar(1i64), 0)
    });
    check("take_along_axis", &[4, 2], |x| ops::take_along_axis(x, tensor![[1, 0], [1, 3]], 0));
    check("scatter_add", &[2, 2], |x| {
        ops::scatter_add(Tensor::zeros_of([2, 3], DType::F64), tensor![[1, 1], [0, 2]], x, 1)
    });
    check("scatter", &[2, 2], |x| ops::scatter(Tensor::zeros_of([2, 3], DType::F64), tensor![[1, 1], [0, 2]], x, 1));
    let by = |reduction| {
        move |x: &Tensor| {
            let start = ops::add(ops::mul(x.i((.., 0..3)), 0.7), 0.3);
            ops::scatter_reduce(start, tensor![[1, 1, 0], [0, 2, 2]], x.i((.., 1..4)), 1, reduction)
        }
    };
    for reduction in [Segment::Sum, Segment::Mean, Segment::Prod, Segment::Max, Segment::Min] {
        check("scatter_reduce", &[2, 4], by(reduction));
        check("segment", &[4, 2], |x| ops::segment(x, tensor![2, 0, 2, 0], 3, reduction).i(WithStep::step(.., 2)));
        let zeros = |x: &Tensor| ops::mul(x, tensor![[0.0f64, 1.0, 0.0, 2.0], [0.0, 0.0, 3.0, 1.0]]);
        if reduction == Segment::Prod {
            check("scatter_reduce of zeros", &[2, 4], |x| by(reduction)(&zeros(x)));
        }
    }
    check("sort", &[3, 4], |x| ops::sort(x, 1, true).0);
    check("slice", &[3, 4], |x| ops::mul(x.i((1.., 0..3)), x.i((..2, 1..4))));
    check("set_at", &[3, 4], |x| x.set_at(0, x.at(2)));
    check("concat", &[2, 2], |x| ops::concat(&[x, &x.t(), x], 1));
    check("pad", &[2, 3], |x| ops::pad(x, &[(1, 1), (2, 0)], ops::PadMode::Reflect));
    check("tril", &[3, 3], |x| ops::tril(x.matmul(x), 0));
    check("attention", &[2, 3], |x| {
        ops::scaled_dot_product_attention(x, x, x, &ops::AttentionOptions { causal: true, ..Default::default() })
    });
}
