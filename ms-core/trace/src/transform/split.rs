//! Splits a graph that computes results and gradients into the forward part and the backward part. The backward part
//! runs when the gradients of the results are available.

use super::emit::is_stack;
use ms_ir::MapVec;
use ms_ir::stored::stored;
use ms_ir::{Def, Graph, Inst, KernelBuilder, LaneAxis, Node, NodeId, Scope, Val, ValueId};
use ms_ops::ops::{self, Lowering};
use std::ops::Range;
use std::sync::Arc;

/// Determines which values the backward part takes from the forward part, and which it rematerialises.
#[derive(Clone, Default)]
pub(super) struct Policy {
    /// Whether it is the body of a loop. Residuals are then stacked once for every iteration, so stacks, whose length
    /// differs between iterations, are recomputed.
    pub is_body: bool,
    /// Loop-invariant inputs. Values that depend only on them are recomputed.
    pub constants: Range<usize>,
}

/// A value that the backward part takes from the forward part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Residual {
    /// An input of the graph.
    Input(usize),
    /// An output of the forward part, numbered after the results of the graph.
    Saved(usize),
}

stored! { enum Residual { 0 = Input(at: usize), 1 = Saved(at: usize) } }

/// A graph in two parts.
pub(super) struct Split {
    /// The forward part. Inputs: the graph's own inputs. Outputs: its results, then the saved values.
    pub forward: Arc<Graph>,
    /// The backward part. Inputs: `residuals`, then the remaining inputs. Outputs: the remaining ones.
    pub backward: Arc<Graph>,
    /// The values that cross from the forward to the backward part.
    pub residuals: Vec<Residual>,
}

/// Splits `joint` into the part that computes its first `results` outputs from its first `own` inputs, and the rest.
pub(super) fn split(joint: &Graph, own: usize, results: usize, policy: &Policy) -> Split {
    let cut = Cut { late: late(joint, own), joint, policy, constant: constant(joint, &policy.constants) };
    let (ahead, behind) = joint.outputs().split_at(results);
    let mut recomputed = vec![false; joint.len()];
    let mut crossing = Vec::new();
    let mut seen = vec![false; joint.value_count()];
    let mut wanted = behind.to_vec();
    while let Some(value) = wanted.pop() {
        if std::mem::replace(&mut seen[value.0 as usize], true) {
            continue;
        }
        match joint.value(value).def {
            Def::Result(id, _) if cut.late[value.0 as usize] || cut.is_rematerialised(joint.node(id)) => {
                if !std::mem::replace(&mut recomputed[id.0 as usize], true) {
                    wanted.extend(&joint.node(id).inputs);
                }
            }
            Def::Input(at) if at as usize >= own => {}
            _ => crossing.push(value),
        }
    }
    // Definition order, independent of the order of the search.
    crossing.sort_unstable();
    cut.rematerialise(&mut crossing, &mut recomputed);
    let mut saved = Vec::new();
    let residuals = crossing.iter().map(|&value| match joint.value(value).def {
        Def::Input(at) => Residual::Input(at as usize),
        Def::Result(..) => {
            saved.push(value);
            Residual::Saved(saved.len() - 1)
        }
    });
    let residuals = residuals.collect();
    let given = &joint.inputs()[..own];
    let outputs: Vec<ValueId> = ahead.iter().chain(&saved).copied().collect();
    let forward = extract(joint, joint.name(), given, &outputs, &needed(joint, &outputs));
    let given: Vec<ValueId> = crossing.iter().chain(&joint.inputs()[own..]).copied().collect();
    let name = format!("{}_backward", joint.name());
    let backward = extract(joint, &name, &given, behind, &recomputed);
    Split { forward: Arc::new(forward), backward: Arc::new(backward), residuals }
}

struct Cut<'a> {
    joint: &'a Graph,
    policy: &'a Policy,
    late: Vec<bool>,
    constant: Vec<bool>,
}

impl Cut<'_> {
    /// Returns whether the backward part recomputes a node of the forward part.
    fn is_rematerialised(&self, node: &Node) -> bool {
        if node.inputs.iter().all(|it| self.constant[it.0 as usize]) {
            return true;
        }
        if self.policy.is_body && node.outputs.iter().any(|&it| is_stack(self.joint.ty(it))) {
            return true;
        }
        // A view costs nothing, unless its operand is larger than the view.
        let size = |id: ValueId| self.joint.ty(id).numel();
        matches!(ops::definition(node.op).lowering, Lowering::View(_))
            && matches!((size(node.inputs[0]), size(node.outputs[0])), (Some(from), Some(to)) if from <= to)
    }
}

/// Maximum depth of recomputed nodes between crossing values and a value recomputed from them.
const DEPTH: usize = 3;

/// Maximum number of instructions per element of a recomputed node.
const INSTRUCTIONS: usize = 4;

