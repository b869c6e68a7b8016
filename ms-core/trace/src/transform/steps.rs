//! Inputs whose gradients are zeros because every way to the results leads through a step: an op that is constant
//! almost everywhere.

use crate::ir::{Graph, Node};
use crate::ops::{self, Control, Derivative, TransformNode};
use crate::tensor::Op;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

/// An op that values pass and gradients do not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Step {
    /// Which op.
    pub op: Op,
    /// The user's line.
    pub location: Option<&'static Location<'static>>,
}

/// How results depend on a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Way {
    /// They do not.
    #[default]
    None,
    /// Through steps only, of which this is one.
    Step(Step),
    /// On some way that has no step.
    Open,
}

impl Way {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::None, other) => other,
            (own, _) => own,
        }
    }

    /// The way from before a step.
    fn through(self, step: Step) -> Self {
        if self == Self::Open { Self::Step(step) } else { self }
    }
}

/// For each of the inputs `wrt`, a step if the outputs `results` depend on the input through steps only. Regions of
/// transforms other than `vmap` are assumed to have no step.
pub fn hiding(graph: &Graph, wrt: &[usize], results: &[usize]) -> Vec<Option<Step>> {
    let mut outputs = vec![Way::None; graph.outputs().len()];
    results.iter().for_each(|&at| outputs[at] = Way::Open);
    let ways = Ways::default().of_graph(graph, &outputs);
    let step = |&at: &usize| match ways[graph.inputs()[at].0 as usize] {
        Way::Step(step) if graph.ty(graph.inputs()[at]).dtype.is_float() => Some(step),
        _ => None,
    };
    wrt.iter().map(step).collect()
}

/// Ways to the inputs of regions, by the region's address and the ways from its outputs; with the region, so that its
/// address is not reused.
type Known = FxHashMap<(*const Graph, Vec<Way>), (Arc<Graph>, Vec<Way>)>;

#[derive(Default)]
struct Ways(RefCell<Known>);

impl Ways {
    /// The ways from all values of a graph, by those from its outputs.
    fn of_graph(&self, graph: &Graph, outputs: &[Way]) -> Vec<Way> {
        let mut ways = vec![Way::None; graph.value_count()];
        let join = |ways: &mut [Way], at: usize, way: Way| ways[at] = ways[at].or(way);
        graph.outputs().iter().zip(outputs).for_each(|(id, &way)| join(&mut ways, id.0 as usize, way));
        for (_, node) in graph.nodes().rev() {
            if node.outputs.iter().all(|id| ways[id.0 as usize] == Way::None) {
                continue;
            }
            let results: Vec<Way> = node.outputs.iter().map(|id| ways[id.0 as usize]).collect();
            match Control::of(node) {
                Some(control) => {
                    let operands = self.of_regions(&control, node, &results);
                    node.inputs.iter().zip(operands).for_each(|(id, way)| join(&mut ways, id.0 as usize, way));
                }
                None => {
                    let is_float = |id| graph.ty(id).dtype.is_float();
                    let of =
                        |floats: bool| node.outputs.iter().zip(&results).filter(move |it| is_float(*it.0) == floats);
                    let [floats, others] = [of(true), of(false)].map(|it| it.fold(Way::None, |all, it| all.or(*it.1)));
                    for &id in &node.inputs {
                        join(&mut ways, id.0 as usize, before(node, is_float(id), floats, others));
                    }
                }
            }
        }
        ways
    }

    /// The ways from the operands of a node with regions, by those from its results.
    fn of_regions(&self, control: &Control, node: &Node, results: &[Way]) -> Vec<Way> {
        match control {
            Control::Call { .. } | Control::Recompute | Control::TransformNode(TransformNode::Vmap { .. }) => {
                self.of_region(&node.regions[0], results.to_vec())
            }
            Control::Branch => {
                let [a, b] = [0, 1].map(|at| self.of_region(&node.regions[at], results.to_vec()));
                let arms = a.into_iter().zip(b).map(|(a, b)| a.or(b));
                // The values depend on the condition, which is no float: what it is computed by is a step.
                [Way::Open].into_iter().chain(arms).collect()
            }
            Control::Loop(at) => {
                let body = &node.regions[at.body()];
                let stacks = results.get(at.stacked()..).unwrap_or_default();
                let mut carries = results[..at.carries].to_vec();
                let inputs = loop {
                    let mut inputs = self.of_region(body, [&carries[..], stacks].concat());
                    if at.is_while() {
                        let condition = self.of_region(&node.regions[0], vec![Way::Open]);
                        inputs.iter_mut().zip(condition).for_each(|(it, way)| *it = it.or(way));
                    }
                    let joined: Vec<Way> = carries.iter().zip(&inputs).map(|(own, way)| own.or(*way)).collect();
                    if joined == carries {
                        break inputs;
                    }
                    carries = joined;
                };
                let counts = vec![Way::Open; at.first()];
                counts.into_iter().chain(carries).chain(inputs.into_iter().skip(at.carries)).collect()
            }
            // Their derivatives are given, or of other orders.
            Control::CustomVjp(_) | Control::TransformNode(_) => vec![Way::Open; node.inputs.len()],
        }
    }

    fn of_region(&self, region: &Arc<Graph>, outputs: Vec<Way>) -> Vec<Way> {
        let key = (Arc::as_ptr(region), outputs);
        if let Some((_, known)) = self.0.borrow().get(&key) {
            return known.clone();
        }
        let ways = self.of_graph(region, &key.1);
        let inputs: Vec<Way> = region.inputs().iter().map(|id| ways[id.0 as usize]).collect();
        self.0.borrow_mut().insert(key, (region.clone(), inputs.clone()));
        inputs
    }
}

/// The way from an operand of a node without regions, by those from its results that are floats, and from the others.
fn before(node: &Node, is_float: bool, floats: Way, others: Way) -> Way {
    if ops::hides(node.op) {
        return Way::None;
    }
    let step = Step { op: node.op, location: node.location };
    match ops::definition(node.op).derivative {
        Derivative::Zero if is_float => floats.or(others).through(step),
        _ if is_float => floats.or(others.through(step)),
        _ => floats.or(others),
    }
}
