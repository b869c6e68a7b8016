//! Tests that networks compute the same numbers with and without `#[lazy_inline]`, shared and not.
//!
//! Calls that are marked `#[no_inline]` stay calls.

use crate::gpt::{lazy, plain};
use ms::prelude::*;
use std::cell::Cell as HostCell;

fn near(name: &str, a: &[Vec<f32>], b: &[Vec<f32>]) {
    assert_eq!(a.len(), b.len(), "{name}");
    for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{name}: {a} and {b}");
    }
}

/// Returns the output of a network, the gradients, and the parameters after some steps of training.
macro_rules! numbers {
    ($net:expr, $ty:ty, $tokens:expr) => {{
        #[jit]
        fn forward(net: &$ty, tokens: &Tensor) -> Tensor {
            net.call(tokens)
        }
        #[jit]
        fn gradients(net: &$ty, tokens: &Tensor) -> Vec<Tensor> {
            let loss = |net: &$ty, tokens: &Tensor| ops::mean(net.call(tokens).square(), ());
            ms::grad(loss)(net, tokens).iter().map(|it| it.1.clone()).collect()
        }
        ms::random::set_seed(7);
        let net: $ty = $net;
        let mut out = vec![forward(&net, $tokens).to_vec::<f32>()];
        out.extend(gradients(&net, $tokens).iter().map(|it| it.to_vec::<f32>()));
        let sgd = SGD::new(0.1);
        for _ in 0..3 {
            sgd.step(&net, $tokens, |net: &$ty, tokens: &Tensor| ops::mean(net.call(tokens).square(), ()));
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

/// Returns the numbers of calls and of distinct sub-graphs in the latest compilation of a function of that name.
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
    // The shape differs from the one above, so that the function is compiled.
    nested(&make(), &random::uniform([3, 4], -1.0, 1.0));
    // There are four outer calls, and three inner calls in the one outer graph. The network itself is small.
    assert_eq!(shared("nested"), (7, 2));
    #[jit]
    fn third(net: &Nested, x: &Tensor) -> Tensor {
        // A normalised row adds up to zero, and so would its derivatives without the weights, up to rounding.
        let d = |x: &Tensor| ms::grad(|x: &Tensor| net.call(x) * tensor![0.5, -1.5, 2.0, 0.25])(x);
        ms::grad(|x: &Tensor| ms::grad(d)(x))(x)
    }
    let net = make();
    let compiled = third(&net, x).to_vec::<f32>();
    let eager = with(|it| it.jit = false, || third(&net, x).to_vec::<f32>());
    let most = eager.iter().fold(1.0, |most: f32, it| most.max(it.abs()));
    let relative = |it: Vec<f32>| vec![it.into_iter().map(|it| it / most).collect()];
    near("third derivative", &relative(compiled), &relative(eager));
}

/// A block with host fields that determine its result.
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

thread_local! {
    /// The number of times that the body of [`Kept`] was traced or run.
    static BODIES: HostCell<usize> = const { HostCell::new(0) };
}

fn count_body() {
    BODIES.set(BODIES.get() + 1);
}

/// A cell that is small enough to be inlined, unless it is marked.
#[no_inline]
#[cell]
struct Kept {
    scale: Parameter,
}

#[cell]
impl Kept {
    #[lazy_inline]
    fn new(scale: f32) -> Self {
        Self { scale: Parameter::new(Tensor::scalar(scale), "") }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        count_body();
        (x * &self.scale).sin()
    }
}

#[cell]
struct Around {
    kept: Kept,
    fc: nn::Dense,
}

#[cell]
impl Around {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.kept(&self.fc(x))
    }

    #[no_inline]
    fn shifted(&self, x: &Tensor, by: f64) -> Tensor {
        self.kept(&(x + by))
    }
}

#[no_inline]
fn cubed(x: &Tensor, times: usize) -> Tensor {
    if x < 0.0 {
        return x * 0.0;
    }
    (0..times).fold(x.clone(), |y, _| y * x)
}

#[jit]
#[no_inline]
fn halved(x: &Tensor) -> Tensor {
    x * 0.5
}

type Case = fn(&[Kept; 3], &Around, &Tensor) -> Tensor;

macro_rules! kept_cases {
    ($($name:ident($all:ident, $around:ident, $x:ident) $body:block = $calls:expr;)*) => {
        $(
            #[jit]
            #[allow(unused_variables, reason = "cases take all")]
            fn $name($all: &[Kept; 3], $around: &Around, $x: &Tensor) -> Tensor $body
        )*

        /// The cases by name, with the number of calls in their plans.
        const KEPT_CASES: &[(&str, Case, usize)] = &[$((stringify!($name), $name, $calls)),*];
    };
}

kept_cases! {
    once(all, around, x) { all[0].call(x) } = 1;
    in_a_row(all, around, x) { all.iter().fold(x.clone(), |x, kept| kept.call(&x)) } = 3;
    // Two calls are forward, and two backward.
    gradient(all, around, x) { ms::grad(|x: &Tensor| all[1].call(&all[0].call(x)).sum(()))(x) } = 4;
    tangent(all, around, x) { ms::jvp(|x: &Tensor| all[0].call(x))(x, x).1 } = 1;
    lanes(all, around, x) { ms::vmap(|x: &Tensor| all[0].call(x))(&x.reshape((2, 2))).reshape(4) } = 1;
    // One call is forward, and one is backward, in the call that recomputes.
    recomputed(all, around, x) {
        ms::grad(|x: &Tensor| ms::recompute(|x: &Tensor| all[0].call(x))(x).sum(()))(x)
    } = 3;
    in_a_loop(all, around, x) {
        let mut y = x.clone();
        for _ in ms::range(0, 5) {
            y = all[0].call(&y);
        }
        y
    } = 1;
    in_a_branch(all, around, x) {
        let mut y = x.clone();
        if x.sum(()) > 0.0 {
            y = all[2].call(x);
        }
        y
    } = 1;
    inside_a_cell(all, around, x) { around.call(x) } = 1;
    a_method(all, around, x) { around.shifted(&around.shifted(x, 0.5), 0.5) } = 3;
    a_function(all, around, x) { cubed(&x.sum(()).abs(), 2) + x } = 1;
    a_compiled_function(all, around, x) { halved(&halved(x)) } = 2;
}

/// Returns the plan of the latest compilation of a function.
fn planned(name: &str) -> ms::PlanReport {
    let reports = ms::compile_report();
    let report = reports.iter().rev().find(|it| it.name == name);
    let report = report.unwrap_or_else(|| panic!("`{name}` was not compiled"));
    assert!(report.to_string().contains("calls, "), "{report}");
    report.stage("compile").and_then(|it| it.plan).expect("compiling gives a plan")
}

#[test]
fn marked_calls_stay_calls() {
    let x = &random::uniform([4], -1.0, 1.0);
    let all = [Kept::new(0.5), Kept::new(-1.5), Kept::new(0.75)];
    let around = Around { kept: Kept::new(2.0), fc: nn::Dense::new(4, 4) };
    for (name, case, calls) in KEPT_CASES {
        let eager = with(|it| it.jit = false, || case(&all, &around, x).to_vec::<f32>());
        for share_graphs in [true, false] {
            let got = with(|it| it.share_graphs = share_graphs, || case(&all, &around, x).to_vec::<f32>());
            near(name, &[got], std::slice::from_ref(&eager));
            assert_eq!(planned(name).calls, *calls, "{name}, shared {share_graphs}");
        }
    }
}

/// A cell with both marks is traced once, and every call of it stays a call.
#[test]
fn both_marks_together() {
    #[jit]
    fn twelve_calls(all: &Vec<Kept>, x: &Tensor) -> Tensor {
        all.iter().fold(x.clone(), |x, kept| kept.call(&x))
    }
    let all: Vec<Kept> = (0..12).map(|i| Kept::new(0.9 + 0.01 * i as f32)).collect();
    let before = BODIES.get();
    twelve_calls(&all, &Tensor::ones([3]));
    assert_eq!(BODIES.get() - before, 1);
    assert_eq!((planned("twelve_calls").calls, planned("twelve_calls").routines), (12, 2));
}
