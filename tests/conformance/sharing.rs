//! Runs MindSpore's tests of inlining, recomputation and repeated compilation, by their numbers in the list of
//! conformance cases.
//!
//! Each test runs eagerly, compiled, and compiled again.

use ms::prelude::*;

const WAYS: [(&str, bool); 3] = [("eagerly", false), ("compiled", true), ("compiled again", true)];

fn with<R>(jit: bool, run: impl FnOnce() -> R) -> R {
    ms::with_context(Context { jit, ..ms::context() }, run)
}

/// Returns the plan of the latest compilation of a function.
fn planned(name: &str) -> ms::PlanReport {
    let reports = ms::compile_report();
    let report = reports.iter().rev().find(|it| it.name == name).expect("it was compiled");
    report.stage("compile").and_then(|it| it.plan).expect("compiling gives a plan")
}

/// The block of the tests: `x + y + 2 y - 9`.
#[cell]
struct Sum {
    y: Parameter,
}

#[cell]
impl Sum {
    fn new() -> Self {
        Self { y: Parameter::new(Tensor::scalar(5.0), "") }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let x = x + &self.y;
        let x = x + &self.y * 2.0;
        x - 9.0
    }
}

// --- 110: `policy="front"` is `#[lazy_inline]`; no policy keeps calls, which is `#[no_inline]` ---

#[cell]
struct Mine {
    block: Sum,
}

#[cell]
impl Mine {
    #[lazy_inline]
    fn new() -> Self {
        Self { block: Sum::new() }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.block(&(x + 3.0)) + 4.0
    }
}

#[cell]
struct Inner {
    blocks: Vec<Mine>,
}

#[cell]
impl Inner {
    #[lazy_inline]
    fn new() -> Self {
        Self { blocks: (0..5).map(|_| Mine::new()).collect() }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.blocks.iter().fold(x + 1.0, |x, block| block.call(&x))
    }
}

#[no_inline]
#[cell]
struct Outer {
    blocks: Vec<Inner>,
}

#[cell]
impl Outer {
    #[lazy_inline]
    fn new() -> Self {
        Self { blocks: (0..5).map(|_| Inner::new()).collect() }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.blocks.iter().fold(x + 2.0, |x, block| block.call(&x))
    }
}

#[cell]
struct Twice {
    blocks: Vec<Outer>,
    /// The number added between the two calls; if `None`, the input.
    between: Option<f64>,
}

#[cell]
impl Twice {
    fn construct(&self, x: &Tensor) -> Tensor {
        let all = |x: &Tensor| self.blocks.iter().fold(x.clone(), |x, block| block.call(&x));
        let out = match self.between {
            Some(number) => all(x) + number,
            None => all(x) + x,
        };
        all(&out)
    }
}

#[jit]
fn nested(net: &Twice, x: &Tensor) -> (Tensor, Tensor) {
    ms::value_and_grad(|x: &Tensor| net.call(x))(x)
}

#[test]
fn case_110_nested_cells() {
    let x = &Tensor::scalar(10.0);
    // Three outer blocks, which hold five inner blocks of five blocks each, add 996; twice.
    for (between, value, gradient) in [(Some(0.1), 2002.1, 1.0), (None, 2012.0, 2.0)] {
        let net = Twice { blocks: (0..3).map(|_| Outer::new()).collect(), between };
        for (way, jit) in WAYS {
            let (y, g) = with(jit, || nested(&net, x));
            assert_eq!((y.item::<f32>(), g.item::<f32>()), (value, gradient), "{way}");
        }
        // The outer block is called six times, and calls the inner one five times. The gradient of sums needs no calls.
        assert_eq!(planned("nested").calls, 6 + 5, "{between:?}");
    }
}

// --- 111: a function that is not inlined ---

#[no_inline]
fn three_v_plus_two(v: &Tensor) -> Tensor {
    v * 3 + 2
}

#[jit]
fn hundred_calls(v: &Tensor) -> Tensor {
    (0..100).fold(v.clone(), |v, _| three_v_plus_two(&v))
}

#[test]
fn case_111_no_inline() {
    for start in [1i64, 10] {
        let want = (0..100).fold(start, |v, _| v.wrapping_mul(3).wrapping_add(2));
        for (way, jit) in WAYS {
            assert_eq!(with(jit, || hundred_calls(&Tensor::scalar(start))).item::<i64>(), want, "{way}");
        }
        let plan = planned("hundred_calls");
        assert_eq!((plan.calls, plan.routines), (100, 2));
    }
}

// --- 114: a structure of another length is another version, one of a known length is not ---

