//! Analyses activity: gradients flow through the values of a graph that depend on an input of interest and on which an
//! output of interest depends.

use ms_ir::MapVec;
use ms_ir::{Graph, Node};
use ms_ops::ops::{self, Control, Derivative, Loop};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// The result for a region, by the requested flags. It keeps the region alive, whose address is the key.
type Known = RefCell<FxHashMap<(*const Graph, Vec<bool>), (Arc<Graph>, Vec<bool>)>>;

/// Results, cached for regions of several nodes.
#[derive(Default)]
pub(super) struct Activity {
    varied: Known,
    useful: Known,
}

/// Maps flags of the results of a loop to flags of its body's outputs.
pub(super) fn body_outputs(at: &Loop, results: &[bool]) -> Vec<bool> {
    results[..at.carries].iter().chain(results.get(at.first_stack()..).unwrap_or_default()).copied().collect()
}

fn any(flags: &[bool]) -> bool {
    flags.contains(&true)
}

fn join(mut a: Vec<bool>, b: &[bool]) -> Vec<bool> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
    a
}

impl Activity {
    /// Returns the active values: gradients flow through them from the flagged outputs to the flagged inputs.
    pub fn active(&self, graph: &Graph, inputs: &[bool], outputs: &[bool]) -> Vec<bool> {
        let (varied, useful) = (self.varied(graph, inputs), self.useful(graph, outputs));
        varied.into_iter().zip(useful).map(|(a, b)| a && b).collect()
    }

    /// Returns which values depend on the flagged inputs.
    fn varied(&self, graph: &Graph, inputs: &[bool]) -> Vec<bool> {
        let mut flags = vec![false; graph.value_count()];
        for (id, &flag) in graph.inputs().iter().zip(inputs) {
            flags[id.0 as usize] |= flag && graph.ty(*id).dtype.is_float();
        }
        for (_, node) in graph.nodes() {
            let operands: Vec<bool> = node.inputs.map_vec(|id| flags[id.0 as usize]);
            if any(&operands) {
                for (id, flag) in node.outputs.iter().zip(self.results(node, &operands)) {
                    flags[id.0 as usize] = flag && graph.ty(*id).dtype.is_float();
                }
            }
        }
        flags
    }

    /// Returns on which values the flagged outputs depend.
    pub fn useful(&self, graph: &Graph, outputs: &[bool]) -> Vec<bool> {
        let mut flags = vec![false; graph.value_count()];
        for (id, &flag) in graph.outputs().iter().zip(outputs) {
            flags[id.0 as usize] |= flag && graph.ty(*id).dtype.is_float();
        }
        for (_, node) in graph.nodes().rev() {
            let results: Vec<bool> = node.outputs.map_vec(|id| flags[id.0 as usize]);
            if any(&results) {
                for (id, flag) in node.inputs.iter().zip(self.operands(node, &results)) {
                    flags[id.0 as usize] |= flag && graph.ty(*id).dtype.is_float();
                }
            }
        }
        flags
    }

    /// Returns which results of a node depend on the flagged operands.
    fn results(&self, node: &Node, operands: &[bool]) -> Vec<bool> {
        match Control::of(node) {
            Some(Control::Loop(at)) => {
                let (inputs, outputs) = self.outputs_of_loop(&at, node, operands[at.first_carry()..].to_vec());
                // A loop without iterations returns its initial carries.
                let (carries, stacks) = (&inputs[..at.carries], &outputs[at.carries..]);
                [carries, &vec![false; node.outputs.len() - outputs.len()], stacks].concat()
            }
            Some(Control::Branch) => {
                let [a, b] = [0, 1].map(|at| self.outputs_of(&node.regions[at], operands[1..].to_vec()));
                join(a, &b)
            }
            Some(Control::CustomVjp(at)) => {
                let mut flags = vec![false; node.outputs.len()];
                flags[..at.results].fill(any(&operands[..at.targets]));
                flags[at.slot_results()].copy_from_slice(&operands[at.targets..at.gradients()]);
                flags
            }
            Some(Control::Call { .. } | Control::Recompute) => self.outputs_of(&node.regions[0], operands.to_vec()),
            Some(Control::TransformNode(_)) | None => vec![has_derivative(node); node.outputs.len()],
        }
    }

