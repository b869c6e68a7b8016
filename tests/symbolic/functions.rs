//! Tests functions that are compiled once for every size of an axis.

use crate::compare::{Axes, Function, Shapes, Symbolic, compare, data};
use ms::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

#[track_caller]
fn check(arguments: &[Axes], shapes: &[Shapes], body: Function) {
    compare(arguments, shapes, &body).unwrap_or_else(|error| panic!("{arguments:?} {error}"));
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
        let compiled = Symbolic::new(arguments, &body);
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
        &["MS100", "`add`", "a = 4, b = 5", "sizes: `a` is axis 0 of `x`, `b` is axis 0 of `y`", "functions.rs"],
    );
    refused(
        &[&["n", "_"]],
        &[&[3, 3]],
        &[&[4, 3]],
        |x| x[0].reshape([-1, 2]),
        &["MS100", "`reshape`", "n = 3", "sizes: `n` is axis 0 of `x`", "functions.rs"],
    );
    // If the sizes of operands differ in a call, the error names the operands with their symbols.
    refused(
        &[&["_", "a"], &["_", "b"]],
        &[&[3, 4], &[3, 5]],
        &[],
        |x| ops::concat(&[&x[0], &x[1]], 1) + Tensor::ones((3, x[0].dim(1) + x[1].dim(1) + 1)),
        &["MS100", "`add`", "f32[3, a + b + 1]", "sizes: `a` is axis 1 of `x`, `b` is axis 1 of `y`", "functions.rs"],
    );
    refused(
        &[&["n", "_"]],
        &[&[4, 3]],
        &[],
        |x| &x[0] + ops::concat(&[&x[0], &x[0].i((0..1, ..))], 0),
        &["MS100", "`add`", "f32[n, 3], f32[n + min(n, 1), 3]", "sizes: `n` is axis 0 of `x`", "functions.rs"],
    );
    let rows: Function = |x| (&x[0]).into_iter().fold(x[1].clone(), |sum, row| sum + row);
    refused(
        &[&["n", "_"], &["_"]],
        &[&[4, 3], &[3]],
        &[],
        rows,
        &["MS116", "`rows`", "f32[n, 3]", "sizes: `n` is axis 0 of `x`", "ms::range(0, x.dim(0))"],
    );
    let shape: Function = |x| x[0].reshape([x[0].shape()[0] * 3]);
    refused(
        &[&["n", "_"]],
        &[&[3, 3]],
        &[],
        shape,
        &["MS116", "dimension that is not known", ".dim(", "axis 0 of `x`"],
    );
}

