//! Compares the plans of graphs with snapshots: `lower/*.msir` beside `lower/*.plan`.
//!
//! A first line `// images: ..` sets how the target runs convolutions, and `// composites: ..` whether composites are
//! legal. `MS_BLESS=1` rewrites the plans.

#[path = "lower/cost_of_gradients.rs"]
mod cost_of_gradients;
#[path = "lower/epilogues_of_target.rs"]
mod epilogues_of_target;
#[path = "lower/horizontal.rs"]
mod horizontal;
#[path = "lower/ops_of_target.rs"]
mod ops_of_target;

use ms_core::ir::{Inst, Math, Precision, ReductionOrder};
use ms_core::lower::{ContractionResult, EpilogueLoops, LowerOptions, Plan, PlanNames, PlanStep, lower, lower_traced};
use ms_core::ops::{AxisOrder, COMPOSITES, CONV, OpDef, einsum, parse_graph};
use ms_core::optimize::{PassContext, optimize};
use ms_core::target::{
    Budget, Contracted, EpilogueSupport, Images, Native, OpSupport, Producers, RepeatLimits, Target,
};
use ms_core::tensor::{DType, Type};
use ms_core::trace::build;
use ms_core::transform::value_and_grad;
use std::fmt::Write;
use std::path::Path;
use std::sync::LazyLock;

static EPILOGUES: &[EpilogueSupport] = &[
    EpilogueSupport { kernels: 4, longest_row: 4096, ..EpilogueSupport::ALL },
    EpilogueSupport { producers: Producers::Library(&[CONV.op()]), kernels: 4, ..EpilogueSupport::ELEMENTWISE },
];

/// A processor with caches and registers of common sizes.
static TARGET: Target = Target {
    parallel_width: 16,
    fast_memory: 256 << 10,
    relaxed_order: ReductionOrder::Lanes,
    small_elements: 1 << 10,
    strided_sums: true,
    kernels: true,
    epilogues: EPILOGUES,
    repeats: Some(RepeatLimits { elements: 32, carries: 16, nodes: 64 }),
    conditions: false,
    composites: &[],
    library: None,
    products: None,
    images: Images { contracted: Contracted::None, order: AxisOrder::ChannelsFirst },
    functions: Vec::new(),
    budget: Budget {
        cost: 6000,
        wide_cost: 16,
        inputs: 48,
        words: usize::MAX,
        loops: 8,
        recomputed_cost: 6,
        repeated_cost: 3,
        copies: 64,
    },
};

fn plan(text: &str) -> Plan {
    named_plan(text).0
}

fn named_plan(text: &str) -> (Plan, PlanNames) {
    let mut graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
    let options = LowerOptions { precision: Precision::Highest, ..LowerOptions::default() };
    // The first line sets how the target runs convolutions. The graph is optimised for this target.
    let all = |order| Images { contracted: Contracted::All, order };
    let images = match text.lines().next().and_then(|it| it.strip_prefix("// images: ")) {
        None => Images::default(),
        Some("patches") => Images { contracted: Contracted::Patches, order: AxisOrder::ChannelsFirst },
        Some("channels first") => all(AxisOrder::ChannelsFirst),
        Some("channels last") => all(AxisOrder::ChannelsLast),
        Some(other) => panic!("images are not `{other}`"),
    };
    let mut target = Target { images, ..TARGET.clone() };
    let composites = text.lines().next().and_then(|it| it.strip_prefix("// composites: "));
    match composites {
        None | Some("expanded") => {}
        Some("kept") => {
            static KEPT: LazyLock<Vec<OpSupport>> = LazyLock::new(|| {
                let kept = |def: &&'static OpDef| OpSupport::new(def.op(), DType::F32, true);
                COMPOSITES.iter().map(kept).collect()
            });
            target.composites = &KEPT;
        }
        Some(other) => panic!("composites are not `{other}`"),
    }
    if images != Images::default() || composites.is_some() {
        graph = optimize(
            graph,
            &PassContext { images, legal_composites: target.composites.to_vec(), ..PassContext::default() },
        );
    }
    lower_traced(&graph, &options, &target, None).unwrap_or_else(|error| panic!("{error}"))
}

fn kernels(plan: &Plan) -> usize {
    plan.main().steps.iter().map(|it| it.kernels().len()).sum()
}

