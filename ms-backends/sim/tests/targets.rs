//! Tests that plans for the simulated device differ from those for a processor.

use ms_core::exec::{Backend, CompileOptions};
use ms_core::ops::parse_graph;
use ms_core::optimize::{PassContext, optimize};
use ms_cpu::CpuBackend;
use ms_sim::SimBackend;
use std::path::Path;

/// Returns the plan of a graph on a backend.
fn plan(backend: &dyn Backend, text: &str) -> String {
    let target = backend.target();
    let context =
        PassContext { legal_composites: target.composites.to_vec(), images: target.images, ..PassContext::default() };
    let graph = optimize(parse_graph(text).expect("the graph is well formed"), &context);
    backend.describe(&graph, &CompileOptions::default()).expect("the graph has a plan")
}

/// At least half of the programs with snapshots of plans, training steps of networks among them, have other plans.
#[test]
fn plans_differ_from_those_of_a_processor() {
    let (cpu, sim) = (CpuBackend::new(), SimBackend::new(0).expect("it exists"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ms-core/runtime/tests/lower");
    let (mut equal, mut programs) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).expect("the folder is part of the repository") {
        let path = entry.expect("the folder is readable").path();
        if path.extension().is_some_and(|it| it == "msir") {
            let text = std::fs::read_to_string(&path).expect("a program is readable");
            programs += 1;
            if plan(&cpu, &text) == plan(&sim, &text) {
                equal.push(path.file_stem().expect("a file has a name").to_owned());
            }
        }
    }
    assert!(programs > 30 && 2 * equal.len() <= programs, "{} of {programs} are equal: {equal:?}", equal.len());
}
