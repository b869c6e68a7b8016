//! Tests of ops with regions: evaluation and type errors.

use crate::ops::{evaluate_graph, parse_graph, verify};
use crate::tensor::Array;

fn run(text: &str, inputs: &[Array]) -> Vec<Vec<f64>> {
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    verify(&graph).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let inputs: Vec<&Array> = inputs.iter().collect();
    let outputs = evaluate_graph(&graph, &inputs).unwrap_or_else(|error| panic!("{error}\n{text}"));
    outputs
        .iter()
        .map(|it| {
            it.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64()).collect()
        })
        .collect()
}

fn f32s(shape: &[usize], data: &[f32]) -> Array {
    Array::from_slice(shape, data)
}

const HALVES: &str = "
    graph @more(%x: f32[], %one: f32[]) -> (bool[]) { %c = greater %x, %one : bool[] return %c }
    graph @half(%x: f32[], %one: f32[]) -> (f32[], f32[]) {
      %two = add %one, %one : f32[]
      %h = div %x, %two : f32[]
      return %h, %x
    }
    graph @main(%x: f32[], %one: f32[]) -> (f32[], i64[], f32[?]) {
      %h, %n, %s = while @more @half %x, %one {carries = 1} : f32[], i64[], f32[?]
      return %h, %n, %s
    }";

#[test]
fn an_if_takes_one_branch() {
    let text = "
        graph @yes(%x: f32[2]) -> (f32[2]) { %y = neg %x : f32[2] return %y }
        graph @no(%x: f32[2]) -> (f32[2]) { return %x }
        graph @main(%c: bool[], %x: f32[2]) -> (f32[2]) { %y = if @yes @no %c, %x : f32[2] return %y }";
    for (taken, want) in [(true, [-1.0, -2.0]), (false, [1.0, 2.0])] {
        assert_eq!(run(text, &[Array::from_slice(&[], &[taken]), f32s(&[2], &[1.0, 2.0])]), [want]);
    }
}

#[test]
fn a_while_repeats_and_keeps_what_its_body_pushes() {
    let cases: [(f32, f64, &[f64]); 3] = [(8.0, 1.0, &[8.0, 4.0, 2.0]), (0.5, 0.5, &[]), (3.0, 0.75, &[3.0, 1.5])];
    for (x, last, pushed) in cases {
        let results = run(HALVES, &[f32s(&[], &[x]), f32s(&[], &[1.0])]);
        assert_eq!(results, [vec![last], vec![pushed.len() as f64], pushed.to_vec()]);
    }
}

#[test]
fn a_scan_runs_over_sequences_either_way() {
    let body = "
        graph @step(%sum: f32[], %x: f32[], %k: f32[]) -> (f32[], f32[]) {
          %y = mul %x, %k : f32[]
          %s = add %sum, %y : f32[]
          return %s, %s
        }";
    let operands = [f32s(&[], &[0.0]), f32s(&[3], &[1.0, 2.0, 3.0]), f32s(&[], &[10.0])];
    for (reverse, want) in [("false", [10.0, 30.0, 60.0]), ("true", [60.0, 50.0, 30.0])] {
        let main = format!(
            "graph @main(%sum: f32[], %x: f32[3], %k: f32[]) -> (f32[], f32[3]) {{
               %s, %y = scan @step %sum, %x, %k {{length = 3, carries = 1, sequences = 1, reverse = {reverse}}} : f32[], f32[3]
               return %s, %y
             }}"
        );
        assert_eq!(run(&(body.to_string() + &main), &operands), [vec![60.0], want.to_vec()]);
    }
}

#[test]
fn a_scan_consumes_the_stack_of_a_while() {
    let text = HALVES.replace("@main", "@halves").to_string()
        + "
        graph @add(%sum: f32[], %x: f32[]) -> (f32[]) { %s = add %sum, %x : f32[] return %s }
        graph @main(%x: f32[], %one: f32[], %zero: f32[]) -> (f32[]) {
          %h, %n, %s = call @halves %x, %one : f32[], i64[], f32[?]
          %t = scan @add %n, %zero, %s {length = -1, carries = 1, sequences = 1, reverse = true} : f32[]
          return %t
        }";
    assert_eq!(run(&text, &[f32s(&[], &[8.0]), f32s(&[], &[1.0]), f32s(&[], &[0.0])]), [[14.0]]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let callees = [
        ("@id", "graph @id(%x: f32[2]) -> (f32[2]) { return %x }"),
        ("@two", "graph @two(%x: f32[2]) -> (f32[2], f32[2]) { return %x, %x }"),
        ("@flag", "graph @flag(%x: f32[2]) -> (bool[]) { %c = constant {value = bool[](true)} : bool[] return %c }"),
    ];
    let text = |types: &str, node: &str| {
        let used: String = callees.iter().filter(|(name, _)| node.contains(name)).map(|it| it.1).collect();
        format!("{used} graph @main({types}) -> () {{ {node} return }}")
    };
    let cases = [
        (
            "%c: bool[], %x: f32[2]",
            "%y = if @id @two %c, %x : f32[2]",
            "the branches give [f32[2]] and [f32[2], f32[2]]",
        ),
        ("%c: bool[2], %x: f32[2]", "%y = if @id @id %c, %x : f32[2]", "a condition is bool[], not bool[2]"),
        ("%x: f32[2]", "%y = while @id @id %x {carries = 1} : f32[2]", "a condition is bool[], not f32[2]"),
        (
            "%x: f32[2]",
            "%y = while @flag @flag %x {carries = 1} : f32[2]",
            "carry 0 enters `@flag` as f32[2] and leaves it as bool[]",
        ),
        ("%x: f32[2]", "%y = while @flag @id %x {carries = 2} : f32[2]", "more carries than 1 operands"),
        (
            "%x: f32[3, 2]",
            "%y = scan @id %x {length = 2, carries = 0, sequences = 1, reverse = false} : f32[2, 2]",
            "a sequence of 2 elements",
        ),
        ("%x: f32[?, 2]", "%y = neg %x : f32[?, 2]", "f32[?, 2] has a size that only running decides"),
    ];
    for (types, node, want) in cases {
        let text = text(types, node);
        let error = verify(&parse_graph(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))).expect_err(node);
        assert!(error.to_string().contains(want), "{error}\n{want}");
    }
}