#[test]
fn snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lower");
    let bless = std::env::var_os("MS_BLESS").is_some_and(|it| it == "1");
    let mut stale = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder of cases is part of the crate") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|it| it != "msir") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a case can be read");
        let (plan, names) = named_plan(&text);
        let found = plan.display_named(&names).to_string();
        let expected = path.with_extension("plan");
        if bless {
            std::fs::write(&expected, &found).expect("the folder can be written");
        } else if std::fs::read_to_string(&expected).ok().as_ref() != Some(&found) {
            stale.push(format!("{} should be\n{found}", expected.display()));
        }
    }
    assert!(stale.is_empty(), "{}\nMS_BLESS=1 takes these over", stale.join("\n"));
}

#[test]
fn numbers_of_steps() {
    let cases = [
        ("adam", 1, include_str!("lower/adam.msir")),
        ("softmax", 1, include_str!("lower/softmax.msir")),
        ("softmax_columns", 1, include_str!("lower/softmax_columns.msir")),
        ("layer_norm", 1, include_str!("lower/layer_norm.msir")),
        ("dense_backward", 3, include_str!("lower/dense_backward.msir")),
        ("views", 1, include_str!("lower/views.msir")),
        ("reshapes", 1, include_str!("lower/reshapes.msir")),
        ("loss", 1, include_str!("lower/loss.msir")),
        ("calls", 2, include_str!("lower/calls.msir")),
        ("batch_norm", 1, include_str!("lower/batch_norm.msir")),
        ("product_of_transposes", 2, include_str!("lower/product_of_transposes.msir")),
        ("train_step", 12, include_str!("lower/train_step.msir")),
        ("mlp_step", 9, include_str!("lower/mlp_step.msir")),
        ("short_rows", 2, include_str!("lower/short_rows.msir")),
        ("concat", 3, include_str!("lower/concat.msir")),
        ("slice_update", 5, include_str!("lower/slice_update.msir")),
        ("nested_slices", 4, include_str!("lower/nested_slices.msir")),
        ("embedding", 3, include_str!("lower/embedding.msir")),
    ];
    for (name, steps, text) in cases {
        let plan = plan(text);
        assert_eq!(plan.main().steps.len(), steps, "{name}\n{}", plan.display());
    }
}

/// A step of a recurrent cell is one step of the plan if its gates are adjacent columns of one product. The new state
/// may overwrite the old one.
#[test]
fn a_cell_is_one_step() {
    let plan = plan(include_str!("lower/columns.msir"));
    let cell = plan.routines.iter().find(|it| it.name == "cell").expect("the body of the loop is a routine");
    let [PlanStep::Contraction(step)] = &cell.steps[..] else { panic!("{}", plan.display()) };
    let ContractionResult::Epilogues(all) = &step.result else { panic!("{}", plan.display()) };
    let along: Vec<_> = all.iter().map(|it| it.loops.clone()).collect();
    assert!(matches!(&along[..], [EpilogueLoops::Elements(_), EpilogueLoops::Rows(it)] if it[..] == [32]), "{along:?}");
    // The hidden state is an operand of the product, so the new one cannot overwrite it.
    assert_eq!([0, 1].map(|it| cell.reuse.allows(it, it)), [true, false], "{}", plan.display());
}

/// Each pair of operands of `einsum` becomes a contraction of views, which copy nothing.
#[test]
fn einsum_is_contractions() {
    let cases: [(&str, &[&[usize]], usize); 6] = [
        ("ij,jk->ik", &[&[20, 30], &[30, 40]], 1),
        ("ji,kj->ki", &[&[30, 20], &[40, 30]], 1),
        ("bqhd,bkhd->bhqk", &[&[2, 20, 3, 8], &[2, 24, 3, 8]], 1),
        ("bhqk,bkhd->bqhd", &[&[2, 3, 20, 24], &[2, 24, 3, 8]], 1),
        ("...ij,...kj->...ik", &[&[4, 5, 6, 7], &[4, 5, 8, 7]], 1),
        ("ij,jk,kl->il", &[&[20, 30], &[30, 40], &[40, 50]], 2),
    ];
    for (equation, shapes, contractions) in cases {
        let types: Vec<Type> = shapes.iter().map(|it| Type::of(DType::F32, it)).collect();
        let graph = build("einsum", &types, |inputs| Ok(vec![einsum(equation, inputs)])).expect("the operands fit");
        let graph = optimize(graph, &PassContext::default());
        let plan = lower(&graph, &LowerOptions::default(), &TARGET).expect("it has a plan");
        let steps = &plan.main().steps;
        let products = steps.iter().filter(|it| matches!(it, PlanStep::Contraction(_))).count();
        // A result with another order of axes than the contraction is permuted.
        let rest = steps.len() - products;
        assert!(products == contractions && rest <= 1, "{equation}\n{}", plan.display());
    }
}