    /// Returns on which operands of a node the flagged results depend.
    fn operands(&self, node: &Node, results: &[bool]) -> Vec<bool> {
        match Control::of(node) {
            Some(Control::Loop(at)) => {
                let (inputs, outputs) = self.inputs_of_loop(&at, node, body_outputs(&at, results));
                let (carries, others) = (&outputs[..at.carries], &inputs[at.carries..]);
                [&vec![false; at.first_carry()], carries, others].concat()
            }
            Some(Control::Branch) => {
                let [a, b] = [0, 1].map(|at| self.inputs_of(&node.regions[at], results.to_vec()));
                [vec![false], join(a, &b)].concat()
            }
            Some(Control::CustomVjp(at)) => {
                let mut flags = vec![false; node.inputs.len()];
                flags[..at.targets].fill(any(&results[..at.results]));
                flags[at.targets..at.gradients()].copy_from_slice(&results[at.slot_results()]);
                flags
            }
            Some(Control::Call { .. } | Control::Recompute) => self.inputs_of(&node.regions[0], results.to_vec()),
            Some(Control::TransformNode(_)) | None => vec![has_derivative(node); node.inputs.len()],
        }
    }

    /// Returns the inputs and outputs of a loop's body that depend, in some iteration, on the flagged inputs.
    pub fn outputs_of_loop(&self, at: &Loop, node: &Node, mut inputs: Vec<bool>) -> (Vec<bool>, Vec<bool>) {
        let body = node.regions.last().expect("a loop has a body");
        loop {
            let outputs = self.outputs_of(body, inputs.clone());
            let carried = join(inputs.clone(), &outputs[..at.carries]);
            if carried == inputs {
                return (inputs, outputs);
            }
            inputs = carried;
        }
    }

    /// Returns the inputs and outputs of a loop's body on which the flagged outputs depend in some iteration.
    pub fn inputs_of_loop(&self, at: &Loop, node: &Node, mut outputs: Vec<bool>) -> (Vec<bool>, Vec<bool>) {
        let body = node.regions.last().expect("a loop has a body");
        loop {
            let inputs = self.inputs_of(body, outputs.clone());
            let carried = join(outputs.clone(), &inputs[..at.carries]);
            if carried == outputs {
                return (inputs, outputs);
            }
            outputs = carried;
        }
    }

    fn outputs_of(&self, region: &Arc<Graph>, inputs: Vec<bool>) -> Vec<bool> {
        known(&self.varied, region, inputs, |inputs| {
            let flags = self.varied(region, inputs);
            region.outputs().map_vec(|id| flags[id.0 as usize])
        })
    }

    fn inputs_of(&self, region: &Arc<Graph>, outputs: Vec<bool>) -> Vec<bool> {
        known(&self.useful, region, outputs, |outputs| {
            let flags = self.useful(region, outputs);
            region.inputs().map_vec(|id| flags[id.0 as usize])
        })
    }
}

/// Returns whether gradients flow through a node without regions.
fn has_derivative(node: &Node) -> bool {
    !matches!(ops::transform_rules(ops::definition(node.op)).derivative, Derivative::Zero)
}

fn known(table: &Known, region: &Arc<Graph>, flags: Vec<bool>, find: impl FnOnce(&[bool]) -> Vec<bool>) -> Vec<bool> {
    let key = (Arc::as_ptr(region), flags);
    if let Some((_, known)) = table.borrow().get(&key) {
        return known.clone();
    }
    let found = find(&key.1);
    table.borrow_mut().insert(key, (region.clone(), found.clone()));
    found
}
