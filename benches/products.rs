//! Compares a dense layer with the weight as an argument and as a parameter, which is packed once.
//! `cargo bench --bench products` prints medians in microseconds.

use ms::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// The number of calls for a median; calls with the two kinds of weights are interleaved.
const CALLS: usize = 101;

#[jit]
fn of_argument(weight: &Tensor, x: &Tensor) -> Tensor {
    ops::dense(x, weight, None)
}

#[jit]
fn of_parameter(weight: &Parameter, x: &Tensor) -> Tensor {
    ops::dense(x, weight, None)
}

/// Returns the median time of a call of each body.
fn medians(bodies: [&dyn Fn() -> Tensor; 2]) -> [f64; 2] {
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..CALLS {
        for (times, body) in times.iter_mut().zip(bodies) {
            let start = Instant::now();
            black_box(body());
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.map(|mut it| {
        it.sort_by(f64::total_cmp);
        it[CALLS / 2]
    })
}

fn main() {
    println!(
        "{:>6} {:>5} {:>5} {:>5} {:>10} {:>10} {:>6}",
        "dtype", "rows", "in", "out", "argument", "parameter", "ratio"
    );
    for dtype in [DType::F32, DType::BF16] {
        for [inputs, outputs] in [[784, 512], [512, 512], [256, 1024], [1024, 256]] {
            for rows in [1, 4, 16, 64, 256] {
                let numbers = |shape: [usize; 2]| random::uniform(shape, -1.0, 1.0).cast(dtype);
                let (x, weight) = (numbers([rows, inputs]), numbers([outputs, inputs]));
                let slot = Parameter::new(numbers([outputs, inputs]), "weight");
                let [argument, parameter] = medians([&|| of_argument(&weight, &x), &|| of_parameter(&slot, &x)]);
                let ratio = argument / parameter;
                println!("{dtype:>6} {rows:5} {inputs:5} {outputs:5} {argument:10.1} {parameter:10.1} {ratio:6.2}");
            }
        }
    }
}
