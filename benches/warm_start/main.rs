//! What a fresh process pays until its first result, without a compile cache, with a cold one and
//! with a warm one; what a cold one costs; and how long an entry takes to find among many.
//! `cargo bench --bench warm_start`.

mod gpt;

use ms::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Names the workload to a process that is started for it.
const WORKLOAD: &str = "MS_WARM_START_WORKLOAD";

/// Processes whose median is printed.
const PROCESSES: usize = 21;

/// P11.
#[jit]
fn unrolled(input_x: &Tensor, input_y: &Tensor) -> Tensor {
    let mut output = input_x.clone();
    for _ in 0..200 {
        output = input_x + input_x * input_y + output;
    }
    output
}

#[jit(pure)]
fn unrolled_pure(input_x: &Tensor, input_y: &Tensor) -> Tensor {
    let mut output = input_x.clone();
    for _ in 0..200 {
        output = input_x + input_x * input_y + output;
    }
    output
}

#[jit]
fn layer(x: &Tensor, width: usize, scale: i64) -> Tensor {
    let x = ops::softmax(x * scale + 1.0, -1);
    let y = (x.square().sum(-1, true) + width as f64).sqrt();
    ops::gelu_tanh(x / y)
}

/// The gradient of forty layers.
#[jit]
fn deep(x: &Tensor) -> Tensor {
    let layers = |x: &Tensor| {
        let layer = |x: Tensor, i: usize| ops::softmax(ops::gelu_tanh(&x * (1.0 + i as f64 / 40.0)), -1) + x;
        (0..40).fold(x.clone(), layer).square().sum((), false)
    };
    ms::grad(layers)(x)
}

fn main() {
    match std::env::var(WORKLOAD) {
        Ok(workload) => child(&workload),
        Err(_) => {
            first_results();
            misses();
            look_ups();
        }
    }
}

/// The process of a workload: prints the microseconds of its first call and of a later one, and
/// those of the steps of the first.
fn child(workload: &str) {
    let (x, y) = (Tensor::from_slice([1], &[1.0f32]), Tensor::from_slice([1], &[2.0f32]));
    let gpt = (workload == "gpt").then(gpt::Training::new);
    let call = || match workload {
        "loop200" => unrolled(&x, &y).item::<f32>(),
        "loop200 pure" => unrolled_pure(&x, &y).item::<f32>(),
        "deep" => deep(&Tensor::ones([2, 8])).sum((), false).item(),
        "gpt" => gpt.as_ref().expect("made above").step(),
        // A hundred functions that are compiled, by constants of this process.
        _ => (0..100).map(|i| layer(&Tensor::ones([8, 16]), 16, i).sum((), false).item::<f32>()).sum(),
    };
    let before = processor_time("");
    let start = Instant::now();
    let value = call();
    let first = start.elapsed();
    let spent = processor_time("") - before;
    let start = Instant::now();
    let again = call();
    let later = start.elapsed();
    assert!(value.is_finite() && again.is_finite());
    ms::session::flush_cache();
    let stages: Vec<String> = ms::session::compile_report()
        .last()
        .map(|it| it.stages.iter().map(|it| format!("{} {:.0}", it.name, it.time.as_nanos() as f64 / 1e3)).collect())
        .unwrap_or_default();
    let micros = |it: Duration| it.as_nanos() as f64 / 1e3;
    println!("{} {} {} {}", micros(first), micros(later), micros(spent), micros(processor_time("ms-cache")));
    println!("{}", stages.join(", "));
}

/// The time that threads of this name had on a processor; with no name, the main thread.
fn processor_time(name: &str) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        let wanted = match name {
            "" => task.file_name().to_str()? == std::process::id().to_string(),
            name => read("comm")?.trim() == name,
        };
        wanted.then(|| read("schedstat")?.split(' ').next()?.parse::<u64>().ok()).flatten()
    });
    Duration::from_nanos(nanos.sum())
}

