//! Tests of the verifier on the ops of this crate.

use crate::ops::{parse_graph, verify};

#[test]
fn nodes_fit_their_ops() {
    let main = |body: &str| format!("graph @main(%0: f32[2], %1: f32[3], %2: i32[2]) -> () {{ {body} return }}");
    let callee = "graph @f(%0: f32[2]) -> (f32[2]) { return %0 }";
    let cases = [
        (main("%3 = add %0, %0 : f32[2]"), ""),
        (main("%3 = add %0, %1 : f32[2]"), "[MS100]: `add`: shapes [2] and [3] do not broadcast"),
        (main("%3 = add %0, %2 : f32[2]"), "[MS101]: `add`: dtypes f32 and i32 differ"),
        (main("%3 = add %0, %0 : f32[3]"), "`add`: results are [f32[3]], but the op gives [f32[2]]"),
        (main("%3 = add %0 : f32[2]"), "`add`: 1 operands, not 2"),
        (main("%3 = add %0, %0, %0 : f32[2]"), "`add`: 3 operands, not 2"),
        (main("%3 = cast %0 {to = 1} : f32[2]"), "`cast`: attribute `to` is of another kind than Int(1)"),
        (
            callee.to_string() + &main("%3 = while @f @f %0 {carries = 1.0} : f32[2]"),
            "`while`: attribute `carries` is of another kind than Float(1.0)",
        ),
        (main("%3 = reshape %0 {shape = [3]} : f32[3]"), "`reshape`: f32[2] cannot take the shape [3]"),
        (callee.to_string() + &main("%3 = call @f %0 : f32[2]"), ""),
        (callee.to_string() + &main("%3 = call @f %1 : f32[2]"), "`call`: `@f` takes [f32[2]], not [f32[3]]"),
        (callee.to_string() + &main("%3 = call @f @f %0 : f32[2]"), "`call`: 2 regions, not 1"),
        (callee.to_string() + &main("%3 = add @f %0, %0 : f32[2]"), "`add`: 1 regions, not 0"),
    ];
    for (text, want) in cases {
        let verdict = verify(&parse_graph(&text).expect(&text));
        match verdict {
            Ok(()) => assert_eq!(want, "", "{text}"),
            Err(error) => assert!(!want.is_empty() && error.to_string().contains(want), "{error}\n{want}"),
        }
    }
}

#[test]
fn attributes_are_in_their_ranges() {
    let pooled = |op: &str, attrs: &str| {
        format!("graph @f(%0: f32[1, 1, 6, 4]) -> () {{ %1 = {op} %0 {{{attrs}}} : f32[1, 1, 3, 2] return }}")
    };
    let mean = |stride: &str, count: &str| {
        let padding = "before = [0, 0], after = [0, 0]";
        let attrs = format!("kernel = [2, 2], stride = {stride}, {padding}, count = {count}, count_pad = true");
        pooled("avg_pool", &attrs)
    };
    let largest = |stride: &str, dilation: &str| {
        let padding = "before = [0, 0], after = [0, 0]";
        pooled("max_pool", &format!("kernel = [2, 2], stride = {stride}, dilation = {dilation}, {padding}"))
    };
    let loss = |reduction: &str| {
        let attrs = format!("reduction = {reduction}, ignored = false, ignore_index = 0, label_smoothing = 0.0");
        format!(
            "graph @f(%0: f32[2, 3], %1: i64[2]) -> () {{ %2, %3 = nll_loss %0, %1 {{{attrs}}} : f32[], f32[] return }}"
        )
    };
    let even = |count: &str, sizes: &str| {
        let attrs = format!("count = {count}, sizes = {sizes}");
        let result = format!("f32[1, 2, {}", &sizes[1..]);
        format!("graph @f(%0: f32[1, 2, 3]) -> () {{ %1 = adaptive_avg_pool_grad %0 {{{attrs}}} : {result} return }}")
    };
    let attention = |q: &str, result: &str| {
        let attrs = "causal = false, scaled = false, scale = 1.0, queries = 2";
        let inputs = format!("%0: {q}, %1: f32[3, 2], %2: f32[3, 2]");
        format!("graph @f({inputs}) -> () {{ %3 = blocked_attention %0, %1, %2 {{{attrs}}} : {result} return }}")
    };
    let sorted = |axis: &str| {
        let attrs = format!("axis = {axis}, descending = false");
        format!("graph @f(%0: f32[2]) -> () {{ %1, %2 = sort %0 {{{attrs}}} : f32[2], i64[2] return }}")
    };
    let cases = [
        (mean("[2, 2]", "[3, 2]"), ""),
        (mean("[2, 2]", "[4611686018, 4]"), "has no element"),
        (mean("[2, 2]", "[3, -2]"), "`count` is -2, but its numbers are from 0 to"),
        (mean("[2, -2]", "[3, 2]"), "`stride` is -2, but its numbers are from 0 to"),
        (mean("[2]", "[3, 2]"), "one entry for each of 2 spatial axes is needed"),
        (largest("[2, 2]", "[1, 1]"), ""),
        (largest("[-2, 2]", "[1, 1]"), "`stride` is -2, but its numbers are from 0 to"),
        (largest("[2, 2]", "[1, 9223372036854775807]"), "`dilation` is 9223372036854775807, but"),
        (loss("9"), "`reduction` is 9, but its numbers are from 0 to 3"),
        (loss("-1"), "`reduction` is -1, but its numbers are from 0 to 3"),
        (even("[3]", "[7]"), ""),
        (even("[3]", "[7, 5]"), "holds no gradients of [3] windows of [7, 5]"),
        (even("[2, 3]", "[7]"), "holds no gradients of [2, 3] windows of [7]"),
        (attention("f32[4, 2]", "f32[4, 2]"), ""),
        (attention("f32[2]", "f32[2]"), "attention of f32[2] has no axis of positions"),
        (sorted("0"), ""),
        (sorted("-1"), "`axis` is -1, but its numbers are from 0 to"),
        (sorted("-9223372036854775808"), "`axis` is -9223372036854775808, but"),
    ];
    for (text, want) in cases {
        match verify(&parse_graph(&text).unwrap_or_else(|error| panic!("{text}: {error}"))) {
            Ok(()) => assert_eq!(want, "", "{text}"),
            Err(error) => assert!(!want.is_empty() && error.to_string().contains(want), "{error}\n{want}"),
        }
    }
}

#[test]
fn all_defects_are_listed_with_their_places() {
    let text = "
        graph @f(%0: f32[2]) -> (f32[3]) { %1 = add %0, %0 : f32[3] return %1 }
        graph @g(%0: f32[2]) -> (f32[3]) {
          %1 = call @f %0 : f32[3]
          %2 = add %1, %0 : f32[3]
          return %2
        }";
    let error = verify(&parse_graph(text).expect(text)).expect_err("two nodes are wrong").to_string();
    for want in ["graph `@g` is broken in 2 places", "in: `@f`, node 0", "in: `@g`, node 1", "operands: f32[3], f32[2]"]
    {
        assert!(error.contains(want), "{error}\n{want}");
    }
}
