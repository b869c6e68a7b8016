//! Measures forward and gradient of functions that read a sequence step by step, for T = 50, 100, 200, 400, 800 steps.
//! They run eagerly and compiled, and the compilation is timed too. `cargo bench --bench sequences`. Calls are measured
//! in processor time of this thread, which excludes other programs.

use ms::prelude::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

const LENGTHS: [usize; 5] = [50, 100, 200, 400, 800];

/// The number of features of a step.
const WIDTH: usize = 16;

/// Returns the processor time of this thread.
fn now() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the system tells");
    let nanos = text.split(' ').next().and_then(|it| it.parse().ok());
    Duration::from_nanos(nanos.expect("the first number is the time on a processor"))
}

/// Returns the mean time of a call. The number of calls makes the resolution of the clock, some milliseconds,
/// negligible.
fn mean(mut call: impl FnMut()) -> Duration {
    call();
    let (start, mut calls) = (now(), 0);
    loop {
        call();
        calls += 1;
        let spent = now() - start;
        if spent > Duration::from_millis(250) {
            return spent / calls;
        }
    }
}

fn step(state: &Tensor, x: &Tensor) -> Tensor {
    (state * 0.5 + x).tanh()
}

fn positions(x: &Tensor) -> Tensor {
    let start = Tensor::zeros([WIDTH]);
    (0..x.shape()[0]).fold(start, |state, t| step(&state, &x.at(t as isize))).sum(())
}

fn unstacked(x: &Tensor) -> Tensor {
    let start = Tensor::zeros([WIDTH]);
    ops::unstack(x, 0).iter().fold(start, |state, x| step(&state, x)).sum(())
}

fn parts(x: &Tensor) -> Tensor {
    let start = Tensor::zeros([1, WIDTH]);
    ops::split(x, x.shape()[0], 0).iter().fold(start, |state, x| step(&state, x)).sum(())
}

#[jit]
fn gathered(x: &Tensor) -> Tensor {
    let mut state = Tensor::zeros([WIDTH]);
    for i in ms::range(0, x.shape()[0]) {
        state = step(&state, &ops::gather(x, &i, 0));
    }
    state.sum(())
}

fn scanned(x: &Tensor) -> Tensor {
    let step = |state: &Tensor, x: &Tensor| (step(state, x), Tensor::scalar(0.0f32));
    ops::scan(step, Tensor::zeros([WIDTH]), x).0.sum(())
}

/// A step of the sequence; calls of it are never inlined.
#[jit]
#[no_inline]
fn called_step(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    step(state, &ops::gather(x, i, 0))
}

#[jit]
fn compiled_step(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    step(state, &ops::gather(x, i, 0))
}

fn folded(x: &Tensor, f: impl Fn(Tensor, &Tensor) -> Tensor) -> Tensor {
    (0..x.shape()[0]).map(|t| Tensor::scalar(t as i64)).fold(Tensor::zeros([WIDTH]), |state, i| f(state, &i)).sum(())
}

fn called(x: &Tensor) -> Tensor {
    folded(x, |state, i| called_step(&state, x, i))
}

fn compiled_steps(x: &Tensor) -> Tensor {
    folded(x, |state, i| compiled_step(&state, x, i))
}

#[jit]
fn branches(x: &Tensor) -> Tensor {
    let mut state = Tensor::zeros([WIDTH]);
    for t in 0..x.shape()[0] {
        if state.sum(()) < 1.0 {
            state = step(&state, &x.at(t as isize));
        } else {
            state = &state * 0.5;
        }
    }
    state.sum(())
}

fn recomputed(x: &Tensor) -> Tensor {
    folded(x, |state, i| ms::recompute(|state: &Tensor| step(state, &ops::gather(x, i, 0)))(&state))
}

fn weights(gates: usize) -> Tensor {
    let numel = gates * WIDTH * WIDTH;
    (Tensor::arange(numel as i64).cast(DType::F32) * 0.7).sin().reshape([gates * WIDTH, WIDTH]) * 0.2
}

fn lstm(x: &Tensor) -> Tensor {
    let (state, weights) = (Tensor::zeros([1, WIDTH]), weights(4));
    let x = ops::reshape(x, [x.shape()[0], 1, WIDTH]);
    ops::lstm(&x, (&state, &state), (&weights, &weights), None).0.sum(())
}

fn gru(x: &Tensor) -> Tensor {
    let (state, weights) = (Tensor::zeros([1, WIDTH]), weights(3));
    let x = ops::reshape(x, [x.shape()[0], 1, WIDTH]);
    ops::gru(&x, &state, (&weights, &weights), None).0.sum(())
}

type Function = fn(&Tensor) -> Tensor;

static FUNCTIONS: [(&str, Function); 11] = [
    ("x.at(t)", positions),
    ("unstack", unstacked),
    ("split", parts),
    ("gather in ms::range", gathered),
    ("gather in a call", called),
    ("gather in a compiled function", compiled_steps),
    ("x.at(t) in a branch", branches),
    ("gather in a recomputed part", recomputed),
    ("scan", scanned),
    ("lstm", lstm),
    ("gru", gru),
];

fn main() {
    for (number, (name, f)) in FUNCTIONS.iter().enumerate() {
        println!("{name}");
        for length in LENGTHS {
            let numel = length * WIDTH;
            let x = (Tensor::arange(numel as i64).cast(DType::F32) * 0.37).sin().reshape([length, WIDTH]);
            let run = |out: (Tensor, Tensor)| drop(black_box(out.1.to_vec::<f32>()));
            let eager = mean(|| run(ms::value_and_grad(*f)(&x)));
            let compiled = ms::jit(|x: &Tensor, number: &usize| ms::value_and_grad(FUNCTIONS[*number].1)(x));
            let start = Instant::now();
            run(compiled(&x, &number));
            let first = start.elapsed();
            let later = mean(|| run(compiled(&x, &number)));
            let per = |it: Duration| it.as_secs_f64() * 1e6 / length as f64;
            println!(
                "  T = {length:3}: eager {:9.3?} ({:.2} µs a step), first call {:9.3?} ({:.1}), later {:9.3?} ({:.3})",
                eager,
                per(eager),
                first,
                per(first),
                later,
                per(later)
            );
        }
    }
}
