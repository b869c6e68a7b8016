//! Tests loops that are lowered to kernels.

use super::{check, f32s, flag, int};
use ms_compile::lower::{LowerOptions, Plan, PlanStep, lower};
use ms_cpu::TARGET;
use ms_ir::Scope;
use ms_ir::data::Array;
use ms_ops::ops::parse_graph;

/// Returns the number of loop kernels and of loop steps in a plan.
pub fn loops(plan: &Plan) -> [usize; 2] {
    let is_loop = |step: &&PlanStep| matches!(step, PlanStep::Loop(_));
    let repeats = |kernel: &&ms_ir::Kernel| kernel.stages.iter().any(|it| it.scope == Scope::Repeat);
    [plan.kernels.iter().filter(repeats).count(), plan.routines.iter().flat_map(|it| &it.steps).filter(is_loop).count()]
}

/// Builds the graph of a loop of `%n` iterations. Its carries are `%i`, `%a`, `%b` and `%p` of the types of `a`, `b`
/// and `p`. The invariant `%c` has the type of `c`. `body` computes the next values of the carries, which `next` names.
fn counted([a, b, p, c]: [&str; 4], body: &str, next: &str) -> String {
    let all = format!("%i: i64[], %a: {a}, %b: {b}, %p: {p}, %n: i64[], %c: {c}");
    format!(
        "graph @more({all}) -> (bool[]) {{ %goes = less %i, %n : bool[] return %goes }}
         graph @step({all}) -> (i64[], {a}, {b}, {p}) {{
           %one = constant {{value = i64[](1)}} : i64[]
           %j = add %i, %one : i64[]
           {body}
           return %j, {next}
         }}
         graph @main(%n: i64[], %a: {a}, %b: {b}, %p: {p}, %c: {c}) -> (i64[], {a}, {b}, {p}) {{
           %z = constant {{value = i64[](0)}} : i64[]
           %i, %x, %y, %q = while @more @step %z, %a, %b, %p, %n, %c {{carries = 4}} : i64[], {a}, {b}, {p}
           return %i, %x, %y, %q
         }}"
    )
}

/// Returns elements of a type.
fn array(ty: &str, seed: i64) -> Array {
    let (dtype, dims) = ty.split_once('[').expect("a type has brackets");
    let shape: Vec<usize> = dims
        .trim_end_matches(']')
        .split(", ")
        .filter(|it| !it.is_empty())
        .map(|it| it.parse().expect("a size"))
        .collect();
    let count: usize = shape.iter().product();
    let number = |at: usize| ((at as i64 * 7 + seed * 3) % 11 - 5) as f64 / 4.0;
    match dtype {
        "f32" => f32s(&shape, &(0..count).map(|it| number(it) as f32).collect::<Vec<_>>()),
        "f64" => Array::from_slice(&shape, &(0..count).map(number).collect::<Vec<_>>()),
        "i32" => Array::from_slice(&shape, &(0..count).map(|it| (4.0 * number(it)) as i32).collect::<Vec<_>>()),
        "bool" => Array::from_slice(&shape, &(0..count).map(|it| number(it) > 0.0).collect::<Vec<_>>()),
        _ => panic!("no elements of {ty}"),
    }
}

