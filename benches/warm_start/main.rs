//! Measures the time to the first result of a new process without a compile cache, with a cold one and with a warm one.
//! Also measures the cost of a cold cache, and of a lookup among many entries. `cargo bench --bench warm_start`.

#[path = "../common/gpt.rs"]
mod gpt;

use ms::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The environment variable with the workload of a child process.
const WORKLOAD: &str = "MS_WARM_START_WORKLOAD";

/// The number of processes for a median.
const PROCESSES: usize = 21;

/// The measurement time of later calls; the same as in `peers/warm_start.py`.
const LATER: Duration = Duration::from_millis(200);

/// A host loop of 200 iterations, unrolled.
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
    let y = (x.square().sum(keepdims(-1)) + width as f64).sqrt();
    ops::gelu_tanh(x / y)
}

/// Computes the gradient of forty layers.
#[jit]
fn deep(x: &Tensor) -> Tensor {
    let layers = |x: &Tensor| {
        let layer = |x: Tensor, i: usize| ops::softmax(ops::gelu_tanh(&x * (1.0 + i as f64 / 40.0)), -1) + x;
        (0..40).fold(x.clone(), layer).square().sum(())
    };
    ms::grad(layers)(x)
}

fn main() {
    match std::env::var(WORKLOAD) {
        Ok(workload) => child(&workload),
        Err(_) => {
            let scratch = Scratch::new();
            first_results(&scratch);
            misses(&scratch);
            look_ups(&scratch);
        }
    }
}

/// The body of a workload's process. Prints the microseconds of its first call and the median of later calls. Prints
/// the processor time of the first call on the calling thread, and on all threads including background writes and the
/// end of the process. Finally prints the stages of the first call.
fn child(workload: &str) {
    let (x, y) = (Tensor::from_slice([1], &[1.0f32]), Tensor::from_slice([1], &[2.0f32]));
    let gpt = (workload == "gpt").then(gpt::Training::new);
    let call = || match workload {
        "loop200" => unrolled(&x, &y).item::<f32>(),
        "loop200 pure" => unrolled_pure(&x, &y).item::<f32>(),
        "deep" => deep(&Tensor::ones([2, 8])).sum(()).item(),
        "gpt" => gpt.as_ref().expect("made above").step(),
        // A hundred functions, each compiled with a constant unique to this process.
        _ => (0..100).map(|i| layer(&Tensor::ones([8, 16]), 16, i).sum(()).item::<f32>()).sum(),
    };
    let micros = |it: Duration| it.as_nanos() as f64 / 1e3;
    let before = [processor(ClockId::ThreadCPUTime), processor(ClockId::ProcessCPUTime)];
    let start = Instant::now();
    let value = call();
    let first = start.elapsed();
    let here = processor(ClockId::ThreadCPUTime) - before[0];
    // Background writes must not overlap the later calls.
    ms::flush_cache();
    let spent = processor(ClockId::ProcessCPUTime);
    let later = later(call);
    let spent = processor(ClockId::ProcessCPUTime) - spent;
    assert!(value.is_finite());
    let stages: Vec<String> = ms::compile_report()
        .last()
        .map(|it| it.stages.iter().map(|it| format!("{} {:.0}", it.name, micros(it.time))).collect())
        .unwrap_or_default();
    // Registered so that it runs after the cache has finished all its work.
    ms_cache::at_end(move || {
        let all = processor(ClockId::ProcessCPUTime) - before[1] - spent;
        println!("{} {} {} {}", micros(first), micros(later), micros(here), micros(all));
        println!("{}", stages.join(", "));
    });
}

/// Returns the median time of the calls during [`LATER`].
fn later(call: impl Fn() -> f32) -> Duration {
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 3 || begin.elapsed() < LATER {
        let start = Instant::now();
        assert!(call().is_finite());
        times.push(start.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

/// Returns the processor time so far.
fn processor(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A scratch directory of this process, removed at the end. Nothing is removed earlier: after many removals, some file
/// systems take milliseconds to create the next file.
struct Scratch(PathBuf, Cell<usize>);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("ms-warm-start-{}", std::process::id()));
        std::fs::create_dir(&path).expect("no other process has this number");
        Self(path, Cell::new(0))
    }

    /// Returns a path that does not exist yet.
    fn fresh(&self) -> PathBuf {
        self.0.join(self.1.replace(self.1.get() + 1).to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output of a process.
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

/// Returns the run with the median time to the first result.
fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.micros[0].total_cmp(&b.micros[0]));
    runs.swap_remove(runs.len() / 2)
}

fn first_results(scratch: &Scratch) {
    println!(
        "first result of a fresh process, ms: without a cache, cold, warm (a later call); steps of the warm one, us"
    );
    for workload in ["loop200", "loop200 pure", "gpt"] {
        let mut without = Vec::new();
        let mut cold = Vec::new();
        let mut warm = Vec::new();
        for _ in 0..PROCESSES {
            without.push(run(workload, None));
            let cache = scratch.fresh();
            cold.push(run(workload, Some(&cache)));
            warm.push(run(workload, Some(&cache)));
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

/// Measures lookup and write on a cache miss, in processor time.
fn misses(scratch: &Scratch) {
    println!("processor time of compiling, ms, without a cache and with an empty one: of the caller, of all threads");
    for (workload, name) in [("many", "100 small functions"), ("loop200", "loop200"), ("deep", "40 layers, gradient")] {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..PROCESSES {
            without.push(run(workload, None));
            with.push(run(workload, Some(&scratch.fresh())));
        }
        let median = |runs: &[Run], at: usize| {
            let mut all: Vec<f64> = runs.iter().map(|it| it.micros[at]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2] / 1e3
        };
        print!("{name:<20}");
        for at in [2, 3] {
            let (plain, keyed) = (median(&without, at), median(&with, at));
            print!(" {plain:>9.3} {keyed:>9.3} {:+6.1} %", (keyed / plain - 1.0) * 100.0);
        }
        println!();
    }
}

/// Measures the lookup of one entry among many.
fn look_ups(scratch: &Scratch) {
    let key = |i: usize| ms_cache::KeyBuilder::new(1).part("graph", &i.to_le_bytes()).finish();
    let store = ms_cache::Store::open(scratch.fresh(), &Default::default()).expect("a writable directory");
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
