//! Compares batched graphs with one run for each lane.

use super::vmap as over_lanes;
use crate::transform::tests::{GRAPHS, gradient};
use crate::transform::value_and_grad;
use ms_ir::error::Code;
use ms_ir::{Graph, Node};
use ms_ops::ops::core::testing::scattered;
use ms_ops::ops::{
    COMPOSITES, Effects, Lane, Lowering, PRIMITIVES, definitions, evaluate_graph, infer, parse_graph, verify,
};
use ms_ops::tensor::{Array, DType, Dim, Type};

fn vmap(graph: &Graph, size: usize, operands: &[Lane], results: &[Lane]) -> ms_ir::error::Result<Graph> {
    over_lanes(graph, Dim::new(size), operands, results, None)
}

/// An operand over nested lanes with these counts, outermost first. `own` flags the levels at which it is mapped.
struct Operand {
    array: Array,
    own: Vec<bool>,
}

/// Returns the slice of an array at a position of its first axis.
fn lane(array: &Array, at: usize) -> Array {
    let row = array.layout().slice(0, at, 1, 1);
    array
        .with_layout(row.reshape(&array.shape()[1..]).expect("an axis of size one"))
        .on_host()
        .expect("the elements are readable")
        .to_contiguous()
}

fn evaluate(graph: &Graph, inputs: &[&Array], context: &str) -> Vec<Array> {
    verify(graph).unwrap_or_else(|it| panic!("{it}\n{context}\n{graph}"));
    evaluate_graph(graph, inputs).unwrap_or_else(|it| panic!("{it}\n{context}\n{graph}"))
}

/// Returns the results of each lane alone, in the order of the lanes.
fn one_by_one(graph: &Graph, operands: &[Operand], sizes: &[usize], context: &str) -> Vec<Vec<f64>> {
    let Some((&size, inner)) = sizes.split_first() else {
        let inputs: Vec<&Array> = operands.iter().map(|it| &it.array).collect();
        let results = evaluate(graph, &inputs, context);
        return results
            .iter()
            .map(|it| it.on_host().expect("the elements are readable").scalars().iter().map(|it| it.as_f64()).collect())
            .collect();
    };
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); graph.outputs().len()];
    for at in 0..size {
        let operand = |it: &Operand| Operand {
            array: if it.own[0] { lane(&it.array, at) } else { it.array.clone() },
            own: it.own[1..].to_vec(),
        };
        let results = one_by_one(graph, &operands.iter().map(operand).collect::<Vec<_>>(), inner, context);
        all.iter_mut().zip(results).for_each(|(all, it)| all.extend(it));
    }
    all
}

/// Compares `graph`, mapped from the innermost lanes to the outermost, with separate runs.
fn check(graph: &Graph, operands: &[Operand], sizes: &[usize], context: &str) {
    let want = one_by_one(graph, operands, sizes, context);
    let mut mapped = graph.clone();
    for (level, &size) in sizes.iter().enumerate().rev() {
        let lanes: Vec<Lane> =
            operands.iter().map(|it| if it.own[level] { Lane::Mapped } else { Lane::Shared }).collect();
        let results = vec![Lane::Mapped; graph.outputs().len()];
        mapped = vmap(&mapped, size, &lanes, &results).unwrap_or_else(|it| panic!("{it}\n{context}\n{mapped}"));
    }
    let inputs: Vec<&Array> = operands.iter().map(|it| &it.array).collect();
    let got = evaluate(&mapped, &inputs, context);
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let got: Vec<f64> =
            got.on_host().expect("the elements are readable").scalars().iter().map(|it| it.as_f64()).collect();
        let near =
            |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-6 * (1.0 + b.abs());
        let same = got.len() == want.len() && got.iter().zip(&want).all(near);
        assert!(same, "result {at}: {got:?}\nnot {want:?}\n{context}\n{graph}\n{mapped}");
    }
}