/// Loops become one kernel, or one for each number of elements of their results. They have the bits of separate ops.
#[test]
fn elementwise_loops() {
    let f = "f32[]";
    let cases: [(&str, [&str; 4], &str, &str, usize); 15] = [
        ("a sum", [f; 4], "%x = mul %a, %c : f32[] %y = add %x, %b : f32[]", "%y, %b, %p", 1),
        ("carries that change places", [f; 4], "", "%b, %a, %p", 1),
        ("carries in a circle", [f; 4], "", "%b, %p, %a", 1),
        ("one value for all", [f; 4], "%x = sub %a, %p : f32[]", "%x, %x, %x", 1),
        ("what stays becomes the same", [f; 4], "%x = add %a, %b : f32[]", "%x, %c, %b", 1),
        ("a quotient", [f; 4], "%x = div %a, %b : f32[] %y = sqrt %x : f32[]", "%y, %a, %p", 1),
        ("f64", ["f64[]"; 4], "%x = mul %a, %c : f64[] %y = add %x, %b : f64[]", "%y, %x, %p", 1),
        ("i32", ["i32[]"; 4], "%x = mul %a, %b : i32[] %y = sub %x, %c : i32[]", "%y, %p, %x", 1),
        (
            "bools",
            ["bool[]", f, "bool[]", f],
            "%l = less %b, %c : bool[] %m = logical_and %l, %p : bool[] %x = add %b, %b : f32[]",
            "%m, %x, %a",
            1,
        ),
        (
            "a selection",
            [f, "bool[]", f, f],
            "%x = select %b, %a, %p : f32[] %y = add %x, %c : f32[] %m = less %y, %a : bool[]",
            "%y, %m, %x",
            1,
        ),
        ("vectors", ["f32[3]"; 4], "%x = mul %a, %c : f32[3] %y = add %x, %b : f32[3]", "%y, %x, %p", 2),
        (
            "whole registers and a rest",
            ["f32[19]"; 4],
            "%x = mul %a, %c : f32[19] %y = add %x, %b : f32[19]",
            "%y, %x, %p",
            2,
        ),
        (
            "numbers and matrices",
            ["f32[2, 3]", f, f, "f32[2, 3]"],
            "%x = mul %a, %b : f32[2, 3] %y = add %x, %c : f32[2, 3] %w = add %b, %p : f32[]",
            "%y, %w, %b",
            2,
        ),
        (
            "many bools",
            ["bool[5]", "f32[5]", "bool[]", "f32[]"],
            "%l = less %b, %c : bool[5] %x = add %b, %c : f32[5] %m = logical_and %l, %p : bool[5]",
            "%m, %x, %p",
            2,
        ),
        (
            "two widths",
            ["f64[7]", "i32[7]", "i32[]", "f64[7]"],
            "%x = mul %a, %c : f64[7] %k = add %b, %p : i32[7]",
            "%x, %k, %p",
            2,
        ),
    ];
    for (what, types, body, next, kernels) in cases {
        let text = counted(types, body, next);
        let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
        let plan = lower(&graph, &LowerOptions::default(), &TARGET).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(loops(&plan), [kernels, 0], "{what}\n{}", plan.display());
        let of = |n: i64| std::iter::once(int(n)).chain(types.iter().zip(n..).map(|(ty, seed)| array(ty, seed)));
        check(&graph, &[0, 1, 2, 7, -3].map(|n| of(n).collect::<Vec<_>>()));
    }
}

/// These loops cannot be kernels.
#[test]
fn other_loops() {
    let cases = [
        (
            "a reduction",
            ["f32[3]"; 4],
            "%s = sum %a {axes = [0], keepdims = true} : f32[1] %x = mul %a, %s : f32[3]",
            "%x, %b, %p",
        ),
        (
            "elements that change places",
            ["f32[3]"; 4],
            "%r = slice %a {starts = [2], sizes = [3], steps = [-1]} : f32[3] %x = add %r, %c : f32[3]",
            "%x, %b, %p",
        ),
        (
            "one element of many",
            ["f32[3]", "f32[1]", "f32[1]", "f32[3]"],
            "%r = slice %a {starts = [1], sizes = [1], steps = [1]} : f32[1] %x = add %a, %r : f32[3]",
            "%x, %r, %p",
        ),
        (
            "two numbers of elements",
            ["f32[3]", "f32[2]", "f32[]", "f32[]"],
            "%x = add %a, %c : f32[3] %y = add %b, %c : f32[2]",
            "%x, %y, %p",
        ),
        ("rows", ["f32[2, 3]", "f32[3]", "f32[]", "f32[]"], "%x = add %a, %b : f32[2, 3]", "%x, %b, %p"),
        ("many elements", ["f32[99]"; 4], "%x = add %a, %c : f32[99]", "%x, %b, %p"),
        ("no elements", ["f32[0]"; 4], "%x = add %a, %c : f32[0]", "%x, %b, %p"),
    ];
    for (what, types, body, next) in cases {
        let text = counted(types, body, next);
        let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
        let plan = lower(&graph, &LowerOptions::default(), &TARGET).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(loops(&plan), [0, 1], "{what}\n{}", plan.display());
        let of = |n: i64| std::iter::once(int(n)).chain(types.iter().zip(n..).map(|(ty, seed)| array(ty, seed)));
        check(&graph, &[0, 3].map(|n| of(n).collect::<Vec<_>>()));
    }
}

