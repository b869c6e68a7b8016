//! Tests that results do not depend on the number of threads.

use ms_compile::exec::{Backend, CompileOptions};
use ms_compile::lower::{ContractionResult, LowerOptions, Plan, PlanStep, lower};
use ms_compile::target::{EpilogueSupport, Target};
use ms_cpu::{CpuBackend, Isa, TARGET, threads};
use ms_ir::data::{Array, DType};
use ms_ir::{Precision, Type};
use ms_ops::ops::parse_graph;
use std::process::Command;

/// Iotas, their reductions, and one-hot rows, a mask and random numbers computed from positions. Each has a million
/// elements.
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

/// GEMMs with sizes that are partitioned into blocks, micro-panels and rows. Kernels read their results elementwise, by
/// rows, and several at once.
const PRODUCTS: &str = "graph @main(%a: f32[70, 1030], %b: f32[1030, 130], %bias: f32[130], %m: bool[70, 130], %q: f32[6, 65, 33],
    %k: f32[6, 33, 70], %wide: f32[2, 100], %tall: f32[100, 2000], %few: f32[100, 5], %i: i32[70, 40], %j: i32[40, 130],
    %d: f64[64, 600], %table: f32[9, 130], %rows: i64[70], %deep: f32[700, 1100])
    -> (f32[70, 130], bool[70, 130], f32[70, 130], bf16[70, 130], f32[6, 65, 70], f32[130, 70], f32[2000, 1], f32[1, 2000],
    f32[2000, 5], i32[70, 130], f64[64, 64], f32[70, 130], f32[70, 130], f32[70, 130], f32[6, 65, 70], f32[70, 130],
    f32[70, 1], bf16[70], f32[700, 2000], f32[70, 1100], f32[70], f32[1], f32[2000], i32[70], bool[70, 1],
    f32[70, 65], f32[70, 32], f32[6, 65, 35]) {
  %half = constant {value = f32[](0.5)} : f32[]
  %zero = constant {value = f32[](0)} : f32[]
  %c = slice %a {starts = [0, 0], sizes = [70, 130], steps = [1, 1]} : f32[70, 130]
  %e = slice %b {starts = [0, 0], sizes = [130, 130], steps = [1, 1]} : f32[130, 130]
  %r = matmul %c, %e : f32[70, 130]
  %p0 = matmul %a, %b : f32[70, 130]
  %s0 = add %p0, %bias : f32[70, 130]
  %out0 = relu %s0 : f32[70, 130]
  %out1 = greater %out0, %zero : bool[70, 130]
  %p2 = matmul %a, %b : f32[70, 130]
  %s2 = mul %p2, %half : f32[70, 130]
  %m2 = select %m, %s2, %zero : f32[70, 130]
  %r2 = add %m2, %r : f32[70, 130]
  %out2 = tanh %r2 : f32[70, 130]
  %ha = cast %a {to = bf16} : bf16[70, 1030]
  %hb = cast %b {to = bf16} : bf16[1030, 130]
  %p3 = matmul %ha, %hb : bf16[70, 130]
  %out3 = relu %p3 : bf16[70, 130]
  %p4 = matmul %q, %k : f32[6, 65, 70]
  %out4 = mul %p4, %half : f32[6, 65, 70]
  %p5 = matmul %c, %e : f32[70, 130]
  %t5 = permute %p5 {axes = [1, 0]} : f32[130, 70]
  %c5 = reshape %bias {shape = [130, 1]} : f32[130, 1]
  %out5 = add %t5, %c5 : f32[130, 70]
  %columns = permute %tall {axes = [1, 0]} : f32[2000, 100]
  %row = slice %wide {starts = [1, 0], sizes = [1, 100], steps = [1, 1]} : f32[1, 100]
  %column = reshape %row {shape = [100, 1]} : f32[100, 1]
  %p6 = matmul %columns, %column : f32[2000, 1]
  %out6 = tanh %p6 : f32[2000, 1]
  %p7 = matmul %row, %tall : f32[1, 2000]
  %out7 = tanh %p7 : f32[1, 2000]
  %p8 = matmul %columns, %few : f32[2000, 5]
  %out8 = relu %p8 : f32[2000, 5]
  %p9 = matmul %i, %j : i32[70, 130]
  %out9 = abs %p9 : i32[70, 130]
  %dt = permute %d {axes = [1, 0]} : f64[600, 64]
  %p10 = matmul %d, %dt : f64[64, 64]
  %out10 = tanh %p10 : f64[64, 64]
  %state = constant {value = u64[2](7, 3)} : u64[2]
  %u = random_uniform %state {shape = [70, 130], dtype = f32, low = -1.0, high = 2.0} : f32[70, 130]
  %p11 = matmul %c, %e : f32[70, 130]
  %out11 = mul %p11, %u : f32[70, 130]
  %taken = gather %table, %rows {axis = 0} : f32[70, 130]
  %p12 = matmul %c, %e : f32[70, 130]
  %out12 = add %p12, %taken : f32[70, 130]
  // Softmax of the rows of a stack.
  %p13 = matmul %q, %k : f32[6, 65, 70]
  %s13 = mul %p13, %half : f32[6, 65, 70]
  %top = max %s13 {axes = [2], keepdims = true} : f32[6, 65, 1]
  %below = sub %s13, %top : f32[6, 65, 70]
  %e13 = exp %below : f32[6, 65, 70]
  %sum = sum %e13 {axes = [2], keepdims = true} : f32[6, 65, 1]
  %out13 = div %e13, %sum : f32[6, 65, 70]
  // Two kernels, one of which has two results, of which one is a statistic of rows.
  %p14 = matmul %a, %b : f32[70, 130]
  %out14 = tanh %p14 : f32[70, 130]
  %b14 = add %p14, %bias : f32[70, 130]
  %q14 = mul %b14, %b14 : f32[70, 130]
  %out15 = sum %q14 {axes = [1], keepdims = true} : f32[70, 1]
  %p16 = matmul %ha, %hb : bf16[70, 130]
  %out16 = max %p16 {axes = [1], keepdims = false} : bf16[70]
  // More columns than rows, of many terms, and the reverse.
  %n17 = slice %deep {starts = [0, 0], sizes = [700, 100], steps = [1, 1]} : f32[700, 100]
  %p17 = matmul %n17, %tall : f32[700, 2000]
  %m17 = sum %p17 {axes = [1], keepdims = true} : f32[700, 1]
  %out17 = sub %p17, %m17 : f32[700, 2000]
  %n18 = slice %deep {starts = [0, 0], sizes = [70, 700], steps = [1, 1]} : f32[70, 700]
  %p18 = matmul %n18, %deep : f32[70, 1100]
  %out18 = sub %p18, %half : f32[70, 1100]
  %a18 = abs %p18 : f32[70, 1100]
  %out19 = sum %a18 {axes = [1], keepdims = false} : f32[70]
  // One row, and one column, which is reduced.
  %p20 = matmul %row, %tall : f32[1, 2000]
  %out20 = sum %p20 {axes = [1], keepdims = false} : f32[1]
  %p21 = matmul %columns, %few : f32[2000, 5]
  %out21 = max %p21 {axes = [1], keepdims = false} : f32[2000]
  %p22 = matmul %i, %j : i32[70, 130]
  %out22 = min %p22 {axes = [1], keepdims = false} : i32[70]
  %p23 = matmul %c, %e : f32[70, 130]
  %g23 = greater %p23, %zero : bool[70, 130]
  %out23 = all %g23 {axes = [1], keepdims = true} : bool[70, 1]
  // Adjacent columns of rows that are partitioned, also of a batched product, and a kernel that reads the results of
  // another kernel.
  %p24 = matmul %a, %b : f32[70, 130]
  %t24 = tanh %p24 : f32[70, 130]
  %l24 = slice %t24 {starts = [0, 0], sizes = [70, 65], steps = [1, 1]} : f32[70, 65]
  %h24 = slice %t24 {starts = [0, 65], sizes = [70, 65], steps = [1, 1]} : f32[70, 65]
  %out24 = mul %l24, %h24 : f32[70, 65]
  %l25 = slice %out24 {starts = [0, 1], sizes = [70, 32], steps = [1, 2]} : f32[70, 32]
  %h25 = slice %out24 {starts = [0, 64], sizes = [70, 32], steps = [1, -2]} : f32[70, 32]
  %out25 = sub %l25, %h25 : f32[70, 32]
  %p26 = matmul %q, %k : f32[6, 65, 70]
  %e26 = exp %p26 : f32[6, 65, 70]
  %l26 = slice %e26 {starts = [0, 0, 0], sizes = [6, 65, 35], steps = [1, 1, 1]} : f32[6, 65, 35]
  %h26 = slice %e26 {starts = [0, 0, 35], sizes = [6, 65, 35], steps = [1, 1, 1]} : f32[6, 65, 35]
  %out26 = div %l26, %h26 : f32[6, 65, 35]
  return %out0, %out1, %out2, %out3, %out4, %out5, %out6, %out7, %out8, %out9, %out10, %out11, %out12, %r, %out13, %out14,
      %out15, %out16, %out17, %out18, %out19, %out20, %out21, %out22, %out23, %out24,
      %out25, %out26
}";

