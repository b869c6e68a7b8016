//! Measures call overhead: one-element ops, an unrolled loop of 200 iterations, branches and loops on tensors,
//! `vmap`, and the training step of the digits MLP. `cargo bench --bench steps`. `peers/steps.py` measures the same on
//! PyTorch.

mod common;

use common::{Mlp, add};
use ms::prelude::*;
use ms::vmap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The number of repetitions for a median; the variants of a line are interleaved.
const ROUNDS: usize = 31;

/// Returns the median time of one call of each body, timed in batches of `calls`.
fn medians<const N: usize>(calls: usize, mut bodies: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..ROUNDS + 3 {
        for (body, times) in bodies.iter_mut().zip(&mut times) {
            let start = Instant::now();
            (0..calls).for_each(|_| body());
            if round >= 3 {
                times.push(start.elapsed() / calls as u32);
            }
        }
    }
    times.map(|mut it| {
        it.sort();
        it[it.len() / 2]
    })
}

#[jit]
fn unrolled(input_x: &Tensor, input_y: &Tensor) -> Tensor {
    let mut output = input_x.clone();
    for _ in 0..200 {
        output = input_x + input_x * input_y + output;
    }
    output
}

#[jit]
fn branches(x: &Tensor, y: &Tensor) -> Tensor {
    let mut x = x.clone();
    let mut out = Tensor::zeros_like(&x);
    for _ in 0..100 {
        if x < y {
            x = x - y;
        } else {
            x = x + y;
        }
        out = out + &x;
    }
    out
}

#[jit]
fn selects(x: &Tensor, y: &Tensor) -> Tensor {
    let mut x = x.clone();
    let mut out = x.clone();
    for _ in 0..100 {
        let cond = x.lt(y);
        x = ops::select(&cond, &(&x - y), &(&x + y));
        out = out + &x;
    }
    out
}

/// A loop of a thousand iterations; its end is known only at run time.
#[jit]
fn device_loop(x: &Tensor, limit: &Tensor) -> Tensor {
    ops::while_loop(|x: &Tensor| x.lt(limit), |x| x + 1.0, x.clone())
}

/// The batched form of hswish, written by hand instead of `vmap`.
#[jit]
fn manually_batched(xs: &Tensor) -> Tensor {
    let mut out = vec![];
    for i in 0..xs.shape()[0] {
        out.push(ops::hswish(xs.at(i as isize)));
    }
    ops::stack(&out, 0)
}

/// A transformer block with numbers instead of matrices: the call overhead without the arithmetic.
#[cell]
struct Block {
    norms: [Pair; 2],
    projections: [Pair; 4],
    width: usize,
    heads: usize,
    dropout: f64,
    training: Training,
}

#[cell]
struct Pair {
    weight: Parameter,
    bias: Parameter,
}

#[cell]
struct Blocks {
    blocks: Vec<Block>,
}

impl Blocks {
    fn new(blocks: usize) -> Self {
        let number = || Parameter::new(Tensor::scalar(0.5f32), "");
        let pair = || Pair { weight: number(), bias: number() };
        let block = |_| Block {
            norms: [pair(), pair()],
            projections: [pair(), pair(), pair(), pair()],
            width: 32,
            heads: 4,
            dropout: 0.1,
            training: Training::default(),
        };
        Self { blocks: (0..blocks).map(block).collect() }
    }
}

/// Reads no parameter, so its calls only hash the fields.
#[jit]
fn hashes(net: &Blocks, x: &Tensor) -> Tensor {
    x * net.blocks.len()
}

/// Reads every parameter, so that its calls gather them.
#[jit]
fn gathers(net: &Blocks, x: &Tensor) -> Tensor {
    let pairs = net.blocks.iter().flat_map(|it| it.norms.iter().chain(&it.projections));
    pairs.fold(x.clone(), |x, pair| x * &pair.weight + &pair.bias)
}

fn main() {
    let (net, x) = (Blocks::new(48), Tensor::scalar(1.0f32));
    let [hashed, gathered] =
        medians(1000, [&mut || drop(black_box(hashes(&net, &x))), &mut || drop(black_box(gathers(&net, &x)))]);
    let parameters = net.parameters().len();
    println!("48 blocks, {parameters} parameters  hashed {hashed:>8.1?}   gathered {gathered:>8.1?}");

    let (x, y) = (Tensor::from_slice([1], &[1.0f32]), Tensor::from_slice([1], &[2.0f32]));
    let [eager, compiled] =
        medians(10_000, [&mut || drop(black_box(ops::add(&x, &y))), &mut || drop(black_box(add(&x, &y)))]);
    println!("add, one element          eager {eager:>10.1?}   #[jit] {compiled:>10.1?}");

    let start = Instant::now();
    let result = unrolled(&x, &y).item::<f32>();
    let first = start.elapsed();
    let [later] = medians(1000, [&mut || drop(black_box(unrolled(&x, &y)))]);
    println!("200 iterations unrolled   first {first:>10.1?}   later  {later:>10.1?}   (= {result})");

    for (name, function, arguments) in [
        ("100 branches", &branches as &dyn Fn(&Tensor, &Tensor) -> Tensor, [0.0, 1.0]),
        ("100 selects", &selects, [0.0, 1.0]),
        ("device loop of 1000", &device_loop, [0.0, 1000.0]),
    ] {
        let [x, y] = arguments.map(|it: f32| Tensor::scalar(it));
        let start = Instant::now();
        let result = function(&x, &y).item::<f32>();
        let first = start.elapsed();
        let [later] = medians(1000, [&mut || drop(black_box(function(&x, &y)))]);
        println!("{name:<25} first {first:>10.1?}   later  {later:>10.1?}   (= {result})");
    }

    let xs = random::uniform([100, 2], -4.0, 4.0);
    let [mapped, looped]: [&dyn Fn() -> Tensor; 2] =
        [&|| vmap(|x: &Tensor| ops::hswish(x)).in_axes(0)(&xs), &|| manually_batched(&xs)];
    let first = [mapped, looped].map(|it| {
        let start = Instant::now();
        it();
        start.elapsed()
    });
    let ready = vmap(|x: &Tensor| ops::hswish(x)).in_axes(0);
    ready(&xs);
    let [later, remade, rows] = medians(
        2000,
        [&mut || drop(black_box(ready(&xs))), &mut || drop(black_box(mapped())), &mut || drop(black_box(looped()))],
    );
    println!("vmap of hswish, 100 x 2   first {:>10.1?}   later  {later:>10.1?}   (made anew {remade:.1?})", first[0]);
    println!("the same row by row       first {:>10.1?}   later  {rows:>10.1?}", first[1]);

    let batch = (random::uniform([64, 64], 0.0, 1.0), random::randint([64], 0, 10));
    let loss = |net: &Mlp, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
    let (a, b) = ((Mlp::new(), Adam::new(1e-3)), (Mlp::new(), Adam::new(1e-3)));
    let [eager, compiled] = medians(
        50,
        [&mut || drop(black_box(a.1.step_eagerly(&a.0, &batch, loss))), &mut || {
            drop(black_box(b.1.step(&b.0, &batch, loss)))
        }],
    );
    println!(
        "digits MLP training step  eager {eager:>10.1?}   compiled {compiled:>8.1?}   ratio {:.2}",
        eager.as_secs_f64() / compiled.as_secs_f64()
    );
}