/// Updates happen in place unless somebody reads the old value later. The kernel that computes the new elements stores
/// them there, if it reads no other elements.
#[test]
fn updates_in_place() {
    // Body, steps, whether the result may overwrite the first input.
    let cases = [
        ("%v = mul %x, %y : f32[2, 1024]\n %r = slice_update %c, %v {starts = [3, 0], steps = [1, 1]}", 2, true),
        ("%v = mul %x, %y : f32[2, 1024]\n %r = slice_update %c, %v {starts = [0, 0], steps = [4, 1]}", 2, true),
        (
            "%o = slice %c {starts = [0, 0], sizes = [2, 1024], steps = [1, 1]} : f32[2, 1024]
             %v = mul %o, %y : f32[2, 1024]\n %r = slice_update %c, %v {starts = [3, 0], steps = [1, 1]}",
            3,
            true,
        ),
        (
            "%a = neg %x : f32[2, 1024]\n %m = slice_update %c, %a {starts = [0, 0], steps = [1, 1]} : f32[8, 1024]
             %b = exp %y : f32[2, 1024]\n %r = slice_update %m, %b {starts = [1, 0], steps = [1, 1]}",
            4,
            true,
        ),
        (
            "%v = mul %x, %y : f32[2, 1024]\n %u = slice_update %c, %v {starts = [3, 0], steps = [1, 1]} : f32[8, 1024]
             %o = slice %c {starts = [7, 0], sizes = [8, 1024], steps = [-1, 1]} : f32[8, 1024]\n %r = sub %u, %o",
            3,
            false,
        ),
        ("%r = slice_update %c, %c {starts = [7, 0], steps = [-1, 1]}", 1, false),
    ];
    for (body, steps, in_place) in cases {
        let inputs = "%c: f32[8, 1024], %x: f32[2, 1024], %y: f32[2, 1024]";
        let plan = plan(&format!("graph @f({inputs}) -> (f32[8, 1024]) {{\n {body} : f32[8, 1024]\n return %r\n}}"));
        assert_eq!(plan.main().steps.len(), steps, "{body}\n{}", plan.display());
        assert_eq!(plan.main().reuse.allows(0, 0), in_place, "{body}\n{}", plan.display());
    }
}

/// A value that a kernel with a loop computes once per point overwrites operands that only points read.
#[test]
fn results_of_reductions_overwrite_operands() {
    let sum = |of: &str| format!("%s = sum {of} {{axes = [0], keepdims = false}} : f32[64]");
    // Body, whether `%r` may overwrite `%a`, and whether it may overwrite `%b`.
    let cases = [
        (format!("{}\n %r = sub %a, %s : f32[64]", sum("%x")), [true, false]),
        (format!("{}\n %m = mul %a, %b : f32[64]\n %r = sub %m, %s : f32[64]", sum("%x")), [true, true]),
        (format!("%y = sub %x, %a : f32[32, 64]\n {}\n %r = sub %a, %s : f32[64]", sum("%y")), [false, false]),
        (format!("{}\n %n = sub %x, %s : f32[32, 64]\n %r = sub %a, %s : f32[64]", sum("%x")), [true, false]),
    ];
    for (body, overwrites) in cases {
        let inputs = "%x: f32[32, 64], %a: f32[64], %b: f32[64]";
        let (types, more) = if body.contains("%n") { ("f32[64], f32[32, 64]", ", %n") } else { ("f32[64]", "") };
        let plan = plan(&format!("graph @f({inputs}) -> ({types}) {{\n {body}\n return %r{more}\n}}"));
        assert_eq!(plan.main().steps.len(), 1, "{body}\n{}", plan.display());
        let in_place = |input: u32| plan.main().reuse.in_place.contains(&(0, input));
        assert_eq!([in_place(1), in_place(2)], overwrites, "{body}\n{}", plan.display());
    }
}

