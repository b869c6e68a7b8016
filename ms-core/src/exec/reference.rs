//! The executable of this crate alone: every op by its definition, one after the other.

use super::Executable;
use crate::error::Result;
use crate::ir::Graph;
use crate::ops;
use crate::tensor::Array;
use smallvec::SmallVec;
use std::sync::Arc;

struct Reference(Graph);

/// An executable that evaluates the nodes of a graph one by one; what runs where no backend is
/// linked, and what others are tested against.
pub fn reference(graph: Graph) -> Arc<dyn Executable> {
    Arc::new(Reference(graph))
}

impl Executable for Reference {
    fn run(&self, inputs: &[&Array]) -> Result<Vec<Array>> {
        let graph = &self.0;
        let mut values: Vec<Option<Array>> = vec![None; graph.value_count()];
        for (id, &input) in graph.inputs().iter().zip(inputs) {
            values[id.0 as usize] = Some(input.clone());
        }
        for (_, node) in graph.nodes() {
            let results = {
                let operand = |it: &crate::ir::ValueId| values[it.0 as usize].as_ref().expect("defined before its use");
                let operands: SmallVec<[&Array; 3]> = node.inputs.iter().map(operand).collect();
                (ops::definition(node.op).eval)(&node.attrs, &operands)?
            };
            for (id, result) in node.outputs.iter().zip(results) {
                values[id.0 as usize] = Some(result);
            }
        }
        let output =
            |id: &crate::ir::ValueId| values[id.0 as usize].as_ref().expect("outputs are defined").to_contiguous();
        Ok(graph.outputs().iter().map(output).collect())
    }
}