/// A directory of its own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ms-warm-start-{}-{name}", std::process::id()));
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a process printed.
struct Run {
    micros: [f64; 4],
    stages: String,
}

fn run(workload: &str, cache: Option<&Path>) -> Run {
    let mut command = Command::new(std::env::current_exe().expect("this runs"));
    command.env(WORKLOAD, workload).env("MS_COMPILER_CACHE_ENABLE", if cache.is_some() { "1" } else { "0" });
    command.env("MS_COMPILER_CACHE_PATH", cache.unwrap_or(Path::new("")));
    let output = command.output().expect("this can be started again");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (numbers, stages) = text.split_once('\n').expect("two lines");
    let mut numbers = numbers.split(' ').map(|it| it.parse().expect("a number"));
    Run { micros: std::array::from_fn(|_| numbers.next().expect("four numbers")), stages: stages.trim().to_owned() }
}

/// The run whose first result took the median time.
fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.micros[0].total_cmp(&b.micros[0]));
    runs.swap_remove(runs.len() / 2)
}

fn first_results() {
    println!(
        "first result of a fresh process, ms: without a cache, cold, warm (a later call); steps of the warm one, us"
    );
    for workload in ["loop200", "loop200 pure", "gpt"] {
        let scratch = Scratch::new("first");
        let mut without = Vec::new();
        let mut cold = Vec::new();
        let mut warm = Vec::new();
        for _ in 0..PROCESSES {
            without.push(run(workload, None));
            let _ = std::fs::remove_dir_all(&scratch.0);
            cold.push(run(workload, Some(&scratch.0)));
            warm.push(run(workload, Some(&scratch.0)));
        }
        let [without, cold, warm] = [without, cold, warm].map(median);
        println!(
            "{workload:<14} {:>9.3} {:>9.3} {:>9.3} ({:.3})   {}\n{:14} of the cold one: {}",
            without.micros[0] / 1e3,
            cold.micros[0] / 1e3,
            warm.micros[0] / 1e3,
            warm.micros[1] / 1e3,
            warm.stages,
            "",
            cold.stages,
        );
    }
}

/// What looking up and writing cost where nothing is found, as processor time.
fn misses() {
    println!("processor time of compiling, ms: without a cache; with an empty one, and in the background");
    for (workload, name) in [("many", "100 small functions"), ("loop200", "loop200"), ("deep", "40 layers, gradient")] {
        let scratch = Scratch::new("misses");
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..PROCESSES {
            without.push(run(workload, None));
            let _ = std::fs::remove_dir_all(&scratch.0);
            with.push(run(workload, Some(&scratch.0)));
        }
        let median = |runs: &[Run], at: usize| {
            let mut all: Vec<f64> = runs.iter().map(|it| it.micros[at]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2] / 1e3
        };
        let (plain, keyed, written) = (median(&without, 2), median(&with, 2), median(&with, 3));
        let more = (keyed + written - plain) / plain * 100.0;
        println!("{name:<20} {plain:>9.3} {keyed:>9.3} {written:>9.3}: {more:+.1} %");
    }
}

/// How long one entry takes to find among many.
fn look_ups() {
    let key = |i: usize| ms_cache::KeyBuilder::new(1).part("graph", &i.to_le_bytes()).finish();
    let scratch = Scratch::new("many");
    let store = ms_cache::Store::open(&scratch.0, &Default::default()).expect("a writable directory");
    let mut have = 0;
    for entries in [10, 100, 1000, 10_000] {
        for i in have..entries {
            let contents = ms_cache::Contents { data: &[7; 2000], code: &[9; 1000], notes: &[] };
            store.put(&key(i), &contents).expect("a writable directory");
        }
        have = entries;
        let mut times: Vec<Duration> = (0..1001)
            .map(|i| {
                let key = key(i * 7919 % entries);
                let start = Instant::now();
                store.get(&key).expect("the entry was put");
                start.elapsed()
            })
            .collect();
        times.sort();
        println!("an entry among {entries:>6}: {:?}", times[times.len() / 2]);
    }
}
