//! Measures branches and loops: compilation, the first call, and later calls. `cargo bench -p ms-cpu --bench regions`.

use ms_compile::exec::{Backend, CompileOptions, Executable};

use ms_compile::lower::{LowerOptions, lower};
use ms_core::optimize::{PassContext, optimize};
use ms_cpu::{CpuBackend, TARGET};
use ms_ir::data::Array;
use ms_ops::ops::parse_graph;
use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of repetitions. The medians are printed.
const ROUNDS: usize = 31;

/// Builds `for _ in 0..100 { if x < y { x = x - y } else { x = x + y }  out = out + x }`.
fn branches(shape: &str) -> String {
    let mut text = format!(
        "graph @yes(%x: f32{shape}, %y: f32{shape}) -> (f32{shape}) {{ %z = sub %x, %y : f32{shape} return %z }}
         graph @no(%x: f32{shape}, %y: f32{shape}) -> (f32{shape}) {{ %z = add %x, %y : f32{shape} return %z }}
         graph @main(%x0: f32{shape}, %y: f32{shape}) -> (f32{shape}) {{
           %out0 = sub %x0, %x0 : f32{shape}"
    );
    for i in 0..100 {
        let next = i + 1;
        let _ = write!(
            text,
            "%d{i} = reshape %x{i} {{shape = []}} : f32[]
             %e{i} = reshape %y {{shape = []}} : f32[]
             %c{i} = less %d{i}, %e{i} : bool[]
             %x{next} = if @yes @no %c{i}, %x{i}, %y : f32{shape}
             %out{next} = add %out{i}, %x{next} : f32{shape}"
        );
    }
    text + "return %out100 }"
}

const LOOP: &str = "
    graph @more(%i: f32[], %x: f32[], %n: f32[], %k: f32[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
    graph @step(%i: f32[], %x: f32[], %n: f32[], %k: f32[]) -> (f32[], f32[]) {
      %one = constant {value = f32[](1)} : f32[]
      %j = add %i, %one : f32[]
      %y = mul %x, %k : f32[]
      %z = add %y, %k : f32[]
      return %j, %z
    }
    graph @main(%i: f32[], %x: f32[], %n: f32[], %k: f32[]) -> (f32[], f32[]) {
      %j, %y = while @more @step %i, %x, %n, %k {carries = 2} : f32[], f32[]
      return %j, %y
    }";

fn compile(text: &str, context: &PassContext) -> (Duration, Arc<dyn Executable>) {
    let graph = parse_graph(text).expect("a graph");
    let backend = CpuBackend::new();
    let start = Instant::now();
    let graph = optimize(graph, context);
    let optimized = start.elapsed();
    let plan = lower(&graph, &LowerOptions::default(), &TARGET).expect("a plan");
    if std::env::var_os("SHOW").is_some() {
        println!("{}", plan.display());
    }
    let lowered = start.elapsed();
    let options = CompileOptions::default();
    let artifact = backend.compile_plan(plan, &options).expect("code");
    // SAFETY: the plan was lowered from a valid graph by `lower`.
    let executable = unsafe { backend.load(&artifact) }.expect("an executable");
    let all = start.elapsed();
    println!("    optimize {optimized:.1?}, lower {:.1?}, code {:.1?}", lowered - optimized, all - lowered);
    (start.elapsed(), executable)
}

fn measure(name: &str, text: &str, inputs: &[Array]) {
    let inputs: Vec<&Array> = inputs.iter().collect();
    let (compiled, executable) = compile(text, &PassContext::default());
    let start = Instant::now();
    let result = executable.run(&inputs).expect("it runs");
    let first = compiled + start.elapsed();
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..100).for_each(|_| drop(black_box(executable.run(&inputs))));
            start.elapsed() / 100
        })
        .collect();
    times.sort();
    println!(
        "{name:<40} first {first:>10.1?}   later {:>10.1?}   (= {:?})",
        times[ROUNDS / 2],
        result[0].on_host().expect("the elements are readable").scalars()
    );
}

fn main() {
    let scalar = |it: f32| Array::from_slice(&[], &[it]);
    for shape in ["[]", "[1]"] {
        let dims: &[usize] = if shape == "[]" { &[] } else { &[1] };
        let inputs = [Array::from_slice(dims, &[0.0f32]), Array::from_slice(dims, &[1.0f32])];
        measure(&format!("100 branches {shape}"), &branches(shape), &inputs);
        measure(&format!("100 branches {shape}, again"), &branches(shape), &inputs);
    }
    measure("a loop of 1000", LOOP, &[scalar(0.0), scalar(1.0), scalar(1000.0), scalar(0.5)]);
    measure("a loop of 0", LOOP, &[scalar(0.0), scalar(1.0), scalar(0.0), scalar(0.5)]);
}
