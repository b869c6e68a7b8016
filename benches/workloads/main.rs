//! The workloads that `peers/workloads.py` compares with other frameworks.
//! `cargo bench --bench workloads -- [--json | --profile] [--seconds N] [WORKLOAD ..]`
//!
//! A line of `--json` has the fields of the peers: the workload, the seconds of the first call, which compiles, the
//! median microseconds of later calls, and the number of threads. Further fields are the operations and bytes that any
//! implementation needs, and their roofline time in microseconds. The roofline of this machine is measured in the same
//! process. The last field is the number of steps that ran by reference evaluation.
//!
//! `--profile` prints the profile of a call instead. With `--serve`, each line of standard input is a workload and a
//! number of seconds. Compiled functions are cached between lines, so several processes can be measured by turns.
//! `--list` prints the names.

mod decode;
#[path = "../common/gpt.rs"]
mod gpt;
mod networks;
mod resnet;
mod simple;

use ms::Work;
use std::collections::HashMap;
use std::io::BufRead;
use std::time::{Duration, Instant};

/// A named workload.
struct Workload {
    name: &'static str,
    /// Prepares the workload and returns a function that runs it once.
    make: fn() -> Box<dyn FnMut()>,
    /// The work that any implementation has to do.
    needs: Work,
}

/// Returns the work of a workload, independent of its implementation. `operations` counts additions and
/// multiplications; a function such as `exp` counts as ten. `numbers` counts the f32 numbers in memory, each once.
const fn needs(operations: usize, numbers: usize) -> Work {
    Work { operations: operations as u64, bytes: 4 * numbers as u64 }
}

/// A prepared workload, and the time of its first call.
struct Prepared {
    call: Box<dyn FnMut()>,
    first: Duration,
}

impl Prepared {
    fn new(workload: &Workload) -> Self {
        let mut call = (workload.make)();
        let start = Instant::now();
        call();
        Self { call, first: start.elapsed() }
    }

    /// Returns the median time of a call, measured over this many seconds.
    fn median(&mut self, seconds: f64) -> f64 {
        let timed = |call: &mut dyn FnMut(), calls: u32| {
            let start = Instant::now();
            (0..calls).for_each(|_| call());
            start.elapsed().as_secs_f64() / f64::from(calls)
        };
        let one = (0..3).map(|_| timed(&mut self.call, 1)).fold(f64::INFINITY, f64::min);
        // Short calls are timed in batches, since reading the clock takes as long as one call.
        let calls = (20e-6 / one).clamp(1.0, 1000.0) as u32;
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.len() < 5 || start.elapsed().as_secs_f64() < seconds {
            times.push(timed(&mut self.call, calls));
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

/// The parsed command-line arguments.
struct Options {
    json: bool,
    serve: bool,
    list: bool,
    profile: bool,
    seconds: f64,
    wanted: Vec<String>,
}

impl Options {
    fn of_arguments() -> Self {
        let mut options =
            Self { json: false, serve: false, list: false, profile: false, seconds: 1.0, wanted: Vec::new() };
        let mut arguments = std::env::args().skip(1);
        while let Some(it) = arguments.next() {
            match it.as_str() {
                "--bench" => {}
                "--json" => options.json = true,
                "--serve" => options.serve = true,
                "--list" => options.list = true,
                "--profile" => options.profile = true,
                "--seconds" => {
                    let seconds = arguments.next().and_then(|it| it.parse().ok());
                    options.seconds = seconds.expect("`--seconds` is followed by a number");
                }
                _ => options.wanted.push(it),
            }
        }
        options
    }
}

fn main() {
    let options = Options::of_arguments();
    let workloads: Vec<Workload> =
        [simple::workloads(), networks::workloads(), decode::workloads()].into_iter().flatten().collect();
    let find = |name: &str| {
        let known = || workloads.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
        workloads.iter().find(|it| it.name == name).unwrap_or_else(|| panic!("`{name}` is none of {}", known()))
    };
    if options.list {
        return workloads.iter().for_each(|it| println!("{}", it.name));
    }
    let report = |workload: &Workload, prepared: &mut Prepared, seconds: f64| {
        if options.profile {
            // Warm up, so that packed operands are cached.
            prepared.median(seconds);
        }
        let ((), profile) = ms::profile(&mut prepared.call);
        if options.profile {
            return println!("{}: {profile}", workload.name);
        }
        let us = prepared.median(seconds) * 1e6;
        let roof = ms::roof().expect("the processor's is measured");
        let Work { operations, bytes } = workload.needs;
        let roof_us = roof.time(workload.needs).as_secs_f64() * 1e6;
        let (name, first, threads) = (workload.name, prepared.first.as_secs_f64(), ms_cpu::threads::count());
        if options.json || options.serve {
            println!(
                "{{\"peer\": \"ms\", \"workload\": \"{name}\", \"cold_s\": {first:.5}, \"us\": {us:.3}, \"threads\": \
                 {threads}, \"operations\": {operations}, \"bytes\": {bytes}, \"roof_us\": {roof_us:.3}, \"by_reference\": {}}}",
                profile.by_reference
            );
        } else {
            println!("{name:<22} first {:>10.1} us, later {us:>12.3} us, roof {roof_us:>12.3} us", first * 1e6);
        }
    };
    if options.serve {
        let mut prepared: HashMap<&str, Prepared> = HashMap::new();
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("standard input is text");
            let (name, seconds) = line.trim().split_once(' ').expect("a line is a workload and seconds");
            let (workload, seconds) = (find(name), seconds.parse().expect("a number of seconds"));
            report(workload, prepared.entry(workload.name).or_insert_with(|| Prepared::new(workload)), seconds);
        }
        return;
    }
    let all = options.wanted.is_empty();
    for workload in workloads.iter().filter(|it| all || options.wanted.iter().any(|wanted| wanted == it.name)) {
        report(workload, &mut Prepared::new(workload), options.seconds);
    }
    options.wanted.iter().for_each(|it| _ = find(it));
}
