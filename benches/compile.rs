//! Measures compilation, from the start of the trace to the executable: `cargo bench --bench compile`. Each figure is
//! the median over new processes, so nothing is cached. It is given in wall-clock time and in processor time, which is
//! independent of other load. `-- -v` also prints the stages and passes.

#[path = "../tests/common/gpt.rs"]
mod gpt;

use gpt::{lazy, plain};
use ms::prelude::*;
use std::process::Command;
use std::time::Instant;

/// Processes per figure.
const PROCESSES: usize = 5;

/// Layers and micro-batches of the large graph. Without sharing, its forward and gradient have 135,000 nodes, like
/// MindSpore's example of `lazy_inline`.
const LAYERS: usize = 40;
const PARTS: usize = 13;

/// The measurements of one process.
#[derive(Clone, Copy, Default)]
struct Figures {
    /// The wall-clock time of the first call.
    first_ms: f64,
    /// The processor time of the first call, minus a run.
    cpu_ms: f64,
    /// The total time of the compilation stages.
    compile_ms: f64,
    /// The time of the trace, which is one of these stages.
    trace_ms: f64,
    /// The time of a later call.
    run_ms: f64,
    /// Nodes and graphs after expansion of the transforms, and nodes without sharing.
    nodes: f64,
    graphs: f64,
    unshared: f64,
}

impl Figures {
    /// Collects the figures of the latest compilation of a function.
    fn of(name: &str, first: Spent, run: Spent) -> Self {
        let reports = ms::compile_report();
        let report = reports.iter().rev().find(|it| it.name == name).expect("just compiled");
        if std::env::args().any(|it| it == "-v") {
            eprintln!("{report}");
        }
        let millis = |name: &str| report.stage(name).map_or(0.0, |it| it.time.as_secs_f64() * 1e3);
        let size = report.stage("expand").and_then(|it| it.graph).expect("it gives a graph").size;
        Self {
            first_ms: first.wall,
            cpu_ms: first.cpu - run.cpu,
            compile_ms: report.time().as_secs_f64() * 1e3,
            trace_ms: millis("trace"),
            run_ms: run.wall,
            nodes: size.nodes as f64,
            graphs: size.graphs as f64,
            unshared: size.unshared as f64,
        }
    }

    fn fields(&mut self) -> [&mut f64; 8] {
        let Self { first_ms, cpu_ms, compile_ms, trace_ms, run_ms, nodes, graphs, unshared } = self;
        [first_ms, cpu_ms, compile_ms, trace_ms, run_ms, nodes, graphs, unshared]
    }

    fn print(mut self) {
        println!("{}", self.fields().map(|it| it.to_string()).join(" "));
    }

    fn parse(text: &str) -> Self {
        let mut figures = Self::default();
        let numbers = text.split_whitespace().map(|it| it.parse().expect("a number"));
        figures.fields().into_iter().zip(numbers).for_each(|(field, number)| *field = number);
        figures
    }

    /// Computes the median of every figure over new processes with these arguments.
    fn of_processes(arguments: &[&str]) -> Self {
        let verbose = std::env::args().any(|it| it == "-v");
        let one = |i: usize| {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["one"]).args(arguments).args((verbose && i == 0).then_some("-v"));
            let output = command.stderr(std::process::Stdio::inherit()).output().expect("it starts");
            assert!(output.status.success(), "{arguments:?}");
            Self::parse(&String::from_utf8_lossy(&output.stdout))
        };
        let mut all: Vec<Self> = (0..PROCESSES).map(one).collect();
        let mut median = all[0];
        for (i, field) in median.fields().into_iter().enumerate() {
            let mut values: Vec<f64> = all.iter_mut().map(|it| *it.fields()[i]).collect();
            values.sort_by(f64::total_cmp);
            *field = values[PROCESSES / 2];
        }
        median
    }
}

/// A duration in milliseconds.
#[derive(Clone, Copy)]
struct Spent {
    wall: f64,
    /// The processor time of this thread.
    cpu: f64,
}

/// Returns the processor time of this thread in milliseconds; NaN if the system does not report it.
fn cpu() -> f64 {
    // The system updates the count when the thread yields.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|it| it.parse::<f64>().ok()).map_or(f64::NAN, |it| it * 1e-6)
}

