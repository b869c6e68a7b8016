//! Hoists loop-invariant code.

use super::{Pass, PassContext};
use ms_ir::MapVec;
use ms_ir::op::{Control, Lowering, definition};
use ms_ir::{Graph, Node, Rewriter, ValueId, rewrite};
use std::borrow::Cow;
use std::sync::Arc;

/// Computes loop-invariant values once, before the loop. They are computed even if the loop has no iterations, so only
/// ops that cannot fail move. Results must not be larger than their operands, because others would take memory to save
/// little.
pub struct Licm;

impl Pass for Licm {
    fn name(&self) -> &'static str {
        "licm"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        rewrite(graph, |rewriter, node, operands| {
            let at = Control::of(node)?.as_loop()?;
            let found: Vec<Found> = node.regions.map_vec(|it| Found::of(it, at.invariants()));
            if found.iter().all(|it| it.values.is_empty()) {
                return None;
            }
            let mut new = Node { inputs: operands.into(), ..node.clone() };
            for (region, found) in node.regions.iter().zip(&found) {
                let results = found.compute(rewriter, region, &operands[at.first_carry()..]);
                new.inputs.extend(results);
            }
            // Every graph of the loop takes the values found in any of them.
            let types = |(region, found): (&Arc<Graph>, &Found)| found.values.map_vec(|&it| region.ty(it).clone());
            let types: Vec<_> = node.regions.iter().zip(&found).map(types).collect();
            for (i, region) in new.regions.iter_mut().enumerate() {
                let mut out = Graph::new(region.name());
                let mut map = vec![ValueId(u32::MAX); region.value_count()];
                for &id in region.inputs() {
                    map[id.0 as usize] = out.add_input_like(region, id);
                }
                for (j, types) in types.iter().enumerate() {
                    for (k, ty) in types.iter().enumerate() {
                        let input = out.add_input(ty.clone());
                        if i == j {
                            map[found[i].values[k].0 as usize] = input;
                        }
                    }
                }
                for (_, inner) in region.nodes() {
                    if inner.outputs.iter().all(|it| !found[i].values.contains(it)) {
                        out.inline_node(region, inner, &mut map);
                    }
                }
                out.set_outputs(region.outputs().iter().map(|it| map[it.0 as usize]));
                *region = Arc::new(out);
            }
            let types: Vec<_> = node.outputs.map_vec(|&it| graph.ty(it).clone());
            Some(rewriter.add(new, types))
        })
    }
}

/// The nodes that can be computed before a loop.
struct Found {
    /// Values that the remaining graph reads.
    values: Vec<ValueId>,
    /// Whether each node moves before the loop: it computes one of `values` or an operand of one.
    before: Vec<bool>,
}

impl Found {
    /// Analyses a graph of a loop; inputs from `invariants` on are invariant.
    fn of(graph: &Graph, invariants: usize) -> Self {
        let mut fixed = vec![false; graph.value_count()];
        graph.inputs()[invariants..].iter().for_each(|it| fixed[it.0 as usize] = true);
        for (_, node) in graph.nodes() {
            if definition(node.op).effects.are_speculatable() && node.inputs.iter().all(|it| fixed[it.0 as usize]) {
                node.outputs.iter().for_each(|it| fixed[it.0 as usize] = true);
            }
        }
        // Backwards: values that the loop reads. Views and constants stay in it.
        let mut wanted = vec![false; graph.value_count()];
        graph.outputs().iter().for_each(|it| wanted[it.0 as usize] = true);
        let mut values = Vec::new();
        let mut before = vec![false; graph.len()];
        let mut needed = vec![false; graph.value_count()];
        for (id, node) in graph.nodes().rev() {
            let outputs = || node.outputs.iter().map(|it| it.0 as usize);
            let moves = outputs().any(|it| wanted[it] && fixed[it]) && is_worth_moving(graph, node);
            if moves {
                values.extend(node.outputs.iter().copied());
            } else if node.outputs.is_empty() || outputs().any(|it| wanted[it]) {
                node.inputs.iter().for_each(|it| wanted[it.0 as usize] = true);
            }
            if moves || outputs().any(|it| needed[it]) {
                before[id.0 as usize] = true;
                node.inputs.iter().for_each(|it| needed[it.0 as usize] = true);
            }
        }
        values.sort_unstable();
        Self { values, before }
    }

    /// Adds the nodes to the graph around the loop and returns the values there.
    fn compute(&self, rewriter: &mut Rewriter<'_>, graph: &Graph, operands: &[ValueId]) -> Vec<ValueId> {
        if self.values.is_empty() {
            return Vec::new();
        }
        let mut map = vec![ValueId(u32::MAX); graph.value_count()];
        for (id, &operand) in graph.inputs().iter().zip(operands) {
            map[id.0 as usize] = operand;
        }
        for (id, node) in graph.nodes().filter(|it| self.before[it.0.0 as usize]) {
            let inputs = node.inputs.iter().map(|it| map[it.0 as usize]).collect();
            let types: Vec<_> = node.outputs.iter().map(|&it| graph.ty(it).clone()).collect();
            let results = rewriter.add(Node { inputs, ..node.clone() }, types);
            for (old, new) in graph.node(id).outputs.iter().zip(results) {
                map[old.0 as usize] = new;
            }
        }
        self.values.map_vec(|it| map[it.0 as usize])
    }
}

/// Returns whether reading a value in a loop is cheaper than computing it.
fn is_worth_moving(graph: &Graph, node: &Node) -> bool {
    match definition(node.op).lowering {
        Lowering::Reduce(_) | Lowering::Contraction(_) | Lowering::Composite(_) => true,
        Lowering::Map(_) => {
            let numel = |id: &ValueId| graph.ty(*id).numel();
            let largest = node.inputs.iter().map(numel).max().flatten();
            node.outputs.iter().all(|it| numel(it).is_some() && numel(it) <= largest)
        }
        _ => false,
    }
}