/// Returns the text of a graph after the texts of the `callees` that it names.
fn with_callees(main: &str, callees: &[String]) -> String {
    let name = |it: &String| it["graph ".len()..].split('(').next().map(str::to_owned).expect("a graph has a name");
    callees.iter().filter(|it| main.contains(&format!("{} ", name(it)))).map(String::as_str).chain([main]).collect()
}

/// Steps that may fail come before the step that overwrites an input, unless they read the new value.
#[test]
fn steps_that_may_fail_come_first() {
    let (new, gathered) = ("%r = mul %c, %y : f32[64, 64]", "%o = gather %x, %i {axis = 0} : f32[64, 64]");
    let product = |of: &str| format!("%o = matmul {of}, %x : f32[64, 64]");
    let looped = |body: &str| {
        format!("%o = scan @{body} %x, %y {{length = 4, carries = 1, sequences = 0, reverse = false}} : f32[64, 64]")
    };
    // Body, whether the new value of `%c` overwrites it.
    let cases = [
        (format!("{new}\n {}", product("%y")), true),
        (format!("{}\n {new}", product("%y")), true),
        (format!("{new}\n {}", product("%c")), true),
        (format!("{new}\n {}", product("%r")), false),
        (format!("{new}\n %n = exp %r : f32[64, 64]\n {}", product("%n")), false),
        (format!("%p = matmul %x, %y : f32[64, 64]\n {} {gathered}", new.replace("%y", "%p")), true),
        (format!("{new}\n {gathered}"), true),
        (format!("{new}\n {}", looped("matmul")), true),
        (format!("{new}\n {}\n {gathered}", looped("add").replace("%o", "%u")), true),
    ];
    let inputs = "%c: f32[64, 64], %x: f32[64, 64], %y: f32[64, 64], %i: i64[64]";
    let bodies = ["matmul", "add"].map(|op| {
        format!(
            "graph @{op}(%s: f32[64, 64], %y: f32[64, 64]) -> (f32[64, 64]) {{
             %n = {op} %s, %y : f32[64, 64]\n return %n\n}}\n"
        )
    });
    for (body, overwrites) in cases {
        let main = format!("graph @f({inputs}) -> (f32[64, 64], f32[64, 64]) {{\n {body}\n return %r, %o\n}}");
        let plan = plan(&with_callees(&main, &bodies));
        assert_eq!(plan.main().reuse.allows_state(0, 0), overwrites, "{body}\n{}", plan.display());
    }
}

/// A loop may fail if an iteration may fail, or if it saves values on stacks.
#[test]
fn loops_that_may_fail() {
    let bodies = [
        "graph @more(%s: f32[], %n: f32[]) -> (bool[]) {\n %m = less %s, %n : bool[]\n return %m\n}\n",
        "graph @step(%s: f32[], %n: f32[]) -> (f32[]) {\n %t = add %s, %n : f32[]\n return %t\n}\n",
        "graph @kept(%s: f32[], %n: f32[]) -> (f32[], f32[]) {\n %t = add %s, %n : f32[]\n return %t, %s\n}\n",
    ];
    let cases = [
        ("%o = scan @step %x, %y {length = 4, carries = 1, sequences = 0, reverse = false} : f32[]", "f32[]", false),
        ("%o = while @more @step %x, %y {carries = 1} : f32[]", "f32[]", false),
        ("%s, %i, %o = while @more @kept %x, %y {carries = 1} : f32[], i64[], f32[?]", "f32[?]", true),
    ];
    for (body, result, may_fail) in cases {
        let main = format!("graph @f(%x: f32[], %y: f32[]) -> ({result}) {{\n {body}\n return %o\n}}");
        let plan = plan(&with_callees(&main, &bodies.map(String::from)));
        assert_eq!(plan.main().reuse.fallible > 0, may_fail, "{body}\n{}", plan.display());
    }
}

