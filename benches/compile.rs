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
}
