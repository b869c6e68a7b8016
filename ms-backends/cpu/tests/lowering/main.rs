//! Lowers graphs to plans and runs them, with and without fusion, and against the reference.

mod checks;
mod graphs;

use graphs::{Builder, Random, array, random_graph, random_layers, sizes};
use ms_compile::exec::{Backend, CompileOptions, PlanProgram, reference};
use ms_compile::lower::{ContractionResult, Epilogue, EpilogueLoops, KernelCall, LowerOptions, Plan, PlanStep, lower};
use ms_compile::target::OpSupport;
use ms_compile::target::{EpilogueSupport, Native, Target};
use ms_core::optimize::{PassContext, optimize};
use ms_cpu::{CpuBackend, Isa, TARGET};
use ms_ir::data::{Array, Attr, Attrs, DType, Literal, Scalar};
use ms_ir::error::Code;
use ms_ir::{Graph, Kernel, LaneAxis, Math, Node, Precision, Scope, Type, ValueId};
use ms_ops::ops::{COMPOSITES, infer, parse_graph};
use std::sync::LazyLock;

fn run(plan: Plan, isa: Isa, inputs: &[&Array]) -> Vec<Array> {
    let backend = CpuBackend::with_isa(isa).expect("the instruction set is one of this machine");
    let text = plan.display().to_string();
    let options = CompileOptions::default();
    let artifact = backend.compile_plan(plan, &options).expect("the plan compiles");
    // SAFETY: the plan was lowered from a valid graph by `lower`.
    let executable = unsafe { backend.load(&artifact) };
    let executable = executable.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let outputs = executable.run(inputs).unwrap_or_else(|error| panic!("{error}\n{text}")).into_vec();
    let mut given: Vec<Array> =
        inputs.iter().map(|it| it.on_host().expect("the elements are readable").duplicate()).collect();
    let owned = executable.run_donated(&mut given, &[]);
    let owned = owned.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let same = outputs.iter().zip(&owned).all(|(a, b)| {
        a.on_host().expect("the elements are readable").to_bytes()
            == b.on_host().expect("the elements are readable").to_bytes()
    });
    assert!(same, "inputs that are given up change bits of\n{text}");
    outputs
}

fn close(a: Scalar, b: Scalar, tolerance: f64) -> bool {
    let (a, b) = (a.as_f64(), b.as_f64());
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
}

/// Runs a graph with every option. Returns the fused plan with all possible epilogues.
fn check(graph: &Graph, seed: u64, tolerance: f64) -> Plan {
    let mut random = Random::Seed(seed);
    let arrays: Vec<Array> = graph.inputs().iter().map(|&it| array(&mut random, graph.ty(it))).collect();
    let inputs: Vec<&Array> = arrays.iter().collect();
    let [with_all, with_none] =
        [&[EpilogueSupport::ALL][..], &[]].map(|epilogues| Target { epilogues, parallel_width: 0, ..TARGET.clone() });
    let plan_for = |target, fuse, precision| {
        let options = LowerOptions { fuse, precision };
        lower(graph, &options, target).unwrap_or_else(|error| panic!("{error}\n{graph}"))
    };
    let plan = |fuse, precision| plan_for(&with_all, fuse, precision);
    let fused = plan(true, Precision::Strict);
    let expected = reference(graph.clone()).run(&inputs).expect("the reference runs everything");
    let (together, apart) =
        (run(fused.clone(), Isa::Interp, &inputs), run(plan(false, Precision::Strict), Isa::Interp, &inputs));
    let targets = [Isa::Avx2, Isa::Avx512].into_iter().filter(|it| it.is_supported());
    let generated: Vec<_> = targets.map(|isa| (isa, run(fused.clone(), isa, &inputs))).collect();
    let loose = run(plan(true, Precision::Highest), Isa::detect(), &inputs);
    if !epilogues(&fused).is_empty() {
        let stored = run(plan_for(&with_none, true, Precision::Highest), Isa::detect(), &inputs);
        let bytes = |it: &Array| it.on_host().expect("the elements are readable").to_bytes();
        let same = loose.iter().zip(&stored).all(|(a, b)| bytes(a) == bytes(b));
        assert!(same, "epilogues change bits, seed {seed}\n{graph}\n{}", fused.display());
    }
    for (i, ((together, apart), expected)) in together.iter().zip(&apart).zip(&expected).enumerate() {
        let context = || format!("output {i}, seed {seed}\n{graph}\n{}", fused.display());
        assert_eq!(together.shape(), expected.shape(), "{}", context());
        assert!(
            together.on_host().expect("the elements are readable").to_bytes()
                == apart.on_host().expect("the elements are readable").to_bytes(),
            "fusion changes bits of {}",
            context()
        );
        for (isa, outputs) in &generated {
            assert!(
                together.on_host().expect("the elements are readable").to_bytes()
                    == outputs[i].on_host().expect("the elements are readable").to_bytes(),
                "code for {isa} differs in {}",
                context()
            );
        }
        // Sums in another order may round to a neighbour.
        let tolerance = match expected.dtype() {
            DType::F16 => tolerance.max(1e-3),
            DType::BF16 => tolerance.max(8e-3),
            _ => tolerance,
        };
        for result in [together, &loose[i]] {
            for (at, (a, b)) in result
                .on_host()
                .expect("the elements are readable")
                .scalars()
                .into_iter()
                .zip(expected.on_host().expect("the elements are readable").scalars())
                .enumerate()
            {
                assert!(close(a, b, tolerance), "{a} is not {b} at {at} of {}", context());
            }
        }
    }
    fused
}