fn spent<R>(run: impl FnOnce() -> R) -> Spent {
    let before = cpu();
    let start = Instant::now();
    run();
    let wall = start.elapsed().as_secs_f64() * 1e3;
    Spent { wall, cpu: cpu() - before }
}

/// Returns the shortest of `times` runs.
fn shortest<R>(times: usize, mut run: impl FnMut() -> R) -> Spent {
    let all = (0..times).map(|_| spent(&mut run));
    all.min_by(|a, b| a.wall.total_cmp(&b.wall)).expect("at least one")
}

macro_rules! gradients {
    ($($name:ident: $model:ident;)*) => {$(
        #[jit]
        fn $name(net: &$model::Gpt, tokens: &Tensor) -> (Tensor, Vec<Tensor>) {
            let loss = |net: &$model::Gpt, tokens: &Tensor| ops::mean(net.call(tokens).square(), ());
            let (value, gradients) = ms::value_and_grad(loss)(net, tokens);
            (value, gradients.iter().map(|it| it.1.clone()).collect())
        }
    )*};
}

gradients! {
    of_plain: plain;
    of_lazy: lazy;
}

/// Measures forward and gradient of a transformer with `count` blocks.
fn blocks(kind: &str, count: usize) -> Figures {
    let tokens = &random::randint([2, 16], 0, 50);
    macro_rules! measure {
        ($model:ident, $function:ident) => {{
            // A first compilation absorbs the one-time costs of a process.
            $function(&$model::Gpt::new(1, 50, 16), tokens);
            let net = $model::Gpt::new(count, 50, 32);
            let first = spent(|| $function(&net, tokens));
            let run = shortest(11, || $function(&net, tokens));
            Figures::of(stringify!($function), first, run)
        }};
    }
    if kind == "lazy" { measure!(lazy, of_lazy) } else { measure!(plain, of_plain) }
}

/// A transformer over micro-batches; the total is the size of its graphs without sharing.
#[cell]
struct Loss {
    net: lazy::Gpt,
}

#[cell]
impl Loss {
    fn construct(&self, tokens: &Tensor) -> Tensor {
        ops::mean(self.net.call(tokens).square(), ())
    }
}

#[jit]
fn pipeline(net: &nn::PipelineCell<Loss>, tokens: &Tensor) -> Vec<Tensor> {
    let gradients = ms::grad(|net: &nn::PipelineCell<Loss>, tokens: &Tensor| net.call(tokens))(net, tokens);
    gradients.iter().map(|it| it.1.clone()).collect()
}

/// Measures layers over micro-batches, with or without sharing.
fn large(share_graphs: bool) -> Figures {
    ms::with_context(Context { share_graphs, ..ms::context() }, || {
        let make = |layers: usize, parts: usize| {
            let net = nn::PipelineCell::new(Loss { net: lazy::Gpt::new(layers, 50, 8) }, parts);
            (net, random::randint([parts, 4], 0, 50))
        };
        let (net, tokens) = make(1, 2);
        pipeline(&net, &tokens);
        let (net, tokens) = make(LAYERS, PARTS);
        let first = spent(|| pipeline(&net, &tokens));
        let run = shortest(5, || pipeline(&net, &tokens));
        Figures::of("pipeline", first, run)
    })
}

#[jit]
fn long(x: &Tensor) -> Tensor {
    (0..100_000).fold(x.clone(), |y, i| if i % 2 == 0 { y + x } else { y * 0.5 })
}

/// Measures a host loop of 100,000 iterations.
fn host_loop() -> Figures {
    let first = spent(|| assert_eq!(long(&Tensor::scalar(1.0)).item::<f32>(), 1.0));
    Figures::of("long", first, shortest(3, || long(&Tensor::scalar(1.0))))
}

#[jit]
fn doubled(xs: &Vec<Tensor>) -> Vec<Tensor> {
    xs.iter().map(|it| it + it).collect()
}

#[jit]
fn given_up(xs: Vec<Tensor>) -> Vec<Tensor> {
    xs.iter().map(|it| it * 2.0).collect()
}

#[jit]
fn stacked(xs: &Vec<Tensor>) -> Tensor {
    ops::stack(xs, 0)
}

#[jit]
fn gradient(xs: &Vec<Tensor>) -> Vec<Tensor> {
    ms::grad(|xs: &Vec<Tensor>| xs.iter().fold(Tensor::scalar(0.0), |sum, it| sum + it * it))(xs)
}

