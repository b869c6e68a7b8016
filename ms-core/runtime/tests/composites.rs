//! Checks every composite in two forms: as one node, and expanded to the ops of its body.
//!
//! The tests cover values, derivatives of both orders and modes, and lanes. Both forms give the same bits. Derivatives
//! agree with differences and with one another, and lanes agree with a loop over them.

use ms_core::ir::{Graph, Node, Precision};
use ms_core::ops::{
    COMPOSITES, Derivative, Lane, OpDef, Sample, SampleInput, definition, evaluate_graph, infer, transform_rules,
    verify,
};
use ms_core::optimize::{PassContext, optimize};
use ms_core::target::OpSupport;
use ms_core::tensor::{Array, Attr, DType, Dim, Op, Type};
use ms_core::transform::{jvp, value_and_grad, vmap};

/// The number of lanes of mapped graphs.
const LANES: usize = 3;

/// A composite on the operands of a sample. Float operands have dtype f64.
struct Case {
    def: &'static OpDef,
    sample: Sample,
    graph: Graph,
}

impl Case {
    fn new(def: &'static OpDef, mut sample: Sample) -> Self {
        sample.inputs.iter_mut().filter(|it| it.dtype.is_float()).for_each(|it| it.dtype = DType::F64);
        let mut graph = Graph::new(def.name());
        let types: Vec<Type> = sample.inputs.iter().map(|it| Type::of(it.dtype, &it.shape)).collect();
        let inputs: Vec<_> = types.iter().map(|it| graph.add_input(it.clone())).collect();
        let results = infer(def, &sample.attrs, &[], &types.iter().collect::<Vec<_>>()).expect("a sample fits");
        let id = graph.add_node(Node::new(def.op(), sample.attrs.clone(), inputs), results);
        let outputs = graph.node(id).outputs.clone();
        graph.set_outputs(outputs);
        Self { def, sample, graph }
    }

    /// Returns the case with its first result only. Other results may serve the derivative alone, and then do not pass
    /// on all gradients.
    fn of_first_result(&self) -> Self {
        let mut graph = self.graph.clone();
        graph.set_outputs([self.graph.outputs()[0]]);
        Self { def: self.def, sample: self.sample.clone(), graph }
    }

    /// Returns the indices of the float operands.
    fn floats(&self) -> Vec<usize> {
        (0..self.sample.inputs.len()).filter(|&it| self.sample.inputs[it].dtype.is_float()).collect()
    }

    /// Returns the number of results before the first one that is not a float.
    fn results(&self) -> usize {
        let outputs = self.graph.outputs();
        outputs.iter().take_while(|&&it| self.graph.ty(it).dtype.is_float()).count()
    }

    fn gradients(&self) -> Graph {
        value_and_grad(&self.graph, &self.floats(), self.results(), true, true).expect("it has derivatives")
    }

    /// Returns the graph of second derivatives: the gradients of all results of the gradients, for the operands and the
    /// weights of the results.
    fn second(&self) -> Graph {
        let first = self.gradients();
        let wrt = float_inputs(&first);
        let results = first.outputs().len();
        value_and_grad(&first, &wrt, results, true, true).expect("it has derivatives of higher order")
    }

    fn tangents(&self) -> Graph {
        jvp(&self.graph, &self.floats(), self.results()).expect("it has tangents")
    }

    /// Returns operands for a graph that was derived from this one: the operands of the sample, then further floats.
    fn operands(&self, graph: &Graph) -> Vec<Array> {
        let own = self.sample.inputs.len();
        let mut all = self.sample.arrays();
        all.extend(graph.inputs().iter().enumerate().skip(own).map(|(at, &it)| direction(graph.ty(it), at)));
        all
    }
}

/// Returns numbers between -1 and 1.
fn direction(ty: &Type, seed: usize) -> Array {
    SampleInput::of(ty.dtype, &ty.shape().expect("sizes are known"), -1.0, 1.0).array(seed)
}

fn float_inputs(graph: &Graph) -> Vec<usize> {
    (0..graph.inputs().len()).filter(|&it| graph.ty(graph.inputs()[it]).dtype.is_float()).collect()
}

