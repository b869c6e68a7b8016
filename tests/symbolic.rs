//! Functions that are compiled once for every size of an axis.

use ms::__rt::{Arg, JitFn, Size, Sizes, type_key};
use ms::prelude::*;

type Function = fn(&[Tensor]) -> Tensor;

/// Sizes of an argument: a name, or `_`.
type Axes = &'static [&'static str];

fn data(shape: &[usize]) -> Tensor {
    let numel: usize = shape.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_slice(shape.to_vec(), &values)
}

/// A compiled function whose arguments have declared sizes.
struct Symbolic {
    function: &'static JitFn,
    sizes: Vec<&'static Sizes>,
    body: Function,
}

impl Symbolic {
    fn new(arguments: &[Axes], body: Function) -> Self {
        let axis = |&name: &&'static str| if name == "_" { Size::Fixed } else { Size::Symbol(name) };
        let sizes = |axes: &Axes| -> &'static Sizes {
            let axes: Vec<Size> = axes.iter().map(axis).collect();
            Box::leak(Box::new(Sizes { argument: "x", axes: axes.leak() }))
        };
        let function = Box::leak(Box::new(JitFn::new("f", file!(), line!(), 0)));
        Self { function, sizes: arguments.iter().map(sizes).collect(), body }
    }

    fn call(&self, inputs: &[Tensor]) -> ms::Result<Tensor> {
        let mut call = self.function.begin(type_key(&|| {}), |sink| {
            for (input, sizes) in inputs.iter().zip(&self.sizes) {
                sink.sizes(Some(sizes));
                input.visit(sink);
            }
            sink.sizes(None);
        });
        if let Some(known) = call.cached() {
            return known;
        }
        let entered: Vec<Tensor> = inputs.iter().map(|it| (*call.enter(it)).clone()).collect();
        call.finish(|| Ok((self.body)(&entered)))
    }
}

/// One compilation gives what running op by op gives, for all shapes.
fn check(arguments: &[Axes], shapes: &[&[&[usize]]], body: Function) {
    let compiled = Symbolic::new(arguments, body);
    for shapes in shapes {
        let inputs: Vec<Tensor> = shapes.iter().map(|it| data(it)).collect();
        let (got, want) = (compiled.call(&inputs).unwrap_or_else(|error| panic!("{error}")), body(&inputs));
        assert_eq!(got.shape(), want.shape(), "{shapes:?}");
        for (a, b) in got.to_vec::<f32>().into_iter().zip(want.to_vec::<f32>()) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0) || (a.is_nan() && b.is_nan()), "{shapes:?}: {a} {b}");
        }
    }
    assert_eq!(compiled.function.versions(), 1, "{arguments:?}");
}

const BATCHES: &[&[&[usize]]] = &[&[&[3, 8]], &[&[1, 8]], &[&[0, 8]], &[&[64, 8]], &[&[3, 8]], &[&[17, 8]]];

#[test]
fn one_compilation_serves_every_batch() {
    let cases: &[Function] = &[
        |x| &x[0] * 2.0 + 1.0,
        |x| ops::arange(x[0].dim(0)).cast(DType::F32).reshape((x[0].dim(0), 1)) + &x[0],
        |x| ops::softmax(&x[0], -1),
        |x| ops::sum(&x[0], 0, false),
        |x| ops::mean(&x[0], 1, true),
        |x| ops::layer_norm(&x[0], None, None, -1, 1e-5),
        |x| ops::matmul(&x[0], &data(&[8, 3])),
        |x| ops::matmul(&x[0], ops::transpose(&x[0], 0, 1)),
        |x| x[0].reshape([-1, 4]),
        |x| x[0].reshape((x[0].dim(0) * 2, 4)),
        |x| x[0].reshape((x[0].dim(0), 2, 4)).sum(1, false),
        |x| ops::flatten(&x[0], 0),
        |x| ops::concat(&[&x[0], &x[0], &data(&[2, 8])], 0),
        |x| ops::stack(&[&x[0], &(&x[0] + 1.0)], 1),
        |x| x[0].i((.., 2..5)),
        |x| x[0].i((.., 0)),
        |x| ops::pad(&x[0], &[(1, 2), (0, 0)], ops::PadMode::Constant(0.5.into())),
        |x| ops::tile(&x[0], &[2, 3]),
        |x| ops::repeat(&x[0], 2, 0),
        |x| ops::expand_dims(&x[0], 1) + ops::expand_dims(&x[0], 0),
        |x| ops::zeros_like(&x[0]) + Tensor::ones((x[0].dim(0), 1)),
        |x| ops::iota((x[0].dim(0), 8), 0, ms::DType::F32) * &x[0],
        |x| ops::cumsum(&x[0], 0),
        |x| ops::einsum("bi,bj->bij", &[&x[0], &x[0]]),
        |x| ops::mse_loss(&x[0], ops::ones_like(&x[0])),
        |x| ops::var(&x[0], (), 0, false),
        |x| {
            ops::scaled_dot_product_attention(
                &x[0],
                &x[0],
                &x[0],
                &ops::AttentionOptions { causal: true, ..Default::default() },
            )
        },
        |x| ops::take_along_axis(&x[0], ops::argmax(&x[0], 1).expand_dims(1), 1),
        |x| ops::gather(&x[0], Tensor::from(vec![1i64, 3]), 1),
    ];
    for (at, &case) in cases.iter().enumerate() {
        // Where an axis has no element, the losses and positions of some have no meaning.
        let shapes = if [16, 25, 26].contains(&at) { &BATCHES[3..] } else { BATCHES };
        check(&[&["batch", "_"]], shapes, case);
    }
}