/// Positions are checked before a gather reads elements at them, also after ops that are computed slice by slice.
#[test]
fn checks_before_gathers() {
    let sums = "%s = concat %x, %y, %x {axis = 1} : f32[4, 288]\n %w = add %s, %s : f32[4, 288]\n";
    for before in ["", sums] {
        let (types, wide) = if before.is_empty() { ("f32[4, 96]", "") } else { ("f32[4, 96], f32[4, 288]", ", %w") };
        let plan = plan(&format!(
            "graph @f(%x: f32[4, 96], %y: f32[4, 96], %i: i64[4]) -> ({types}) {{
             {before} %g = gather %x, %i {{axis = 0}} : f32[4, 96]\n return %g{wide}\n}}"
        ));
        let steps = &plan.main().steps;
        let gathers = |it: &PlanStep| it.kernels().iter().flat_map(|it| &it.args).any(|it| it.axis.is_some());
        let check = steps.iter().position(|it| matches!(it, PlanStep::Check { .. })).expect("inputs are checked");
        let gather = steps.iter().position(gathers).expect("there is a gather");
        assert!(check < gather, "{}", plan.display());
    }
}

/// Six hundred ops on one element are one kernel.
#[test]
fn a_long_chain_is_one_kernel() {
    let mut text = String::from("graph @chain(%x: f32[1], %y: f32[1]) -> (f32[1]) {\n  %0 = neg %x : f32[1]\n");
    for i in (0..600).step_by(3) {
        writeln!(text, "%{} = mul %x, %y : f32[1]", i + 1).expect("strings take all");
        writeln!(text, "%{} = add %x, %{} : f32[1]", i + 2, i + 1).expect("strings take all");
        writeln!(text, "%{} = add %{}, %{i} : f32[1]", i + 3, i + 2).expect("strings take all");
    }
    text += "return %600\n}";
    let plan = plan(&text);
    assert_eq!(kernels(&plan), 1);
    // Repeated subexpressions are computed once.
    assert!(plan.kernels[0].insts.len() < 210, "{} instructions", plan.kernels[0].insts.len());
}

/// A graph is partitioned into more kernels for a target with a smaller budget.
#[test]
fn budgets_bound_kernels() {
    let kernels_for = |text: &str, change: fn(&mut Target)| {
        let mut target = TARGET.clone();
        change(&mut target);
        let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
        kernels(&lower(&graph, &LowerOptions::default(), &target).unwrap_or_else(|error| panic!("{error}")))
    };
    let softmax = include_str!("lower/softmax.msir");
    let adam = include_str!("lower/adam.msir");
    type Change = fn(&mut Target);
    let cases: [(&str, Change, bool); 7] = [
        (softmax, |_| {}, false),
        (softmax, |it| *it = Target::unbounded(), false),
        (softmax, |it| it.fast_memory = 9 * 4, true),
        (softmax, |it| it.budget.loops = 1, true),
        (adam, |it| it.budget.cost = 4, true),
        (adam, |it| it.budget.inputs = 2, true),
        (adam, |it| it.budget.words = 40, true),
    ];
    for (case, (text, change, splits)) in cases.into_iter().enumerate() {
        let found = kernels_for(text, change);
        assert_eq!(found > 1, splits, "case {case} gives {found} kernels");
    }
}

/// The order of reductions in relaxed precisions is the target's; in strict precision it is the same on all targets.
#[test]
fn orders_of_the_target() {
    let text = "graph @f(%x: f32[8, 100]) -> (f32[8]) {
        %y = sum %x {axes = [1], keepdims = false} : f32[8]
        return %y
    }";
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
    let order = |relaxed_order, precision| {
        let target = Target { relaxed_order, ..TARGET.clone() };
        let plan = lower(&graph, &LowerOptions { precision, ..LowerOptions::default() }, &target);
        plan.unwrap_or_else(|error| panic!("{error}")).kernels[0].order
    };
    for relaxed in [ReductionOrder::Lanes, ReductionOrder::Blocks] {
        assert_eq!(order(relaxed, Precision::Highest), relaxed);
        assert_eq!(order(relaxed, Precision::Strict), ReductionOrder::Blocks);
    }
}

