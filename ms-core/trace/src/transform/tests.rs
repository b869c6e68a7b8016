//! Compares derivatives of graphs with regions with central differences, to the third order.

use super::{differentiate, jvp, value_and_grad};
use crate::trace;
use ms_ir::{Def, Graph, Type, subgraphs};
use ms_ops::ops::{self, evaluate_graph, parse_graph, verify};
use ms_ops::tensor::{Array, DType};

/// Graphs of float inputs, all of type f64[], with points to differentiate at.
pub(super) const GRAPHS: &[(&str, &str, &[&[f64]])] = &[
    (
        "if",
        "
        graph @yes(%x: f64[], %y: f64[]) -> (f64[]) {
          %a = mul %x, %y : f64[]
          %b = exp %a : f64[]
          %c = mul %b, %x : f64[]
          return %c
        }
        graph @no(%x: f64[], %y: f64[]) -> (f64[]) { %a = sin %x : f64[] %b = mul %a, %a : f64[] return %b }
        graph @main(%x: f64[], %y: f64[]) -> (f64[]) {
          %c = less %x, %y : bool[]
          %z = if @yes @no %c, %x, %y : f64[]
          return %z
        }",
        &[&[0.5, 0.8], &[0.8, 0.5]],
    ),
    (
        "while",
        "
        graph @more(%x: f64[], %i: f64[], %k: f64[], %n: f64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
        graph @body(%x: f64[], %i: f64[], %k: f64[], %n: f64[]) -> (f64[], f64[]) {
          %a = sin %x : f64[]
          %b = mul %a, %k : f64[]
          %x1 = add %b, %x : f64[]
          %one = constant {value = f64[](1)} : f64[]
          %i1 = add %i, %one : f64[]
          return %x1, %i1
        }
        graph @main(%x: f64[], %k: f64[], %n: f64[]) -> (f64[]) {
          %i = constant {value = f64[](0)} : f64[]
          %n1 = mul %n, %n : f64[]
          %y, %j = while @more @body %x, %i, %k, %n1 {carries = 2} : f64[], f64[]
          return %y
        }",
        &[&[0.7, 0.3, 1.6], &[0.7, 0.3, 0.0], &[-0.4, 1.3, 2.2]],
    ),
    (
        "a loop that is linear",
        "
        graph @more(%x: f64[], %y: f64[]) -> (bool[]) {
          %t = constant {value = f64[](10)} : f64[]
          %c = less %x, %t : bool[]
          return %c
        }
        graph @body(%x: f64[], %y: f64[]) -> (f64[]) { %a = add %x, %y : f64[] return %a }
        graph @main(%x: f64[], %y: f64[]) -> (f64[]) { %z = while @more @body %x, %y {carries = 1} : f64[] return %z }",
        &[&[1.3, 2.7]],
    ),
    (
        "a loop in a loop",
        "
        graph @again(%x: f64[], %t: f64[]) -> (bool[]) { %c = less %x, %t : bool[] return %c }
        graph @step(%x: f64[], %t: f64[]) -> (f64[]) {
          %a = mul %x, %x : f64[]
          %b = exp %a : f64[]
          %c = mul %b, %x : f64[]
          return %c
        }
        graph @more(%x: f64[], %s: f64[], %k: f64[]) -> (bool[]) {
          %t = constant {value = f64[](3)} : f64[]
          %c = less %s, %t : bool[]
          return %c
        }
        graph @body(%x: f64[], %s: f64[], %k: f64[]) -> (f64[], f64[]) {
          %t = constant {value = f64[](2)} : f64[]
          %a = while @again @step %x, %t {carries = 1} : f64[]
          %s1 = add %s, %a : f64[]
          %l = log %a : f64[]
          %m = mul %l, %k : f64[]
          return %m, %s1
        }
        graph @main(%x: f64[], %k: f64[]) -> (f64[]) {
          %s = constant {value = f64[](0)} : f64[]
          %y, %z = while @more @body %x, %s, %k {carries = 2} : f64[], f64[]
          %w = mul %y, %z : f64[]
          return %w
        }",
        &[&[0.6, 0.9]],
    ),
    (
        "a loop in a branch in a loop",
        "
        graph @again(%x: f64[]) -> (bool[]) { %t = constant {value = f64[](2)} : f64[] %c = less %x, %t : bool[] return %c }
        graph @step(%x: f64[]) -> (f64[]) { %b = exp %x : f64[] %c = mul %b, %x : f64[] return %c }
        graph @yes(%x: f64[], %k: f64[]) -> (f64[]) {
          %a = while @again @step %x {carries = 1} : f64[]
          %b = div %x, %a : f64[]
          return %b
        }
        graph @no(%x: f64[], %k: f64[]) -> (f64[]) { %b = mul %x, %x : f64[] %a = mul %b, %k : f64[] return %a }
        graph @more(%x: f64[], %s: f64[], %k: f64[]) -> (bool[]) {
          %t = constant {value = f64[](3)} : f64[]
          %c = less %s, %t : bool[]
          return %c
        }
        graph @body(%x: f64[], %s: f64[], %k: f64[]) -> (f64[], f64[]) {
          %t = constant {value = f64[](1)} : f64[]
          %c = less %x, %t : bool[]
          %a = if @yes @no %c, %x, %k : f64[]
          %s1 = add %s, %t : f64[]
          return %a, %s1
        }
        graph @main(%x: f64[], %k: f64[]) -> (f64[]) {
          %s = constant {value = f64[](0)} : f64[]
          %y, %z = while @more @body %x, %s, %k {carries = 2} : f64[], f64[]
          return %y
        }",
        &[&[0.6, 1.2], &[1.3, 0.5]],
    ),
    (
        "a loop in a branch",
        "
        graph @again(%x: f64[]) -> (bool[]) { %t = constant {value = f64[](2)} : f64[] %c = less %x, %t : bool[] return %c }
        graph @step(%x: f64[]) -> (f64[]) { %b = exp %x : f64[] %c = mul %b, %x : f64[] return %c }
        graph @yes(%x: f64[]) -> (f64[]) { %a = while @again @step %x {carries = 1} : f64[] %b = div %x, %a : f64[] return %b }
        graph @no(%x: f64[]) -> (f64[]) { %b = mul %x, %x : f64[] return %b }
        graph @main(%x: f64[], %k: f64[]) -> (f64[]) {
          %c = less %x, %k : bool[]
          %a = if @yes @no %c, %x : f64[]
          return %a
        }",
        &[&[0.6, 1.2], &[1.3, 0.5]],
    ),
    (
        "calls of one graph",
        "
        graph @f(%x: f64[], %y: f64[]) -> (f64[], f64[]) {
          %a = mul %x, %y : f64[]
          %b = tanh %a : f64[]
          return %b, %a
        }
        graph @main(%x: f64[], %y: f64[]) -> (f64[]) {
          %a, %b = call @f %x, %y : f64[], f64[]
          %c, %d = call @f %a, %b : f64[], f64[]
          %e, %g = call @f %d, %y : f64[], f64[]
          %h = add %e, %c : f64[]
          return %h
        }",
        &[&[0.6, 1.2]],
    ),
    (
        "a scan, and one back over what it gives",
        "
        graph @step(%s: f64[], %k: f64[]) -> (f64[], f64[]) {
          %a = sin %s : f64[]
          %b = mul %a, %k : f64[]
          %c = add %s, %b : f64[]
          %d = mul %b, %b : f64[]
          return %c, %d
        }
        graph @fold(%s: f64[], %x: f64[], %k: f64[]) -> (f64[], f64[]) {
          %a = mul %s, %x : f64[]
          %b = add %a, %k : f64[]
          %c = exp %x : f64[]
          return %b, %c
        }
        graph @sum(%s: f64[], %x: f64[]) -> (f64[]) { %a = add %s, %x : f64[] return %a }
        graph @main(%x: f64[], %k: f64[]) -> (f64[]) {
          %y, %all = scan @step %x, %k {length = 4, carries = 1, sequences = 0, reverse = false} : f64[], f64[4]
          %z, %more = scan @fold %y, %all, %k {length = 4, carries = 1, sequences = 1, reverse = true} : f64[], f64[4]
          %w = scan @sum %z, %more {length = 4, carries = 1, sequences = 1, reverse = false} : f64[]
          return %w
        }",
        &[&[0.6, 1.2]],
    ),
];

fn evaluate(graph: &Graph, inputs: &[f64]) -> Vec<f64> {
    let inputs: Vec<Array> = inputs.iter().map(|&it| Array::from_slice(&[], &[it])).collect();
    let outputs = evaluate_graph(graph, &inputs.iter().collect::<Vec<_>>());
    let outputs = outputs.unwrap_or_else(|error| panic!("{error}\n{graph}"));
    outputs.iter().map(|it| it.on_host().expect("the elements are readable").scalars()[0].as_f64()).collect()
}

/// Returns the graph of a function's weighted gradients alone, which is a function again.
pub(super) fn gradient(graph: &Graph) -> Graph {
    let wrt: Vec<usize> = (0..graph.inputs().len()).collect();
    let both = value_and_grad(graph, &wrt, 1, false, true).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    let types: Vec<Type> = both.inputs().iter().map(|&it| both.ty(it).clone()).collect();
    let weighted = trace::build("weighted", &types, |inputs| {
        let results = crate::trace::Tracer::current().expect("building").inline(&both, inputs)?;
        let terms = results[1..].iter().zip(1..).map(|(it, weight)| ops::mul(it, 1.0 / weight as f64));
        Ok(vec![terms.reduce(|a, b| ops::add(&a, &b)).expect("an input")])
    });
    let weighted = weighted.expect("a sum");
    verify(&weighted).unwrap_or_else(|error| panic!("{error}\n{weighted}"));
    weighted
}

#[test]
fn derivatives_through_regions_agree_with_differences() {
    for (name, text, points) in GRAPHS {
        let mut graph = parse_graph(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for order in 1..=3 {
            let wrt: Vec<usize> = (0..graph.inputs().len()).collect();
            let both = value_and_grad(&graph, &wrt, 1, false, true).unwrap_or_else(|error| panic!("{name}: {error}"));
            verify(&both).unwrap_or_else(|error| panic!("{name}: {error}\n{both}"));
            for point in *points {
                let got = evaluate(&both, point);
                for at in 0..point.len() {
                    let moved = |step: f64| {
                        let mut point = point.to_vec();
                        point[at] += step;
                        evaluate(&graph, &point)[0]
                    };
                    let apart = |step: f64| (moved(step) - moved(-step)) / (2.0 * step);
                    let want = (4.0 * apart(5e-5) - apart(1e-4)) / 3.0;
                    let close = (got[1 + at] - want).abs() <= 1e-6 * (1.0 + want.abs());
                    assert!(close, "{name} at {point:?}: derivative {order} by {at} is {}, not {want}", got[1 + at]);
                }
            }
            graph = gradient(&graph);
        }
    }
}

/// Compares forward and reverse mode for the function, its gradient, and its second gradient. Also compares reverse
/// over forward mode with reverse mode.
#[test]
fn tangents_agree_with_gradients() {
    for (name, text, points) in GRAPHS {
        let mut graph = parse_graph(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for order in 1..=3 {
            let wrt: Vec<usize> = (0..graph.inputs().len()).collect();
            let pulled = value_and_grad(&graph, &wrt, 1, false, true).unwrap_or_else(|error| panic!("{name}: {error}"));
            let pushed = jvp(&graph, &wrt, 1).unwrap_or_else(|error| panic!("{name}: {error}"));
            verify(&pushed).unwrap_or_else(|error| panic!("{name}: {error}\n{pushed}"));
            for point in *points {
                let gradients = evaluate(&pulled, point);
                for at in 0..point.len() {
                    let tangents = (0..point.len()).map(|it| f64::from(it == at));
                    let got = evaluate(&pushed, &point.iter().copied().chain(tangents).collect::<Vec<_>>());
                    let (got, want) = (got[1], gradients[1 + at]);
                    let close = (got - want).abs() <= 1e-9 * (1.0 + want.abs());
                    assert!(close, "{name} at {point:?}: tangent {order} by {at} is {got}, not {want}");
                }
            }
            graph = if order == 2 { direction(&graph) } else { gradient(&graph) };
        }
    }
}

/// Returns the graph of a function's tangent in the direction of ones, which is a function again.
fn direction(graph: &Graph) -> Graph {
    let wrt: Vec<usize> = (0..graph.inputs().len()).collect();
    let both = jvp(graph, &wrt, 1).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    let types: Vec<Type> = graph.inputs().iter().map(|&it| graph.ty(it).clone()).collect();
    let tangent = trace::build("tangent", &types, |inputs| {
        let inputs: Vec<_> = inputs.iter().cloned().chain(inputs.iter().map(ops::ones_like)).collect();
        Ok(crate::trace::Tracer::current().expect("building").inline(&both, &inputs)?.split_off(1))
    });
    tangent.expect("a tangent")
}

/// Rematerialised values are computed twice, whatever the passes do.
#[test]
fn recomputing_survives_the_passes() {
    let text = "
        graph @f(%x: f64[]) -> (f64[]) { %a = exp %x : f64[] %b = sin %a : f64[] return %b }
        graph @main(%x: f64[]) -> (f64[]) { %y = NODE @f %x : f64[] return %y }";
    for (node, times) in [("recompute", 2), ("call", 1)] {
        let graph = parse_graph(&text.replace("NODE", node)).expect(node);
        let both = value_and_grad(&graph, &[0], 1, false, true).expect(node);
        let both = crate::passes::optimize(both, &ms_compile::optimize::PassContext::default());
        let graphs = subgraphs(&both).into_iter().map(|it| &**it).chain([&both]);
        let exps = graphs.flat_map(Graph::nodes).filter(|(_, node)| node.op == ops::EXP.op()).count();
        assert_eq!(exps, times, "{node}: {both}");
    }
}

#[test]
fn split_passes_only_what_crosses() {
    let ty = Type::of(DType::F32, &[3]);
    let graph = trace::build("f", &[ty.clone(), ty], |it| Ok(vec![ops::add(&it[0], &it[1])])).expect("traces");
    let parts = differentiate(&graph, &[0], false).expect("differentiable");
    assert_eq!(parts.seeds, [0]);
    assert_eq!(parts.forward.outputs().len(), 1, "the gradient of a sum needs no residual");
    assert_eq!(parts.backward.inputs().len(), 1);
    assert!(matches!(parts.backward.value(parts.backward.outputs()[0]).def, Def::Input(0)));
}

/// Values that take few operations on residuals are recomputed, functions are not.
#[test]
fn split_computes_again_what_follows_from_residuals() {
    for (what, body, saved) in [
        (
            "both factors, of which the derivatives follow",
            "%s = sigmoid %x : f32[3] %t = tanh %y : f32[3] %z = mul %s, %t : f32[3]",
            2,
        ),
        ("a function of another residual", "%s = exp %x : f32[3] %t = sin %s : f32[3] %z = mul %s, %t : f32[3]", 3),
        ("a difference of residuals", "%d = sub %x, %y : f32[3] %e = mul %x, %y : f32[3] %z = mul %d, %e : f32[3]", 0),
        (
            "a mask, which is smaller than what it follows from",
            "%c = greater %x, %y : bool[3] %e = mul %x, %y : f32[3] %z = select %c, %e, %x : f32[3]",
            1,
        ),
    ] {
        let text = format!("graph @main(%x: f32[3], %y: f32[3]) -> (f32[3]) {{ {body} return %z }}");
        let graph = parse_graph(&text).expect(what);
        let parts = differentiate(&graph, &[0, 1], false).expect(what);
        verify(&parts.backward).expect(what);
        assert_eq!(parts.forward.outputs().len() - 1, saved, "{what}: {}", parts.forward);
    }
}
