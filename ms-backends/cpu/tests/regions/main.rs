//! Tests plans of graphs with regions (branches, loops and calls) against the reference.

mod by_hand;
mod loops;
mod random;

use ms_compile::exec::{Backend, CompileOptions, reference};
use ms_compile::lower::{LowerOptions, lower};
use ms_core::optimize::{PassContext, optimize};
use ms_cpu::{CpuBackend, Isa, TARGET};
use ms_ir::Graph;
use ms_ir::data::Array;
use ms_ops::ops;

/// Returns whether two results are bitwise equal, except for NaNs.
fn equal(a: &Array, b: &Array) -> bool {
    let same = |(a, b): (f64, f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    let of = |it: &Array| {
        it.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64()).collect::<Vec<_>>()
    };
    a.shape() == b.shape() && a.dtype() == b.dtype() && of(a).into_iter().zip(of(b)).all(same)
}

/// Runs a graph with every option on several inputs, twice each because a plan's memory is reused.
fn check(graph: &Graph, inputs: &[Vec<Array>]) {
    ops::verify(graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    let optimized = optimize(graph.clone(), &PassContext::default());
    let calls = optimize(graph.clone(), &PassContext { inline_limit: 0, ..PassContext::default() });
    let isas = [Isa::Interp, Isa::Avx2, Isa::Avx512].into_iter().filter(|it| it.is_supported());
    let mut ways = Vec::new();
    for isa in isas {
        ways.push((isa, true, graph));
        ways.push((isa, true, &optimized));
    }
    ways.extend([(Isa::detect(), false, graph), (Isa::detect(), false, &calls), (Isa::detect(), true, &calls)]);
    for (isa, fuse, graph) in ways {
        let backend = CpuBackend::with_isa(isa).expect("the instruction set is one of this machine");
        let plan = lower(graph, &LowerOptions { fuse, ..LowerOptions::default() }, &TARGET)
            .unwrap_or_else(|error| panic!("{error}\n{graph}"));
        let text = plan.display().to_string();
        let options = CompileOptions::default();
        let artifact = backend.compile_plan(plan, &options).expect("the plan compiles");
        // SAFETY: the plan was lowered from a valid graph by `lower`.
        let executable = unsafe { backend.load(&artifact) };
        let executable = executable.unwrap_or_else(|error| panic!("{error}\n{text}"));
        for inputs in inputs.iter().chain(inputs) {
            let inputs: Vec<&Array> = inputs.iter().collect();
            let expected = reference(graph.clone()).run(&inputs).expect("the reference runs everything");
            let found = executable.run(&inputs).unwrap_or_else(|error| panic!("{error}\n{graph}\n{text}"));
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let values = |it: &Array| {
                    format!("{:?} {:?}", it.shape(), it.on_host().expect("the elements are readable").scalars())
                };
                assert!(
                    equal(found, expected),
                    "output {i} on {isa}, fuse {fuse}: {} is not {}\nof {inputs:?}\n{graph}\n{text}",
                    values(found),
                    values(expected)
                );
            }
        }
    }
}

fn f32s(shape: &[usize], data: &[f32]) -> Array {
    Array::from_slice(shape, data)
}

fn scalar(value: f32) -> Array {
    f32s(&[], &[value])
}

fn int(value: i64) -> Array {
    Array::from_slice(&[], &[value])
}

fn flag(value: bool) -> Array {
    Array::from_slice(&[], &[value])
}