/// Runs updates that form one step: many short values, and some that are partitioned themselves next to a long row.
fn updates(isa: Isa, precision: Precision) -> String {
    let sizes: Vec<usize> = (0..40).map(|it| 1 + it * 67).chain([50_003, 20_000, 0, 300_001]).collect();
    let (mut params, mut types, mut body, mut results) = (String::new(), String::new(), String::new(), String::new());
    for (i, size) in sizes.iter().enumerate() {
        params += &format!("%p{i}: f32[{size}], %g{i}: f32[{size}], ");
        types += &format!("f32[{size}], ");
        body += &format!(
            "%s{i} = mul %g{i}, %g{i} : f32[{size}]\n %u{i} = mul %s{i}, %rate : f32[{size}]
             %r{i} = sub %p{i}, %u{i} : f32[{size}]\n"
        );
        results += &format!("%r{i}, ");
    }
    let text = format!(
        "graph @main({params} %row: f32[1000003], %rate: f32[]) -> ({types} f32[]) {{
         %sum = sum %row {{axes = [0], keepdims = false}} : f32[]\n {body} return {results} %sum\n}}"
    );
    let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{error}"));
    let options = LowerOptions { precision, ..LowerOptions::default() };
    let plan = lower(&graph, &options, &TARGET).expect("the graph has a plan");
    // A value without elements needs no kernel.
    let [PlanStep::Kernels(all)] = &plan.main().steps[..] else { panic!("{}", plan.display()) };
    assert_eq!(all.len(), sizes.len(), "{}", plan.display());
    let input = |(at, size): (usize, usize)| {
        Array::from_slice(&[size], &(0..size).map(|it| (it * 5 % 7 + at) as f32 / 3.0).collect::<Vec<_>>())
    };
    let pairs = sizes.iter().flat_map(|&it| [it, it]).chain([1_000_003]);
    let inputs: Vec<Array> = pairs.enumerate().map(input).chain([Array::full(&[], 0.01.into(), DType::F32)]).collect();
    run(plan, isa, &inputs).1
}