#[jit]
fn sum_of(all: &Vec<Tensor>) -> Tensor {
    all.iter().fold(Tensor::scalar(0.0), |sum, it| sum + it)
}

/// With a symbol for the length, one compilation serves all.
#[jit(dims(all = [length]))]
fn sum_of_any(all: &Tensor) -> Tensor {
    all.sum(())
}

#[test]
fn case_114_repeated_compilation() {
    let traced = |name: &str| ms::compile_report().iter().filter(|it| it.name == name).count();
    for (way, jit) in WAYS {
        for n in [1usize, 2, 1] {
            let (apart, stacked) = (vec![Tensor::scalar(2.0); n], Tensor::full(n, 2.0));
            let got = with(jit, || (sum_of(&apart).item::<f32>(), sum_of_any(&stacked).item::<f32>()));
            assert_eq!(got, (2.0 * n as f32, 2.0 * n as f32), "{way}");
        }
    }
    assert_eq!(traced("sum_of"), 2);
    let optimised = |name: &str| {
        let all = ms::compile_report();
        all.iter().filter(|it| it.name == name && it.stage("trace").is_some()).count()
    };
    assert_eq!(optimised("sum_of_any"), 1);
}

// --- 115: recomputed blocks that are `#[lazy_inline]` ---

/// The attention-like block of the tests, with its mask as a parameter.
#[cell]
struct Attention {
    y: Parameter,
}

#[cell]
impl Attention {
    fn new(tokens: usize) -> Self {
        Self { y: Parameter::new(Tensor::ones([2, tokens, tokens]), "") }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let left = x.permute([0, 2, 1, 3]) / 2.37891;
        let right = x.permute([0, 2, 3, 1]) / 2.37891;
        let mask = (1.0 - ops::expand_dims(&self.y, 1)) * -0.0001;
        let weights = ops::softmax(mask + ops::matmul(&left, &right), -1);
        ops::matmul(&weights, &x.permute([0, 2, 1, 3])).permute([0, 2, 1, 3])
    }
}

#[cell]
struct Block<T> {
    block: T,
    again: bool,
}

macro_rules! blocks {
    ($($inner:ident),*) => {$(
        #[cell]
        impl Block<$inner> {
            #[lazy_inline]
            fn new(block: $inner, again: bool) -> Self {
                Self { block, again }
            }

            fn construct(&self, x: &Tensor) -> Tensor {
                match self.again {
                    true => ms::recompute(|x: &Tensor| self.block.call(x))(x),
                    false => self.block.call(x),
                }
            }
        }
    )*};
}

blocks!(Sum, Attention);

#[jit]
fn gradient_of_sums(blocks: &nn::CellList<Block<Sum>>, x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| blocks.iter().fold(x.clone(), |x, block| block.call(&x)))(x)
}

#[jit]
fn gradient_of_attention(blocks: &nn::CellList<Block<Attention>>, x: &Tensor) -> Vec<Tensor> {
    let (y, g) = ms::value_and_grad(|blocks: &nn::CellList<Block<Attention>>, x: &Tensor| {
        blocks.iter().fold(x.clone(), |x, block| block.call(&x)).square()
    })(blocks, x);
    [y].into_iter().chain(g.iter().map(|it| it.1.clone())).collect()
}

#[test]
fn case_115_recomputation_and_lazy_inline() {
    let x = &Tensor::scalar(10.0);
    let sums: nn::CellList<_> = (0..3).map(|_| Block::<Sum>::new(Sum::new(), true)).collect();
    for (way, jit) in WAYS {
        assert_eq!(with(jit, || gradient_of_sums(&sums, x)).item::<f32>(), 1.0, "{way}");
    }

    let x = &random::uniform([2, 32, 2, 4], -1.0, 1.0);
    let make =
        |count: usize, again: bool| (0..count).map(|_| Block::<Attention>::new(Attention::new(32), again)).collect();
    let (kept, again) = (make(3, false), make(3, true));
    let numbers = |blocks: &nn::CellList<_>| -> Vec<Vec<f32>> {
        gradient_of_attention(blocks, x).iter().map(|it| it.to_vec()).collect()
    };
    let want = with(false, || numbers(&kept));
    for (name, blocks) in [("kept", &kept), ("recomputed", &again)] {
        for (way, jit) in WAYS {
            let got = with(jit, || numbers(blocks));
            let pairs = got.iter().flatten().zip(want.iter().flatten());
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs())), "{name}, {way}");
        }
    }
    // Recomputation saves memory: only the input of a block is kept.
    let bytes = [false, true].map(|again| {
        numbers(&make(12, again));
        planned("gradient_of_attention").arena_bytes
    });
    assert!(bytes[1] * 2 < bytes[0], "{bytes:?}");
}