/// An op that fails eagerly at these sizes is an error at the line of the op.
#[test]
fn ops_that_do_not_fit_at_the_sizes_of_a_call_are_refused() {
    let cases: &[(usize, Function, &[&str])] = &[
        (3, |x| x[0].i((5, ..)), &["MS102", "`slice`"]),
        (3, |x| ops::topk(&x[0], 5, 0, true).0, &["MS102", "`slice`"]),
        (3, |x| ops::split(&x[0], 2, 0)[1].clone(), &["MS100", "f32[3, 3]"]),
        (9, |x| ops::split_sizes(&x[0], &[2, 6], 0)[1].clone(), &["MS100", "f32[9, 3]"]),
        (3, |x| x[0].reshape((4, -1)), &["MS100", "`reshape`"]),
        (3, |x| x[0].reshape((x[0].dim(0) / 2, 6)), &["MS100", "`reshape`"]),
        (3, |x| Tensor::zeros(x[0].dim(0) - 5) + ops::sum(&x[0], ()), &["MS100", "`full`", "n - 5 is -2"]),
        (2, |x| ops::concat(&[&x[0], &data(&[8, 2])], 1), &["MS100", "`concat`"]),
        (2, |x| ops::matmul(data(&[2, 8]), &x[0]), &["MS100", "`matmul`"]),
        (2, |x| &x[0] + data(&[8, 3]), &["MS100", "`add`"]),
        (2, |x| ops::max_pool2d(x[0].reshape((1, 1, x[0].dim(0), 3)), 3), &["MS100", "`max_pool`"]),
        (
            2,
            |x| {
                let image = x[0].reshape((1, 1, x[0].dim(0), 3));
                ops::conv2d(image, data(&[1, 1, 3, 3]), None, &ops::ConvOptions::new(2))
            },
            &["MS100", "`conv`"],
        ),
        (0, |x| ops::argmax(&x[0], 0), &["MS103", "`argmax`"]),
        (0, |x| ops::max(&x[0], 0), &["MS103", "`max`"]),
        (0, |x| x[0].reshape((x[0].dim(0), 3, -1)), &["MS100", "divides by zero"]),
        (0, |x| ops::pad(&x[0], &[(1, 1), (0, 0)], ops::PadMode::Edge), &["MS100", "divides by zero"]),
        (
            0,
            |x| ops::interpolate(x[0].reshape((1, 1, x[0].dim(0), 3)), [4, 3], ops::Interpolation::Nearest),
            &["MS100", "divides by zero"],
        ),
        (
            1,
            |x| ops::avg_pool(x[0].reshape((1, 3, -1)), &ops::PoolOptions::new(1, 3).stride(1).ceil_mode(true)),
            &["MS100"],
        ),
        (
            1,
            |x| ops::max_pool(x[0].reshape((1, 3, -1)), &ops::PoolOptions::new(1, 3).stride(1).ceil_mode(true)),
            &["MS100"],
        ),
    ];
    for (at, (size, case, wanted)) in cases.iter().enumerate() {
        let compiled = Symbolic::new(&[&["n", "_"]], case);
        compiled.call(&[data(&[8, 3])]).unwrap_or_else(|error| panic!("case {at}: {error}"));
        let eagerly = ms::catch(|| case(&[data(&[*size, 3])]));
        assert!(eagerly.is_err(), "case {at}");
        let error = compiled.call(&[data(&[*size, 3])]).expect_err("the op does not fit").to_string();
        let size = format!("n = {size}");
        for wanted in wanted.iter().chain(&["functions.rs:", &*size]) {
            assert!(error.contains(wanted), "case {at}: {error}\nwanted {wanted}");
        }
    }
}

/// Calls `f`, beside a sum that nobody reads.
fn with_sum(x: &[Tensor], f: fn(&Tensor) -> Tensor) -> Tensor {
    let _sum = &x[0] + data(&[4]);
    f(&x[0])
}

/// Functions refuse different sizes if they differ in ops with unused results.
#[test]
fn unread_ops_are_checked_at_the_sizes_of_a_call() {
    let functions: [[Function; 2]; 2] =
        [[|x| with_sum(x, Tensor::sin), |x| x[0].sin()], [|x| x[0].cos(), |x| with_sum(x, Tensor::cos)]];
    for pair in &functions {
        let bodies = pair.map(|it| move |x: &[Tensor]| it(x));
        let compiled = bodies.each_ref().map(|it| Symbolic::new(&[&["n"]], it));
        for n in [4, 3, 1, 0] {
            for (function, compiled) in pair.iter().zip(&compiled) {
                let x = [data(&[n])];
                let (got, want) = (compiled.call(&x), ms::catch(|| function(&x)));
                assert_eq!(got.map(|it| it.shape().to_vec()).ok(), want.map(|it| it.shape().to_vec()).ok(), "{n}");
            }
        }
    }
}

/// Rules of ops have special cases for empty axes and for axes of size one.
#[test]
fn transforms_at_sizes_with_special_cases_are_as_eagerly() {
    let shapes: &[&[&[usize]]] = &[&[&[3]], &[&[0]], &[&[1]], &[&[2]]];
    check(&[&["n"]], shapes, |x| ms::hessian(|x: &Tensor| (ops::softmax(x, 0) * x).sum(()))(&x[0]));
    check(&[&["n"]], shapes, |x| ms::hessian(|x: &Tensor| (ops::log_softmax(x, 0) * x).sum(()))(&x[0]));
    check(&[&["n"]], shapes, |x| ms::vmap(|x: &Tensor| ops::softmax(x, 0))(&(x[0].expand_dims(1) * &x[0])));
    let unequal: &[&[&[usize]]] = &[&[&[3], &[3]], &[&[0], &[1]], &[&[1], &[4]], &[&[1], &[0]], &[&[5], &[1]]];
    check(&[&["n"], &["m"]], unequal, |x| {
        let loss = |a: &Tensor| (ops::softmax(ops::maximum(a, &x[1]), 0) * &x[1]).sum(());
        ms::hessian(loss)(&x[0])
    });
}

