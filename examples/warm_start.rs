//! A warm start: a second process finds the compiled training step of the first one in the compile cache. Its first
//! step takes a fraction of the time.
//!
//! `cargo run --release --example warm_start`

use ms::prelude::*;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Runs one training step of a transformer with the compile cache at a path. Prints its duration, the numbers of cache
/// uses, and the bits of the loss.
fn first_step(path: &Path) {
    random::set_seed(1);
    ms::set_context(Context { enable_compile_cache: true, compile_cache_path: Some(path.into()), ..ms::context() });
    let layer = || nn::TransformerEncoderLayer::new(32, 4).dim_feedforward(64).dropout(0.0).batch_first(true);
    let (net, opt) = (nn::TransformerEncoder::new(4, layer), Adam::new(1e-3));
    let batch = random::randn([2, 16, 32]);
    let start = Instant::now();
    let loss =
        opt.step(&net, &batch, |net, x| net.call(x, &nn::AttentionMask::default()).square().mean(())).item::<f32>();
    let (time, used) = (start.elapsed(), ms::cache_use());
    println!("{} {} {} {}", time.as_micros(), used.hits, used.misses, loss.to_bits());
}

/// Runs the step in a new process, and returns the numbers that it prints.
fn run(path: &Path) -> [u64; 4] {
    let program = std::env::current_exe().expect("this program has a file");
    let output = Command::new(program).arg(path).output().expect("this program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().map(|it| it.parse().expect("a number")).collect();
    numbers.try_into().expect("four numbers")
}

fn main() {
    if let Some(path) = std::env::args_os().nth(1) {
        return first_step(Path::new(&path));
    }
    let path = std::env::temp_dir().join(format!("ms warm start {}", std::process::id()));
    let [cold, warm] = [run(&path), run(&path)];
    std::fs::remove_dir_all(&path).expect("the cache is there");
    for (name, [micros, hits, misses, _]) in [("cold", cold), ("warm", warm)] {
        println!("{name}: the first step takes {:6.1} ms, {hits} hits, {misses} misses", micros as f64 / 1e3);
    }
    assert_eq!((cold[1], warm[2]), (0, 0), "the first process finds nothing, the second one everything");
    assert!(cold[2] > 0 && warm[1] == cold[2]);
    assert_eq!(cold[3], warm[3], "the losses are equal to the bit");
    assert!(warm[0] < cold[0], "{} and {} microseconds", warm[0], cold[0]);
}
