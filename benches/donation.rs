//! Measures donation: an update of 64 MiB in place and into separate memory, in time, page faults and peak memory.
//! `cargo bench --bench donation`. With an argument (`kept`, `donated`), only that case runs, so the peak is its own.

use ms::prelude::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: usize = 41;
const ELEMENTS: usize = 16 << 20;

#[jit]
fn kept(x: &Tensor, gradient: &Tensor) -> Tensor {
    x - 0.1 * gradient
}

#[jit(donate(x))]
fn donated(x: Tensor, gradient: &Tensor) -> Tensor {
    x - 0.1 * gradient
}

/// Returns a number of KiB from the system's status of this process, if available.
fn status(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|it| it.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

fn page_faults() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    text.rsplit(')').next()?.split_whitespace().nth(7)?.parse().ok()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Measures single calls, of which the first compiles, and the page faults of the first two.
fn calls(mut step: impl FnMut(Tensor) -> Tensor) -> (Vec<Duration>, Option<u64>) {
    let mut x = Tensor::ones([ELEMENTS]);
    let mut times = Vec::new();
    let before = page_faults();
    let mut faults = None;
    for round in 0..ROUNDS {
        let start = Instant::now();
        x = black_box(step(x));
        times.push(start.elapsed());
        if round == 1 {
            faults = page_faults().zip(before).map(|(after, before)| after - before);
        }
    }
    (times, faults)
}

fn main() {
    let only = std::env::args().find(|it| ["kept", "donated"].contains(&&**it));
    let gradient = Tensor::ones([ELEMENTS]);
    let ways: [(&str, &dyn Fn(Tensor) -> Tensor); 2] =
        [("kept", &|x| kept(&x, &gradient)), ("donated", &|x| donated(x, &gradient))];
    for _ in 0..if only.is_some() { 1 } else { 3 } {
        for (name, step) in ways.iter().filter(|it| only.as_ref().is_none_or(|only| only == it.0)) {
            let (times, faults) = calls(step);
            let faults = faults.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
            println!(
                "{name:>8}: {:>9.2?} a call; page faults of the first two calls: {faults}",
                median(times[2..].to_vec())
            );
        }
    }
    if let Some(most) = status("VmHWM:") {
        println!("memory held at most: {} MiB", most / 1024);
    }
}
