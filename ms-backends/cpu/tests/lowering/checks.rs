//! Compares the run-time checks of operands with the reference evaluation.

use super::graphs::Random;
use ms_compile::exec::{Backend, CompileOptions, Executable, reference};
use ms_compile::lower::{LowerOptions, PlanStep, lower};
use ms_cpu::{CpuBackend, Isa, TARGET};
use ms_ir::Graph;
use ms_ir::data::{Array, DType, Scalar};
use ms_ir::error::Error;
use ms_ops::ops::parse_graph;
use std::sync::Arc;

fn graph(text: &str) -> Graph {
    parse_graph(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns executables of a graph for every instruction set of this machine, with and without fusion.
fn executables(graph: &Graph) -> Vec<Arc<dyn Executable>> {
    let isas = Isa::ALL.into_iter().filter(|it| it.is_supported());
    let all = isas.flat_map(|isa| [true, false].map(|fuse| (isa, fuse)));
    let load = |(isa, fuse)| {
        let options = LowerOptions { fuse, ..LowerOptions::default() };
        let plan = lower(graph, &options, &TARGET).unwrap_or_else(|error| panic!("{error}\n{graph}"));
        let backend = CpuBackend::with_isa(isa).expect("the instruction set is one of this machine");
        let artifact = backend.compile_plan(plan, &CompileOptions::default()).expect("the plan compiles");
        // SAFETY: the plan was lowered from a valid graph by `lower`.
        unsafe { backend.load(&artifact) }.unwrap_or_else(|error| panic!("{error}\n{graph}"))
    };
    all.map(load).collect()
}

/// Returns the result as bytes, or the code and the message of the error.
fn outcome(executable: &dyn Executable, inputs: &[&Array]) -> Result<Vec<u8>, String> {
    let text = |it: Error| format!("{:?} {}", it.code(), it.report().message);
    executable.run(inputs).map(|it| it[0].on_host().expect("host memory").to_bytes().to_vec()).map_err(text)
}

/// Every check refuses the elements that the reference refuses, the first of them, with the same message.
#[test]
fn refusals_are_those_of_the_reference() {
    let index = [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
    let floats = [DType::F16, DType::BF16, DType::F32, DType::F64];
    let all: Vec<DType> = index.into_iter().chain(floats).collect();
    let families: [(&str, &[DType]); 7] = [
        ("class_index %x {classes = 5, ignored = [], caller = \"c\"}", &index),
        ("class_index %x {classes = 5, ignored = [-2], caller = \"c\"}", &index),
        ("class_index %x {classes = 0, ignored = [3], caller = \"c\"}", &index),
        ("from_zero %x {caller = \"c\"}", &index),
        ("bounded %x {limit = 4, elements = \"e\", caller = \"c\"}", &all),
        ("class_weights %x {classes = 4, logits = false, caller = \"c\"}", &floats),
        ("class_weights %x {classes = 4, logits = true, caller = \"c\"}", &floats),
    ];
    let (mut random, mut refused, mut accepted) = (Random::Seed(1), 0, 0);
    for (op, dtypes) in families {
        for &dtype in dtypes {
            for shape in [&[4][..], &[3, 4], &[2, 9, 4], &[300, 4]] {
                let ty = format!("{dtype}{shape:?}");
                let graph = graph(&format!("graph @f(%x: {ty}) -> ({ty}) {{\n %y = {op} : {ty}\n return %y\n}}"));
                let (want, made) = (reference(graph.clone()), executables(&graph));
                for odd in [0, 1, 2, 5] {
                    let x = elements(&mut random, shape, dtype, odd);
                    let want = outcome(&*want, &[&x]);
                    *if want.is_ok() { &mut accepted } else { &mut refused } += 1;
                    made.iter().for_each(|it| assert_eq!(outcome(&**it, &[&x]), want, "{op} {ty}"));
                }
            }
        }
    }
    assert!(refused > 100 && accepted > 100, "{refused} refused, {accepted} accepted");
}

/// Creates elements from 0 to 3, but `odd` of them, which are outside, NaN or infinite.
fn elements(random: &mut Random, shape: &[usize], dtype: DType, odd: usize) -> Array {
    let count: usize = shape.iter().product();
    let mut values: Vec<Scalar> = (0..count).map(|_| Scalar::Float(random.below(4) as f64)).collect();
    let strange = [-1.0, 4.0, 5.0, -2.0, 100.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 4.5, -0.0];
    for _ in 0..odd {
        values[random.below(count)] = Scalar::Float(strange[random.below(strange.len())]);
    }
    Array::from_scalars(shape, dtype, &mut |at| match (dtype.is_float(), values[at]) {
        (false, Scalar::Float(it)) => Scalar::Int(it as i64),
        (_, it) => it,
    })
}

/// Indices of a gather are checked in every layout and integer dtype, against the size of the axis.
#[test]
fn positions_are_those_of_the_reference() {
    let (mut random, mut refused) = (Random::Seed(2), 0);
    for dtype in [DType::I8, DType::I32, DType::I64, DType::U8, DType::U64] {
        for shape in [[3, 3], [2, 40]] {
            let [n, m] = shape;
            let graph = graph(&format!(
                "graph @f(%x: f32[2, 4, 3], %i: {dtype}[{n}, {m}]) -> (f32[2, {m}, {n}, 3]) {{
                 %t = permute %i {{axes = [1, 0]}} : {dtype}[{m}, {n}]
                 %y = gather %x, %t {{axis = 1}} : f32[2, {m}, {n}, 3]\n return %y\n}}"
            ));
            let (want, made) = (reference(graph.clone()), executables(&graph));
            let x = Array::from_scalars(&[2, 4, 3], DType::F32, &mut |at| Scalar::Float(at as f64));
            for odd in [0, 1, 4] {
                let i = elements(&mut random, &shape, dtype, odd);
                let want = outcome(&*want, &[&x, &i]);
                refused += usize::from(want.is_err());
                made.iter().for_each(|it| assert_eq!(outcome(&**it, &[&x, &i]), want, "{graph}"));
            }
        }
    }
    assert!(refused > 5, "{refused} refused");
}

/// The op of a check returns its operand in place: consumers read it, and there is no copy.
#[test]
fn checks_copy_nothing() {
    let graph = graph(
        "graph @f(%x: f32[64], %i: i64[64]) -> (f32[64]) {
         %c = class_index %i {classes = 64, ignored = [], caller = \"c\"} : i64[64]
         %y = take_along_axis %x, %c {axis = 0} : f32[64]\n return %y\n}",
    );
    let plan = lower(&graph, &LowerOptions::default(), &TARGET).expect("it lowers");
    let steps: Vec<&str> = plan
        .main()
        .steps
        .iter()
        .map(|it| match it {
            PlanStep::Kernel(_) => "kernel",
            PlanStep::Check { .. } => "check",
            PlanStep::Library { .. } => "library",
            _ => "other",
        })
        .collect();
    assert_eq!(steps, ["kernel", "check", "library"], "{}", plan.display());
    assert_eq!(plan.main().arena_bytes, 64, "the record, at the alignment of values");
    // The library op would refuse the position with another message.
    let x = Array::zeros(&[64], DType::F32);
    let i = Array::from_scalars(&[64], DType::I64, &mut |at| Scalar::Int(if at == 9 { 64 } else { 0 }));
    let made = executables(&graph);
    let text = "OutOfRange element 9 is of class 64, which does not exist: there are 64";
    made.iter().for_each(|it| assert_eq!(outcome(&**it, &[&x, &i]), Err(text.into())));
}