/// Builds a graph of one node of the op.
fn single(def: &'static ms_ops::ops::OpDef, attrs: &ms_ops::tensor::Attrs, types: &[Type]) -> Graph {
    let mut graph = Graph::new(def.name());
    let inputs: Vec<_> = types.iter().map(|it| graph.add_input(it.clone())).collect();
    let results = infer(def, attrs, &[], &types.iter().collect::<Vec<_>>()).expect("a sample fits");
    let id = graph.add_node(Node::new(def.op(), attrs.clone(), inputs), results);
    let outputs = graph.node(id).outputs.clone();
    graph.set_outputs(outputs);
    graph
}

/// Returns every combination of mapped and shared operands with at least one mapped.
fn ways(operands: usize) -> impl Iterator<Item = Vec<bool>> {
    (1..1usize << operands).map(move |bits| (0..operands).map(|at| bits >> at & 1 == 1).collect())
}

#[test]
fn every_op_over_lanes_is_the_same_as_lane_by_lane() {
    for def in definitions() {
        if def.effects.any_of(Effects::RANDOM) {
            continue;
        }
        for sample in (def.samples)().iter().filter(|it| !it.inputs.is_empty()) {
            let widen = |dtype: DType| if dtype.is_float() { DType::F64 } else { dtype };
            let types: Vec<Type> = sample.inputs.iter().map(|it| Type::of(widen(it.dtype), &it.shape)).collect();
            let graph = single(def, &sample.attrs, &types);
            let operand = |(seed, own): (usize, Vec<bool>), sizes: &[usize]| {
                let it = &sample.inputs[seed];
                let lanes = own.iter().zip(sizes).filter(|it| *it.0).map(|it| *it.1);
                let shape: Vec<usize> = lanes.chain(it.shape.iter().copied()).collect();
                Operand { array: scattered(&shape, widen(it.dtype), it.low, it.high, seed), own }
            };
            let count = sample.inputs.len();
            for own in ways(count) {
                let context = format!("`{}` with lanes {own:?} in {sample:?}", def.name());
                let single = own.iter().map(|&it| vec![it]).enumerate();
                check(&graph, &single.map(|it| operand(it, &[3])).collect::<Vec<_>>(), &[3], &context);
                let none = own.iter().map(|&it| vec![it]).enumerate();
                check(&graph, &none.map(|it| operand(it, &[0])).collect::<Vec<_>>(), &[0], &context);
                // Nested lanes: the inner ones as `own` flags, the outer ones the other way round.
                let other =
                    own.iter().map(|it| !it).enumerate().map(|(at, it)| it || (at == 0 && !own.contains(&false)));
                let nested = other.zip(&own).map(|(outer, &inner)| vec![outer, inner]).enumerate();
                check(&graph, &nested.map(|it| operand(it, &[2, 3])).collect::<Vec<_>>(), &[2, 3], &context);
            }
        }
    }
}