/// Returns the epilogues of each contraction that has any.
fn epilogues(plan: &Plan) -> Vec<&[Epilogue]> {
    let steps = plan.routines.iter().flat_map(|it| &it.steps);
    let mut found = Vec::new();
    for step in steps {
        if let PlanStep::Contraction(step) = step
            && let ContractionResult::Epilogues(all) = &step.result
        {
            found.push(&all[..]);
        }
    }
    found
}

/// Contractions over several axes read operands in any order of their axes. Convolutions over patches are such
/// contractions.
#[test]
fn contractions_of_views() {
    let files = [
        include_str!("../../../../ms-core/runtime/tests/lower/contract.msir"),
        include_str!("../../../../ms-core/runtime/tests/lower/conv.msir"),
    ];
    for text in files {
        let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
        (0..4).for_each(|seed| _ = check(&graph, seed, 1e-4));
    }
}

/// Contractions with fused casts of operands and results have the bits of separate contractions and casts.
#[test]
fn casts_of_contractions() {
    let text = include_str!("../../../../ms-core/runtime/tests/lower/casts.msir");
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
    for seed in 0..4 {
        let plan = check(&graph, seed, 1e-2);
        assert!(plan.kernels.is_empty(), "{}", plan.display());
    }
}

/// Returns whether a kernel reads its results of an earlier stage.
fn reads_back(KernelCall { kernel, .. }: &KernelCall, plan: &Plan) -> bool {
    plan.kernels[kernel.0 as usize].params.iter().any(|it| it.role.is_reloaded())
}

#[test]
fn random_graphs_of_f32() {
    let (mut staged, mut reloads, mut together) = (0, 0, 0);
    for seed in 0..400 {
        let plan = check(&random_graph(seed, 4 + seed as usize % 30, DType::F32, None), seed, 1e-3);
        let loops = |it: &&Kernel| it.stages.iter().filter(|it| it.scope == Scope::Loop).count() > 1;
        staged += plan.kernels.iter().filter(loops).count();
        let kernels = plan.main().steps.iter().flat_map(PlanStep::kernels);
        together += plan.main().steps.iter().filter(|it| matches!(it, PlanStep::Kernels(_))).count();
        reloads += kernels.filter(|it| reads_back(it, &plan)).count();
    }
    // The random cases must cover what they are for.
    assert!(staged > 15 && reloads > 3, "{staged} kernels of several loops, {reloads} that read back");
    assert!(together > 30, "{together} steps of several kernels");
}

#[test]
fn random_graphs_of_other_dtypes() {
    for (i, dtype) in [DType::F64, DType::I32, DType::I64].into_iter().enumerate() {
        for seed in 0..60 {
            let seed = 1000 * (i as u64 + 1) + seed;
            check(&random_graph(seed, 4 + seed as usize % 20, dtype, None), seed, 1e-3);
        }
    }
}

