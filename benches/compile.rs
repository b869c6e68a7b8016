//! What compiling costs: forward and gradient of a transformer of L blocks, from the first line of
//! the trace to the executable, with and without `#[lazy_inline]`. `cargo bench --bench compile`.

#[path = "../tests/common/gpt.rs"]
mod gpt;

use gpt::{lazy, plain};
use ms::prelude::*;
use std::time::Instant;

macro_rules! measure {
    ($model:ident, $blocks:expr, $tokens:expr) => {{
        #[jit]
        fn gradients(net: &$model::Gpt, tokens: &Tensor) -> (Tensor, Vec<Tensor>) {
            let loss = |net: &$model::Gpt, tokens: &Tensor| ops::mean(net.call(tokens).square(), (), false);
            let (value, gradients) = ms::value_and_grad(loss)(net, tokens);
            (value, gradients.iter().map(|it| it.1.clone()).collect())
        }
        let net = $model::Gpt::new($blocks, 50, 32);
        let start = Instant::now();
        gradients(&net, $tokens);
        let first = start.elapsed().as_secs_f64() * 1e3;
        let report = ms::compile_report().pop().expect("just compiled");
        let mut runs: Vec<f64> = (0..21)
            .map(|_| {
                let start = Instant::now();
                gradients(&net, $tokens);
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        runs.sort_by(f64::total_cmp);
        (first, report, runs[10])
    }};
}

/// A transformer over the parts of a batch: the whole is as large as its graphs without sharing.
#[cell]
struct Loss {
    net: lazy::Gpt,
}

#[cell]
impl Loss {
    fn construct(&self, tokens: &Tensor) -> Tensor {
        ops::mean(self.net.call(tokens).square(), (), false)
    }
}

#[jit]
fn pipeline(net: &nn::PipelineCell<Loss>, tokens: &Tensor) -> Vec<Tensor> {
    let gradients = ms::grad(|net: &nn::PipelineCell<Loss>, tokens: &Tensor| net.call(tokens))(net, tokens);
    gradients.iter().map(|it| it.1.clone()).collect()
}

#[jit]
fn long(x: &Tensor) -> Tensor {
    (0..100_000).fold(x.clone(), |y, i| if i % 2 == 0 { y + x } else { y * 0.5 })
}

/// 40 layers over micro-batches, with sharing and without, and a host loop of 100,000 iterations.
fn large() {
    for share_graphs in [true, false] {
        let net = nn::PipelineCell::new(Loss { net: lazy::Gpt::new(40, 50, 8) }, 16);
        let tokens = random::randint([16, 4], 0, 50);
        ms::with_context(Context { share_graphs, ..ms::context() }, || {
            let start = Instant::now();
            pipeline(&net, &tokens);
            let first = start.elapsed();
            let report = ms::compile_report().pop().expect("just compiled");
            println!("40 layers over 16 parts, sharing {share_graphs}, first call {first:.1?}\n{report}");
        });
    }
    let start = Instant::now();
    let result = long(&Tensor::scalar(1.0)).item::<f32>();
    println!("a host loop of 100,000 iterations: {:.1?} (= {result})", start.elapsed());
    println!("{}", ms::compile_report().pop().expect("just compiled"));
}

/// The run time of one training gradient with sharing over that without, as the median of pairs.
fn pairs() {
    for blocks in [6, 12] {
        let tokens = &random::randint([8, 32], 0, 50);
        let net = lazy::Gpt::new(blocks, 50, 64);
        let run = |share_graphs: bool| {
            ms::with_context(Context { share_graphs, ..ms::context() }, || {
                let start = Instant::now();
                gradients_of(&net, tokens);
                start.elapsed().as_secs_f64()
            })
        };
        for share in [true, false, true, false] {
            run(share);
        }
        let mut ratios: Vec<f64> = (0..61).map(|_| run(true) / run(false)).collect();
        ratios.sort_by(f64::total_cmp);
        println!("{blocks} blocks: run time with sharing {:.3} of that without", ratios[30]);
    }
}

#[jit]
fn gradients_of(net: &lazy::Gpt, tokens: &Tensor) -> Vec<Tensor> {
    let loss = |net: &lazy::Gpt, tokens: &Tensor| ops::mean(net.call(tokens).square(), (), false);
    ms::grad(loss)(net, tokens).iter().map(|it| it.1.clone()).collect()
}

fn main() {
    let tokens = &random::randint([2, 16], 0, 50);
    // Once for what the first compilation of a process pays.
    measure!(plain, 1, tokens);
    println!(
        "{:>3} {:>6} {:>10} {:>10} {:>8} {:>8} {:>10}",
        "L", "", "first ms", "compile ms", "nodes", "graphs", "run ms"
    );
    let verbose = std::env::args().any(|it| it == "-v");
    for blocks in [6, 12, 24, 48, 96] {
        for (name, (first, report, run)) in
            [("plain", measure!(plain, blocks, tokens)), ("lazy", measure!(lazy, blocks, tokens))]
        {
            let size = report.stage("trace").and_then(|it| it.graph).expect("a trace gives a graph").size;
            let compile = report.time().as_secs_f64() * 1e3;
            println!(
                "{blocks:>3} {name:>6} {first:>10.2} {compile:>10.2} {:>8} {:>8} {run:>10.3}",
                size.nodes, size.graphs
            );
            if verbose {
                println!("{report}");
            }
        }
    }
    pairs();
    large();
}