/// A batched composite is one node if the operands that its rule takes as shared are shared. Otherwise the ops of its
/// body are batched.
#[test]
fn composites_over_lanes_are_one_node() {
    /// For each composite, flags of operands with lanes, by position: those with which it is one node, and others.
    const CASES: &[(&str, &[&str], &[&str])] = &[
        ("softmax", &["1"], &[]),
        ("log_softmax", &["1"], &[]),
        ("layer_norm", &["100", "10", "1"], &["110", "010", "01"]),
        ("rms_norm", &["10"], &["11"]),
        ("batch_norm", &["10000"], &["100", "11000"]),
        ("group_norm", &["100"], &["101"]),
        ("instance_norm", &["100"], &["010"]),
        ("dense", &["100", "10"], &["110", "01"]),
        ("cross_entropy", &["110", "100", "11", "10", "01"], &["111"]),
        ("nll_loss", &["110", "10", "01"], &["011"]),
        ("embedding", &["01"], &["10", "11"]),
        ("scaled_dot_product_attention", &["100", "010", "111", "1001"], &[]),
        ("blocked_attention", &["100", "010", "111", "1001"], &[]),
        ("blocked_attention_grad", &["11111", "111111"], &["10000", "11110"]),
        ("lstm_cell", &["10000", "11100", "00100"], &["11110", "00001"]),
        ("gru_cell", &["1000", "0100"], &["1010"]),
        ("conv_bias", &["100"], &["110"]),
        ("adam_update", &["110000000", "000010000", "111111111"], &[]),
        ("momentum_update", &["10000", "00010"], &[]),
        ("gelu", &["1"], &[]),
        ("quantize", &["100", "111"], &["110", "010"]),
        ("dequantize", &["100", "111"], &["110", "011"]),
        ("largest_finite", &["1"], &[]),
        ("gelu_tanh", &["1"], &[]),
    ];
    for def in COMPOSITES {
        let (_, one, parts) = CASES.iter().find(|it| it.0 == def.name()).expect("every composite has its cases");
        let ways = one.iter().map(|it| (it, true)).chain(parts.iter().map(|it| (it, false)));
        for (lanes, is_one) in ways {
            let own: Vec<Lane> = lanes.chars().map(|it| if it == '1' { Lane::Mapped } else { Lane::Shared }).collect();
            let samples = (def.samples)();
            let samples = samples.iter().filter(|it| it.inputs.len() == own.len());
            let mapped = samples.map(|sample| {
                let types: Vec<Type> = sample.inputs.iter().map(|it| Type::of(it.dtype, &it.shape)).collect();
                let graph = single(def, &sample.attrs, &types);
                let results = vec![Lane::Mapped; graph.outputs().len()];
                vmap(&graph, 3, &own, &results).unwrap_or_else(|it| panic!("{it}\n{graph}"))
            });
            let nodes: Vec<usize> =
                mapped.map(|it| it.nodes().filter(|(_, node)| node.op == def.op()).count()).collect();
            assert!(!nodes.is_empty(), "`{}` has no sample with lanes {lanes}", def.name());
            assert_eq!(nodes.contains(&1), is_one, "`{}` with lanes {lanes}: {nodes:?}", def.name());
            assert!(nodes.iter().all(|&it| it <= 1), "`{}` with lanes {lanes}: {nodes:?}", def.name());
        }
    }
}

#[test]
fn ops_that_hold_graphs_have_no_samples() {
    let regions = PRIMITIVES.iter().filter(|it| matches!(it.lowering, Lowering::Regions(_)));
    assert!(regions.clone().count() > 3);
    assert!(regions.into_iter().all(|it| (it.samples)().is_empty()));
}

fn f64s(shape: &[usize], data: &[f64]) -> Array {
    Array::from_slice(shape, data)
}

/// Checks a graph in text over three lanes, and over two times three. Operands are scattered values between -2 and 3;
/// integers are from 0 to 4.
fn check_text(text: &str) {
    let graph = parse_graph(text).unwrap_or_else(|it| panic!("{it}\n{text}"));
    let types: Vec<Type> = graph.inputs().iter().map(|&it| graph.ty(it).clone()).collect();
    let operand = |seed: usize, own: Vec<bool>, sizes: &[usize]| {
        let ty = &types[seed];
        let lanes = own.iter().zip(sizes).filter(|it| *it.0).map(|it| *it.1);
        let shape: Vec<usize> = lanes.chain(ty.shape().expect("constant").iter().copied()).collect();
        let (low, high) = match ty.dtype {
            DType::Bool => (0.0, 1.0),
            DType::I64 => (0.0, 4.0),
            _ => (-2.0, 3.0),
        };
        Operand { array: scattered(&shape, ty.dtype, low, high, seed), own }
    };
    for own in ways(types.len()) {
        let context = format!("lanes {own:?}");
        let operands: Vec<Operand> = own.iter().enumerate().map(|(at, &it)| operand(at, vec![it], &[5])).collect();
        check(&graph, &operands, &[5], &context);
        let operands: Vec<Operand> = own.iter().enumerate().map(|(at, &it)| operand(at, vec![it], &[0])).collect();
        check(&graph, &operands, &[0], "no lanes");
        for outer in [vec![true; own.len()], own.iter().map(|it| !it).collect()] {
            let operands = own.iter().zip(&outer).enumerate();
            let operands: Vec<Operand> =
                operands.map(|(at, (&inner, &outer))| operand(at, vec![outer, inner], &[2, 3])).collect();
            check(&graph, &operands, &[2, 3], &format!("lanes {own:?} in {outer:?}"));
        }
    }
}