#[test]
fn gradients_serve_every_batch() {
    let cases: &[Function] = &[
        |x| ms::grad(|x: &Tensor| ops::sum(ops::tanh(x) * x, (), false))(&x[0]),
        |x| ms::grad(|x: &Tensor| ops::mean(ops::softmax(x, -1).square(), (), false))(&x[0]),
        |x| ms::grad(|x: &Tensor| ops::mse_loss(ops::matmul(x, &data(&[8, 3])), Tensor::ones(())))(&x[0]),
        |x| ms::grad(|x: &Tensor| ops::sum(ops::concat(&[x, &data(&[2, 8])], 0).square(), (), false))(&x[0]),
        |x| ms::grad(|x: &Tensor| ops::sum(x.i((.., 1..3)).square(), (), false))(&x[0]),
        |x| ms::grad(|x: &Tensor| ops::sum(x.reshape([-1, 2]).square().max(1, false), (), false))(&x[0]),
        |x| {
            ms::grad(|x: &Tensor| ops::sum(ms::grad(|x: &Tensor| ops::sum(ops::exp(x), (), false))(x), (), false))(
                &x[0],
            )
        },
    ];
    for &case in cases {
        check(&[&["batch", "_"]], &[&[&[3, 8]], &[&[1, 8]], &[&[64, 8]], &[&[17, 8]]], case);
    }
}

#[test]
fn convolutions_serve_every_batch_and_size() {
    let shapes: &[&[&[usize]]] = &[&[&[2, 3, 9, 9]], &[&[1, 3, 8, 11]], &[&[5, 3, 16, 7]]];
    let cases: &[Function] = &[
        |x| ops::conv2d(&x[0], data(&[4, 3, 3, 3]), None, &ops::ConvOptions::new(2).stride(2).padding(1)),
        |x| ops::max_pool2d(&x[0], 2),
        |x| ops::avg_pool2d(&x[0], 3),
        |x| ops::adaptive_avg_pool2d(&x[0], 2),
        |x| {
            let loss = |x: &Tensor| {
                let h = ops::conv2d(x, data(&[4, 3, 3, 3]), None, &ops::ConvOptions::new(2).padding(1));
                ops::mean(ops::max_pool2d(ops::relu(h), 2), (), false)
            };
            ms::grad(loss)(&x[0])
        },
    ];
    for &case in cases {
        check(&[&["batch", "_", "height", "width"]], shapes, case);
    }
}

#[test]
fn two_sizes_and_two_arguments() {
    let shapes: &[&[&[usize]]] = &[&[&[2, 3], &[3, 4]], &[&[5, 1], &[1, 4]], &[&[7, 9], &[9, 4]]];
    check(&[&["m", "k"], &["k", "_"]], shapes, |x| ops::matmul(&x[0], &x[1]));
    check(&[&["m", "k"], &["n", "_"]], shapes, |x| ops::matmul(&x[0], &x[1]));
    let same: &[&[&[usize]]] = &[&[&[2, 3], &[2, 3]], &[&[5, 3], &[5, 3]], &[&[4, 3], &[1, 3]]];
    check(&[&["a", "_"], &["b", "_"]], &same[..2], |x| &x[0] + &x[1]);
}

#[test]
fn sizes_that_do_not_agree_are_refused() {
    let refused = |arguments: &[Axes], shapes: &[&[usize]], good: &[&[usize]], body: Function, want: &[&str]| {
        let compiled = Symbolic::new(arguments, body);
        if !good.is_empty() {
            let good: Vec<Tensor> = good.iter().map(|it| data(it)).collect();
            compiled.call(&good).unwrap_or_else(|error| panic!("{error}"));
        }
        let inputs: Vec<Tensor> = shapes.iter().map(|it| data(it)).collect();
        let error = compiled.call(&inputs).expect_err("the sizes do not agree").to_string();
        want.iter().for_each(|want| assert!(error.contains(want), "{error}\nwanted {want}"));
    };
    let add: Function = |x| &x[0] + &x[1];
    refused(&[&["n", "_"], &["n", "_"]], &[&[4, 3], &[5, 3]], &[], add, &["MS130", "`n` is 4 in `x`", "size 5"]);
    refused(&[&["n"], &["n", "_"]], &[&[4, 3], &[4, 3]], &[], add, &["MS130", "2 axes", "names 1"]);
    refused(
        &[&["a", "_"], &["b", "_"]],
        &[&[4, 3], &[5, 3]],
        &[&[4, 3], &[4, 3]],
        add,
        &["MS100", "`add`", "a = 4, b = 5", "symbolic.rs"],
    );
    refused(
        &[&["n", "_"]],
        &[&[3, 3]],
        &[&[4, 3]],
        |x| x[0].reshape([-1, 2]),
        &["MS100", "`reshape`", "n = 3", "symbolic.rs"],
    );
    let shape: Function = |x| x[0].reshape([x[0].shape()[0] * 3]);
    refused(&[&["n", "_"]], &[&[3, 3]], &[], shape, &["MS116", "dimension that is not known", ".dim("]);
}