/// Without kernels, every op that is no view is a step of the library, in the precision of the code. Results that are
/// views of inputs or constants are copied.
#[test]
fn a_target_may_run_ops_only() {
    let graph = |text: &str| parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
    let softmax = graph(include_str!("lower/softmax.msir"));
    let views = graph(
        "graph @f(%x: f32[2, 3]) -> (f32[3, 2], f32[2, 3], f32[]) {
            %y = permute %x {axes = [1, 0]} : f32[3, 2]
            %z = constant {value = f32[](0.5)} : f32[]
            return %y, %x, %z
        }",
    );
    let embedding = graph(include_str!("lower/embedding.msir"));
    let loops = graph(include_str!("lower/while_kernel.msir"));
    for graph in [softmax, views, embedding, loops] {
        for precision in Precision::ALL {
            let target = Target { kernels: false, ..Target::unbounded() };
            let plan = lower(&graph, &LowerOptions { precision, ..LowerOptions::default() }, &target);
            let plan = plan.unwrap_or_else(|error| panic!("{error}"));
            assert!(plan.kernels.is_empty(), "{}", plan.display());
            for step in plan.routines.iter().flat_map(|it| &it.steps) {
                match step {
                    PlanStep::Library { precision: own, .. } => assert_eq!(*own, precision),
                    PlanStep::Call { .. } | PlanStep::Branch { .. } | PlanStep::Loop(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// Native functions of a target remain unless the precision is strict. The cost model uses their native costs.
#[test]
fn functions_of_the_target() {
    let text = "graph @main(%x: f32[64], %y: f64[64]) -> (f32[64], f64[64]) {
  %e = exp %x : f32[64]
  %a = exp %y : f64[64]
  %p = pow %e, %x : f32[64]
  return %p, %a
}";
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
    let native = |math, cost| Native { math, dtype: DType::F32, cost };
    let target = Target { functions: vec![native(Math::Exp, 4), native(Math::Pow, 9)], ..TARGET.clone() };
    let functions = |plan: &Plan| {
        let insts = plan.kernels.iter().flat_map(|it| it.insts.iter().zip(&it.types));
        let found = insts.filter_map(|(inst, dtype)| match inst {
            Inst::Math(math, ..) => Some((*math, *dtype)),
            _ => None,
        });
        found.collect::<Vec<_>>()
    };
    let plan = |target: &Target, precision| {
        let options = LowerOptions { precision, ..LowerOptions::default() };
        lower(&graph, &options, target).unwrap_or_else(|error| panic!("{error}"))
    };
    let own = plan(&target, Precision::Highest);
    assert_eq!(functions(&own), [(Math::Exp, DType::F32), (Math::Pow, DType::F32)], "{}", own.display());
    assert_eq!(
        plan(&target, Precision::Strict),
        plan(&TARGET, Precision::Strict),
        "strict results are those of the formulas"
    );
    for (target, own_functions) in [(&TARGET, false), (&target, true)] {
        let kernels = own.kernels.iter().filter(|it| it.insts.iter().any(|it| matches!(it, Inst::Math(..))));
        for kernel in kernels {
            assert_eq!(target.check(kernel).is_ok(), own_functions);
            let cost = target.cost(kernel);
            assert_eq!(cost.insts, target.expand(kernel.clone()).insts.len() + if own_functions { 3 + 8 } else { 0 });
            // The formula of a power in f32 goes through f64.
            assert_eq!(cost.is_wide, !own_functions);
        }
    }
}

/// The memory of attention in blocks of queries, and of its gradient, is linear in the length.
#[test]
fn memory_of_attention() {
    let check = |causal: bool, wrt: &[usize]| {
        let bytes = |length: usize| {
            let x = format!("f32[2, {length}, 4]");
            let text = format!(
                "graph @f(%q: {x}, %k: {x}, %v: {x}, %mask: f32[{length}]) -> (f32[]) {{
                  %y = blocked_attention %q, %k, %v, %mask
                    {{causal = {causal}, scaled = false, scale = 1.0, queries = 64}} : {x}
                  %loss = sum %y {{axes = [0, 1, 2], keepdims = false}} : f32[]
                  return %loss
                }}"
            );
            let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{error}"));
            let graph = value_and_grad(&graph, wrt, 1, false, false).expect("it has a derivative");
            let graph = optimize(graph, &PassContext::default());
            let plan = lower(&graph, &LowerOptions::default(), &TARGET).unwrap_or_else(|error| panic!("{error}"));
            plan.main().arena_bytes
        };
        let [short, long] = [1024, 4096].map(bytes);
        eprintln!("{causal} {wrt:?} {:?}", [512, 1024, 2048, 4096].map(bytes));
        // Buffers of blocks and of whole operands share more memory for the short length.
        assert!(long <= 6 * short, "{short} bytes, and {long} of four times the length");
    };
    for causal in [false, true] {
        check(causal, &[0, 1, 2]);
        // The gradient of the mask is computed in blocks as well.
        check(causal, &[0, 1, 2, 3]);
    }
}