#[test]
fn windows_in_ceil_mode_are_counted_at_the_sizes_of_a_call() {
    const PADDED: [(usize, usize, usize); 6] = [(2, 2, 0), (3, 2, 1), (3, 3, 1), (2, 3, 1), (4, 3, 2), (1, 2, 0)];
    let shapes: Vec<[usize; 1]> = (4..14).map(|n| [n]).collect();
    let shapes: Vec<[&[usize]; 1]> = shapes.iter().map(|it| [&it[..]]).collect();
    let shapes: Vec<Shapes> = shapes.iter().map(|it| &it[..]).collect();
    for (kernel, stride, padding) in PADDED {
        let options = ops::PoolOptions::new(1, kernel).stride(stride).padding(padding).ceil_mode(true);
        for include in [false, true] {
            let options = options.clone().count_include_pad(include);
            let mean = |x: &Tensor| ops::avg_pool(x.reshape((1, 1, -1)), &options);
            let gradient = |x: &[Tensor]| ms::grad(|x: &Tensor| mean(x).square().sum(()))(&x[0]);
            compare(&[&["n"]], &shapes, &|x| mean(&x[0])).unwrap_or_else(|error| panic!("{options:?} {error}"));
            compare(&[&["n"]], &shapes, &gradient).unwrap_or_else(|error| panic!("{options:?} {error}"));
        }
        let largest = |x: &[Tensor]| ops::max_pool(x[0].reshape((1, 1, -1)), &options);
        compare(&[&["n"]], &shapes, &largest).unwrap_or_else(|error| panic!("{options:?} {error}"));
    }
}

#[test]
fn a_network_serves_every_batch() {
    let net: nn::Sequential = nn::sequential![nn::Dense::new(8, 16), nn::ReLU, nn::Dense::new(16, 4)];
    static NET: std::sync::OnceLock<nn::Sequential> = std::sync::OnceLock::new();
    let _ = NET.set(net);
    let shapes: &[&[&[usize]]] = &[&[&[3, 8]], &[&[1, 8]], &[&[0, 8]], &[&[64, 8]], &[&[3, 8]]];
    check(&[&["batch", "_"]], shapes, |x| NET.get().expect("set above").call(&x[0]));
}

#[jit(dims(x = [batch, _], y = [batch, _]))]
fn distance(x: &Tensor, y: &Tensor) -> Tensor {
    let size = ops::size(x.dim(0), DType::F32);
    ops::sum((x - y).square(), ()) / size
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
        assert_eq!(distance(&x, &y).item::<f32>(), (ops::sum((&x - &y).square(), ()) / batch as f64).item::<f32>());
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
    let mut y = if ops::sum(x, ()) > 0.0 { x * 2.0 } else { 1.0 - x };
    while ops::sum(&y, ()) < 100.0 {
        y = &y * 2.0 + 0.5;
    }
    for _ in ms::range(0, 3) {
        y = &y - ops::mean(&y, keepdims(0));
    }
    y
}

fn grown_in_rust(x: &Tensor) -> Tensor {
    let sum = |x: &Tensor| ops::sum(x, ()).item::<f32>();
    let mut y = if sum(x) > 0.0 { x * 2.0 } else { 1.0 - x };
    while sum(&y) < 100.0 {
        y = &y * 2.0 + 0.5;
    }
    for _ in 0..3 {
        y = &y - ops::mean(&y, keepdims(0));
    }
    y
}