#[test]
fn random_graphs_of_slices() {
    for seed in 0..300 {
        let dtype = [DType::F32, DType::F32, DType::I64][seed as usize % 3];
        check(&random_graph(2000 + seed, 4 + seed as usize % 20, dtype, Some(3)), seed, 1e-2);
    }
}

/// Checks `MS_GRAPHS` random graphs of floats, from the seed `MS_GRAPHS_FROM` on.
#[test]
#[ignore = "runs for minutes, by hand"]
fn many_random_graphs() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |it| it.parse().expect("a number"));
    let (count, from) = (number("MS_GRAPHS", 20_000), number("MS_GRAPHS_FROM", 100_000));
    for seed in from..from + count {
        let dtype = if seed % 4 == 0 { DType::F64 } else { DType::F32 };
        let slices = [None, Some(3)][seed as usize / 4 % 2];
        // Only bits are compared: long chains of ops may be far from their reference.
        check(&random_graph(seed, 4 + seed as usize % 30, dtype, slices), seed, f64::INFINITY);
        check(&random_layers(seed).0, seed, f64::INFINITY);
    }
}

/// Covers GEMMs with a larger reduction dimension than a chunk. Operands and results are views that kernels share.
#[test]
fn random_products() {
    for seed in 0..40 {
        let mut random = Random::Seed(5000 + seed);
        let mut builder = Builder { graph: Graph::new("products") };
        let input = |builder: &mut Builder, shape: &[usize]| builder.graph.add_input(Type::of(DType::F32, shape));
        let mut values = [&[13, 1030][..], &[1030, 13], &[13, 13]].map(|it| input(&mut builder, it)).to_vec();
        for _ in 0..3 + random.below(5) {
            let [x, y] = [(); 2].map(|()| values[random.below(values.len())]);
            let made = match random.below(4) {
                0 => builder.apply("permute", Attrs::new([sizes(&[1, 0])]), &[x]),
                1 => builder.apply("add", Attrs::none(), &[x, y]),
                _ => builder.apply("matmul", Attrs::none(), &[x, y]).and_then(|product| {
                    // Scaling the result keeps further products small.
                    let value = Literal::scalar(Scalar::Float(0.02), DType::F32);
                    let small = builder.apply("constant", Attrs::new([Attr::Literal(value)]), &[])?;
                    random.pick(&[Some(product), builder.apply("mul", Attrs::none(), &[product, small])])
                }),
            };
            let size = |it: &ValueId| builder.shape(*it).iter().product::<usize>();
            values.extend(made.filter(|it| size(it) < 20_000));
        }
        let outputs = [values[random.below(values.len())], *values.last().expect("there are inputs")];
        builder.graph.set_outputs(outputs);
        check(&builder.graph, seed, 1e-3);
    }
}

#[test]
fn random_epilogues() {
    let (mut found, mut several, mut by_rows, mut behind, mut all) = (0, 0, 0, 0, 0);
    for seed in 9000..9300 {
        let (graph, products) = random_layers(seed);
        let plan = check(&graph, seed, f64::INFINITY);
        let epilogues = epilogues(&plan);
        found += epilogues.len();
        several += epilogues.iter().filter(|it| it.len() > 1).count();
        let lanes = |it: &&Epilogue| plan.kernels[it.kernel.0 as usize].lanes;
        by_rows += epilogues.iter().copied().flatten().filter(|it| lanes(it) == LaneAxis::Reduced).count();
        behind += epilogues.iter().copied().flatten().filter(|it| matches!(it.loops, EpilogueLoops::Rows(_))).count();
        all += products;
    }
    // The random cases must cover what they are for.
    let reached = found * 2 > all && several * 10 > all && by_rows * 20 > all && behind * 20 > all;
    assert!(reached, "{found} of {all} products have epilogues, {several} several, {by_rows} by rows, {behind} behind");
}

/// Checks the graphs whose plans are in `ms-core/runtime/tests/lower`.
#[test]
fn graphs_with_known_plans() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ms-core/runtime/tests/lower");
    let entries = std::fs::read_dir(folder).expect("the folder of cases is part of the workspace");
    let mut paths: Vec<_> = entries.map(|it| it.expect("the folder can be read").path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "msir"));
    // The position of a case seeds its operands.
    paths.sort();
    for (case, path) in paths.iter().enumerate() {
        let text = std::fs::read_to_string(path).expect("a case can be read");
        let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{}\n{error}", path.display()));
        check(&graph, case as u64, 1e-4);
    }
    assert!(paths.len() > 5, "{} cases were found", paths.len());
}