/// Runs a plan. Returns the outputs and their hashes.
fn run(plan: Plan, isa: Isa, inputs: &[Array]) -> (Vec<Array>, String) {
    let backend = CpuBackend::with_isa(isa).expect("the instruction set is one of this machine");
    let options = CompileOptions::default();
    let artifact = backend.compile_plan(plan, &options).expect("the plan compiles");
    // SAFETY: the plan was lowered from a valid graph by `lower`.
    let executable = unsafe { backend.load(&artifact) }.expect("the plan is well formed");
    let inputs: Vec<&Array> = inputs.iter().collect();
    let outputs = executable.run(&inputs).expect("the plan runs").into_vec();
    let hash = |bytes: &[u8]| {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, it| (hash ^ u64::from(*it)).wrapping_mul(0x0100_0000_01b3))
    };
    let hashes = |outputs: &[Array]| {
        let bytes = |it: &Array| it.on_host().expect("the elements are readable").to_bytes();
        outputs.iter().map(|it| format!("{:x}", hash(&bytes(it)))).collect::<Vec<_>>().join(" ")
    };
    let alone = hashes(&outputs);
    // Concurrent runs share the workers. They are too slow for the interpreter in a debug build.
    let count = if isa == Isa::Interp { 0 } else { 3 };
    std::thread::scope(|scope| {
        let start = || hashes(&executable.run(&inputs).expect("the plan runs"));
        let runs: Vec<_> = (0..count).map(|_| scope.spawn(start)).collect();
        runs.into_iter().for_each(|it| assert_eq!(it.join().expect("it does not panic"), alone, "on {isa}"));
    });
    (outputs, alone)
}

/// Returns hashes of the results of [`GRAPH`].
fn positions(isa: Isa, precision: Precision) -> String {
    let graph = parse_graph(GRAPH).unwrap_or_else(|error| panic!("{error}"));
    let options = LowerOptions { precision, ..LowerOptions::default() };
    let plan = lower(&graph, &options, &TARGET).expect("the graph has a plan");
    let x: Vec<f32> = (0..1_000_003).map(|it| it as f32).collect();
    let classes: Vec<i64> = (0..1000).map(|it| it * 7 % 1000).collect();
    let inputs = [Array::from_slice(&[x.len()], &x), Array::from_slice(&[1000, 1], &classes)];
    let (outputs, hashes) = run(plan, isa, &inputs);
    let columns: Vec<i64> = outputs[1].on_host().expect("the elements are readable").iter().collect();
    assert!(columns.iter().enumerate().all(|(at, it)| *it == at as i64 % 1000), "positions are right on {isa}");
    hashes
}