/// The condition is not a counter, and no iteration changes it.
#[test]
fn conditions() {
    let text = "graph @more(%go: bool[], %x: f32[3], %y: f32[]) -> (bool[]) { return %go }
         graph @step(%go: bool[], %x: f32[3], %y: f32[]) -> (bool[], f32[3], f32[]) {
           %z = add %y, %y : f32[]
           %k = constant {value = f32[](100)} : f32[]
           %m = less %z, %k : bool[]
           %w = add %x, %y : f32[3]
           return %m, %w, %z
         }
         graph @main(%go: bool[], %x: f32[3], %y: f32[]) -> (bool[], f32[3], f32[]) {
           %a, %b, %c = while @more @step %go, %x, %y {carries = 3} : bool[], f32[3], f32[]
           return %a, %b, %c
         }";
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = lower(&graph, &LowerOptions::default(), &TARGET).expect("the graph is valid");
    assert_eq!(loops(&plan), [2, 0]);
    let inputs = |go, y| vec![flag(go), f32s(&[3], &[1.0, -0.0, f32::NAN]), f32s(&[], &[y])];
    check(&graph, &[inputs(true, 0.75), inputs(false, 0.75), inputs(true, f32::NAN), inputs(true, 1e9)]);
}

/// Covers operands that are slices or broadcasts of others.
#[test]
fn parts_of_operands() {
    let text = "graph @more(%i: f32[], %x: f32[2], %n: f32[1], %k: f32[2]) -> (bool[]) {
           %m = reshape %n {shape = []} : f32[]
           %c = less %i, %m : bool[]
           return %c
         }
         graph @step(%i: f32[], %x: f32[2], %n: f32[1], %k: f32[2]) -> (f32[], f32[2]) {
           %one = constant {value = f32[](1)} : f32[]
           %j = add %i, %one : f32[]
           %y = add %x, %k : f32[2]
           return %j, %y
         }
         graph @main(%x: f32[3], %n: f32[5]) -> (f32[], f32[2], f32[2]) {
           %k = full {value = f32[](0.5), shape = [2]} : f32[2]
           %i = full {value = f32[](0), shape = []} : f32[]
           %tail = slice %x {starts = [1], sizes = [2], steps = [1]} : f32[2]
           %count = slice %n {starts = [3], sizes = [1], steps = [1]} : f32[1]
           %j, %y = while @more @step %i, %tail, %count, %k {carries = 2} : f32[], f32[2]
           %first = slice %tail {starts = [0], sizes = [1], steps = [1]} : f32[1]
           %l, %z = while @more @step %i, %tail, %first, %k {carries = 2} : f32[], f32[2]
           return %j, %y, %z
         }";
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = lower(&graph, &LowerOptions::default(), &TARGET).expect("the graph is valid");
    assert_eq!(loops(&plan), [2, 0]);
    check(&graph, &[vec![f32s(&[3], &[1.0, 2.0, 3.0]), f32s(&[5], &[9.0, 9.0, 9.0, 4.0, 9.0])]]);
}

/// Scans with a constant number of iterations and without sequences are kernels, too.
#[test]
fn scans() {
    let text = |count: usize, attrs: &str| {
        format!(
            "graph @step(%i: i64[], %x: f32[3], %k: f32[]) -> (i64[], f32[3]) {{
               %one = constant {{value = i64[](1)}} : i64[]
               %j = add %i, %one : i64[]
               %f = cast %i {{to = f32}} : f32[]
               %t = mul %x, %f : f32[3]
               %y = add %t, %k : f32[3]
               return %j, %y
             }}
             graph @main(%n: i64[], %x: f32[3], %k: f32[]) -> (i64[], f32[3], f32[3]) {{
               %j, %y = scan @step %n, %x, %k {{length = {count}, carries = 2, sequences = 0, {attrs}}} : i64[], f32[3]
               %l, %z = scan @step %j, %y, %k {{length = {count}, carries = 2, sequences = 0, {attrs}}} : i64[], f32[3]
               return %l, %y, %z
             }}"
        )
    };
    let inputs = |n| vec![int(n), f32s(&[3], &[1.0, -2.5, 0.75]), f32s(&[], &[0.3])];
    for count in [0, 1, 2, 9] {
        for attrs in ["reverse = false", "reverse = true"] {
            let text = text(count, attrs);
            let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let plan = lower(&graph, &LowerOptions::default(), &TARGET).expect("the graph is valid");
            assert_eq!(loops(&plan), [2, 0], "{}", plan.display());
            check(&graph, &[inputs(0), inputs(4)]);
        }
    }
}