/// A plan for a target with a native function is not valid for the CPU.
#[test]
fn functions_of_other_targets_are_refused() {
    let text = "graph @main(%x: f32[8]) -> (f32[8]) {\n  %y = exp %x : f32[8]\n  return %y\n}";
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
    let exp = Native { math: Math::Exp, dtype: DType::F32, cost: 1 };
    let target = Target { functions: vec![exp], ..TARGET.clone() };
    let options = LowerOptions { precision: Precision::Highest, ..LowerOptions::default() };
    let [own, other] =
        [&TARGET, &target].map(|it| lower(&graph, &options, it).unwrap_or_else(|error| panic!("{error}")));
    let backend = CpuBackend::new();
    let [alone, shared] = [true, false].map(|fresh| CompileOptions { fresh, ..CompileOptions::default() });
    let artifact = backend.compile_plan(own, &alone).expect("the plan is for the processor");
    let table = PlanProgram::of(&artifact).expect("the backend made it").table.clone();
    let of_other = PlanProgram { plan: other.clone(), table }.artifact(artifact.code.clone());
    let refused = [
        backend.compile_plan(other.clone(), &alone).err(),
        backend.compile_plan(other.clone(), &shared).err(),
        backend.kernel(&other.kernels[0]).err(),
        // SAFETY: `load` rejects the plan, so none of its steps runs.
        unsafe { backend.load(&of_other) }.err(),
    ];
    for error in refused {
        let error = error.expect("the processor has no exponential of its own");
        assert_eq!(error.code(), Code::Backend, "{error}");
    }
}

/// A composite that is legal on the target is a step of the plan. Its result equals the result of its body.
#[test]
fn composites_are_steps_or_their_ops() {
    static KEPT: LazyLock<Vec<OpSupport>> =
        LazyLock::new(|| COMPOSITES.iter().map(|it| OpSupport::new(it.op(), DType::F32, true)).collect());
    let [all, none] = [&KEPT[..], &[]].map(|composites| Target { composites, ..TARGET.clone() });
    for def in COMPOSITES {
        for sample in (def.samples)().iter().filter(|it| it.inputs[0].dtype == DType::F32) {
            let types: Vec<Type> = sample.inputs.iter().map(|it| Type::of(it.dtype, &it.shape)).collect();
            let types: Vec<&Type> = types.iter().collect();
            let mut graph = Graph::new(def.name());
            let inputs: Vec<ValueId> = types.iter().map(|&it| graph.add_input(it.clone())).collect();
            let results = infer(def, &sample.attrs, &[], &types).expect("a sample fits");
            let id = graph.add_node(Node::new(def.op(), sample.attrs.clone(), inputs), results);
            let outputs = graph.node(id).outputs.clone();
            graph.set_outputs(outputs);

            let arrays = sample.arrays();
            let inputs: Vec<&Array> = arrays.iter().collect();
            let precision = Precision::Strict;
            assert!(all.keeps(def.op(), &types, precision) && !TARGET.keeps(def.op(), &types, precision));
            let options = LowerOptions { precision, ..LowerOptions::default() };
            let [kept, expanded] = [&all, &none].map(|target| {
                let context =
                    PassContext { legal_composites: target.composites.to_vec(), precision, ..PassContext::default() };
                let graph = optimize(graph.clone(), &context);
                lower(&graph, &options, target).unwrap_or_else(|error| panic!("{error}\n{graph}"))
            });
            let is_kept = |it: &PlanStep| matches!(it, PlanStep::Library { op, .. } if **op == def.op());
            assert!(kept.main().steps.iter().any(is_kept), "{}", kept.display());
            assert!(!expanded.main().steps.iter().any(is_kept), "{}", expanded.display());
            let [kept, expanded] = [kept, expanded].map(|it| run(it, Isa::detect(), &inputs));
            for (kept, expanded) in kept.iter().zip(&expanded) {
                let scalars = |it: &Array| it.on_host().expect("the elements are readable").scalars();
                for (a, b) in scalars(kept).into_iter().zip(scalars(expanded)) {
                    assert!(close(a, b, 1e-5), "{a} is not {b} in `{}` of {sample:?}", def.name());
                }
            }
        }
    }
}