/// Returns hashes of the results of [`PRODUCTS`], which must be equal with and without epilogues.
fn products(isa: Isa, precision: Precision) -> String {
    let graph = parse_graph(PRODUCTS).unwrap_or_else(|error| panic!("{error}"));
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 40) as f64 / (1 << 24) as f64
    };
    let input = |ty: &Type| {
        let shape = ty.shape().expect("the dimensions are constants");
        let numbers: Vec<f64> = (0..shape.iter().product()).map(|_| random()).collect();
        let centred = |scale: f64| numbers.iter().map(move |it| (it - 0.5) * scale);
        match ty.dtype {
            DType::F32 => Array::from_slice(&shape, &centred(1.0).map(|it| it as f32).collect::<Vec<_>>()),
            DType::F64 => Array::from_slice(&shape, &centred(1.0).collect::<Vec<_>>()),
            DType::I32 => Array::from_slice(&shape, &centred(1e9).map(|it| it as i32).collect::<Vec<_>>()),
            DType::Bool => Array::from_slice(&shape, &numbers.iter().map(|it| *it < 0.5).collect::<Vec<_>>()),
            _ => Array::from_slice(&shape, &numbers.iter().map(|it| (it * 9.0) as i64).collect::<Vec<_>>()),
        }
    };
    let types: Vec<&Type> = graph.inputs().iter().map(|&it| graph.ty(it)).collect();
    let inputs: Vec<Array> = types.into_iter().map(input).collect();
    let [with, without] = [&[EpilogueSupport::ALL][..], &[]].map(|epilogues| {
        let target = Target { epilogues, parallel_width: 0, ..TARGET.clone() };
        let options = LowerOptions { precision, ..LowerOptions::default() };
        let plan = lower(&graph, &options, &target).expect("the graph has a plan");
        let epilogues = |it: &PlanStep| match it {
            PlanStep::Contraction(it) => match &it.result {
                ContractionResult::Epilogues(all) => all.len(),
                ContractionResult::Stored(_) => 0,
            },
            _ => 0,
        };
        let count: usize = plan.main().steps.iter().map(epilogues).sum();
        // Rows of five elements are too short for epilogues.
        assert_eq!(count, if target.epilogues.is_empty() { 0 } else { 27 }, "{}", plan.display());
        run(plan, isa, &inputs).1
    });
    assert_eq!(with, without, "epilogues change no bits in {precision} precision on {isa}");
    with
}

#[test]
#[ignore = "`results_do_not_depend_on_threads` starts it, once for each number of threads"]
fn in_a_process() {
    println!("threads {}", threads::count());
    for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
        let [strict, highest] = [Precision::Strict, Precision::Highest].map(|it| positions(isa, it));
        println!("positions {strict} {highest}");
        let [strict, highest] = [Precision::Strict, Precision::Highest].map(|it| updates(isa, it));
        println!("updates {strict} {highest}");
        // Without strict precision, each instruction set may add products in a different order.
        println!("products {}", products(isa, Precision::Strict));
        println!("{isa} {}", products(isa, Precision::Highest));
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let mut seen: Vec<(String, String)> = Vec::new();
    for threads in ["1", "2", "7"] {
        let output = Command::new(std::env::current_exe().expect("the test runs"))
            .args(["--exact", "in_a_process", "--ignored", "--nocapture"])
            .env("MS_NUM_THREADS", threads)
            .output()
            .expect("the test starts again");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(&format!("threads {threads}\n")), "{text}");
        seen.extend(text.lines().filter_map(|it| it.split_once(' ')).map(|it| (it.0.to_owned(), it.1.to_owned())));
    }
    let isas = Isa::ALL.into_iter().filter(|it| it.is_supported()).map(|it| it.to_string());
    for name in isas.chain(["positions", "updates", "products"].map(String::from)) {
        let results: Vec<&String> = seen.iter().filter(|it| it.0 == name).map(|it| &it.1).collect();
        assert!(results.len() >= 3 && results.iter().all(|it| *it == results[0]), "{name}: {results:?}");
    }
}
