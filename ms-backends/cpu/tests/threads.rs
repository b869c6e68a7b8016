//! Results do not depend on the number of threads.

use ms_core::exec::{Backend, CompileOptions};
use ms_core::ir::Precision;
use ms_core::ops::parse_graph;
use ms_core::tensor::Array;
use ms_cpu::{CpuBackend, Isa, threads};
use std::process::Command;

/// Positions, one-hot rows and a mask made of positions, random numbers, and their reductions, each of a
/// million elements.
const GRAPH: &str = "graph @main(%x: f32[1000003], %classes: i64[1000, 1])
    -> (f32[1000003], i64[1000, 1000], bool[1000, 1000], f32[1000003], f32[1000003], f32[], f32[], i64[3]) {
  %i = iota {shape = [1000003], axis = 0, start = 0.5, step = 0.25, dtype = f32} : f32[1000003]
  %columns = iota {shape = [1000, 1000], axis = 1, start = 0, step = 1, dtype = i64} : i64[1000, 1000]
  %hot = equal %columns, %classes : bool[1000, 1000]
  %n = iota {shape = [1000003], axis = 0, start = 0, step = 1, dtype = i64} : i64[1000003]
  %factor = constant {value = i64[](2654435761)} : i64[]
  %mixed = mul %n, %factor : i64[1000003]
  %bits = constant {value = i64[](65535)} : i64[]
  %low = bitwise_and %mixed, %bits : i64[1000003]
  %rate = constant {value = i64[](20000)} : i64[]
  %drop = less %low, %rate : bool[1000003]
  %zero = constant {value = f32[](0)} : f32[]
  %kept = select %drop, %zero, %x : f32[1000003]
  %state = constant {value = u64[2](7, 3)} : u64[2]
  %u = random_uniform %state {shape = [1000003], dtype = f32, low = -1.0, high = 2.0} : f32[1000003]
  %scaled = mul %kept, %u : f32[1000003]
  %squares = mul %scaled, %scaled : f32[1000003]
  %sum = sum %squares {axes = [0], keepdims = false} : f32[]
  %half = constant {value = f32[](0.5)} : f32[]
  %loss = mul %sum, %half : f32[]
  %largest = max %scaled {axes = [0], keepdims = false} : f32[]
  %rows = iota {shape = [3, 400001], axis = 1, start = 5, step = 3, dtype = i64} : i64[3, 400001]
  %sums = sum %rows {axes = [1], keepdims = false} : i64[3]
  return %i, %columns, %hot, %kept, %scaled, %loss, %largest, %sums
}";

/// Hashes of the results of the graph.
fn results(isa: Isa, precision: Precision) -> String {
    let graph = parse_graph(GRAPH).unwrap_or_else(|error| panic!("{error}"));
    let backend = CpuBackend::with_isa(isa).expect("the instruction set is one of this machine");
    let options = CompileOptions { precision, ..CompileOptions::default() };
    let artifact = backend.compile(&graph, &options).expect("the graph compiles");
    // SAFETY: the backend compiled it.
    let executable = unsafe { backend.load(&artifact, &options) }.expect("the plan is well formed");
    let x: Vec<f32> = (0..1_000_003).map(|it| it as f32).collect();
    let classes: Vec<i64> = (0..1000).map(|it| it * 7 % 1000).collect();
    let inputs = [Array::from_slice(&[x.len()], &x), Array::from_slice(&[1000, 1], &classes)];
    let outputs = executable.run(&[&inputs[0], &inputs[1]]).expect("the graph runs");
    let columns: Vec<i64> = outputs[1].on_host().expect("the elements are readable").iter().collect();
    assert!(columns.iter().enumerate().all(|(at, it)| *it == at as i64 % 1000), "positions are right on {isa}");
    let hash = |bytes: &[u8]| {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, it| (hash ^ u64::from(*it)).wrapping_mul(0x0100_0000_01b3))
    };
    let hashes: Vec<String> = outputs
        .iter()
        .map(|it| format!("{:x}", hash(&it.on_host().expect("the elements are readable").to_bytes())))
        .collect();
    hashes.join(" ")
}

#[test]
#[ignore = "`generated_values_do_not_depend_on_threads` starts it, once for each number of threads"]
fn in_a_process() {
    println!("threads {}", threads::count());
    for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
        let [strict, highest] = [Precision::Strict, Precision::Highest].map(|it| results(isa, it));
        println!("results {strict} {highest}");
    }
}

#[test]
fn generated_values_do_not_depend_on_threads() {
    let mut seen: Vec<String> = Vec::new();
    for threads in ["1", "2", "8"] {
        let output = Command::new(std::env::current_exe().expect("the test runs"))
            .args(["--exact", "in_a_process", "--ignored", "--nocapture"])
            .env("MS_NUM_THREADS", threads)
            .output()
            .expect("the test starts again");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(&format!("threads {threads}\n")), "{text}");
        seen.extend(text.lines().filter(|it| it.contains("results ")).map(|it| it.to_owned()));
    }
    assert!(seen.len() >= 3, "{seen:?}");
    let first = seen[0].clone();
    assert!(seen.iter().all(|it| *it == first), "{seen:?}");
}