#[test]
fn calls_share_what_they_call() {
    let text = "
        graph @f(%x: f64[2], %y: f64[]) -> (f64[2]) { %s = add %x, %y : f64[2] return %s }
        graph @main(%x: f64[2], %y: f64[]) -> (f64[2]) {
          %a = call @f %x, %y : f64[2]
          %b = call @f %a, %y : f64[2]
          return %b
        }";
    check_text(text);
    let graph = parse_graph(text).expect("parses");
    let mapped = vmap(&graph, 4, &[Lane::Mapped, Lane::Shared], &[Lane::Mapped]).expect("maps");
    let callees: Vec<_> = mapped.nodes().map(|it| it.1.regions[0].clone()).collect();
    assert!(std::sync::Arc::ptr_eq(&callees[0], &callees[1]));
}

#[test]
fn branches() {
    // Two arms are harmless. One divides by a value that is zero in other lanes, and one reads at an index that is
    // valid only in its own lanes.
    let arms = [
        ("%r = neg %x : f64[2] return %r", "%r = add %x, %y : f64[2] return %r"),
        ("%r = div %x, %y : f64[2] return %r", "return %x"),
        ("%r = gather %x, %i {axis = 0} : f64[2] return %r", "%r = sqrt %y : f64[2] return %r"),
    ];
    for (yes, no) in arms {
        let operands = "%x: f64[2], %y: f64[2], %i: i64[2]";
        check_text(&format!(
            "graph @yes({operands}) -> (f64[2]) {{ {yes} }}
             graph @no({operands}) -> (f64[2]) {{ {no} }}
             graph @main(%c: bool[], %x: f64[2], %y: f64[2]) -> (f64[2]) {{
               %i = constant {{value = i64[2](1, 0)}} : i64[2]
               %r = if @yes @no %c, %x, %y, %i : f64[2]
               return %r
             }}"
        ));
    }
}

#[test]
fn a_lane_reads_nothing_that_only_the_others_have() {
    let text = "
        graph @yes(%x: f64[3], %i: i64[]) -> (f64[]) { %r = gather %x, %i {axis = 0} : f64[] return %r }
        graph @no(%x: f64[3], %i: i64[]) -> (f64[]) { %r = sum %x {axes = [0], keepdims = false} : f64[] return %r }
        graph @main(%x: f64[3], %i: i64[]) -> (f64[]) {
          %n = constant {value = i64[](3)} : i64[]
          %c = less %i, %n : bool[]
          %r = if @yes @no %c, %x, %i : f64[]
          return %r
        }";
    let graph = parse_graph(text).expect("parses");
    for index in [[0i64, 7, 2, 9], [9, 9, 9, 9], [0, 1, 2, 0]] {
        for own in [true, false] {
            let x =
                Operand { array: scattered(if own { &[4, 3] } else { &[3] }, DType::F64, 0.0, 1.0, 1), own: vec![own] };
            let index = Operand { array: Array::from_slice(&[4], &index), own: vec![true] };
            check(&graph, &[x, index], &[4], "positions outside");
        }
    }
}

