//! Programs for callgrind, which counts instructions independently of other load:
//! `cargo bench --bench instructions --no-run`, then `valgrind --tool=callgrind --toggle-collect='*counted*'
//! target/release/deps/instructions-* eager 1000`. The first argument names the program, and the second is the number
//! of counted calls. docs/contributing.md shows how to compare two trees.

mod common;

use common::{Mlp, add};
use ms::prelude::*;
use std::hint::black_box;

/// An identity cell: its eager call costs only the overhead of cell calls.
#[cell]
struct Same {
    weight: Parameter,
}

#[cell]
impl Same {
    fn construct(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

/// Calls `body` a few times before counting, to exclude compilation and first allocations.
fn measure(calls: usize, body: impl Fn()) {
    (0..50).for_each(|_| body());
    counted(calls, &body);
}

/// The function that callgrind collects, selected by its name.
#[inline(never)]
fn counted(calls: usize, body: &dyn Fn()) {
    (0..calls).for_each(|_| body());
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|it| it != "--bench");
    let program = arguments.next().unwrap_or_else(|| "eager".into());
    let calls = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(1000);

    let (x, y) = (Tensor::from_slice([1], &[1.0f32]), Tensor::from_slice([1], &[2.0f32]));
    let net = Mlp::new();
    let optimizer = Adam::new(1e-3);
    let batch = (random::uniform([64, 64], 0.0, 1.0), random::randint([64], 0, 10));
    let loss = |net: &Mlp, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
    match program.as_str() {
        "eager" => measure(calls, || drop(black_box(ops::add(&x, &y)))),
        "eager_number" => measure(calls, || drop(black_box(ops::mul(&x, 0.5)))),
        "cell" => {
            let same = Same { weight: Parameter::new(x.clone(), "weight") };
            measure(calls, || drop(black_box(same.call(&x))));
        }
        "jit" => measure(calls, || drop(black_box(add(&x, &y)))),
        "step" => measure(calls, || drop(black_box(optimizer.step(&net, &batch, loss)))),
        "step_eager" => measure(calls, || drop(black_box(optimizer.step_eagerly(&net, &batch, loss)))),
        other => panic!("`{other}` is none of the programs: eager, eager_number, cell, jit, step, step_eager"),
    }
}