impl Cut<'_> {
    /// Rematerialises crossing values that few operations compute from other crossing ones, if that reads at most the
    /// bytes that saving the value writes and rereads. Removes them from `crossing`, which is in definition order, and
    /// flags their nodes in `recomputed`.
    fn rematerialise(&self, crossing: &mut Vec<ValueId>, recomputed: &mut [bool]) {
        let mut crosses = vec![false; self.joint.value_count()];
        crossing.iter().for_each(|it| crosses[it.0 as usize] = true);
        for &value in crossing.iter().rev() {
            let mut nodes = Vec::new();
            let read = self.bytes_read(value, &crosses, recomputed, DEPTH, &mut nodes);
            if read.is_some_and(|it| it <= 2 * self.joint.ty(value).dtype.size()) {
                crosses[value.0 as usize] = false;
                nodes.iter().for_each(|it| recomputed[it.0 as usize] = true);
            }
        }
        crossing.retain(|it| crosses[it.0 as usize]);
    }

    /// Returns the bytes of crossing values that are read to recompute an element of a value. The computation must
    /// consist of few cheap operations on crossing and recomputed values; otherwise returns `None`. Adds the nodes to
    /// recompute.
    fn bytes_read(
        &self,
        value: ValueId,
        crosses: &[bool],
        recomputed: &[bool],
        depth: usize,
        nodes: &mut Vec<NodeId>,
    ) -> Option<usize> {
        let Def::Result(id, _) = self.joint.value(value).def else { return None };
        let (node, depth) = (self.joint.node(id), depth.checked_sub(1)?);
        if recomputed[id.0 as usize] {
            return Some(0);
        }
        if !self.is_rematerialised(node) && !self.is_cheap(node) {
            return None;
        }
        nodes.push(id);
        // Operands have no more elements than results.
        let of_operand = |&it: &ValueId| match self.joint.ty(it) {
            _ if !crosses[it.0 as usize] => self.bytes_read(it, crosses, recomputed, depth, nodes),
            ty if ty.numel() == Some(1) => Some(0),
            ty => Some(ty.dtype.size()),
        };
        node.inputs.iter().map(of_operand).sum()
    }

    /// Returns whether a node is elementwise with few instructions per element.
    fn is_cheap(&self, node: &Node) -> bool {
        let Lowering::Map(map) = ops::definition(node.op).lowering else { return false };
        let mut body = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let operand = |it: &ValueId| body.constant(0i64, self.joint.ty(*it).dtype);
        let operands: Vec<Val> = node.inputs.map_vec(operand);
        map(&node.attrs, &mut body, &operands);
        body.end_stage(Scope::Point);
        let kernel = body.finish();
        let own = kernel.insts.len().saturating_sub(operands.len());
        // A copy runs at its place in program order, before its operand is overwritten.
        (1..=INSTRUCTIONS).contains(&own) && !kernel.insts.iter().any(|it| matches!(it, Inst::Math(..)))
    }
}

/// Returns the values that depend on an input after the first `own` ones.
fn late(joint: &Graph, own: usize) -> Vec<bool> {
    let mut late = vec![false; joint.value_count()];
    joint.inputs()[own..].iter().for_each(|id| late[id.0 as usize] = true);
    for (_, node) in joint.nodes() {
        if node.inputs.iter().any(|it| late[it.0 as usize]) {
            node.outputs.iter().for_each(|id| late[id.0 as usize] = true);
        }
    }
    late
}

/// Returns the values that depend only on the inputs of a range.
fn constant(joint: &Graph, inputs: &Range<usize>) -> Vec<bool> {
    let mut constant = vec![false; joint.value_count()];
    joint.inputs()[inputs.clone()].iter().for_each(|id| constant[id.0 as usize] = true);
    for (_, node) in joint.nodes() {
        let all = node.inputs.iter().all(|it| constant[it.0 as usize]);
        node.outputs.iter().for_each(|id| constant[id.0 as usize] = all);
    }
    constant
}

/// Returns the nodes on which some outputs depend.
fn needed(graph: &Graph, outputs: &[ValueId]) -> Vec<bool> {
    let mut needed = vec![false; graph.len()];
    let mark = |ids: &[ValueId], needed: &mut [bool]| {
        for &id in ids {
            if let Def::Result(NodeId(at), _) = graph.value(id).def {
                needed[at as usize] = true;
            }
        }
    };
    mark(outputs, &mut needed);
    for (id, node) in graph.nodes().rev() {
        if needed[id.0 as usize] {
            mark(&node.inputs, &mut needed);
        }
    }
    needed
}

/// Removes the nodes on which no output depends.
pub(super) fn pruned(graph: &Graph) -> Graph {
    let outputs = graph.outputs().to_vec();
    extract(graph, graph.name(), graph.inputs(), &outputs, &needed(graph, &outputs))
}

/// Removes the nodes and inputs on which no output depends, and returns the remaining inputs.
pub(super) fn trimmed(graph: &Graph) -> (Graph, Vec<usize>) {
    let outputs = graph.outputs().to_vec();
    let needed = needed(graph, &outputs);
    let mut used = vec![false; graph.value_count()];
    let nodes = graph.nodes().filter(|(id, _)| needed[id.0 as usize]);
    nodes.flat_map(|(_, node)| &node.inputs).chain(&outputs).for_each(|it| used[it.0 as usize] = true);
    let inputs = graph.inputs();
    let left: Vec<usize> = (0..inputs.len()).filter(|&at| used[inputs[at].0 as usize]).collect();
    let given: Vec<ValueId> = left.map_vec(|&at| inputs[at]);
    (extract(graph, graph.name(), &given, &outputs, &needed), left)
}

/// Extracts the nodes of `from` that `take` flags into a separate graph.
fn extract(from: &Graph, name: &str, inputs: &[ValueId], outputs: &[ValueId], take: &[bool]) -> Graph {
    let mut to = Graph::new(name);
    let mut map = vec![ValueId(u32::MAX); from.value_count()];
    for &input in inputs {
        map[input.0 as usize] = to.add_input_like(from, input);
    }
    for (id, node) in from.nodes() {
        if take[id.0 as usize] {
            to.inline_node(from, node, &mut map);
        }
    }
    to.set_outputs(outputs.iter().map(|it| map[it.0 as usize]));
    to
}