/// Functions of lists of tensors.
const LISTS: [&str; 4] = ["doubled", "given_up", "stacked", "gradient"];

/// Measures a function of a list of `count` tensors.
fn list(name: &str, count: usize) -> Figures {
    let run = |xs: &Vec<Tensor>| {
        let last = xs.len() - 1;
        let given = match name {
            "doubled" => doubled(xs).swap_remove(last),
            "given_up" => given_up(xs.iter().map(|it| it + 0.0).collect()).swap_remove(last),
            "stacked" => stacked(xs).at(last) * 2.0,
            _ => gradient(xs).swap_remove(last),
        };
        assert_eq!(given.item::<f32>(), 2.0 * xs[last].item::<f32>());
    };
    let make = |count: usize| -> Vec<Tensor> { (0..count).map(|it| Tensor::scalar((it % 7) as f32)).collect() };
    run(&make(2));
    let xs = make(count);
    let first = spent(|| run(&xs));
    Figures::of(name, first, shortest(3, || run(&xs)))
}

/// Prints the run time of one training gradient with sharing relative to without, as the median over pairs.
fn pairs() {
    for blocks in [6, 12] {
        let tokens = &random::randint([8, 32], 0, 50);
        let net = lazy::Gpt::new(blocks, 50, 64);
        let run = |share_graphs: bool| {
            ms::with_context(Context { share_graphs, ..ms::context() }, || spent(|| of_lazy(&net, tokens)).wall)
        };
        for share in [true, false, true, false] {
            run(share);
        }
        let mut ratios: Vec<f64> = (0..61).map(|_| run(true) / run(false)).collect();
        ratios.sort_by(f64::total_cmp);
        println!("{blocks} blocks: run time with sharing {:.3} of that without (median of 61 pairs)", ratios[30]);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|it| it == "one") {
        return match &arguments[at + 1..] {
            [kind, count, ..] if kind == "plain" || kind == "lazy" => {
                blocks(kind, count.parse().expect("a number of blocks")).print();
            }
            [name, count, ..] if LISTS.contains(&name.as_str()) => {
                list(name, count.parse().expect("a number of tensors")).print();
            }
            [kind, share, ..] if kind == "large" => large(share == "shared").print(),
            _ => host_loop().print(),
        };
    }
    println!("forward and gradient of a transformer of L blocks, D = 32; ms, medians of {PROCESSES} processes");
    println!(
        "{:>4} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>9}",
        "L", "", "compile", "processor", "tracing", "1st call", "later", "nodes", "graphs", "unshared"
    );
    for count in ["6", "12", "24", "48", "96"] {
        for kind in ["plain", "lazy"] {
            let it = Figures::of_processes(&[kind, count]);
            println!(
                "{count:>4} {kind:>6} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>7} {:>7} {:>9}",
                it.compile_ms, it.cpu_ms, it.trace_ms, it.first_ms, it.run_ms, it.nodes, it.graphs, it.unshared
            );
        }
    }
    for share in ["shared", "unshared"] {
        let it = Figures::of_processes(&["large", share]);
        println!(
            "{LAYERS} layers over {PARTS} parts, {share}: {} nodes, {} without sharing; compiled in {:.1} ms ({:.1} of the processor), later calls {:.1} ms",
            it.nodes, it.unshared, it.compile_ms, it.cpu_ms, it.run_ms
        );
    }
    let it = Figures::of_processes(&["loop"]);
    println!(
        "a host loop of 100,000 iterations: {} nodes compiled in {:.1} ms ({:.1} of the processor)",
        it.nodes, it.compile_ms, it.cpu_ms
    );
    println!("functions of lists of tensors");
    println!("{:>8} {:>9} {:>9} {:>9} {:>9} {:>9}", "", "tensors", "compile", "processor", "1st call", "later");
    for name in LISTS {
        for count in ["10000", "40000", "100000"] {
            let it = Figures::of_processes(&[name, count]);
            let [compile, processor, first, later] = [it.compile_ms, it.cpu_ms, it.first_ms, it.run_ms];
            println!("{name:>8} {count:>9} {compile:>9.0} {processor:>9.0} {first:>9.0} {later:>9.1}");
        }
    }
    pairs();
}
