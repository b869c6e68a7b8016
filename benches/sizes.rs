//! Compares one function with a symbolic batch size with one version for each size. `cargo bench --bench sizes`.

#[path = "../tests/common/gpt.rs"]
mod gpt;

use ms::prelude::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: usize = 15;
const FEATURES: usize = 64;

#[cell]
struct Mlp {
    fc1: nn::Dense,
    fc2: nn::Dense,
}

#[cell]
impl Mlp {
    fn construct(&self, x: &Tensor) -> Tensor {
        let hidden = ops::layer_norm(self.fc1(x), None, None, -1, 1e-5).relu();
        ops::softmax(self.fc2(&hidden), -1)
    }
}

#[jit(dims(x = [batch, _]))]
fn of_any_size(net: &Mlp, x: &Tensor) -> Tensor {
    net.call(x)
}

#[jit]
fn of_this_size(net: &Mlp, x: &Tensor) -> Tensor {
    net.call(x)
}

macro_rules! transformers {
    ($($name:ident: $model:ident;)*) => {$(
        /// Computes forward and gradient of a transformer on sentences of any number and length.
        #[jit(dims(tokens = [batch, length]))]
        fn $name(net: &gpt::$model::Gpt, tokens: &Tensor) -> (Tensor, Vec<Tensor>) {
            let loss = |net: &gpt::$model::Gpt, tokens: &Tensor| ops::mean(net.call(tokens).square(), ());
            let (value, gradients) = ms::value_and_grad(loss)(net, tokens);
            (value, gradients.iter().map(|it| it.1.clone()).collect())
        }
    )*};
}

transformers! {
    of_plain: plain;
    of_lazy: lazy;
}

/// The number of blocks of the transformer.
const BLOCKS: usize = 24;

macro_rules! transformer {
    ($kind:literal, $model:ident, $function:ident, $share_graphs:literal) => {
        let net = gpt::$model::Gpt::new(BLOCKS, 50, 32);
        ms::with_context(Context { share_graphs: $share_graphs, ..ms::context() }, || {
            let sentences: Vec<Tensor> = (0..25).map(|n| random::randint([2 + n % 5, 8 + n / 5], 0, 50)).collect();
            let first: Vec<Duration> = sentences.iter().map(|x| time(|| $function(&net, x))).collect();
            let later: Vec<Duration> = sentences.iter().map(|x| time(|| $function(&net, x))).collect();
            let new: Vec<Duration> = first.iter().zip(&later).map(|(first, later)| first.saturating_sub(*later)).collect();
            println!(
                "{BLOCKS} blocks, forward and gradient, {}: first call {:.1?}, a new size {:.2?} beyond a call of {:.2?}",
                $kind, first[0], median(new[1..].to_vec()), median(later)
            );
            if std::env::args().any(|it| it == "-v") {
                println!("{}", ms::compile_report().last().expect("just compiled"));
            }
        });
    };
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn time<R>(body: impl FnOnce() -> R) -> Duration {
    let start = Instant::now();
    black_box(body());
    start.elapsed()
}

fn main() {
    let net = Mlp { fc1: nn::Dense::new(FEATURES, 128), fc2: nn::Dense::new(128, 10) };
    let batches: Vec<Tensor> = (1..=100).map(|n| random::uniform([n, FEATURES], -1.0, 1.0)).collect();
    let first = |f: fn(&Mlp, &Tensor) -> Tensor| batches.iter().map(|x| time(|| f(&net, x))).collect::<Vec<_>>();
    let (any, this) = (first(of_any_size), first(of_this_size));
    println!("first call of all          any size {:>10.1?}   one size {:>10.1?}", any[0], this[0]);
    println!(
        "first call of a new size   any size {:>10.1?}   one size {:>10.1?}",
        median(any[1..].to_vec()),
        median(this[1..].to_vec())
    );
    let mut ratios = Vec::new();
    for x in &batches {
        let (mut any, mut this) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            any.push(time(|| (0..20).for_each(|_| drop(black_box(of_any_size(&net, x))))));
            this.push(time(|| (0..20).for_each(|_| drop(black_box(of_this_size(&net, x))))));
        }
        ratios.push(median(any).as_secs_f64() / median(this).as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    transformer!("shared", lazy, of_lazy, true);
    transformer!("shared as they are equal", plain, of_plain, true);
    transformer!("unshared", plain, of_plain, false);
    println!("later calls, any size over one size: median {:.3}, worst {:.3}", ratios[50], ratios[99]);
}