/// Maps a graph over lanes of all operands.
fn mapped(graph: &Graph) -> Graph {
    let (inputs, outputs) = (graph.inputs().len(), graph.outputs().len());
    vmap(graph, Dim::new(LANES), &vec![Lane::Mapped; inputs], &vec![Lane::Mapped; outputs], None).expect("it has lanes")
}

/// Optimises a graph for a target for which all composites are legal, and for one for which none is.
fn ways(graph: &Graph) -> [Graph; 2] {
    let kept = COMPOSITES.iter().flat_map(|it| DType::ALL.iter().map(|&dtype| OpSupport::new(it.op(), dtype, true)));
    let none = PassContext { precision: Precision::Strict, ..PassContext::default() };
    let all = PassContext { legal_composites: kept.collect(), ..none.clone() };
    [optimize(graph.clone(), &all), optimize(graph.clone(), &none)]
}

fn count(graph: &Graph, op: Op) -> usize {
    graph.nodes().filter(|(_, node)| node.op == op).count()
}

fn run(graph: &Graph, inputs: &[Array]) -> Vec<Array> {
    verify(graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    evaluate_graph(graph, &inputs.iter().collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{error}\n{graph}"))
}

fn numbers(array: &Array) -> Vec<f64> {
    array.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64()).collect()
}

fn dot(a: &Array, b: &Array) -> f64 {
    numbers(a).into_iter().zip(numbers(b)).map(|(a, b)| a * b).sum()
}

/// Calls `check` with each case of each composite. `check` returns whether it applies to the case, and must apply to
/// one case of each composite.
fn every_composite(check: impl Fn(&Case) -> bool) {
    for def in COMPOSITES {
        let checked = (def.samples)().into_iter().filter(|it| check(&Case::new(def, it.clone()))).count();
        assert!(checked > 0, "no sample of `{}` is a case", def.name());
    }
}

/// Runs the graph with and without legal composites, and requires the same bits. `stays` is whether the composite
/// remains a node where it is legal. Where it is not legal, no composite remains.
fn both(case: &Case, graph: &Graph, inputs: &[Array], stays: Option<bool>) -> Vec<Array> {
    let [kept, expanded] = ways(graph);
    if let Some(stays) = stays {
        assert_eq!(count(&kept, case.def.op()) > 0, stays, "{kept}");
    }
    let is_composite = |it: &Node| matches!(definition(it.op).lowering, ms_core::ops::Lowering::Composite(_));
    assert!(!expanded.nodes().any(|(_, it)| is_composite(it)), "{expanded}");
    let [got, want] = [&kept, &expanded].map(|it| run(it, inputs));
    let bits = |it: &Array| -> Vec<u64> {
        numbers(it).into_iter().map(|it| if it.is_nan() { 0 } else { it.to_bits() }).collect()
    };
    for (at, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!(bits(got), bits(want), "result {at} of\n{kept}\n{expanded}");
    }
    got
}

#[test]
fn values() {
    every_composite(|case| {
        both(case, &case.graph, &case.sample.arrays(), Some(true));
        true
    });
}

/// Whether an operand, or some of its rows such as padding, have no gradient although the result depends on them.
fn stops_gradients(case: &Case) -> bool {
    match transform_rules(case.def).derivative {
        Derivative::Zero => true,
        Derivative::Read(_) => case.sample.attrs.as_slice().first() == Some(&Attr::Bool(true)),
        _ => false,
    }
}

/// Checks the gradients of `graph`: the derivative of a weighted sum of its results in a direction agrees with
/// differences.
fn agrees_with_differences(case: &Case, graph: &Graph, gradients: &Graph, stays: Option<bool>) {
    let own = graph.inputs().len();
    let inputs = case.operands(gradients);
    let got = both(case, gradients, &inputs, stays);
    if stops_gradients(case) {
        return;
    }
    let floats = float_inputs(graph);
    let directions: Vec<Array> = floats.iter().map(|&it| direction(graph.ty(graph.inputs()[it]), 31 + it)).collect();
    let slope: f64 = got[got.len() - floats.len()..].iter().zip(&directions).map(|(a, b)| dot(a, b)).sum();
    let (operands, weights) = inputs.split_at(own);
    let weighted = |step: f64| -> f64 {
        let mut inputs = operands.to_vec();
        for (&at, direction) in floats.iter().zip(&directions) {
            let moved: Vec<f64> =
                numbers(&inputs[at]).into_iter().zip(numbers(direction)).map(|(x, d)| x + step * d).collect();
            inputs[at] = Array::from_slice(inputs[at].shape(), &moved);
        }
        let results = run(graph, &inputs);
        results.iter().zip(weights).map(|(a, b)| dot(a, b)).sum()
    };
    let want = (weighted(1e-6) - weighted(-1e-6)) / 2e-6;
    let name = case.def.name();
    assert!((slope - want).abs() <= 1e-5 * (1.0 + want.abs()), "`{name}`: {slope}, not {want}, in {:?}", case.sample);
}

#[test]
fn gradients() {
    every_composite(|case| {
        let (case, has_rule) =
            (case.of_first_result(), !matches!(transform_rules(case.def).derivative, Derivative::Body));
        agrees_with_differences(&case, &case.graph, &case.gradients(), Some(has_rule));
        true
    });
}

#[test]
fn second_order() {
    every_composite(|case| {
        let small = case.sample.inputs.iter().all(|it| it.shape.iter().product::<usize>() <= 150);
        if small {
            let case = case.of_first_result();
            agrees_with_differences(&case, &case.gradients(), &case.second(), None);
        }
        small
    });
}

/// The tangent of the results, in the direction of the weights, equals the gradient for these weights in the direction
/// of the tangent.
#[test]
fn tangents_against_gradients() {
    every_composite(|case| {
        let (own, results) = (case.sample.inputs.len(), case.results());
        let (forward, backward) = (case.tangents(), case.gradients());
        let (tangents, weights) = (case.operands(&forward), case.operands(&backward));
        let (pushed, pulled) = (both(case, &forward, &tangents, Some(false)), both(case, &backward, &weights, None));
        let outputs = case.graph.outputs().len();
        let sum = |a: &[Array], b: &[Array]| -> f64 { a.iter().zip(b).map(|(a, b)| dot(a, b)).sum() };
        let (got, want) = (sum(&pushed[outputs..], &weights[own..]), sum(&pulled[outputs..], &tangents[own..]));
        assert_eq!(pushed.len() - outputs, results);
        assert!((got - want).abs() <= 1e-9 * (1.0 + want.abs()), "`{}`: {got}, not {want}", case.def.name());
        true
    });
}

/// Checks that each lane of a mapped graph has the result of the graph for the operands of that lane.
fn agrees_with_a_loop(case: &Case, graph: &Graph) {
    let wide = mapped(graph);
    let operand = |(at, &it): (usize, &_)| {
        let (ty, of) = (wide.ty(it), case.sample.inputs.get(at));
        let [low, high] = of.map_or([-1.0, 1.0], |it| [it.low, it.high]);
        SampleInput::of(ty.dtype, &ty.shape().expect("sizes are known"), low, high).array(at)
    };
    let inputs: Vec<Array> = wide.inputs().iter().enumerate().map(operand).collect();
    let got = both(case, &wide, &inputs, None);
    let lane = |array: &Array, lane: usize| {
        let row = array.layout().slice(0, lane, 1, 1).reshape(&array.shape()[1..]).expect("an axis of one");
        array.with_layout(row).on_host().expect("the elements are readable").to_contiguous()
    };
    for at in 0..LANES {
        let alone: Vec<Array> = inputs.iter().map(|it| lane(it, at)).collect();
        for (got, want) in got.iter().zip(run(graph, &alone)) {
            let near =
                |(a, b): (f64, f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-12 * (1.0 + b.abs());
            let same = numbers(&lane(got, at)).into_iter().zip(numbers(&want)).all(near);
            assert!(same, "lane {at} of `{}`: {got:?}, not {want:?}\n{wide}", case.def.name());
        }
    }
}

#[test]
fn lanes_against_a_loop() {
    every_composite(|case| {
        agrees_with_a_loop(case, &case.graph);
        agrees_with_a_loop(case, &case.gradients());
        true
    });
}