#[test]
fn loops() {
    // A condition on a carry, or on an invariant, with and without pushed values.
    for (pushes, results) in [("", "f64[2], i64[]"), (", %x", "f64[2], i64[], i64[], f64[?, 2]")] {
        let body = format!(
            "%one = constant {{value = i64[](1)}} : i64[]
             %j = add %i, %one : i64[]
             %s = add %x, %k : f64[2]
             return %s, %j{pushes}"
        );
        let names = if pushes.is_empty() { "%s, %j" } else { "%s, %j, %n, %p" };
        let types = if pushes.is_empty() { "f64[2], i64[]" } else { "f64[2], i64[], f64[2]" };
        let operands = "%x: f64[2], %i: i64[], %k: f64[2], %m: i64[]";
        let sum = "graph @add(%s: f64[2], %x: f64[2]) -> (f64[2], f64[2]) {
                     %t = mul %s, %x : f64[2] %u = add %t, %x : f64[2] return %u, %t
                   }";
        let (scan, graph) = match pushes {
            "" => ("", ""),
            _ => (
                "%t, %q = scan @add %n, %s, %p {length = -1, carries = 1, sequences = 1, reverse = REVERSE} : f64[2], f64[?, 2]
                 %v, %w = scan @add %n, %k, %q {length = -1, carries = 1, sequences = 1, reverse = false} : f64[2], f64[?, 2]",
                sum,
            ),
        };
        let outputs =
            if pushes.is_empty() { ("%s, %j", "f64[2], i64[]") } else { ("%t, %v, %n", "f64[2], f64[2], i64[]") };
        for reverse in ["true", "false"] {
            let scan = scan.replace("REVERSE", reverse);
            check_text(&format!(
                "{graph}
                 graph @more({operands}) -> (bool[]) {{ %c = less %i, %m : bool[] return %c }}
                 graph @step({operands}) -> ({types}) {{ {body} }}
                 graph @main({operands}) -> ({}) {{
                   {names} = while @more @step %x, %i, %k, %m {{carries = 2}} : {results}
                   {scan}
                   return {}
                 }}",
                outputs.1, outputs.0
            ));
        }
    }
}

#[test]
fn a_lane_that_has_ended_reads_no_further() {
    let text = "
        graph @more(%s: f64[], %i: i64[], %x: f64[3], %m: i64[]) -> (bool[]) { %c = less %i, %m : bool[] return %c }
        graph @step(%s: f64[], %i: i64[], %x: f64[3], %m: i64[]) -> (f64[], i64[]) {
          %one = constant {value = i64[](1)} : i64[]
          %j = add %i, %one : i64[]
          %v = gather %x, %i {axis = 0} : f64[]
          %t = add %s, %v : f64[]
          return %t, %j
        }
        graph @main(%x: f64[3], %m: i64[]) -> (f64[]) {
          %s = constant {value = f64[](0.5)} : f64[]
          %i = constant {value = i64[](0)} : i64[]
          %t, %j = while @more @step %s, %i, %x, %m {carries = 2} : f64[], i64[]
          return %t
        }";
    let graph = parse_graph(text).expect("parses");
    for own in [true, false] {
        let x = Operand { array: scattered(if own { &[4, 3] } else { &[3] }, DType::F64, 0.0, 1.0, 1), own: vec![own] };
        let m = Operand { array: Array::from_slice(&[4], &[3i64, 0, 1, 3]), own: vec![true] };
        check(&graph, &[x, m], &[4], "ends at different positions");
    }
}

#[test]
fn scans_of_a_fixed_length() {
    for reverse in ["true", "false"] {
        check_text(&format!(
            "graph @step(%s: f64[2], %n: f64[], %x: f64[2], %k: f64[2]) -> (f64[2], f64[], f64[2], f64[]) {{
               %y = mul %x, %k : f64[2]
               %t = add %s, %y : f64[2]
               %m = add %n, %n : f64[]
               return %t, %m, %y, %n
             }}
             graph @main(%s: f64[2], %n: f64[], %x: f64[4, 2], %k: f64[2]) -> (f64[2], f64[], f64[4, 2], f64[4]) {{
               %t, %m, %y, %z = scan @step %s, %n, %x, %k {{length = 4, carries = 2, sequences = 1, reverse = {reverse}}} :
                 f64[2], f64[], f64[4, 2], f64[4]
               return %t, %m, %y, %z
             }}"
        ));
    }
}