#[test]
fn a_network_serves_every_batch() {
    let net: nn::Sequential = nn::sequential![nn::Dense::new(8, 16), nn::Relu, nn::Dense::new(16, 4)];
    static NET: std::sync::OnceLock<nn::Sequential> = std::sync::OnceLock::new();
    let _ = NET.set(net);
    check(&[&["batch", "_"]], &BATCHES[..4], |x| NET.get().expect("set above").call(&x[0]));
}

#[jit(dims(x = [batch, _], y = [batch, _]))]
fn distance(x: &Tensor, y: &Tensor) -> Tensor {
    let size = ops::size(x.dim(0), DType::F32);
    ops::sum((x - y).square(), (), false) / size
}

#[cell]
struct Head {
    dense: nn::Dense,
}

#[cell]
impl Head {
    #[jit(dims(x = [n, _]))]
    fn construct(&self, x: &Tensor) -> Tensor {
        ops::softmax(self.dense(x), -1)
    }
}

#[test]
fn the_attribute_declares_sizes() {
    for batch in [4, 1, 9] {
        let (x, y) = (data(&[batch, 3]), data(&[batch, 1]));
        assert_eq!(
            distance(&x, &y).item::<f32>(),
            (ops::sum((&x - &y).square(), (), false) / batch as f64).item::<f32>()
        );
    }
    let error = ms::catch(|| distance(&data(&[2, 3]), &data(&[3, 3]))).expect_err("the batches differ").to_string();
    assert!(error.contains("`batch` is 2 in `x`") && error.contains("MS130"), "{error}");
    let head = Head { dense: nn::Dense::new(3, 2) };
    for batch in [1, 5] {
        assert_eq!(head.call(&data(&[batch, 3])).shape(), [batch, 2]);
    }
}

#[jit(dims(x = [n, _]))]
fn grown(x: &Tensor) -> Tensor {
    let mut y = if ops::sum(x, (), false) > 0.0 { x * 2.0 } else { 1.0 - x };
    while ops::sum(&y, (), false) < 100.0 {
        y = &y * 2.0 + 0.5;
    }
    for _ in ms::range(0, 3) {
        y = &y - ops::mean(&y, 0, true);
    }
    y
}

fn grown_in_rust(x: &Tensor) -> Tensor {
    let sum = |x: &Tensor| ops::sum(x, (), false).item::<f32>();
    let mut y = if sum(x) > 0.0 { x * 2.0 } else { 1.0 - x };
    while sum(&y) < 100.0 {
        y = &y * 2.0 + 0.5;
    }
    for _ in 0..3 {
        y = &y - ops::mean(&y, 0, true);
    }
    y
}

#[test]
fn control_flow_serves_every_size() {
    for n in [3, 1, 40] {
        let x = data(&[n, 4]);
        for x in [x.clone(), &x + 1.5] {
            let (got, want) = (grown(&x), grown_in_rust(&x));
            let distance = ops::max(ops::abs(&got - &want), (), false).item::<f32>();
            assert!(got.shape() == want.shape() && distance < 1e-4, "{n}: {distance}");
        }
    }
}

#[test]
fn lanes_and_gradients_of_every_size() {
    let shapes: &[&[&[usize]]] = &[&[&[3, 8]], &[&[1, 8]], &[&[20, 8]]];
    let cases: &[Function] = &[
        |x| ms::vmap(|row: &Tensor| ops::softmax(row, 0) * ops::sum(row, (), false))(&x[0]),
        |x| ms::vmap(ms::grad(|row: &Tensor| ops::sum(ops::tanh(row).square(), (), false)))(&x[0]),
        |x| ms::grad(|x: &Tensor| ops::sum(ms::vmap(|row: &Tensor| ops::exp(row))(x), (), false))(&x[0]),
        |x| ms::jvp(|x: &Tensor| ops::sum(ops::tanh(x) * x, 1, false))(&x[0], &x[0]).1,
    ];
    for &case in cases {
        check(&[&["batch", "_"]], shapes, case);
    }
}
