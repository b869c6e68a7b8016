//! P20 and P21: with and without `#[lazy_inline]`, shared and not, networks give the same numbers.

#[path = "common/gpt.rs"]
mod gpt;

use gpt::{lazy, plain};
use ms::prelude::*;

fn near(name: &str, a: &[Vec<f32>], b: &[Vec<f32>]) {
    assert_eq!(a.len(), b.len(), "{name}");
    for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{name}: {a} and {b}");
    }
}

/// The output of a network, the gradients, and the parameters after some steps of training.
macro_rules! numbers {
    ($net:expr, $ty:ty, $tokens:expr) => {{
        #[jit]
        fn forward(net: &$ty, tokens: &Tensor) -> Tensor {
            net.call(tokens)
        }
        #[jit]
        fn gradients(net: &$ty, tokens: &Tensor) -> Vec<Tensor> {
            let loss = |net: &$ty, tokens: &Tensor| ops::mean(net.call(tokens).square(), (), false);
            ms::grad(loss)(net, tokens).iter().map(|it| it.1.clone()).collect()
        }
        ms::random::set_seed(7);
        let net: $ty = $net;
        let mut out = vec![forward(&net, $tokens).to_vec::<f32>()];
        out.extend(gradients(&net, $tokens).iter().map(|it| it.to_vec::<f32>()));
        let sgd = SGD::new(0.1);
        for _ in 0..3 {
            sgd.step(&net, $tokens, |net: &$ty, tokens: &Tensor| ops::mean(net.call(tokens).square(), (), false));
        }
        out.extend(net.parameters().iter().map(|it| it.value().to_vec::<f32>()));
        out
    }};
}

fn with<R>(change: impl FnOnce(&mut Context), f: impl FnOnce() -> R) -> R {
    let mut context = ms::context();
    change(&mut context);
    ms::with_context(context, f)
}

/// Calls and distinct sub-graphs of the latest compilation of a function of that name.
fn shared(name: &str) -> (usize, usize) {
    let reports = ms::compile_report();
    let report = reports.iter().rev().find(|it| it.name == name).expect("it was compiled");
    let graph = report.stage("trace").and_then(|it| it.graph).expect("a graph");
    (graph.calls, graph.size.graphs)
}

#[test]
fn a_gpt_with_and_without() {
    let tokens = &random::randint([2, 6], 0, 11);
    let eager = with(|it| it.jit = false, || numbers!(plain::Gpt::new(4, 11, 8), plain::Gpt, tokens));
    let apart = with(|it| it.share_graphs = false, || numbers!(plain::Gpt::new(4, 11, 8), plain::Gpt, tokens));
    let plain = numbers!(plain::Gpt::new(4, 11, 8), plain::Gpt, tokens);
    let lazy = numbers!(lazy::Gpt::new(4, 11, 8), lazy::Gpt, tokens);
    near("not shared", &apart, &eager);
    near("found by content", &plain, &eager);
    near("lazy", &lazy, &eager);
}

#[cell]
struct Inner {
    fc: nn::Dense,
}

#[cell]
impl Inner {
    #[lazy_inline]
    fn new() -> Self {
        Self { fc: nn::Dense::new(4, 4) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let mut x = x + self.fc(x).tanh();
        for _ in 0..4 {
            x = (&x * 0.5).sin() + &x;
        }
        x
    }
}

#[cell]
struct Outer {
    inner: Vec<Inner>,
}

#[cell]
impl Outer {
    #[lazy_inline]
    fn new() -> Self {
        Self { inner: (0..3).map(|_| Inner::new()).collect() }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let x = self.inner.iter().fold(x.clone(), |x, inner| inner.call(&x));
        ops::layer_norm(x, None, None, -1, 1e-5)
    }
}

#[cell]
struct Nested {
    outer: Vec<Outer>,
}

#[cell]
impl Nested {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.outer.iter().fold(x.clone(), |x, outer| outer.call(&x))
    }
}

#[test]
fn nested_cells_are_both_shared() {
    let x = &random::uniform([2, 4], -1.0, 1.0);
    let make = || Nested { outer: (0..4).map(|_| Outer::new()).collect() };
    let eager = with(|it| it.jit = false, || numbers!(make(), Nested, x));
    let compiled = numbers!(make(), Nested, x);
    near("nested", &compiled, &eager);
    #[jit]
    fn nested(net: &Nested, x: &Tensor) -> Tensor {
        net.call(x)
    }
    // Of another shape than above, so that it is compiled.
    nested(&make(), &random::uniform([3, 4], -1.0, 1.0));
    // Four outer calls, and three inner ones in the one outer graph; the network itself is small.
    assert_eq!(shared("nested"), (7, 2));
    #[jit]
    fn third(net: &Nested, x: &Tensor) -> Tensor {
        let d = |x: &Tensor| ms::grad(|x: &Tensor| net.call(x))(x);
        ms::grad(|x: &Tensor| ms::grad(d)(x))(x)
    }
    let net = make();
    let compiled = third(&net, x).to_vec::<f32>();
    let eager = with(|it| it.jit = false, || third(&net, x).to_vec::<f32>());
    near("third derivative", &[compiled], &[eager]);
}

/// A block whose host fields decide what it computes.
#[cell]
struct Scaled {
    b: f32,
    c: f32,
    z: f32,
}

#[cell]
impl Scaled {
    #[lazy_inline]
    fn new(z: f32) -> Self {
        Self { b: 1.0, c: 2.0, z }
    }

    fn b(self, b: f32) -> Self {
        Self { b, ..self }
    }

    fn c(self, c: f32) -> Self {
        Self { c, ..self }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        x * (100.0 * self.b) + (self.c + 10.0 * self.z)
    }
}

#[jit]
fn sum_of_all(blocks: &Vec<Scaled>, x: &Tensor) -> Tensor {
    blocks.iter().fold(x * 0.0, |sum, block| sum + block.call(x))
}

#[test]
fn fields_tell_blocks_apart() {
    let x = &Tensor::scalar(1.0);
    let mut blocks = vec![Scaled::new(1.0).b(5.0), Scaled::new(1.0).c(5.0), Scaled::new(1.0).b(5.0)];
    assert_eq!(sum_of_all(&blocks, x).item::<f32>(), 512.0 + 115.0 + 512.0);
    blocks[2].z = 9.0;
    assert_eq!(sum_of_all(&blocks, x).item::<f32>(), 512.0 + 115.0 + 592.0);
}