#[test]
fn a_shared_result_is_the_same_for_all_lanes() {
    let text =
        "graph @main(%x: f64[], %y: f64[]) -> (f64[], f64[]) { %a = neg %x : f64[] %b = neg %y : f64[] return %a, %b }";
    let graph = parse_graph(text).expect("parses");
    let lanes = [Lane::Mapped, Lane::Shared];
    let mapped = vmap(&graph, 2, &lanes, &[Lane::Mapped, Lane::Shared]).expect("the second one is shared");
    let (x, y) = (f64s(&[2], &[1.0, 2.0]), f64s(&[], &[3.0]));
    assert_eq!(evaluate(&mapped, &[&x, &y], "")[1].shape(), [0usize; 0]);
    let largest = vmap(&graph, 2, &lanes, &[Lane::Max, Lane::Max]).expect("the largest is one");
    assert_eq!(
        evaluate(&largest, &[&x, &y], "")[0].on_host().expect("the elements are readable").scalars()[0].as_f64(),
        -1.0
    );
    let error = vmap(&graph, 2, &lanes, &[Lane::Shared, Lane::Mapped]).expect_err("the lanes differ");
    assert_eq!(error.code(), Code::Mapped);
}

/// Places lanes at the points of a graph, one after the other, as many as there are lanes.
fn at_points(points: &[&[f64]], own: &[bool], lanes: usize) -> Vec<Operand> {
    let operand = |(at, &own): (usize, &bool)| {
        let count = if own { lanes } else { 1 };
        let values: Vec<f64> = (0..count).map(|it| points[it % points.len()][at]).collect();
        let shape: &[usize] = if own { &[lanes] } else { &[] };
        Operand { array: Array::from_slice(shape, &values), own: vec![own] }
    };
    own.iter().enumerate().map(operand).collect()
}

#[test]
fn derivatives_of_lanes_are_those_of_each() {
    for (name, text, points) in GRAPHS {
        let mut graph = parse_graph(text).unwrap_or_else(|it| panic!("{name}: {it}"));
        let count = graph.inputs().len();
        let wrt: Vec<usize> = (0..count).collect();
        // A loop in a branch has stacks of two arms, whose own derivatives have none.
        let orders = if name.contains("branch") { 1 } else { 2 };
        for order in 1..=orders {
            let both = value_and_grad(&graph, &wrt, 1, false, true).unwrap_or_else(|it| panic!("{name}: {it}"));
            for own in ways(count) {
                let context = format!("{name}, order {order}, lanes {own:?}");
                check(&both, &at_points(points, &own, 5), &[5], &context);
            }
            graph = gradient(&graph);
        }
    }
}

/// The gradient of the sum over all lanes. A lane that does not take an arm contributes nothing to its derivative
/// there, even where that is infinite.
#[test]
fn derivatives_of_all_lanes_together_are_the_sums() {
    for (name, text, points) in GRAPHS {
        let graph = parse_graph(text).unwrap_or_else(|it| panic!("{name}: {it}"));
        let count = graph.inputs().len();
        let wrt: Vec<usize> = (0..count).collect();
        let each = value_and_grad(&graph, &wrt, 1, false, true).unwrap_or_else(|it| panic!("{name}: {it}"));
        for own in ways(count) {
            let operands = at_points(points, &own, 5);
            let inputs: Vec<&Array> = operands.iter().map(|it| &it.array).collect();
            let lanes: Vec<Lane> = own.iter().map(|&it| if it { Lane::Mapped } else { Lane::Shared }).collect();
            let mapped = vmap(&graph, 5, &lanes, &[Lane::Mapped]).unwrap_or_else(|it| panic!("{name}: {it}"));
            let all = value_and_grad(&mapped, &wrt, 1, false, true).unwrap_or_else(|it| panic!("{name}: {it}"));
            let got = evaluate(&all, &inputs, name);
            let want = one_by_one(&each, &operands, &[5], name);
            for at in 0..count {
                let got: Vec<f64> = got[1 + at]
                    .on_host()
                    .expect("the elements are readable")
                    .scalars()
                    .iter()
                    .map(|it| it.as_f64())
                    .collect();
                let want = if own[at] { want[1 + at].clone() } else { vec![want[1 + at].iter().sum()] };
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
                assert!(got.iter().zip(&want).all(near), "{name}, lanes {own:?}, by {at}: {got:?}, not {want:?}");
            }
        }
    }
}
