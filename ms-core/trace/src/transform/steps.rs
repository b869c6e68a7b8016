//! Finds inputs whose gradients are zero because every path to the results contains a step function: an op that is
//! constant almost everywhere.

use ms_ir::MapVec;
use ms_ir::{Graph, Node};
use ms_ops::ops::{self, Control, Derivative, TransformNode};
use ms_ops::tensor::Op;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

/// A step function: an op that values pass and gradients do not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StepFunction {
    /// The op.
    pub op: Op,
    /// The user's source location.
    pub location: Option<&'static Location<'static>>,
}

/// The dependence of results on a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Dependence {
    /// No dependence.
    #[default]
    None,
    /// Only through step functions, of which this is one.
    StepFunction(StepFunction),
    /// Through a path without a step function.
    Open,
}

impl Dependence {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::None, other) => other,
            (own, _) => own,
        }
    }

    /// Returns the dependence on the operand of a step function.
    fn through(self, step: StepFunction) -> Self {
        if self == Self::Open { Self::StepFunction(step) } else { self }
    }
}

/// Returns, for each of the inputs `wrt`, a step function if the outputs `results` depend on the input only through
/// step functions. Regions of transforms other than `vmap` are assumed to contain none.
pub fn hiding(graph: &Graph, wrt: &[usize], results: &[usize]) -> Vec<Option<StepFunction>> {
    let mut outputs = vec![Dependence::None; graph.outputs().len()];
    results.iter().for_each(|&at| outputs[at] = Dependence::Open);
    let ways = Dependences::default().of_graph(graph, &outputs);
    let step = |&at: &usize| match ways[graph.inputs()[at].0 as usize] {
        Dependence::StepFunction(step) if graph.ty(graph.inputs()[at]).dtype.is_float() => Some(step),
        _ => None,
    };
    wrt.map_vec(step)
}

/// The dependences on the inputs of regions. The key is the region's address and the dependences on its outputs. The
/// entry keeps the region alive, so that its address is not reused.
type Known = FxHashMap<(*const Graph, Vec<Dependence>), (Arc<Graph>, Vec<Dependence>)>;

#[derive(Default)]
struct Dependences(RefCell<Known>);

impl Dependences {
    /// Returns the dependences on all values of a graph, given those on its outputs.
    fn of_graph(&self, graph: &Graph, outputs: &[Dependence]) -> Vec<Dependence> {
        let mut ways = vec![Dependence::None; graph.value_count()];
        let join = |ways: &mut [Dependence], at: usize, way: Dependence| ways[at] = ways[at].or(way);
        graph.outputs().iter().zip(outputs).for_each(|(id, &way)| join(&mut ways, id.0 as usize, way));
        for (_, node) in graph.nodes().rev() {
            if node.outputs.iter().all(|id| ways[id.0 as usize] == Dependence::None) {
                continue;
            }
            let results: Vec<Dependence> = node.outputs.map_vec(|id| ways[id.0 as usize]);
            match Control::of(node) {
                Some(control) => {
                    let operands = self.of_regions(&control, node, &results);
                    node.inputs.iter().zip(operands).for_each(|(id, way)| join(&mut ways, id.0 as usize, way));
                }
                None => {
                    let is_float = |id| graph.ty(id).dtype.is_float();
                    let of =
                        |floats: bool| node.outputs.iter().zip(&results).filter(move |it| is_float(*it.0) == floats);
                    let [floats, others] =
                        [of(true), of(false)].map(|it| it.fold(Dependence::None, |all, it| all.or(*it.1)));
                    for &id in &node.inputs {
                        join(&mut ways, id.0 as usize, before(node, is_float(id), floats, others));
                    }
                }
            }
        }
        ways
    }

    /// Returns the dependences on the operands of a node with regions, given those on its results.
    fn of_regions(&self, control: &Control, node: &Node, results: &[Dependence]) -> Vec<Dependence> {
        match control {
            Control::Call { .. } | Control::Recompute | Control::TransformNode(TransformNode::Vmap { .. }) => {
                self.of_region(&node.regions[0], results.to_vec())
            }
            Control::Branch => {
                let [a, b] = [0, 1].map(|at| self.of_region(&node.regions[at], results.to_vec()));
                let arms = a.into_iter().zip(b).map(|(a, b)| a.or(b));
                // The values depend on the condition, which is not a float, so a step function computes it.
                [Dependence::Open].into_iter().chain(arms).collect()
            }
            Control::Loop(at) => {
                let body = &node.regions[at.body()];
                let stacks = results.get(at.first_stack()..).unwrap_or_default();
                let mut carries = results[..at.carries].to_vec();
                let inputs = loop {
                    let mut inputs = self.of_region(body, [&carries[..], stacks].concat());
                    if at.is_while() {
                        let condition = self.of_region(&node.regions[0], vec![Dependence::Open]);
                        inputs.iter_mut().zip(condition).for_each(|(it, way)| *it = it.or(way));
                    }
                    let joined: Vec<Dependence> = carries.iter().zip(&inputs).map(|(own, way)| own.or(*way)).collect();
                    if joined == carries {
                        break inputs;
                    }
                    carries = joined;
                };
                let counts = vec![Dependence::Open; at.first_carry()];
                counts.into_iter().chain(carries).chain(inputs.into_iter().skip(at.carries)).collect()
            }
            // Their derivatives are custom, or of other orders.
            Control::CustomVjp(_) | Control::TransformNode(_) => vec![Dependence::Open; node.inputs.len()],
        }
    }

    fn of_region(&self, region: &Arc<Graph>, outputs: Vec<Dependence>) -> Vec<Dependence> {
        let key = (Arc::as_ptr(region), outputs);
        if let Some((_, known)) = self.0.borrow().get(&key) {
            return known.clone();
        }
        let ways = self.of_graph(region, &key.1);
        let inputs: Vec<Dependence> = region.inputs().map_vec(|id| ways[id.0 as usize]);
        self.0.borrow_mut().insert(key, (region.clone(), inputs.clone()));
        inputs
    }
}

/// Returns the dependence on an operand of a node without regions, given those on its float results and on the others.
fn before(node: &Node, is_float: bool, floats: Dependence, others: Dependence) -> Dependence {
    if ops::blocks_gradients(node.op) {
        return Dependence::None;
    }
    let step = StepFunction { op: node.op, location: node.location };
    match ops::transform_rules(ops::definition(node.op)).derivative {
        Derivative::Zero if is_float => floats.or(others).through(step),
        _ if is_float => floats.or(others.through(step)),
        _ => floats.or(others),
    }
}