#[test]
fn control_flow_serves_every_size() {
    for n in [3, 1, 40] {
        let x = data(&[n, 4]);
        for x in [x.clone(), &x + 1.5] {
            let (got, want) = (grown(&x), grown_in_rust(&x));
            let distance = ops::max(ops::abs(&got - &want), ()).item::<f32>();
            assert!(got.shape() == want.shape() && distance < 1e-4, "{n}: {distance}");
        }
    }
}

/// Compares two tensors of the same shape with a tolerance.
#[track_caller]
fn near(got: &Tensor, want: &Tensor) {
    assert_eq!((got.shape(), got.dtype()), (want.shape(), want.dtype()));
    let distance = ops::max(ops::abs(got - want), ()).item::<f32>();
    assert!(distance < 1e-4, "{distance}: {got} {want}");
}

fn eagerly<R>(f: impl FnOnce() -> R) -> R {
    ms::with_context(ms::Context { jit: false, ..ms::context() }, f)
}

/// The numbers of times that the bodies of `train`, `read` and `mixed` ran.
static RUNS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Counts an execution of a body.
fn runs(body: usize) {
    RUNS[body].fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of executions since the last call of this function.
fn ran(body: usize) -> usize {
    RUNS[body].swap(0, Ordering::Relaxed)
}

#[cell]
#[lazy_inline]
struct Block {
    norm: nn::LayerNorm,
    up: nn::Dense,
    down: nn::Dense,
    dropout: nn::Dropout,
}

#[cell]
impl Block {
    fn new(width: usize) -> Self {
        let (up, down) = (nn::Dense::new(width, 2 * width), nn::Dense::new(2 * width, width));
        Self { norm: nn::LayerNorm::new(width), up, down, dropout: nn::Dropout::new(0.5) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        x + self.dropout(&self.down(&ops::tanh(self.up(&self.norm(x)))))
    }
}

/// Reads sentences of varying batch and length.
#[cell]
struct Reader {
    words: nn::Embedding,
    blocks: Vec<Block>,
    head: nn::Dense,
}

#[cell]
impl Reader {
    fn new() -> Self {
        random::set_seed(1);
        Self {
            words: nn::Embedding::new(20, 6),
            blocks: vec![Block::new(6), Block::new(6)],
            head: nn::Dense::new(6, 3),
        }
    }

    fn construct(&self, words: &Tensor) -> Tensor {
        let mut x = self.words(words);
        for block in &self.blocks {
            x = block.call(&x);
        }
        self.head(&x)
    }

    #[jit(dims(words = [batch, length]))]
    fn read(&self, words: &Tensor) -> Tensor {
        runs(1);
        ops::softmax(ops::mean(self.call(words), 1), -1)
    }
}

/// Runs a training step on sentences of any number and length.
#[jit(dims(words = [batch, length], classes = [batch]))]
fn train(net: &Reader, opt: &Adam, words: &Tensor, classes: &Tensor) -> Tensor {
    runs(0);
    let loss = |net: &Reader| ops::cross_entropy(ops::mean(net.call(words), 1), classes);
    let (loss, gradients) = ms::value_and_grad(loss)(net);
    opt.update(&gradients);
    loss
}

fn sentences(batch: usize, length: usize) -> (Tensor, Tensor) {
    let numbers = |n: usize, m: i64| (0..n as i64).map(|it| (it * 7 + 3) % m).collect::<Vec<_>>();
    (Tensor::from(numbers(batch * length, 20)).reshape([batch, length]), Tensor::from(numbers(batch, 3)))
}

#[test]
fn networks_train_on_any_number_and_length() {
    let run = || {
        let (net, opt) = (Reader::new(), Adam::new(0.01));
        opt.prepare(&net.trainable_parameters());
        let mut seen = Vec::new();
        for (batch, length) in [(4, 5), (1, 1), (7, 3), (4, 5), (2, 11)] {
            let (words, classes) = sentences(batch, length);
            seen.push(train(&net, &opt, &words, &classes));
            seen.push(net.read(&words));
        }
        seen.extend(net.parameters().iter().map(|it| it.value()));
        seen
    };
    let got = run();
    assert_eq!((ran(0), ran(1)), (1, 1), "each is traced once");
    let want = eagerly(run);
    got.iter().zip(&want).for_each(|(got, want)| near(got, want));
    let error = ms::catch(|| {
        let ((words, _), (_, classes)) = (sentences(4, 5), sentences(3, 5));
        train(&Reader::new(), &Adam::new(0.01), &words, &classes)
    });
    let error = error.expect_err("the batches differ").to_string();
    assert!(error.contains("`batch` is 4 in `words`, but axis 0 of `classes` has size 3"), "{error}");
}

#[cell]
struct Loss {
    net: nn::Dense,
}

#[cell]
impl Loss {
    fn construct(&self, x: &Tensor) -> Tensor {
        ops::mean(self.net(x).tanh().square(), ())
    }
}

#[jit(dims(x = [batch, _]))]
fn micro_batches(net: &nn::PipelineCell<Loss>, x: &Tensor) -> (Tensor, Vec<Tensor>) {
    let (loss, gradients) = ms::value_and_grad(|net: &nn::PipelineCell<Loss>| net.call(x))(net);
    (loss, gradients.iter().map(|it| it.1.clone()).collect())
}

#[test]
fn batches_of_any_size_are_cut_into_parts() {
    let net = nn::PipelineCell::new(Loss { net: nn::Dense::new(3, 2) }, 4);
    for batch in [8, 4, 20] {
        let x = data(&[batch, 3]);
        let (got, want) = (micro_batches(&net, &x), eagerly(|| micro_batches(&net, &x)));
        near(&got.0, &want.0);
        got.1.iter().zip(&want.1).for_each(|(got, want)| near(got, want));
    }
    let compiled = ms::catch(|| micro_batches(&net, &data(&[6, 3]))).expect_err("six are no four parts").to_string();
    for part in ["MS100", "batch = 6", "`batch` is axis 0 of `x`"] {
        assert!(compiled.contains(part), "{compiled}\nwanted {part}");
    }
    let eager = ms::catch(|| net.call(&data(&[6, 3]))).expect_err("six are no four parts");
    assert!(eager.to_string().contains("a batch of 6 has no 4 equal parts"), "{eager}");
}

#[jit(dims(x = [rows, _], y = [rows, columns]))]
fn mixed(x: &Tensor, y: &Tensor) -> Tensor {
    runs(2);
    let mut sum = ops::zeros_like(y);
    for i in ms::range(0, x.dim(0)) {
        sum = sum + ops::mean(ops::gather(x, &i, 0), ());
    }
    for i in ms::range(0, y.dim(1)) {
        sum = sum + i.cast(DType::F32) * 0.1;
    }
    ops::tanh(sum) * y
}

#[test]
fn loops_over_symbolic_sizes() {
    for (rows, columns) in [(3, 4), (1, 7), (6, 1), (3, 4)] {
        let (x, y) = (data(&[rows, 5]), data(&[rows, columns]));
        near(&mixed(&x, &y), &eagerly(|| mixed(&x, &y)));
    }
    assert_eq!(ran(2), 1 + 4, "it is traced once, and runs eagerly four times");
}

#[test]
fn transforms_around_functions_of_any_size() {
    let loss = |x: &Tensor| ops::sum(distance(x, &(x * 0.5)) * x, ());
    for n in [3, 1, 8] {
        let x = data(&[n, 4]);
        near(&ms::grad(loss)(&x), &eagerly(|| ms::grad(loss)(&x)));
        let twice = |x: &Tensor| ops::sum(ms::grad(loss)(x).square(), ());
        near(&ms::grad(twice)(&x), &eagerly(|| ms::grad(twice)(&x)));
        let lanes = |x: &Tensor| ms::vmap(|x: &Tensor| distance(&ops::expand_dims(x, 0), &Tensor::ones([1, 4])))(x);
        near(&lanes(&x), &eagerly(|| lanes(&x)));
        near(&ms::jvp(loss)(&x, &x).1, &eagerly(|| ms::jvp(loss)(&x, &x).1));
        let inside = ms::jit(|x: &Tensor| distance(x, x) + distance(&(x * 2.0), x));
        near(&inside(&x), &eagerly(|| inside(&x)));
    }
}

/// A server sees more sizes than the cache can hold plans for.
#[test]
fn sizes_without_number() {
    let compiled = Symbolic::new(&[&["n"]], &|x| ops::sum(&x[0] * 2.0, ()));
    for n in (1..700).chain([1, 2, 699]) {
        let got = compiled.call(&[Tensor::ones([n])]).expect("any size fits");
        assert_eq!(got.item::<f32>(), 2.0 * n as f32);
    }
    assert_eq!(compiled.versions(), 1);
}

/// Without `dims` each size has a version. The cache keeps the most recently called versions that, with the memory that
/// they hold, fit into 256 MiB.
#[test]
fn versions_without_number() {
    static RUNS_OF_ONE: AtomicUsize = AtomicUsize::new(0);
    let compiled = Symbolic::new(&[&["_"]], &|x| {
        RUNS_OF_ONE.fetch_add(usize::from(x[0].shape() == [1]), Ordering::Relaxed);
        // Each version holds a tensor of 16 MiB.
        let held = Tensor::from_slice([4 << 20], &vec![1.0f32; 4 << 20]);
        &x[0] + held.at(0)
    });
    let call = |n: usize| compiled.call(&[data(&[n])]).expect("any size fits").to_vec::<f32>();
    let mut most = 0;
    for n in 2..50 {
        assert_eq!(call(n).len(), n);
        for _ in 0..2 {
            call(1);
        }
        most = most.max(compiled.versions());
    }
    assert!((12..=16).contains(&most), "{most} versions");
    assert_eq!(RUNS_OF_ONE.load(Ordering::Relaxed), 1, "a version in use is kept");
    assert_eq!(call(2), call(2));
}

#[jit]
fn scaled(weights: &Tensor, x: &Tensor) -> Tensor {
    ops::matmul(x, weights)
}

#[test]
#[ignore = "changing_sizes_are_reported_once starts it"]
fn changing_sizes() {
    for n in 1..40 {
        scaled(&data(&[3, 2]), &data(&[n, 3]));
    }
}

#[test]
fn changing_sizes_are_reported_once() {
    let this = std::env::current_exe().expect("a test is a program");
    let run = std::process::Command::new(this)
        .args(["--ignored", "--exact", "functions::changing_sizes", "--nocapture"])
        .output();
    let run = run.expect("a program that just ran can be started");
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{told}");
    assert_eq!(told.matches("warning[MS131]").count(), 1, "{told}");
    let wanted =
        ["`scaled` has been compiled 8 times", "the sizes of `x` keep changing", "dims(x = [n, _])", "functions.rs:"];
    wanted.iter().for_each(|it| assert!(told.contains(it), "{told}\nwanted {it}"));
}

#[jit(dims(x = [n, _]))]
fn normalised(norm: &nn::BatchNorm, x: &Tensor) -> (Tensor, Tensor) {
    let slope = ms::grad(|x: &Tensor| (norm.call(x) * x).sum(()))(x);
    (norm.call(x), slope)
}

#[test]
fn batch_norm_takes_every_number_of_rows_but_one() {
    let (norm, other) = (nn::BatchNorm::new(2), nn::BatchNorm::new(2));
    for rows in [3, 2, 5] {
        let x = data(&[rows, 2]);
        let (got, want) = (normalised(&norm, &x), eagerly(|| normalised(&other, &x)));
        near(&got.0, &want.0);
        near(&got.1, &want.1);
    }
    let error =
        ms_conformance::late_errors::catch(|| normalised(&norm, &data(&[1, 2]))).expect_err("one row has no variance");
    assert!(error.code() == ms::Code::Assertion && error.to_string().contains("two values"), "{error}");
    near(&norm.moving_variance.value(), &other.moving_variance.value());
}
